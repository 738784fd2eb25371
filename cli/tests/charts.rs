//! Promise: `helm template` of the charts renders the objects of `muster install --export`, for every choice of values.
//! Needs a real Helm: `cargo xtask charts` builds it and runs this.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a helper that fails fails its test"
)]

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, process::Command};

use serde_json::Value;

/// An annotation for Helm only: `muster install --export` does not have it.
const KEEP: &str = "helm.sh/resource-policy";

/// The standard output of a command that must succeed.
fn output(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn helm() -> Command {
    let program: OsString = std::env::var_os("MUSTER_HELM").expect("MUSTER_HELM names the program helm");
    Command::new(program)
}

fn chart(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/charts")).join(name)
}

/// Objects by kind, namespace and name.
fn objects(text: &str) -> BTreeMap<String, Value> {
    let documents = muster_sync::yaml::documents("manifests", text.as_bytes()).unwrap();
    let mut objects = BTreeMap::new();
    for document in documents {
        let mut object = document.value().unwrap();
        let metadata = object["metadata"].as_object_mut().unwrap();
        if metadata
            .get("annotations")
            .is_some_and(|all| all.get(KEEP).is_some())
        {
            let annotations = metadata["annotations"].as_object_mut().unwrap();
            annotations.remove(KEEP);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
        let name = format!(
            "{} {} {}",
            object["kind"], object["metadata"]["namespace"], object["metadata"]["name"]
        );
        assert!(
            objects.insert(name.clone(), object).is_none(),
            "{name} appears twice"
        );
    }
    objects
}

fn templates(name: &str, values: &[String]) -> BTreeMap<String, Value> {
    let mut helm = helm();
    // A Helm built here assumes an old Kubernetes version.
    helm.args(["template", "muster", "--kube-version", "1.36.0"])
        .arg(chart(name));
    for value in values {
        let set = match value.split_once('=') {
            // A namespace may look like a number, but is a string.
            Some(("namespace", _)) => "--set-string",
            Some(("updaters", _)) => "--set-file",
            _ => "--set",
        };
        helm.args([set, value]);
    }
    objects(&output(helm))
}

fn exported(flags: &[&str]) -> BTreeMap<String, Value> {
    let mut muster = Command::new(env!("CARGO_BIN_EXE_muster"));
    muster.args(["install", "--export"]).args(flags);
    objects(&output(muster))
}

fn check(flags: &[&str], values: &[&str]) {
    let all: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
    let of = |keys: &[&str]| -> Vec<String> {
        let known = |value: &&String| keys.contains(&value.split_once(['=', '[']).map_or("", |(key, _)| key));
        all.iter().filter(known).cloned().collect()
    };
    let mut made = templates(
        "muster",
        &of(&[
            "role",
            "sync",
            "namespace",
            "image",
            "egressPorts",
            "notify",
            "nodes",
            "upgrades",
            "dashboard",
            "updaters",
        ]),
    );
    if flags.contains(&"--crds") {
        made.extend(templates(
            "muster-crds",
            &of(&[
                "role",
                "sync",
                "nodes",
                "upgrades",
                "clusterApi",
                "rolloutOperatorCrds",
            ]),
        ));
    }
    let wanted = exported(flags);
    let (names, wanted_names): (Vec<_>, Vec<_>) = (made.keys().collect(), wanted.keys().collect());
    assert_eq!(names, wanted_names, "{flags:?}");
    for (name, object) in &wanted {
        assert_eq!(&made[name], object, "{flags:?}: {name}");
    }
}

#[test]
#[ignore = "needs Helm: cargo xtask charts"]
fn helm_makes_what_is_exported() {
    for sync in ["builtin", "flux"] {
        let value = format!("sync={sync}");
        for namespace in ["default", "fleet", "muster-system", "123"] {
            let place = format!("namespace={namespace}");
            check(
                &["--management", "--sync", sync, "-n", namespace],
                &["role=management", &value, &place],
            );
        }
        check(
            &["--management", "--crds", "--sync", sync],
            &["role=management", &value],
        );
        check(
            &["--management", "--crds", "--cluster-api", "--sync", sync],
            &["role=management", &value, "clusterApi=true"],
        );
        check(
            &["--management", "--notify", "--sync", sync],
            &["role=management", &value, "notify=true"],
        );
        check(
            &[
                "--management",
                "--upgrades",
                "--crds",
                "--sync",
                sync,
                "-n",
                "fleet",
            ],
            &["role=management", &value, "namespace=fleet", "upgrades=true"],
        );
        for dashboard in ["token", "none"] {
            let shown = format!("dashboard={dashboard}");
            let flags = [
                "--management",
                "--sync",
                sync,
                "-n",
                "fleet",
                "--dashboard",
                dashboard,
            ];
            let values = ["role=management", &value, "namespace=fleet", &shown];
            check(&flags, &values);
            check(
                &[&flags[..], &["--notify"]].concat(),
                &[&values[..], &["notify=true"]].concat(),
            );
        }
        check(
            &["--downstream", "--crds", "--sync", sync],
            &["role=downstream", &value],
        );
        check(
            &["--downstream", "--nodes", "--crds", "--sync", sync],
            &["role=downstream", &value, "nodes=true"],
        );
        // The agent has a fixed namespace; the value is ignored.
        check(
            &["--downstream", "--sync", sync, "-n", "fleet"],
            &["role=downstream", &value, "namespace=fleet"],
        );
    }
    for namespace in ["default", "mimir", "123"] {
        let place = format!("namespace={namespace}");
        check(&["--zones", "--crds", "-n", namespace], &["role=zones", &place]);
    }
    check(
        &[
            "--zones",
            "--crds",
            "--rollout-operator-crds=false",
            "--egress-ports",
            "8443",
        ],
        &["role=zones", "rolloutOperatorCrds=false", "egressPorts={8443}"],
    );
    check(
        &[
            "--management",
            "--image",
            "registry.test:5000/muster@sha256:00",
            "--egress-ports",
            "443,9090",
        ],
        &[
            "role=management",
            "image=registry.test:5000/muster@sha256:00",
            "egressPorts[0]=443",
            "egressPorts[1]=9090",
        ],
    );
}

#[test]
#[ignore = "needs Helm: cargo xtask charts"]
fn helm_makes_what_is_exported_for_machines() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/machines/updaters.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    // Without prepareNode there are fewer rights.
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("prepareNode"))
        .collect();
    assert!(lines.len() < text.lines().count());
    let fewer = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(fewer.path(), lines.join("\n")).unwrap();
    let fewer = fewer.path().to_str().unwrap();
    check(
        &["--machines", "--updaters", fewer],
        &["role=machines", &format!("updaters={fewer}")],
    );
    let updaters = format!("updaters={file}");
    let flags = ["--machines", "--updaters", file, "--crds"];
    check(&flags, &["role=machines", &updaters]);
    // The namespace is fixed, and the sync does not matter.
    let other = [
        "role=machines",
        &updaters,
        "namespace=fleet",
        "sync=flux",
        "egressPorts={443,8443}",
    ];
    check(&[&flags[..], &["--egress-ports", "443,8443"]].concat(), &other);
}

/// A value is refused, with an error that contains `names`.
fn refused(name: &str, value: &str, names: &str) {
    let mut template = helm();
    template.args(["template", "muster", "--kube-version", "1.36.0"]);
    let output = template.arg(chart(name)).args(["--set", value]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && stderr.contains(names),
        "{name}: {stderr}"
    );
}

#[test]
#[ignore = "needs Helm: cargo xtask charts"]
fn helm_has_nothing_to_complain_of() {
    for name in ["muster", "muster-crds"] {
        let mut lint = helm();
        lint.args(["lint", "--strict"]).arg(chart(name));
        output(lint);
        // A misspelled value is refused.
        refused(name, "rolle=management", "rolle");
    }
    // Without updaters muster machines would not start.
    refused("muster", "role=machines", "updaters");
}
