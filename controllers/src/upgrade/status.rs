//! A ClusterUpgrade's status: what was observed and decided, for users and tools, and the engine's memory. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use muster_api::{
    cluster_upgrade::{ClusterUpgrade, ClusterUpgradeStatus},
    conditions::{self, Conditions, Status, bounded},
    control::Control,
    labels::annotation,
    ranges,
    reasons::{ObjectReason, Reason},
    schema::MAX_MESSAGE,
};
use muster_rollout as engine;

use super::pass::{self, Observation};
use crate::{
    module::{
        command::{ModuleAddress, command},
        control_effects::{self, UnitEffects},
        events::{self, Scene},
        gates::{Answers, Gates},
        groups::groups,
        memory,
        reasons::{self, Background, Explained, Pause, Vocabulary},
        status as shared,
    },
    runtime::Event,
};

/// The status while nothing can be decided: suspended, or an invalid spec. Everything else stays unchanged.
pub fn idle_status(upgrade: &ClusterUpgrade, observed: &Observation, now: Timestamp) -> ClusterUpgradeStatus {
    let new_conditions = match &observed.invalid {
        Some(invalid) => Conditions::ready(Status::False, invalid.reason, &*invalid.message)
            .stalled(invalid.reason, &*invalid.message),
        None => Conditions::ready(
            Status::False,
            ObjectReason::Suspended,
            "spec.suspend is true: no Cluster starts to change; started changes continue",
        ),
    };
    let before = upgrade.status.clone().unwrap_or_default();
    let conditions = merged(upgrade, &new_conditions, &before.conditions, now);
    ClusterUpgradeStatus {
        observed_generation: upgrade.metadata.generation,
        state: shared::state_word(&conditions, &[]),
        conditions,
        ..before
    }
}

/// The status of a ClusterUpgrade that is rolling out or done, and its events.
pub fn rolling_status(
    upgrade: &ClusterUpgrade,
    observed: &Observation,
    decision: &engine::Decision,
    now: Timestamp,
) -> Result<(ClusterUpgradeStatus, Vec<Event>), serde_json::Error> {
    let before = upgrade.status.clone().unwrap_or_default();
    let answers = Answers::new();
    let revision = observed.target.map(pass::revision).unwrap_or_default();
    let background = background(upgrade, observed, &revision, &answers, now);
    let reasons = decision.reasons.iter();
    let explained: Vec<Explained<'_>> = reasons
        .map(|(unit, why)| {
            let mut explained = reasons::explain_reason(unit, why, &background);
            if explained.reason == Reason::UpToDate && observed.newer.contains(explained.cluster) {
                explained.reason = Reason::AlreadyNewer;
            }
            explained
        })
        .collect();
    let summary = shared::summary(&observed.units, decision, &explained);
    let attention = shared::attention(&explained, &before.attention, now);
    let phase = decision.summary.phase;
    let mut all = shared::ready_conditions(
        &Vocabulary::UPGRADES,
        &background.version,
        phase,
        &explained,
        None,
        &summary,
    );
    if let Some(halt) = shared::halt(decision, &explained) {
        all = all.with(conditions::HALTED, Status::True, halt.reason, halt.message());
    }
    if let Some(pause) = &background.pause {
        let message = format!("the rollout is paused{pause}; no new updates start, those in progress finish");
        all = all.with(conditions::PAUSED, Status::True, Reason::Paused, message);
    }
    let conditions = merged(upgrade, &all, &before.conditions, now);
    let units = observed.clusters.iter().map(|cluster| UnitEffects {
        name: &cluster.facts.name,
        selected: cluster.selected,
        effects: observed
            .effects
            .get(&cluster.facts.name)
            .map_or(&[][..], Vec::as_slice),
    });
    let controls = control_effects::all(&Vocabulary::UPGRADES, &observed.controls, units, now);
    let scene = Scene {
        words: &Vocabulary::UPGRADES,
        version: &background.version,
        summary: &summary,
        attention: &before.attention,
        aborted: &background.aborted,
    };
    let mut happened = events::between(&observed.memory.memory, decision, &explained, &scene);
    happened.extend(events::condition_events(&conditions, &before.conditions));
    let status = ClusterUpgradeStatus {
        observed_generation: upgrade.metadata.generation,
        state: shared::state_word(&conditions, &explained),
        conditions,
        revision: Some(revision.clone()),
        reasons: groups(&explained),
        attention,
        controls,
        assumed: assumed(observed, &explained),
        rollout: Some(memory::store(&decision.memory, upgrade.metadata.uid.as_deref())?),
        summary: Some(summary.clone()),
    };
    Ok((status, happened))
}

/// The clusters that are confirmed although their own API server did not report a version.
fn assumed(observed: &Observation, explained: &[Explained<'_>]) -> Option<String> {
    let confirmed = explained
        .iter()
        .filter(|explanation| explanation.reason == Reason::UpToDate);
    let names: Vec<&str> = confirmed
        .map(|explanation| explanation.cluster)
        .filter(|name| observed.assumed.contains(*name))
        .collect();
    let folded = ranges::fold(names.iter().copied());
    (!names.is_empty()).then(|| bounded(&folded, MAX_MESSAGE).into_owned())
}

fn background<'a>(
    upgrade: &'a ClusterUpgrade,
    observed: &'a Observation,
    revision: &'a str,
    answers: &'a Answers,
    now: Timestamp,
) -> Background<'a> {
    let progress = observed.progress.iter();
    Background {
        words: &Vocabulary::UPGRADES,
        namespace: upgrade.namespace().unwrap_or_default(),
        module: address(upgrade),
        pause: pause(upgrade, observed, now),
        obstacles: &observed.obstacles,
        progress: progress
            .map(|(cluster, message)| (cluster.as_str(), message.clone()))
            .collect(),
        pins: std::collections::BTreeMap::new(),
        source: None,
        version: upgrade.spec.target.kubernetes.clone(),
        revision,
        aborted: observed.controls.aborted(revision),
        stuck: false,
        gates: Gates { stages: &[], answers },
    }
}

/// The kind and name, for kubectl.
fn address(upgrade: &ClusterUpgrade) -> String {
    format!("clusterupgrade/{}", upgrade.name_any())
}

fn pause(upgrade: &ClusterUpgrade, observed: &Observation, now: Timestamp) -> Option<Pause> {
    let control = observed.controls.paused(now);
    let lift = control.map(|_| {
        let namespace = upgrade.namespace().unwrap_or_default();
        let address = ModuleAddress {
            namespace: &namespace,
            module: &address(upgrade),
        };
        command(&address, annotation::PAUSED, None)
    });
    let in_spec = upgrade
        .spec
        .rollout
        .paused
        .then(|| "set spec.rollout.paused to false".to_owned());
    let ways: Vec<String> = in_spec.into_iter().chain(lift).collect();
    (!ways.is_empty()).then(|| Pause {
        provenance: control.map_or_else(String::new, Control::provenance),
        resume: format!("; to resume: {}", ways.join(" and ")),
    })
}

fn merged(
    upgrade: &ClusterUpgrade,
    all: &Conditions,
    before: &[Condition],
    now: Timestamp,
) -> Vec<Condition> {
    all.merge(before, upgrade.metadata.generation.unwrap_or_default(), now)
}
