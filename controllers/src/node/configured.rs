//! What the Node itself shows of its NodeModules: the condition `fleet.muster.dev/NodeConfigured`, and startup taints
//! that are removed once it is configured. Pure.

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Taint, apimachinery::pkg::apis::meta::v1::Time};
use muster_api::{
    conditions::NODE_CONFIGURED,
    node::assemblage::NodePhase,
    reasons::{ObjectReason, Reason},
};
use serde_json::{Value, json};

pub use crate::reconcile::StartupTaint;

pub use super::facts::{Configured, ConfiguredStatus};
use super::{
    agents::Missing,
    facts::{AssemblageFacts, NodeFacts, RowFacts},
};

/// The desired condition of a node. `selecting`: the NodeModules that select it. `None`: no NodeModule is about this
/// node, and none ever was.
pub fn desired_condition(
    node: &NodeFacts,
    assemblage: Option<&AssemblageFacts>,
    selecting: &[&str],
    missing: Option<Missing>,
) -> Option<Configured> {
    // An assemblage of a previous node with the same name says nothing about this node.
    let own = assemblage.filter(|of| of.owner.as_ref().is_none_or(|owner| *owner == node.uid));
    let rows = own.map_or(&[][..], |own| &own.rows);
    let is_known = |name: &&&str| rows.iter().any(|row| row.row.name == **name);
    let without: Vec<&str> = selecting.iter().filter(|name| !is_known(name)).copied().collect();
    let build = |status, reason: &str, message: String| {
        Some(Configured {
            status,
            reason: reason.to_owned(),
            message,
        })
    };
    if rows.is_empty() && selecting.is_empty() {
        let message = "no NodeModule selects this node".to_owned();
        let has_condition = node.configured.is_some();
        return has_condition.then(|| Configured {
            status: ConfiguredStatus::True,
            reason: Reason::Excluded.as_str().to_owned(),
            message,
        });
    }
    if missing.is_some() {
        let message = "the agent of this node does not renew its Lease".to_owned();
        return build(ConfiguredStatus::Unknown, Reason::AgentMissing.as_str(), message);
    }
    if let Some(row) = rows.iter().find(|row| failed(row)) {
        let report = row.report();
        let reason = report
            .and_then(|report| report.reason.as_deref())
            .unwrap_or(Reason::Failed.as_str());
        let message = report
            .and_then(|report| report.message.as_deref())
            .unwrap_or(reason);
        return build(
            ConfiguredStatus::False,
            reason,
            format!("NodeModule {}: {message}", row.row.name),
        );
    }
    if let Some(row) = rows.iter().find(|row| !row.is_settled()) {
        let message = format!("NodeModule {} is being changed on this node", row.row.name);
        return build(ConfiguredStatus::Unknown, Reason::Updating.as_str(), message);
    }
    if let [first, ..] = without[..] {
        let message = format!("NodeModule {first} is not applied on this node yet");
        return build(ConfiguredStatus::Unknown, ObjectReason::Pending.as_str(), message);
    }
    let names: Vec<&str> = rows.iter().map(|row| row.row.name.as_str()).collect();
    build(
        ConfiguredStatus::True,
        ObjectReason::Succeeded.as_str(),
        format!("confirmed: {}", names.join(", ")),
    )
}

fn failed(row: &RowFacts) -> bool {
    row.report()
        .is_some_and(|report| report.state == NodePhase::Failed)
}

/// The condition to write if the Node does not have it yet: its time is that of the last change of the status.
pub fn condition(before: Option<&Configured>, wanted: &Configured, now: Timestamp) -> Value {
    let mut condition = json!({
        "type": NODE_CONFIGURED,
        "status": wanted.status.as_str(),
        "reason": wanted.reason,
        "message": wanted.message,
    });
    if before.is_none_or(|before| before.status != wanted.status) {
        condition["lastTransitionTime"] = json!(Time(now));
    }
    condition
}

/// The taints without those that are removed once a node is configured, whatever their effects; `None`: there is
/// nothing to remove.
pub fn without_startup(taints: &[Taint], startup: &[StartupTaint]) -> Option<Vec<Taint>> {
    let is_startup = |taint: &&Taint| {
        let value = taint.value.as_deref().unwrap_or_default();
        let mut all = startup.iter();
        all.any(|startup| startup.is(&taint.key, value, &taint.effect))
    };
    let kept: Vec<Taint> = taints
        .iter()
        .filter(|taint| !is_startup(taint))
        .cloned()
        .collect();
    (kept.len() < taints.len()).then_some(kept)
}

/// Whether a node has a startup taint to remove: it is configured, by at least one NodeModule.
pub fn is_untainted(node: &NodeFacts, taints: &[StartupTaint], configured: &Configured) -> bool {
    let is_confirmed =
        configured.status == ConfiguredStatus::True && configured.reason == ObjectReason::Succeeded.as_str();
    is_confirmed && taints.iter().any(|taint| node.taints.contains(taint.key()))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use muster_api::node::NodeAssemblage;
    use serde_json::{Value, json};

    use super::*;

    fn node() -> NodeFacts {
        NodeFacts {
            name: "n1".to_owned(),
            uid: "u1".to_owned(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            ready: true,
            deleting: false,
            taints: BTreeSet::from(["example.com/startup".to_owned()]),
            configured: None,
        }
    }

    /// Rows with the states that are reported for them.
    fn assemblage(owner: &str, states: &[(&str, Option<Value>)]) -> AssemblageFacts {
        let rows = states
            .iter()
            .map(|(name, _)| json!({"name": name, "digest": "d1", "token": 1}));
        let reports = states.iter().filter_map(|(name, report)| {
            let mut report = report.clone()?;
            for (key, value) in [
                ("name", json!(name)),
                ("digest", json!("d1")),
                ("token", json!(1)),
            ] {
                report[key] = value;
            }
            Some(report)
        });
        let object: NodeAssemblage = serde_json::from_value(json!({
            "metadata": {"name": "n1", "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": owner}]},
            "spec": {"rows": rows.collect::<Vec<_>>()}, "status": {"rows": reports.collect::<Vec<_>>()},
        }))
        .unwrap();
        AssemblageFacts::of(&object)
    }

    fn check(
        of: Option<&AssemblageFacts>,
        selecting: &[&str],
        missing: Option<Missing>,
        expect: Option<(ConfiguredStatus, &str, &str)>,
    ) {
        let found = desired_condition(&node(), of, selecting, missing);
        let found = found.as_ref().map(|configured| {
            (
                configured.status,
                configured.reason.as_str(),
                configured.message.as_str(),
            )
        });
        assert_eq!(found, expect);
    }

    #[test]
    fn a_node_is_configured_once_all_of_its_rows_are_confirmed() {
        let confirmed = || Some(json!({"state": "confirmed"}));
        check(None, &[], None, None);
        let message = "NodeModule fabric is not applied on this node yet";
        check(
            None,
            &["fabric"],
            None,
            Some((ConfiguredStatus::Unknown, "Pending", message)),
        );
        let both = assemblage("u1", &[("fabric", confirmed()), ("sysctl", confirmed())]);
        let message = "confirmed: fabric, sysctl";
        let selecting = ["fabric", "sysctl"];
        check(
            Some(&both),
            &selecting,
            None,
            Some((ConfiguredStatus::True, "Succeeded", message)),
        );
        let gone = "the agent of this node does not renew its Lease";
        check(
            Some(&both),
            &selecting,
            Some(Missing::Never),
            Some((ConfiguredStatus::Unknown, "AgentMissing", gone)),
        );
        let updating = assemblage(
            "u1",
            &[
                ("fabric", confirmed()),
                ("sysctl", Some(json!({"state": "updating"}))),
            ],
        );
        let message = "NodeModule sysctl is being changed on this node";
        check(
            Some(&updating),
            &selecting,
            None,
            Some((ConfiguredStatus::Unknown, "Updating", message)),
        );
        let silent = assemblage("u1", &[("fabric", None)]);
        let message = "NodeModule fabric is being changed on this node";
        check(
            Some(&silent),
            &["fabric"],
            None,
            Some((ConfiguredStatus::Unknown, "Updating", message)),
        );
        let report =
            json!({"state": "failed", "terminal": true, "reason": "RestoreFailed", "message": "disk"});
        let failed = assemblage("u1", &[("fabric", Some(report)), ("sysctl", confirmed())]);
        let message = "NodeModule fabric: disk";
        check(
            Some(&failed),
            &selecting,
            None,
            Some((ConfiguredStatus::False, "RestoreFailed", message)),
        );
        // The assemblage of a previous node with the same name.
        let other = assemblage("u0", &[("fabric", confirmed())]);
        let message = "NodeModule fabric is not applied on this node yet";
        check(
            Some(&other),
            &["fabric"],
            None,
            Some((ConfiguredStatus::Unknown, "Pending", message)),
        );
    }

    #[test]
    fn what_once_was_of_a_node_module_says_so() {
        let configured = Configured {
            status: ConfiguredStatus::Unknown,
            reason: "Updating".to_owned(),
            message: String::new(),
        };
        let node = NodeFacts {
            configured: Some(configured),
            ..node()
        };
        let desired = desired_condition(&node, None, &[], None).unwrap();
        assert_eq!(
            (desired.status, desired.reason.as_str()),
            (ConfiguredStatus::True, "Excluded")
        );
    }

    #[test]
    fn startup_taints_go_once_a_node_is_configured() {
        let taints = |texts: &[&str]| -> Vec<StartupTaint> {
            texts
                .iter()
                .filter_map(|text| StartupTaint::parse(text))
                .collect()
        };
        let configured = |status, reason: &str| Configured {
            status,
            reason: reason.to_owned(),
            message: String::new(),
        };
        let startup = taints(&["example.com/startup=:NoSchedule"]);
        let confirmed = configured(ConfiguredStatus::True, "Succeeded");
        assert!(is_untainted(&node(), &startup, &confirmed));
        assert!(!is_untainted(
            &node(),
            &startup,
            &configured(ConfiguredStatus::Unknown, "Updating")
        ));
        assert!(!is_untainted(
            &node(),
            &startup,
            &configured(ConfiguredStatus::True, "Excluded")
        ));
        assert!(!is_untainted(&node(), &taints(&["other"]), &confirmed));
        assert_eq!(StartupTaint::parse(""), None);
        assert_eq!(StartupTaint::parse("k=v"), None);
        let exact = StartupTaint::parse("k=v:NoExecute").unwrap();
        assert!(exact.is("k", "v", "NoExecute") && !exact.is("k", "", "NoExecute"));
        let by_key = StartupTaint::parse("k").unwrap();
        assert!(by_key.is("k", "v", "NoSchedule") && !by_key.is("l", "v", "NoSchedule"));
        assert_eq!(
            (exact.to_string(), by_key.to_string()),
            ("k=v:NoExecute".to_owned(), "k".to_owned())
        );
    }
}
