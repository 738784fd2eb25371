//! Promise: the command works without a cluster where none is needed, and a usage error is exit code 2.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper that fails fails its test"
)]

use std::process::{Command, Output};

fn muster(arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    Command::new(env!("CARGO_BIN_EXE_muster"))
        .args(arguments)
        .env_clear()
        .env("HOME", directory.path())
        .output()
        .unwrap()
}

fn check(arguments: &[&str], code: i32, expected: &str) {
    let output = muster(arguments);
    let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {printed}");
    assert!(printed.contains(expected), "{arguments:?}: {printed}");
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
    for (words, expected) in [
        (
            &["crds", "--management", "--upgrades"][..],
            "name: clusterupgrades.fleet.muster.dev",
        ),
        (&["crds", "--nodes"], "name: nodemodules.fleet.muster.dev"),
        (
            &["crds", "--downstream", "--nodes"],
            "name: assemblages.fleet.muster.dev",
        ),
        (&["crds", "--machines"], "name: updateplans.fleet.muster.dev"),
    ] {
        check(words, 0, expected);
    }
    check(&["get"], 0, "muster get TYPE/NAME shows one");
    check(&["get"], 0, "bootstrapmodule, bmod");
    // What `cargo demo -- --help` passes on.
}

#[test]
fn a_mistake_is_exit_code_2_and_names_what_to_do() {
    check(&["get", "pods"], 2, "possible values");
    check(&["why", "deployment/web"], 2, "bootstrapmodule/web");
    check(&["why", "cluster/us-2"], 2, "muster tree cluster/us-2");
    check(&["why", "--", "--tour"], 2, "KUBECONFIG");
    check(&["crds"], 2, "--management");
    check(&["crds", "--upgrades"], 2, "--management");
    check(&["crds", "--management", "--nodes"], 2, "cannot be used with");
    check(&["crds", "--management", "--machines"], 2, "cannot be used with");
    for (words, expected) in [
        (
            &["diff", "apps/web", "--cluster", "eu-1"][..],
            "--cluster is for a module, and apps/web is a directory",
        ),
        (
            &["diff", "apps/web", "--source", "https://git.test/x=."],
            "--source is for a module",
        ),
        (
            &["diff", "module/web", "--kustomization", "web"],
            "--kustomization is for a directory, and module/web is a module",
        ),
        (
            &["diff", "module/web", "--substitute", "A=b"],
            "--substitute is for a directory",
        ),
    ] {
        check(words, 2, expected);
    }
    check(&["demo", "--clusters", "0"], 2, "1..=50");
    check(&["demo", "--tour", "--clusters", "3"], 2, "cannot be used with");
    check(&["get", "modules", "-w", "-o", "json"], 2, "-w prints tables");
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

#[test]
fn a_mistake_in_what_people_say_of_a_rollout_is_named() {
    check(&["tree", "node/a"], 2, "write module/a");
    check(&["plan", "--git", "main"], 2, "write A..B");
    check(&["plan", "-f", "nowhere"], 2, "\"nowhere\" does not exist");
    check(&["plan", "--source", "nowhere"], 2, "write URL=DIR");
    check(&["rollout", "pause", "module/web", "--for", "soon"], 2, "soon");
    check(&["rollout", "abort"], 2, "<MODULE>");
    check(&["install", "--management"], 2, "--export");
    check(&["install", "--export"], 2, "--management");
    check(
        &["install", "--export", "--downstream", "--crds", "--cluster-api"],
        2,
        "cannot be used with",
    );
    check(&["completion", "tcsh"], 2, "possible values");
    check(
        &["get", "modules", "--status-selector", "ready"],
        2,
        "ready=false",
    );
    check(
        &["get", "modules", "--status-selector", "ready=maybe"],
        2,
        "not a condition status",
    );
    check(&["matrix", "--request-timeout", "soon"], 2, "soon");
    check(&["matrix", "--as-group", "staff"], 2, "--as <USER>");
    check(
        &["rollout", "abort", "module/web", "--dry-run=perhaps"],
        2,
        "perhaps",
    );
    check(&["lint", "nowhere.yaml"], 2, "reading nowhere.yaml");
}

#[test]
fn what_is_installed_is_printed_with_definitions_only_if_asked() {
    let printed = |arguments: &[&str]| String::from_utf8(muster(arguments).stdout).unwrap();
    let kinds = |text: &str| {
        text.lines()
            .filter(|line| line.starts_with("kind: "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let plain = printed(&["install", "--export", "--management", "-n", "fleet"]);
    assert_eq!(
        kinds(&plain),
        [
            "kind: Namespace",
            "kind: Namespace",
            "kind: ServiceAccount",
            "kind: Role",
            "kind: RoleBinding",
            "kind: ClusterRole",
            "kind: ClusterRoleBinding",
            "kind: NetworkPolicy",
            "kind: Deployment",
        ]
    );
    let whole = printed(&[
        "install",
        "--export",
        "--management",
        "-n",
        "fleet",
        "--crds",
        "--cluster-api",
    ]);
    assert_eq!(kinds(&whole).len(), 9 + 6 + 2 + 1);
    assert_eq!(
        whole,
        printed(&[
            "install",
            "--export",
            "--management",
            "-n",
            "fleet",
            "--crds",
            "--cluster-api"
        ])
    );
    let with_flux = printed(&["install", "--export", "--downstream", "--sync", "flux", "--crds"]);
    assert!(
        !with_flux.contains("fluxcd.io\n  names"),
        "Flux brings its own definitions"
    );
}

#[test]
fn bash_takes_the_completion() {
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_muster"))
        .parent()
        .unwrap();
    let script = "source <(muster completion bash) && complete -p muster && COMP_WORDS=(muster roll) COMP_CWORD=1 && _clap_complete_muster muster roll muster && \
                  echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash")
        .args(["--norc", "-ec", script])
        .env(
            "PATH",
            format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()),
        )
        .output()
        .unwrap();
    let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(
        output.status.success() && printed.lines().any(|line| line == "rollout"),
        "{printed}"
    );
    for shell in ["zsh", "fish"] {
        check(&["completion", shell], 0, "_MUSTER_COMPLETE");
    }
}

#[test]
fn a_mistake_in_the_words_about_an_installation_is_named() {
    check(&["enroll"], 2, "<NEW_CONTEXT>");
    check(&["enroll", "x", "--wait", "soon"], 2, "soon");
    check(
        &["unenroll", "x", "--prune", "--keep-resources"],
        2,
        "cannot be used with",
    );
    check(&["check", "--pre", "--cluster", "x"], 2, "cannot be used with");
    check(&["uninstall"], 2, "--management");
    for words in [
        &["enroll", "x"][..],
        &["unenroll", "x"],
        &["check"],
        &["support-bundle"],
        &["uninstall", "--management"],
    ] {
        check(words, 2, "set KUBECONFIG");
    }
}

/// The exit code shows that the output is incomplete.
#[test]
fn a_pipe_that_is_closed_early_ends_it_without_a_word_as_any_command() {
    // Line by line, and as one text.
    for words in [
        &["crds", "--management"][..],
        &["install", "--export", "--management", "--crds"],
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_muster"))
            .args(words)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), stderr.as_str()),
            (Some(141), ""),
            "{words:?}"
        );
    }
}

/// Truncated output must not pass for complete.
#[test]
fn a_disk_that_is_full_is_an_error() {
    for words in [&["crds", "--management"][..], &["version", "--client"], &["man"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_muster"))
            .args(words)
            .stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap())
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {stderr}");
        assert!(stderr.contains("No space left on device"), "{words:?}: {stderr}");
    }
}

#[test]
fn an_unknown_context_is_reported_with_the_existing_ones() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config");
    let kubeconfig = "{apiVersion: v1, kind: Config, clusters: [], users: [], contexts: [{name: management, context: {cluster: a, user: a}}]}";
    std::fs::write(&file, kubeconfig).unwrap();
    let file = file.display().to_string();
    check(
        &["matrix", "--kubeconfig", &file, "--context", "managment"],
        2,
        "there is no context managment (did you mean management?): there are management",
    );
}
