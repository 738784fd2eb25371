//! What people want kept as it is: a Cluster for all modules, by its annotation, or some clusters for one module, by that one's. Pure.

use jiff::Timestamp;
use muster_api::{
    control::Control,
    labels::{annotation, manager},
    reasons::Reason,
};

use super::{
    command::{Address, command},
    controls::Controls,
};
use crate::registry::ClusterRow;

/// Why a cluster is kept, and when that ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// One word.
    pub reason: Reason,
    /// Who, why, until when, and what ends it.
    pub message: String,
    /// When it ends.
    pub until: Option<Timestamp>,
}

/// The hold of a cluster for a module.
pub fn of(cluster: &ClusterRow, module: &Address<'_>, controls: &Controls, now: Timestamp) -> Option<Hold> {
    let of_cluster = cluster.annotations.get(annotation::HOLD);
    of_cluster
        .and_then(|text| by_cluster(&cluster.name, module.namespace, text, now))
        .or_else(|| by_module(&cluster.name, module, controls.held(now)?))
}

fn by_cluster(cluster: &str, namespace: &str, text: &str, now: Timestamp) -> Option<Hold> {
    let release = format!(
        "kubectl annotate --namespace {namespace} --field-manager={} cluster/{cluster} {}-",
        manager::CLI,
        annotation::HOLD
    );
    let (message, until) = match Control::parse(text).and_then(|control| control.meant(now)) {
        Ok(control) if control.holds(now) => (
            format!("held for all modules{}; to release it: {release}", control.told()),
            control.until,
        ),
        Ok(_) => return None,
        Err(error) => {
            let message = format!(
                "annotation {} on Cluster {cluster} cannot be read: {error}; nothing is changed there until it is fixed or removed: {release}",
                annotation::HOLD
            );
            (message, None)
        }
    };
    Some(Hold {
        reason: Reason::Held,
        message,
        until,
    })
}

fn by_module(cluster: &str, module: &Address<'_>, control: &Control) -> Option<Hold> {
    let mut names = control.names();
    if !names.remove(cluster) {
        return None;
    }
    let others: Vec<&str> = names.into_iter().collect();
    let others = others.join(",");
    let rest = (!others.is_empty()).then_some(others.as_str());
    Some(Hold {
        reason: Reason::Held,
        message: format!(
            "held for this module{}; to release it: {}",
            control.told(),
            command(module, annotation::HOLD, rest)
        ),
        until: control.until,
    })
}
