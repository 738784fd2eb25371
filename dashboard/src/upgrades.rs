//! ClusterUpgrades in terms of modules: they roll over the same Clusters.

use std::borrow::Cow;

use kube::{ResourceExt as _, core::DynamicObject};
use muster_api::{
    ClusterUpgrade, cluster::asks_for_upgrades, cluster_upgrade::ClusterUpgradeStatus, module::ModuleStatus,
    reasons::Reason,
};

use crate::{
    Cell, Kind, ModuleView, Shape,
    rolling::{Carries, Rolling},
    words,
};

impl<'a> Rolling<'a> {
    /// Wraps a ClusterUpgrade.
    pub fn of_upgrade(upgrade: &'a ClusterUpgrade) -> Self {
        Self {
            kind: Kind::ClusterUpgrade,
            meta: &upgrade.metadata,
            version: upgrade.spec.target.kubernetes.clone(),
            selector: upgrade.spec.selector.as_ref(),
            rollout: Cow::Owned((&upgrade.spec.rollout).into()),
            spec: None,
            status: Cow::Owned(upgrade.status.clone().map(of_modules).unwrap_or_default()),
        }
    }
}

fn of_modules(status: ClusterUpgradeStatus) -> ModuleStatus {
    let ClusterUpgradeStatus {
        observed_generation,
        conditions,
        state,
        revision,
        summary,
        reasons,
        attention,
        controls,
        assumed: _,
        rollout,
    } = status;
    ModuleStatus {
        observed_generation,
        conditions,
        state,
        revision,
        summary,
        reasons,
        attention,
        controls,
        rollout,
        ..ModuleStatus::default()
    }
}

/// A Cluster that a ClusterUpgrade may change.
#[derive(Clone, Copy)]
pub(crate) struct Upgradable<'a> {
    cluster: &'a DynamicObject,
    upgrade: &'a ClusterUpgrade,
}

impl<'a> Upgradable<'a> {
    /// `None` if the Cluster does not opt in to ClusterUpgrades.
    pub(crate) fn of(cluster: &'a DynamicObject, upgrade: &'a ClusterUpgrade) -> Option<Self> {
        asks_for_upgrades(cluster.annotations()).then_some(Self { cluster, upgrade })
    }

    /// Version in the topology of the Cluster.
    fn asks_for(&self) -> Option<&'a str> {
        self.cluster.data.pointer("/spec/topology/version")?.as_str()
    }
}

impl Carries for Upgradable<'_> {
    fn version(&self) -> Option<String> {
        self.asks_for().map(str::to_owned)
    }

    fn is_concerned(&self) -> bool {
        false
    }

    /// The revision of the ClusterUpgrade once its version is in the topology. Without a topology no object read here
    /// can tell.
    fn revision(&self) -> Option<&str> {
        let target = self.upgrade.spec.target.kubernetes.as_str();
        let is_given = self.asks_for().is_none_or(|version| version == target);
        let status = self.upgrade.status.as_ref().filter(|_| is_given);
        status?.revision.as_deref()
    }

    /// Never true: only the status of the ClusterUpgrade can confirm a version.
    fn succeeded(&self) -> Option<bool> {
        Some(false)
    }

    fn note(&self) -> Option<String> {
        None
    }
}

/// What to do about a Cluster, and the command, where it differs from a module.
pub(crate) fn next_upgrade_action(module: &ModuleView, cell: &Cell) -> Option<(String, Option<String>)> {
    if module.kind != Kind::ClusterUpgrade {
        return None;
    }
    let (within, cluster) = (module.within(), words::shell_word(&cell.cluster));
    let describe = format!("kubectl describe cluster {cluster}{within}");
    let with = |what: &str, command: String| Some((what.to_owned(), Some(command)));
    let reason: Option<Reason> = cell.reason.parse().ok(); // a reason of a newer controller: no advice
    match (cell.shape, reason) {
        (Shape::Failed, _) | (_, Some(Reason::Halted | Reason::KnownBad | Reason::Aborted)) => with(
            "repair the Cluster, or choose another version; after a repair",
            format!("muster rollout retry {}{within}", module.address()),
        ),
        (
            _,
            Some(
                Reason::ManagedElsewhere
                | Reason::VersionSkew
                | Reason::Conflict
                | Reason::DisruptionsBlocked
                | Reason::WebhookUnavailable,
            ),
        ) => Some((words::one_line(advice(&cell.message)?), None)),
        (_, Some(Reason::Remediating | Reason::RollingOut | Reason::PreflightUnknown | Reason::Updating)) => {
            with(
                "nothing to do: it continues automatically; to see its machines",
                format!("kubectl get machines -l cluster.x-k8s.io/cluster-name={cluster}{within}"),
            )
        }
        // The hold applies either to the Cluster, for all rollouts, or only to this ClusterUpgrade.
        (Shape::Held, _) if cell.message.starts_with("held for this ClusterUpgrade") => with(
            "to release it",
            format!("muster release {} --clusters {cluster}{within}", module.address()),
        ),
        (_, Some(Reason::WindowClosed)) => Some((
            "nothing to do: it starts when the window opens; a ClusterUpgrade cannot bypass a window"
                .to_owned(),
            None,
        )),
        (_, Some(Reason::Unreachable)) => with("check why its API server does not respond", describe),
        _ => None,
    }
}

/// The advice in a message.
fn advice(message: &str) -> Option<&str> {
    message.rsplit_once("next: ").map(|(_, advice)| advice)
}
