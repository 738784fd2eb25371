//! Promise: `muster demo` is a complete fleet that kubectl and git can operate with what it prints, and SIGTERM ends it
//! cleanly.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails fails its test"
)]

use std::time::Instant;

#[path = "support/demo.rs"]
mod demo;

use demo::{Demo, READY};

#[test]
fn the_demo_is_driven_by_what_it_prints() {
    let directory = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let mut demo = Demo::start(directory.path(), &[]);
    demo.until_printed(READY, |printed| printed.lines().any(|line| line == "ready"));
    println!("ready after {:?}", started.elapsed());
    assert!(demo.printed().contains(&format!(
        "export KUBECONFIG={}/management.kubeconfig",
        directory.path().display()
    )));

    demo.kubectl(&[
        "wait",
        "--for=condition=Ready",
        "--timeout=90s",
        "modules/podinfo",
        "modules/backup",
        "bootstrapmodules/base",
    ]);
    println!("all modules are ready after {:?}", started.elapsed());
    let modules = demo.kubectl(&["get", "modules"]);
    assert!(
        modules.contains("podinfo") && modules.contains("5/5") && modules.contains("v1.0.0"),
        "{modules}"
    );
    let described = demo.kubectl(&["describe", "module", "podinfo"]);
    for word in ["RolloutFinished", "v1.0.0", "Succeeded"] {
        assert!(described.contains(word), "{word}: {described}");
    }
    assert_eq!(
        demo.kubectl(&["get", "clusters", "-o", "name"]).lines().count(),
        5
    );
    assert_eq!(
        demo.kubectl(&["get", "proxyassemblages", "-o", "name"])
            .lines()
            .count(),
        5
    );
    assert!(!demo.kubectl(&["get", "modulerevisions", "-o", "name"]).is_empty());

    demo.until_printed(READY, |printed| printed.contains("git tag v1.1.0"));
    let lines = next_version(&demo.printed());
    let rolling = Instant::now();
    for line in &lines {
        if line.starts_with("muster plan") {
            // Exit code 1: there are changes.
            let output = demo.shell(&format!("set +e\n{line}\n[ $? -eq 1 ]"));
            assert!(output.contains("Plan: 1 of 3 modules changes"), "{output}");
        } else {
            demo.shell(line);
        }
    }
    demo.kubectl(&[
        "wait",
        "--for=jsonpath={.status.source.tag}=v1.1.0",
        "--timeout=60s",
        "module/podinfo",
    ]);
    demo.kubectl(&["wait", "--for=condition=Ready", "--timeout=90s", "module/podinfo"]);
    println!("v1.1.0 on five clusters {:?} after the commit", rolling.elapsed());
    for cluster in ["dev-1", "eu-1", "eu-2", "us-1", "us-2"] {
        assert_eq!(demo.runs(cluster), "6.1.0", "{cluster}");
    }
    pauses(&demo);
    demo.end();
}

/// Runs all commands that are suggested for a NodeModule, line by line.
#[test]
fn the_demo_of_nodes_is_driven_by_what_it_prints() {
    let directory = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(directory.path(), &["--nodes", "--clusters", "1"]);
    demo.until_printed(4 * READY, |printed| printed.contains("git revert"));
    let file = |worker: usize| {
        let path = format!("nodes/dev-1/worker-{worker}/etc/sysctl.d/90-fleet.conf");
        std::fs::read_to_string(directory.path().join(path)).unwrap()
    };
    let all = |text: &str| (1..=3).all(|worker| file(worker).contains(text));
    assert!(all("= 262144"));
    let printed = demo.printed();
    let lines = printed.lines().skip_while(|line| !line.trim().starts_with("cd "));
    let lines: Vec<&str> = lines.skip(1).filter_map(|line| line.strip_prefix("  ")).collect();
    let last = lines
        .iter()
        .position(|line| line.starts_with("git revert"))
        .unwrap();
    let mut why = String::new();
    for line in &lines[..=last] {
        let fails = line.contains("--tag v1.2.0");
        let output = demo.shell(&if fails {
            format!("! {line}")
        } else {
            (*line).to_owned()
        });
        if line.contains("--tag v1.1.0") {
            assert!(all("= 524288"), "{output}");
        }
        if line.contains("muster why") {
            why = output;
        }
    }
    assert!(why.contains("/proc/sys/vm/bad_count"), "{why}");
    assert!(
        all("vm.max_map_count = 524288"),
        "the node rolled it back, the others never got it"
    );
    demo.shell(lines[last + 1]);
    demo.end();
}

/// A pause is an annotation with the command's own field manager, shown in the status, and removed by resume; a pause
/// in the spec is kept.
fn pauses(demo: &Demo) {
    let module = |path: &str| demo.kubectl(&["get", "module", "podinfo", "-o", &format!("jsonpath={path}")]);
    let output = demo.muster(&["rollout", "pause", "module/podinfo", "--reason", "freeze"], 0);
    assert!(
        output.contains("module.fleet.muster.dev/podinfo paused")
            && output.contains("No further cluster starts"),
        "{output}"
    );
    demo.kubectl(&[
        "wait",
        "--for=condition=Paused",
        "--timeout=30s",
        "module/podinfo",
    ]);
    let annotation = module("{.metadata.annotations.fleet\\.muster\\.dev/paused}");
    for word in ["\"reason\":\"freeze\"", "\"by\":", "\"at\":"] {
        assert!(annotation.contains(word), "{word}: {annotation}");
    }
    let managers = demo.kubectl(&[
        "get",
        "module",
        "podinfo",
        "--show-managed-fields",
        "-o",
        "jsonpath={.metadata.managedFields[*].manager}",
    ]);
    assert!(
        managers.split_whitespace().any(|manager| manager == "muster-cli"),
        "{managers}"
    );

    let output = demo.muster(&["rollout", "pause", "module/podinfo"], 0);
    assert!(
        output.contains("is already paused by") && output.contains("(freeze)"),
        "{output}"
    );
    assert_eq!(
        module("{.metadata.annotations.fleet\\.muster\\.dev/paused}"),
        annotation,
        "twice is once"
    );

    let output = demo.muster(&["rollout", "resume", "module/podinfo"], 0);
    assert!(output.contains("podinfo resumed"), "{output}");
    let output = demo.muster(&["rollout", "resume", "module/podinfo"], 0);
    assert!(output.contains("is not paused"), "{output}");

    demo.kubectl(&[
        "patch",
        "module",
        "podinfo",
        "--field-manager=ann",
        "--type=merge",
        "-p",
        "{\"spec\":{\"rollout\":{\"paused\":true}}}",
    ]);
    let output = demo.muster(&["rollout", "resume", "module/podinfo"], 1);
    assert!(
        output.contains("stays paused: spec.rollout.paused is true (by ann)"),
        "{output}"
    );
    demo.muster(&["rollout", "resume", "module/nothing"], 2);
    let tree = demo.muster(&["tree"], 0);
    assert!(
        tree.contains("Fleet/default") && tree.contains("Module"),
        "{tree}"
    );
}

/// The lines that the demo suggests for the next version, without the `cd`.
fn next_version(printed: &str) -> Vec<String> {
    let all: Vec<&str> = printed.lines().map(str::trim).collect();
    let last = all
        .iter()
        .position(|line| line.contains("git tag v1.1.0"))
        .unwrap();
    let first = all[..last]
        .iter()
        .rposition(|line| line.starts_with("cd "))
        .unwrap();
    all[first + 1..=last]
        .iter()
        .map(|line| (*line).to_owned())
        .collect()
}
