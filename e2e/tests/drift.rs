//! Promise: `muster diff module/NAME` finds drift in clusters, names them, and changes nothing.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails fails its test"
)]

#[path = "support/demo.rs"]
mod demo;

use demo::{Demo, READY};

/// Exit codes: no difference, a difference, an error.
const SAME: i32 = 0;
const DIFFERENT: i32 = 1;
const UNKNOWN: i32 = 2;

#[test]
fn drift_is_found_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(directory.path(), &["--clusters", "3"]);
    demo.until_printed(READY, |printed| printed.contains("Everything is up to date"));
    let diff = |more: &[&str], code| {
        let words = ["diff", "module/podinfo", "--allow-insecure-sources"];
        demo.muster(&[&words, more].concat(), code)
    };

    let same = diff(&[], SAME);
    assert!(same.starts_with("dev-1, eu-1, eu-2 at v1.0.0:\n"), "{same}");

    let kubeconfig = format!(
        "--kubeconfig={}/clusters/eu-1.kubeconfig",
        directory.path().display()
    );
    let image = [
        "set",
        "image",
        "deployment/podinfo",
        "*=example.com/podinfo:drifted",
    ];
    demo.kubectl(&[&[&*kubeconfig, "-n", "web"][..], &image].concat());
    let different = diff(&[], DIFFERENT);
    for line in [
        "eu-1 at v1.0.0:\n",
        "-        image: example.com/podinfo:drifted\n",
        "+        image: example.com/podinfo:6.0.0\n",
        "dev-1, eu-2 at v1.0.0:\n",
    ] {
        assert!(different.contains(line), "{line}: {different}");
    }
    diff(&["--cluster", "eu-2"], SAME);
    // A local clone is read if it is given; what it lacks is not guessed.
    let fleet = directory.path().join("fleet");
    let clone = |place: &str| format!("file://{}={place}", fleet.display());
    diff(&["--source", &clone(&fleet.display().to_string())], DIFFERENT);
    let nowhere = diff(&["--source", &clone("/nowhere")], UNKNOWN);
    assert!(nowhere.contains("next: git fetch there"), "{nowhere}");
    assert_eq!(demo.runs("eu-1"), "drifted", "a diff has changed something");

    let unknown = diff(&["--cluster", "eu-9"], UNKNOWN);
    assert!(unknown.contains("did you mean eu-1, eu-2"), "{unknown}");
    demo.end();
}
