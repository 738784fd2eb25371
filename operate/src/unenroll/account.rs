//! The account of the management cluster in a cluster that is unenrolled: removes or lists its objects.

use muster_controllers::runtime::call::error_chain;
use muster_fleet::apply::ObjectRef;

use super::again;
use crate::{
    enroll::{objects, way::Way},
    steps::Steps,
};

/// The account, and the user's access to it.
pub(crate) enum Account {
    /// No access to the cluster was given.
    NoWay,
    /// Access was given, and the cluster does not answer.
    Silent(Way, String),
    /// The user's access.
    Way(Way),
}

/// An object that is left, and why.
pub(crate) struct Orphan(ObjectRef, String);

impl Account {
    /// What will happen to the account.
    pub(crate) fn plan(&self, name: &str) -> String {
        match self {
            Self::NoWay => format!(
                "the account of the management cluster in {name} stays there: give your access with --downstream-context or --downstream-kubeconfig to remove it"
            ),
            Self::Silent(way, why) => format!(
                "the account in {name} stays there: {} does not answer ({why})",
                way.display_name()
            ),
            Self::Way(_) => format!(
                "ServiceAccount, token and rights of the management cluster in {name} will be deleted; namespace and agent stay"
            ),
        }
    }

    /// Deletes its objects in reverse order; returns those that could not be deleted.
    pub(crate) async fn remove(&self, steps: Steps<'_>) -> Vec<Orphan> {
        let mut orphans = Vec::new();
        let why = match self {
            Self::NoWay => Some("no access to the cluster was given".to_owned()),
            Self::Silent(_, why) => Some(why.clone()),
            Self::Way(_) => None,
        };
        for name in names() {
            match (self, &why) {
                (Self::Way(way), _) => {
                    if let Err(error) = again(|| name.delete(&way.client, false)).await {
                        orphans.push(Orphan(name, error_chain(&error)));
                    }
                }
                (_, why) => orphans.push(Orphan(name, why.clone().unwrap_or_default())),
            }
        }
        if let (Self::Way(way), true) = (self, orphans.is_empty()) {
            steps.done(format!(
                "the account of the management cluster in {} is gone",
                way.display_name()
            ));
        }
        orphans
    }

    /// Reports what is left and how to remove it; returns whether that is acceptable.
    pub(crate) fn print_orphans(
        &self,
        orphans: &[Orphan],
        name: &str,
        force: bool,
        steps: Steps<'_>,
    ) -> bool {
        let Some(Orphan(_, why)) = orphans.first() else {
            return true;
        };
        steps.note(format!("left in {name}, because {why}:"));
        for Orphan(object, _) in orphans {
            steps.more(object);
        }
        steps.more("to remove it:");
        for command in commands(orphans, self) {
            steps.more(format!("  {command}"));
        }
        match self {
            Self::NoWay => true,
            Self::Silent(..) | Self::Way(_) => force,
        }
    }
}

/// The objects of the account in reverse order, without the namespace, which the agent uses too.
fn names() -> Vec<ObjectRef> {
    // The manifests are built in, and a test parses them.
    let objects = objects::account(true).unwrap_or_default();
    let names = objects.iter().rev().map(ObjectRef::of);
    names.filter(|name| name.kind != "Namespace").collect()
}

fn commands(orphans: &[Orphan], account: &Account) -> Vec<String> {
    let flags = match account {
        Account::NoWay => "--context CONTEXT".to_owned(),
        Account::Silent(way, _) | Account::Way(way) => way.flags.clone(),
    };
    let all = |namespaced: bool| {
        let wanted = orphans
            .iter()
            .filter(|Orphan(name, _)| name.namespace.is_some() == namespaced);
        let names: Vec<String> = wanted
            .map(|Orphan(name, _)| format!("{}/{}", name.kind.to_lowercase(), name.name))
            .collect();
        names.join(" ")
    };
    let (cluster, inside) = (all(false), all(true));
    let mut commands = Vec::new();
    if !cluster.is_empty() {
        commands.push(format!("kubectl {flags} delete --ignore-not-found {cluster}"));
    }
    if !inside.is_empty() {
        commands.push(format!(
            "kubectl {flags} delete --ignore-not-found -n muster-system {inside}"
        ));
    }
    commands
}
