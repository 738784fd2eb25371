//! Promise: a cluster that Cluster API does not manage is enrolled with `examples/enrol/enrol.sh` and kubectl alone; a
//! module rolls out to it; repeating it changes nothing; `unenrol.sh` leaves what runs in it untouched. The output of
//! `muster install --export` is accepted by an API server.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails fails its test"
)]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use muster_e2e::bed::muster;

#[path = "support/demo.rs"]
mod demo;

use demo::{Demo, READY};

/// How long a reaction of the controllers may take.
const SOON: Duration = Duration::from_mins(1);

/// A user with a shell, in the directory of the demo.
struct Person {
    directory: PathBuf,
}

impl Person {
    fn run(&self, command: &str) -> Output {
        let path = std::env::var("PATH").unwrap();
        Command::new("sh")
            .args(["-ec", command])
            .current_dir(&self.directory)
            .env("PATH", format!("{}:{path}", muster().parent().unwrap().display()))
            .env("KUBECONFIG", self.directory.join("management.kubeconfig"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// The output of a command with this exit status.
    #[track_caller]
    fn types(&self, command: &str, code: i32) -> String {
        let output = self.run(command);
        let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(code), "{command}\n{printed}");
        printed
    }

    /// Waits until a command succeeds with some output.
    #[track_caller]
    fn until(&self, command: &str) -> String {
        let began = Instant::now();
        loop {
            let output = self.run(command);
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            if output.status.success() && !printed.trim().is_empty() {
                return printed;
            }
            assert!(
                began.elapsed() < SOON,
                "{command}: {printed}{}",
                String::from_utf8_lossy(&output.stderr)
            );
            std::thread::park_timeout(Duration::from_millis(200));
        }
    }

    /// Names and resource versions of everything that enrolment writes.
    fn written(&self) -> String {
        let version = "-o jsonpath='{range .items[*]}{.kind}/{.metadata.name}@{.metadata.uid}:{.metadata.resourceVersion}{\"\\n\"}{end}'";
        let up = self.types(&format!("kubectl get clusters,secrets {version}"), 0);
        let inside = self.types(
            &format!("kubectl --kubeconfig clusters/ap-1.kubeconfig -n muster-system get serviceaccounts,secrets,roles,rolebindings,clusterroles,clusterrolebindings {version}"),
            0,
        );
        up + &inside
    }

    /// podinfo in the cluster: its UID and its resource version.
    fn podinfo(&self) -> String {
        self.until("kubectl --kubeconfig clusters/ap-1.kubeconfig -n web get deployment podinfo -o jsonpath='{.metadata.uid} {.metadata.resourceVersion}'")
    }
}

const ENROL: &str = "./enrol.sh ap-1 --downstream-kubeconfig clusters/ap-1.kubeconfig --labels env=prod,region=ap --bootstrap";

#[test]
#[ignore = "long: cargo xtask long"]
fn a_cluster_comes_and_goes_by_kubectl_alone() {
    let directory = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(directory.path(), &["--clusters", "1"]);
    demo.until_printed(READY, |printed| printed.lines().any(|line| line == "ready"));
    let person = Person {
        directory: directory.path().to_owned(),
    };
    mistakes(&person);

    let printed = person.types(ENROL, 0);
    assert!(
        printed.contains("5/5") && printed.contains("ap-1 is enrolled"),
        "{printed}"
    );
    person.types(
        "kubectl wait --for=jsonpath='{.status.summary.clusters}'=2/2 --timeout=90s modules/podinfo bootstrapmodules/base",
        0,
    );
    person.types("kubectl --kubeconfig clusters/ap-1.kubeconfig -n web rollout status deployment/podinfo --timeout=60s", 0);

    let before = person.written();
    person.types(ENROL, 0);
    assert_eq!(person.written(), before, "the second time changed something");
    // Labels that are not given are kept: removing them would make modules withdraw.
    let printed = person.types(&ENROL.replace(",region=ap", ""), 0);
    assert!(
        printed.contains("kept, although not listed in --labels: region=ap"),
        "{printed}"
    );
    assert_eq!(person.written(), before, "a label was dropped");

    leaves(&person);
    installs(&person);
    demo.end();
}

/// Errors are reported before anything is written.
fn mistakes(person: &Person) {
    let check = |command: &str, code: i32, expected: &str| {
        let printed = person.types(command, code);
        assert!(printed.contains(expected), "{command}: {printed}");
    };
    check(
        "./enrol.sh ap-1 --downstream-context nowhere",
        1,
        "context \"nowhere\" does not exist",
    );
    check(
        "./enrol.sh ap-1 --downstream-kubeconfig clusters/ap-1.kubeconfig -n nowhere",
        1,
        "namespace nowhere does not exist",
    );
    check(
        "./enrol.sh dev-1 --downstream-kubeconfig clusters/dev-1.kubeconfig",
        1,
        "was not enrolled by this script",
    );
    check("./unenrol.sh dev-1", 1, "whatever manages it should delete it");
    check(
        "kubectl config view --raw --kubeconfig clusters/ap-1.kubeconfig | sed 's/client-\\(certificate\\|key\\)-data: .*/token: wrong/' > stranger.kubeconfig; \
         ./enrol.sh ap-1 --downstream-kubeconfig stranger.kubeconfig",
        1,
        "the cluster ap-1 does not respond",
    );
    assert_eq!(
        person.types("kubectl get clusters -o name", 0).lines().count(),
        1,
        "nothing was written"
    );
}

/// The cluster is removed from the fleet, and nothing that runs there is touched.
fn leaves(person: &Person) {
    person.types(
        "kubectl get secret ap-1-kubeconfig -o jsonpath='{.data.value}' | base64 -d > account.kubeconfig",
        0,
    );
    person.types("kubectl --kubeconfig account.kubeconfig get --raw /version", 0);
    let before = person.podinfo();
    person.types("./unenrol.sh ap-1", 0);
    person.until("kubectl get proxyassemblages,remoteassemblages -o name | grep -q ap-1 || echo gone");
    person.types("kubectl wait --for=jsonpath='{.status.summary.clusters}'=1/1 --timeout=60s modules/podinfo bootstrapmodules/base", 0);
    assert_eq!(person.podinfo(), before, "what runs was touched");
    let printed = person.types(
        "./unenrol.sh ap-1 --revoke --downstream-kubeconfig clusters/ap-1.kubeconfig",
        0,
    );
    assert!(printed.contains("is no longer in the fleet"), "{printed}");
    person
        .until("kubectl --kubeconfig account.kubeconfig get --raw /version >/dev/null 2>&1 || echo refused");
    assert_eq!(person.podinfo(), before, "what runs was touched");
}

/// The API server accepts every object, with strict field validation.
fn installs(person: &Person) {
    person.types("kubectl create namespace muster-system", 0);
    for (kubeconfig, flags) in [
        ("management.kubeconfig", "--management --crds --cluster-api"),
        ("clusters/ap-1.kubeconfig", "--downstream --crds"),
        ("clusters/ap-1.kubeconfig", "--downstream --sync flux"),
    ] {
        let command = format!(
            "muster install --export {flags} > install.yaml; \
             kubectl --kubeconfig {kubeconfig} apply --server-side --force-conflicts --dry-run=server --validate=strict -f install.yaml"
        );
        let printed = person.types(&command, 0);
        assert!(
            printed.contains("deployment.apps/muster-")
                && printed.contains("serverside-applied (server dry run)"),
            "{printed}"
        );
    }
}

#[test]
fn the_scripts_are_shell_scripts() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/enrol");
    for script in ["enrol.sh", "unenrol.sh"] {
        let checked = Command::new("sh")
            .arg("-n")
            .arg(examples.join(script))
            .status()
            .unwrap();
        assert!(checked.success(), "{script} is not a valid shell script");
    }
}

#[test]
fn a_mistake_in_the_words_is_exit_code_2_before_anything_is_asked() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/enrol");
    let check = |command: &str, expected: &str| {
        let output = Command::new("sh")
            .args(["-ec", command])
            .current_dir(&directory)
            .env("KUBECONFIG", "/nonexistent")
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(2), "{command}: {printed}");
        assert!(printed.contains(expected), "{command}: {printed}");
    };
    check("./enrol.sh", "the name is missing");
    check("./enrol.sh AP_1 --downstream-context x", "invalid name");
    check("./enrol.sh ap-1", "--downstream-kubeconfig");
    check("./enrol.sh ap-1 ap-2", "one name");
    check("./enrol.sh ap-1 --colour red", "unknown flag: --colour");
    check(
        "./enrol.sh ap-1 --downstream-context x --labels 'env prod'",
        "invalid labels",
    );
    check(
        "./enrol.sh ap-1 --downstream-context x --labels env",
        "or KEY- to remove one",
    );
    check("./unenrol.sh ap-1 --revoke", "--downstream-kubeconfig");
}
