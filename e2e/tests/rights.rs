//! Promise: on real control planes no request of muster is denied, and no permission is granted that no scenario uses.
//! Checked against the audit logs that the scenarios of `real.rs` wrote to `$MUSTER_RIGHTS_USED`; run after them by
//! `cargo xtask real run`. What no account may ever do is checked against the manifests, with all other tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a helper that fails fails its test"
)]

use std::{collections::BTreeSet, fs, process::Command};

use muster_e2e::bed::{Use, muster};
use serde_json::Value;

/// A permission of an account: account, verb, group, resource.
type Right = (String, String, String, String);

/// Permissions that are granted although no scenario on real control planes needs them: account, verb, resource, and
/// why.
const UNUSED: &[(&str, &str, &str, &str)] = &[
    (AGENT, "delete", "gitrepositories", TEN_MINUTES),
    (CONTROLLER, "delete", "gitrepositories", TEN_MINUTES),
    (
        AGENT,
        "get",
        "secrets",
        "private git hosts, values of substitutions",
    ),
    (
        AGENT,
        "list",
        "configmaps",
        "bindings that are evaluated in the cluster",
    ),
    (
        AGENT,
        "watch",
        "configmaps",
        "bindings that are evaluated in the cluster",
    ),
    (
        CONTROLLER,
        "delete",
        "modulerevisions",
        "a module's history is kept short",
    ),
    (AGENT, "update", "assemblages/finalizers", ADMISSION),
    (CONTROLLER, "update", "modules/finalizers", ADMISSION),
    (CONTROLLER, "update", "bootstrapmodules/finalizers", ADMISSION),
    (CONTROLLER, "update", "proxyassemblages/finalizers", ADMISSION),
    (CONTROLLER, "update", "remoteassemblages/finalizers", ADMISSION),
    (CONTROLLER, "update", "clusters/finalizers", ADMISSION),
    (CONTROLLER, "delete", "proxyassemblages", ADMISSION),
    (CONTROLLER, "delete", "remoteassemblages", ADMISSION),
    (CONTROLLER, "delete", "configmaps", ADMISSION),
];
/// The same for ClusterUpgrades.
const UNUSED_BY_UPGRADES: &[(&str, &str, &str, &str)] = &[
    (
        CONTROLLER,
        "get",
        "clusterclasses",
        "a version more than one minor ahead",
    ),
    (
        CONTROLLER,
        "patch",
        "machinepools",
        "workers of a provider that has pools",
    ),
];
/// The same for machines that are updated in place. In the tests the certificate is in files, and the ExtensionConfig
/// is complete.
const UNUSED_BY_MACHINES: &[(&str, &str, &str, &str)] = &[
    (MACHINES, "create", "secrets", "a separate certificate"),
    (MACHINES, "update", "secrets", "a separate certificate"),
    (MACHINES, "get", "extensionconfigs", "a separate certificate"),
    (MACHINES, "patch", "extensionconfigs", "a separate certificate"),
    (MACHINES, "delete", "updateplans", "a plan is kept for a day"),
];
/// The same for nodes.
const UNUSED_BY_NODES: &[(&str, &str, &str, &str)] = &[
    (
        AGENT,
        "get",
        "nodes",
        "a Node that is being changed, and that the watch does not show",
    ),
    (AGENT, "patch", "nodes", "startup taints"),
    (
        AGENT,
        "get",
        "nodemodules",
        "the finalizer of one that is being deleted",
    ),
    (
        AGENT,
        "delete",
        "noderevisions",
        "a NodeModule's history is kept short",
    ),
    (AGENT, "update", "nodemodules/finalizers", ADMISSION),
    (
        NODE_AGENT,
        "create",
        "leases",
        "checked by the API server, without a request, when an apply creates the Lease",
    ),
];
const AGENT: &str = "muster-agent";
const NODE_AGENT: &str = "muster-node-agent";
const MACHINES: &str = "muster-machines";
const CONTROLLER: &str = "muster-controller";
const TEN_MINUTES: &str =
    "a source is removed ten minutes after its last use, which is longer than a scenario";
const ADMISSION: &str = "checked by the admission plugin for owner references, without a request";

#[test]
#[ignore = "real: cargo xtask real run"]
fn nothing_is_denied() {
    let denied: Vec<String> = used()
        .iter()
        .filter(|one| !one.allowed)
        .map(Use::to_string)
        .collect();
    assert_eq!(denied, Vec::<String>::new());
}

#[test]
#[ignore = "real: cargo xtask real run"]
fn nothing_is_granted_in_vain() {
    let mut granted = granted(&["--management", "--notify", "--dashboard", "token"]);
    granted.extend(granted_by(include_str!(
        "../../examples/enrol/enrol-account.yaml"
    )));
    granted.extend(self::granted(&["--downstream"]));
    is_used(&granted, UNUSED);
}

#[test]
#[ignore = "real: cargo xtask real run nodes"]
fn nothing_is_granted_for_nodes_in_vain() {
    let without = granted(&["--downstream"]);
    let with = granted(&["--nodes"]);
    is_used(&with.difference(&without).cloned().collect(), UNUSED_BY_NODES);
}

#[test]
#[ignore = "real: cargo xtask real run cluster-api"]
fn nothing_is_granted_for_upgrades_in_vain() {
    let without = granted(&["--management"]);
    let with = granted(&["--management", "--upgrades"]);
    is_used(&with.difference(&without).cloned().collect(), UNUSED_BY_UPGRADES);
}

#[test]
#[ignore = "real: cargo xtask real run cluster-api"]
fn nothing_is_granted_for_machines_in_vain() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("updaters.yaml");
    fs::write(&file, "updaters: []").unwrap();
    let granted = granted(&["--machines", "--updaters", file.to_str().unwrap()]);
    is_used(&granted, UNUSED_BY_MACHINES);
}

/// DX16: a Node's condition has one writer, and no node may write that of another, nor its own.
#[test]
fn one_account_writes_conditions_of_nodes() {
    let granted = granted(&["--nodes"]);
    assert!(
        granted.iter().any(|(account, ..)| account == NODE_AGENT),
        "{granted:?}"
    );
    let writers: BTreeSet<&str> = granted
        .iter()
        .filter(|(_, verb, _, resource)| {
            resource == "nodes/status" && !["get", "list", "watch"].contains(&verb.as_str())
        })
        .map(|(account, ..)| account.as_str())
        .collect();
    assert_eq!(writers, [AGENT].into());
}

fn is_used(granted: &BTreeSet<Right>, unused: &[(&str, &str, &str, &str)]) {
    let used: BTreeSet<Right> = used().into_iter().map(right).collect();
    let excused = |(account, verb, _, resource): &Right| {
        unused
            .iter()
            .any(|(a, v, r, _)| a == account && v == verb && r == resource)
    };
    // A rule for all kinds of a group counts as used if any of them is.
    let is_used = |right: &Right| {
        let (account, verb, group, resource) = right;
        used.contains(right)
            || resource == "*"
                && used
                    .iter()
                    .any(|(a, v, g, _)| (a, v, g) == (account, verb, group))
    };
    let vain: Vec<&Right> = granted
        .iter()
        .filter(|right| !is_used(right) && !excused(right))
        .collect();
    assert_eq!(vain, Vec::<&Right>::new());
    let wrongly_excused: Vec<_> = unused
        .iter()
        .filter(|(account, verb, resource, _)| {
            used.iter()
                .any(|(a, v, _, r)| a == account && v == verb && r == resource)
        })
        .collect();
    assert_eq!(wrongly_excused, Vec::<&(&str, &str, &str, &str)>::new());
}

/// The permissions that were used in all scenarios.
fn used() -> BTreeSet<Use> {
    let directory = std::env::var_os("MUSTER_RIGHTS_USED").expect("MUSTER_RIGHTS_USED names a directory");
    let mut used = BTreeSet::new();
    for file in fs::read_dir(directory).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        used.extend(text.lines().filter_map(Use::parse));
    }
    assert!(!used.is_empty(), "no scenario has run");
    used
}

fn right(used: Use) -> Right {
    (used.account, used.verb, used.group, used.resource)
}

/// The permissions that the manifests of these components grant by name.
fn granted(side: &[&str]) -> BTreeSet<Right> {
    let output = Command::new(muster())
        .args(["install", "--export"])
        .args(side)
        .output()
        .unwrap();
    granted_by(&String::from_utf8(output.stdout).unwrap())
}

fn granted_by(manifests: &str) -> BTreeSet<Right> {
    let documents = muster_sync::yaml::documents("manifests", manifests.as_bytes()).unwrap();
    let documents = documents.into_iter().map(|document| document.value().unwrap());
    let roles = documents.filter(|object| {
        let kind = object["kind"].as_str().unwrap_or_default();
        ["Role", "ClusterRole"].contains(&kind)
    });
    roles.flat_map(|role| rights_of(&role)).collect()
}

fn rights_of(role: &Value) -> Vec<Right> {
    let list = |rule: &Value, field: &str| -> Vec<String> {
        let words = rule[field].as_array().into_iter().flatten();
        words
            .filter_map(|word| word.as_str().map(str::to_owned))
            .collect()
    };
    let account = match role["metadata"]["name"].as_str().unwrap() {
        // Additional permissions for the dashboard, and for ClusterUpgrades, belong to the controller.
        "muster-dashboard" | "muster-controller-upgrades" => CONTROLLER,
        // Additional permissions of the agent for NodeModules.
        "muster-agent-nodes" => AGENT,
        name => name,
    };
    let mut rights = Vec::new();
    for rule in role["rules"].as_array().unwrap() {
        for group in list(rule, "apiGroups") {
            for resource in list(rule, "resources") {
                let verbs = list(rule, "verbs").into_iter();
                rights.extend(verbs.map(|verb| (account.to_owned(), verb, group.clone(), resource.clone())));
            }
        }
    }
    rights
}
