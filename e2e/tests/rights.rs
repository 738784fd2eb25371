//! Promise: on real control planes nothing that muster does is denied, and nothing is granted that no scenario uses. Judged from the audit
//! logs that the scenarios of `real.rs` left in `$MUSTER_RIGHTS_USED`; run after them by `cargo xtask real run`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a helper that fails fails its test"
)]

use std::{collections::BTreeSet, fs, process::Command};

use muster_e2e::bed::{Use, muster};
use serde_json::Value;

/// What an account may do: account, verb, group, resource.
type Right = (String, String, String, String);

/// What is granted although no scenario on real control planes needs it: account, verb, resource, and why.
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
const AGENT: &str = "muster-agent";
const CONTROLLER: &str = "muster-controller";
const TEN_MINUTES: &str = "a source goes ten minutes after its last use, which is longer than a scenario";
const ADMISSION: &str =
    "asked for by the admission plugin for owner references, which looks at rights without a request";

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
    let used: BTreeSet<Right> = used().into_iter().map(right).collect();
    let granted = granted();
    let excused = |(account, verb, _, resource): &Right| {
        UNUSED
            .iter()
            .any(|(a, v, r, _)| a == account && v == verb && r == resource)
    };
    let vain: Vec<&Right> = granted
        .iter()
        .filter(|right| !used.contains(right) && !excused(right))
        .collect();
    assert_eq!(vain, Vec::<&Right>::new());
    let wrongly_excused: Vec<_> = UNUSED
        .iter()
        .filter(|(account, verb, resource, _)| {
            used.iter()
                .any(|(a, v, _, r)| a == account && v == verb && r == resource)
        })
        .collect();
    assert_eq!(wrongly_excused, Vec::<&(&str, &str, &str, &str)>::new());
}

/// All that was used in all scenarios.
fn used() -> BTreeSet<Use> {
    let folder = std::env::var_os("MUSTER_RIGHTS_USED").expect("MUSTER_RIGHTS_USED names a folder");
    let mut used = BTreeSet::new();
    for file in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        used.extend(text.lines().filter_map(Use::parse));
    }
    assert!(!used.is_empty(), "no scenario has run");
    used
}

fn right(used: Use) -> Right {
    (used.account, used.verb, used.group, used.resource)
}

/// All that the manifests grant by name.
fn granted() -> BTreeSet<Right> {
    let mut texts = vec![include_str!("../../examples/enrol/enrol-account.yaml").to_owned()];
    for side in [
        &["--management", "--notify", "--dashboard", "token"][..],
        &["--downstream"],
    ] {
        let output = Command::new(muster())
            .args(["install", "--export"])
            .args(side)
            .output()
            .unwrap();
        texts.push(String::from_utf8(output.stdout).unwrap());
    }
    let documents = texts.iter().flat_map(|text| {
        let documents = muster_sync::yaml::documents("manifests", text.as_bytes()).unwrap();
        documents.into_iter().map(|document| document.value().unwrap())
    });
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
        // What the dashboard needs besides is the controller's.
        "muster-dashboard" => CONTROLLER,
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
