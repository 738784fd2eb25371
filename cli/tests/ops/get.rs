//! Promise: `muster get` lists objects as kubectl does, and with `-w` keeps following through temporary failures.

use std::{fs::File, path::PathBuf, process::Child};

use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
};
use serde_json::json;

use crate::bed::{Bed, create};

async fn module(bed: &Bed, namespace: &str, name: &str) {
    create(
        &bed.management.client(),
        json!({"apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module", "metadata": {"name": name, "namespace": namespace},
            "spec": {"selector": {}, "sync": {"source": {"git": {"url": "https://git.example.com/fleet", "version": {"tag": "v1"}}}}}}),
    )
    .await;
}

/// A command that keeps running, and its output.
struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    fn start(bed: &Bed, words: &str) -> Self {
        let (out, err) = (bed.path("out"), bed.path("err"));
        let mut command = bed.command(words);
        command
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap());
        let child = command.spawn().unwrap();
        Self { child, out, err }
    }

    fn out(&self) -> String {
        std::fs::read_to_string(&self.out).unwrap()
    }

    fn err(&self) -> String {
        std::fs::read_to_string(&self.err).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has already ended only if the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn where_nothing_is_that_is_said() {
    let bed = Bed::new().await;
    let said = bed.types("get modules", 0).await;
    assert_eq!(said, "No resources found in default namespace.\n");
    assert_eq!(bed.types("get modules -A", 0).await, "No resources found.\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_watched_list_survives_a_failure_and_reports_it_once() {
    let bed = Bed::new().await;
    module(&bed, "default", "first").await;
    let mut watch = Running::start(&bed, "get modules -w");
    bed.until("the first is printed", async || watch.out().contains("first"))
        .await;
    let lists = Match {
        verbs: vec![Verb::List],
        path: Some("/modules".to_owned()),
        ..Match::default()
    };
    let forbidden = Rule::always(lists, Fault::Status(Failure::Forbidden));
    let rule = bed.management.faults().add(forbidden);
    let asked = || {
        let requests = bed.management.recorder().requests();
        let refused = requests.iter().filter(|asked| asked.code() == 403);
        refused.count()
    };
    // Each change leads to a refresh.
    for (number, name) in ["second", "third"].into_iter().enumerate() {
        module(&bed, "default", name).await;
        bed.until("it refreshes", async || asked() > number).await;
    }
    bed.until("the failure is reported", async || {
        watch.err().contains("warning: listing modules")
    })
    .await;
    bed.management.faults().remove(rule);
    module(&bed, "default", "fourth").await;
    bed.until("it goes on", async || watch.out().contains("fourth"))
        .await;
    assert!(watch.child.try_wait().unwrap().is_none());
    assert_eq!(watch.err().lines().count(), 1, "{}", watch.err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn all_namespaces_are_watched_and_a_burst_causes_few_lists() {
    let bed = Bed::new().await;
    module(&bed, "default", "first").await;
    let began = std::time::Instant::now();
    let watch = Running::start(&bed, "get modules -w -A");
    bed.until("the first is printed", async || watch.out().contains("first"))
        .await;
    for number in 0..60 {
        module(&bed, "kube-system", &format!("m{number}")).await;
        tokio::task::yield_now().await;
    }
    bed.until("the last is printed", async || watch.out().contains("m59"))
        .await;
    let most = 2 + began.elapsed().as_secs();
    let mut requests = bed.management.recorder().requests();
    requests.retain(|asked| asked.path == "/apis/fleet.muster.dev/v1alpha1/modules");
    assert!(
        requests.iter().any(|asked| asked.verb == Some(Verb::Watch)),
        "all namespaces are watched"
    );
    // The initial list of a watch is requested in pages.
    requests.retain(|asked| asked.verb == Some(Verb::List) && asked.query.is_empty());
    assert!(
        u64::try_from(requests.len()).unwrap() <= most,
        "{} lists, at most {most}",
        requests.len()
    );
}

/// As kubectl does: the user's kubeconfig takes precedence over the in-cluster one.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_own_kubeconfig_comes_before_the_cluster_that_this_runs_in() {
    let bed = Bed::new().await;
    module(&bed, "default", "web").await;
    let get = || {
        let mut command = bed.command("get modules");
        command
            .env_remove("KUBECONFIG")
            .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
            .env("KUBERNETES_SERVICE_PORT", "1");
        let output = command.output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), said)
    };
    let (code, output) = get();
    assert!(
        code == Some(2) && output.contains("in-cluster configuration"),
        "{output}"
    );
    std::fs::create_dir(bed.path(".kube")).unwrap();
    std::fs::copy(bed.path("management"), bed.path(".kube/config")).unwrap();
    let (code, output) = get();
    assert!(code == Some(0) && output.contains("web"), "{output}");
}
