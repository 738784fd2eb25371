//! Promise: the command answers without a cluster where none is needed, and a mistake on the command line is exit code 2.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper that fails fails its test"
)]

use std::process::{Command, Output};

fn muster(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    Command::new(env!("CARGO_BIN_EXE_muster"))
        .args(arguments)
        .env_clear()
        .env("HOME", folder.path())
        .output()
        .unwrap()
}

fn check(arguments: &[&str], code: i32, says: &str) {
    let output = muster(arguments);
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains(says), "{arguments:?}: {said}");
}

#[test]
fn what_needs_no_cluster_answers_without_one() {
    check(
        &["version", "--client"],
        0,
        concat!("muster ", env!("CARGO_PKG_VERSION")),
    );
    check(&["crds", "--management"], 0, "name: modules.fleet.muster.dev");
    check(&["crds", "--downstream"], 0, "name: assemblages.fleet.muster.dev");
    check(
        &["crds", "--management", "--cluster-api"],
        0,
        "name: clusters.cluster.x-k8s.io",
    );
    check(&["--help"], 0, "muster why module/podinfo");
}

#[test]
fn a_mistake_is_exit_code_2_and_names_what_to_do() {
    check(&["get", "pods"], 2, "possible values");
    check(&["why", "deployment/web"], 2, "bootstrapmodule/web");
    check(&["crds"], 2, "--management");
    check(&["demo", "--clusters", "0"], 2, "1..=50");
    check(&["matrix"], 2, "set KUBECONFIG");
    check(
        &["agent", "--git-timeout", "soon", "--kubeconfig", "none"],
        2,
        "soon",
    );
}

#[test]
fn downstream_gets_what_an_agent_needs_and_nothing_of_the_management_plane() {
    let text = String::from_utf8(muster(&["crds", "--downstream"]).stdout).unwrap();
    assert!(
        text.contains("kustomizations.kustomize.toolkit.fluxcd.io")
            && text.contains("gitrepositories.source.toolkit.fluxcd.io")
    );
    assert!(!text.contains("modules.fleet.muster.dev"));
}
