//! Promise: commands take effect: hold and release, pin and unpin, history and undo, approve, promote, abort, retry.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails fails its test"
)]

use serde_json::{Value, json};

#[path = "support/demo.rs"]
mod demo;

use demo::{Demo, IMAGE, READY};

/// How long a rollout over three clusters may take.
const ROLLED: &str = "--timeout=60s";

#[test]
fn operator_commands_take_effect() {
    let directory = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(directory.path(), &["--clusters", "3"]);
    demo.until_printed(READY, |printed| printed.lines().any(|line| line == "ready"));
    demo.kubectl(&["wait", "--for=condition=Ready", ROLLED, "module/podinfo"]);
    offered(&demo);
    held(&demo);
    pinned(&demo);
    undone(&demo);
    staged(&demo);
    demo.end();
}

/// Shell completion offers existing names.
fn offered(demo: &Demo) {
    let check = |words: &[&str], expect: &[&str]| {
        let typed = words.join(" ");
        let script = format!(
            "source <(muster completion bash); COMP_WORDS=(muster {typed} '') COMP_CWORD={}; \
             _clap_complete_muster muster '' {}; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.len() + 1,
            words.last().unwrap(),
        );
        let muster = muster_e2e::bed::muster();
        let bin = muster.parent().unwrap();
        let output = std::process::Command::new("bash")
            .args(["--norc", "-ec", &script])
            .env(
                "PATH",
                format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()),
            )
            .env("KUBECONFIG", demo.directory.join("management.kubeconfig"))
            .output()
            .unwrap();
        let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let names: Vec<&str> = printed
            .lines()
            .map(str::trim)
            .filter(|word| !word.starts_with('-'))
            .collect();
        assert_eq!(names, expect, "muster {typed}");
    };
    let modules = ["module/backup", "module/podinfo", "bootstrapmodule/base"];
    check(&["why"], &modules);
    check(&["rollout", "status"], &modules);
    check(&["get", "modules"], &["backup", "podinfo", "base"]);
    check(&["unenroll"], &["dev-1", "eu-1", "eu-2"]);
    check(&["-n", "elsewhere", "why"], &[]);
    check(&["--kubeconfig", "/nowhere", "why"], &[]);
}

/// A held cluster keeps what it has while the others continue, and is updated when it is released.
fn held(demo: &Demo) {
    let words = ["hold", "eu-1", "--reason", "migration"];
    let output = demo.muster(&[&words[..], &["--dry-run"]].concat(), 0);
    assert!(output.contains("eu-1 held"), "{output}");
    assert_eq!(annotation(demo, "cluster/eu-1", "hold"), "", "only asked");
    let output = demo.muster(&words, 0);
    assert!(
        output.contains("eu-1 held")
            && output.contains("(migration)")
            && output.contains("muster release eu-1"),
        "{output}"
    );
    let written = annotation(demo, "cluster/eu-1", "hold");
    let output = demo.muster(&words, 0);
    assert!(output.contains("is already held by"), "{output}");
    assert_eq!(annotation(demo, "cluster/eu-1", "hold"), written, "twice is once");

    commit(demo, ("6.0.0", "v1.0.0"), ("6.1.0", "v1.1.0"));
    until_runs(demo, "dev-1", "6.1.0");
    until_runs(demo, "eu-2", "6.1.0");
    until_reason(demo, "eu-1", "Held");
    assert_eq!(demo.runs("eu-1"), "6.0.0");
    let why = demo.muster(&["why", "module/podinfo", "--cluster", "eu-1"], 0);
    assert!(
        why.contains("migration") && why.contains("muster release eu-1 -n default"),
        "{why}"
    );

    let output = demo.muster(&["release", "eu-1"], 0);
    assert!(output.contains("eu-1 released"), "{output}");
    until_runs(demo, "eu-1", "6.1.0");
    until_all_are_at(demo, "v1.1.0");
    let output = demo.muster(&["release", "eu-1"], 0);
    assert!(output.contains("is not held"), "{output}");
    demo.muster(&["hold", "nowhere"], 2);

    let held = ["hold", "module/podinfo", "--clusters", "eu-1,eu-2", "--for", "2h"];
    demo.muster(&held, 0);
    until_reason(demo, "eu-2", "Held");
    demo.muster(&["release", "module/podinfo", "--clusters", "eu-2"], 0);
    until_reason(demo, "eu-1", "Held");
    demo.muster(&["release", "module/podinfo"], 0);
    until_all_are_at(demo, "v1.1.0");
}

/// A pinned cluster goes back to that revision, alone, and is updated again when it is unpinned.
fn pinned(demo: &Demo) {
    let history: Value =
        serde_json::from_str(&demo.muster(&["rollout", "history", "module/podinfo", "-o", "json"], 0))
            .unwrap();
    let past = |version: &str| {
        let all = history["revisions"].as_array().unwrap();
        all.iter()
            .find(|past| past["version"] == version)
            .unwrap()
            .clone()
    };
    let (old, new) = (past("v1.0.0"), past("v1.1.0"));
    assert_eq!(
        (&old["verdict"], &new["verdict"]),
        (&json!("Good"), &json!("Good")),
        "{history}"
    );
    assert_eq!(
        (&old["isTarget"], &new["isTarget"]),
        (&json!(false), &json!(true)),
        "{history}"
    );
    let table = demo.muster(&["rollout", "history", "module/podinfo"], 0);
    assert_eq!(table.lines().count(), 3, "{table}");

    let revision: String = old["revision"].as_str().unwrap().chars().take(8).collect();
    let pin = |revision: &str, code| {
        let words = [
            "pin",
            "eu-2",
            "--module",
            "podinfo",
            "--revision",
            revision,
            "--reason",
            "crashes",
        ];
        demo.muster(&words, code)
    };
    let output = pin("ffffffff", 2);
    assert!(
        output.contains("muster rollout history module/podinfo"),
        "{output}"
    );
    let output = pin(&revision, 0);
    assert!(
        output.contains("eu-2 pinned to v1.0.0") && output.contains("muster unpin eu-2"),
        "{output}"
    );
    until_runs(demo, "eu-2", "6.0.0");
    until_reason(demo, "eu-2", "Pinned");
    assert_eq!((&*demo.runs("dev-1"), &*demo.runs("eu-1")), ("6.1.0", "6.1.0"));
    let output = pin(&revision, 0);
    assert!(
        output.contains("is pinned to v1.0.0 of module/podinfo already"),
        "{output}"
    );

    let output = demo.muster(&["unpin", "eu-2", "--module", "podinfo"], 0);
    assert!(output.contains("eu-2 unpinned"), "{output}");
    until_runs(demo, "eu-2", "6.1.0");
    until_all_are_at(demo, "v1.1.0");
}

/// Going back is a commit: the command prints it and changes nothing; once committed, all clusters follow.
fn undone(demo: &Demo) {
    let repository = demo.directory.join("fleet");
    let undo = [
        "rollout",
        "undo",
        "module/podinfo",
        "--repo",
        repository.to_str().unwrap(),
    ];
    let output = demo.muster(&undo, 0);
    assert!(
        output.contains("-        version: {tag: v1.1.0}")
            && output.contains("+        version: {tag: v1.0.0}"),
        "{output}"
    );
    assert_eq!(demo.shell("git status --porcelain"), "", "it was only printed");
    let output = demo.muster(&[&undo[..], &["--commit", "--reason", "5xx"]].concat(), 0);
    assert!(
        output.contains("muster rollout status module/podinfo --tag v1.0.0"),
        "{output}"
    );
    assert!(demo.shell("git log -1 --format=%B").contains("5xx"));
    demo.muster(
        &[
            "rollout",
            "status",
            "module/podinfo",
            "--tag",
            "v1.0.0",
            "--timeout",
            "60s",
        ],
        0,
    );
    for cluster in ["dev-1", "eu-1", "eu-2"] {
        assert_eq!(demo.runs(cluster), "6.0.0", "{cluster}");
    }
}

/// A stage with manual approval is passed by approval or by promotion; an aborted revision goes no further until it is
/// retried.
fn staged(demo: &Demo) {
    let stages = |soak: &str| {
        let selector = json!({"matchLabels": {"env": "dev"}});
        let canary = json!({"name": "canary", "selector": selector, "approval": "Required", "soak": soak});
        let patch = json!({"spec": {"rollout": {"stages": [canary]}}}).to_string();
        let manager = "--field-manager=somebody";
        demo.kubectl(&[
            "patch",
            "module",
            "podinfo",
            manager,
            "--type=merge",
            "-p",
            &patch,
        ]);
    };
    stages("0s");
    commit(demo, ("6.1.0", "v1.0.0"), ("6.1.0", "v1.1.0"));
    until_reason(demo, "eu-1", "WaitingApproval");
    assert_eq!((&*demo.runs("dev-1"), &*demo.runs("eu-1")), ("6.1.0", "6.0.0"));

    demo.muster(&["rollout", "approve", "module/podinfo", "--stage", "nightly"], 2);
    let output = demo.muster(
        &["rollout", "abort", "module/podinfo", "--reason", "wrong branch"],
        0,
    );
    assert!(output.contains("aborted"), "{output}");
    until_reason(demo, "eu-1", "Aborted");
    assert_eq!(demo.runs("eu-1"), "6.0.0");
    let output = demo.muster(&["rollout", "retry", "module/podinfo"], 0);
    assert!(output.contains("is retried"), "{output}");
    until_reason(demo, "eu-1", "WaitingApproval");
    let output = demo.muster(&["rollout", "approve", "module/podinfo", "--reason", "green"], 0);
    assert!(
        output.contains("stage canary") && output.contains("approved"),
        "{output}"
    );
    until_all_are_at(demo, "v1.1.0");
    assert_eq!(demo.runs("eu-2"), "6.1.0");

    stages("1h");
    commit(demo, ("6.1.0", "v1.1.0"), ("6.2.0", "v1.2.0"));
    until_runs(demo, "dev-1", "6.2.0");
    until_reason(demo, "eu-1", "WaitingStage");
    let output = demo.muster(&["rollout", "promote", "module/podinfo"], 0);
    assert!(output.contains("promoted"), "{output}");
    until_all_are_at(demo, "v1.2.0");
    assert_eq!(demo.runs("eu-2"), "6.2.0");
}

/// Another image, and the git tag for it; the version is used for both.
fn commit(demo: &Demo, (image, tag): (&str, &str), (to_image, to_tag): (&str, &str)) {
    demo.shell(&format!(
        "sed -i 's/podinfo:{image}/podinfo:{to_image}/' apps/podinfo/deployment.yaml && \
         sed -i 's/tag: {tag}/tag: {to_tag}/' modules/podinfo.yaml && git commit -qam 'podinfo {to_image}' && git tag -f {to_tag}"
    ));
}

fn annotation(demo: &Demo, object: &str, name: &str) -> String {
    let path = format!("jsonpath={{.metadata.annotations.fleet\\.muster\\.dev/{name}}}");
    demo.kubectl(&["get", object, "-o", &path])
}

fn until_all_are_at(demo: &Demo, tag: &str) {
    let rolled = format!("--for=jsonpath={{.status.source.tag}}={tag}");
    demo.kubectl(&["wait", &rolled, ROLLED, "module/podinfo"]);
    demo.kubectl(&[
        "wait",
        "--for=jsonpath={.status.summary.clusters}=3/3",
        ROLLED,
        "module/podinfo",
    ]);
    demo.kubectl(&["wait", "--for=condition=Ready", ROLLED, "module/podinfo"]);
}

/// Waits until the module reports this about the cluster.
fn until_reason(demo: &Demo, cluster: &str, reason: &str) {
    let condition =
        format!("--for=jsonpath={{.status.attention[?(@.cluster==\"{cluster}\")].reason}}={reason}");
    demo.kubectl(&["wait", &condition, ROLLED, "module/podinfo"]);
}

fn until_runs(demo: &Demo, cluster: &str, image: &str) {
    let runs = format!("--for=jsonpath={IMAGE}=example.com/podinfo:{image}");
    demo.podinfo_in(cluster, "wait", &[&runs, ROLLED]);
}
