//! Promise: each cluster is in exactly the state of the table (rows a to g), named, and leaves it within the promised
//! time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use muster_api::cluster::{NotReady, Version};
use muster_apiserver::fault::{Failure, Fault, Match, Rule};
use muster_controllers::registry::{ClusterState, RemoteClients};
use serde_json::json;

use crate::support::{Bed, Kind, NS, READ, SOON, crd, kubeconfig, secret};

#[tokio::test(start_paused = true)]
async fn a_cluster_is_ready_when_everything_is_there_in_both_versions() {
    for version in [Version::V1Beta1, Version::V1Beta2] {
        let bed = Bed::new(version, &["eu-1"]);
        bed.good("eu-1").await;
        bed.registry.synced().await;
        assert!(bed.until("eu-1", None).await <= SOON);
        let row = bed.registry.get("eu-1").unwrap();
        assert_eq!(
            row.labels,
            BTreeMap::from([("env".to_owned(), "test".to_owned())])
        );
        let system: Api<Namespace> = Api::all(bed.downstream["eu-1"].client());
        assert_eq!(
            row.identity,
            system.get("kube-system").await.unwrap().metadata.uid
        );
        assert!(row.last_contact.is_some());
        let client = bed.registry.client("eu-1").unwrap();
        assert!(Api::<Namespace>::all(client).get("muster-system").await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn the_cluster_object_alone_decides_rows_a_to_c() {
    let bed = Bed::new(Version::V1Beta2, &["eu-1"]);
    bed.good("eu-1").await;
    bed.until("eu-1", None).await;
    bed.patch_cluster("eu-1", json!({"spec": {"paused": true}})).await;
    assert!(bed.until("eu-1", Some(NotReady::ClusterPaused)).await <= SOON);
    assert!(bed.registry.client("eu-1").is_err());
    let calls = bed.calls("eu-1");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(
        bed.calls("eu-1") <= calls + 2,
        "a paused cluster is not called, but for a probe that was under way"
    );
    bed.patch_cluster("eu-1", json!({"spec": {"paused": false}}))
        .await;
    assert!(bed.until("eu-1", None).await <= SOON);
    bed.patch_cluster(
        "eu-1",
        json!({"status": {"initialization": {"controlPlaneInitialized": false}}}),
    )
    .await;
    assert!(bed.until("eu-1", Some(NotReady::ControlPlaneNotReady)).await <= SOON);
    bed.patch_cluster(
        "eu-1",
        json!({"metadata": {"annotations": {"fleet.muster.dev/enrolled": "x"}}}),
    )
    .await;
    assert!(bed.until("eu-1", None).await <= SOON);
    bed.patch_cluster("eu-1", json!({"metadata": {"finalizers": ["example.org/wait"]}}))
        .await;
    bed.clusters()
        .delete("eu-1", &DeleteParams::default())
        .await
        .unwrap();
    assert!(bed.until("eu-1", Some(NotReady::Deleting)).await <= SOON);
    assert!(bed.registry.get("eu-1").is_some());
    bed.patch_cluster("eu-1", json!({"metadata": {"finalizers": null}}))
        .await;
    let mut changes = Box::pin(bed.registry.subscribe());
    while bed.registry.get("eu-1").is_some() {
        tokio::time::timeout(SOON, changes.next()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_secret_decides_rows_d_and_e() {
    let bed = Bed::new(Version::V1Beta2, &["eu-1"]);
    bed.cluster("eu-1").await;
    bed.until("eu-1", Some(NotReady::NoKubeconfig)).await;
    bed.secret("eu-1", "{}").await;
    assert!(bed.until("eu-1", Some(NotReady::KubeconfigRejected)).await <= SOON);
    let message = bed.registry.get("eu-1").unwrap().state.message().to_owned();
    assert_eq!(
        message,
        "the kubeconfig in Secret fleet/eu-1-kubeconfig is not accepted: field current-context is missing"
    );
    bed.swap_secret("eu-1", &kubeconfig("nowhere", "token")).await;
    let problem =
        "the kubeconfig in Secret fleet/eu-1-kubeconfig is not accepted: server: no such server in this test";
    let mut changes = Box::pin(bed.registry.subscribe());
    while bed.registry.get("eu-1").unwrap().state.message() != problem {
        tokio::time::timeout(SOON, changes.next()).await.unwrap();
    }
    bed.swap_secret("eu-1", &kubeconfig("eu-1", "token")).await;
    assert!(bed.until("eu-1", None).await <= SOON);
    bed.secrets()
        .delete("eu-1-kubeconfig", &DeleteParams::default())
        .await
        .unwrap();
    assert!(bed.until("eu-1", Some(NotReady::NoKubeconfig)).await <= SOON);
}

#[tokio::test(start_paused = true)]
async fn secrets_are_watched_by_type_and_label_and_otherwise_read() {
    let bed = Bed::new(Version::V1Beta2, &["typed", "labelled", "plain"]);
    for (name, kind, within) in [
        ("typed", Kind::Typed, SOON),
        ("labelled", Kind::Labelled, SOON),
        ("plain", Kind::Plain, READ),
    ] {
        bed.cluster(name).await;
        bed.until(name, Some(NotReady::NoKubeconfig)).await;
        bed.secrets()
            .create(
                &PostParams::default(),
                &secret(name, &kubeconfig(name, "token"), kind),
            )
            .await
            .unwrap();
        let took = bed.until(name, None).await;
        assert!(took <= within, "{name} took {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn five_failures_in_a_row_and_a_return_after_one_probe() {
    for fault in [Fault::Refuse, Fault::Status(Failure::Unavailable)] {
        let bed = Bed::new(Version::V1Beta2, &["eu-1"]);
        bed.good("eu-1").await;
        bed.until("eu-1", None).await;
        bed.break_down("eu-1", fault);
        bed.registry.suspect("eu-1");
        let took = bed.until("eu-1", Some(NotReady::Unreachable)).await;
        assert!(
            took >= Duration::from_millis(3_500) && took <= Duration::from_millis(4_500),
            "four pauses of 1 s between five failures: {took:?}"
        );
        assert!(bed.registry.client("eu-1").is_err());
        let message = bed.registry.get("eu-1").unwrap().state.message().to_owned();
        assert!(
            message.starts_with("the API server of eu-1 does not answer: reading namespace muster-system: "),
            "{message}"
        );
        tokio::time::sleep(Duration::from_mins(10)).await;
        let calls = bed.calls("eu-1");
        bed.repair("eu-1");
        assert!(
            bed.until("eu-1", None).await <= Duration::from_secs(30),
            "the longest pause between probes"
        );
        assert!(bed.calls("eu-1") <= calls + 3, "one probe brought it back");
    }
}

/// A user who checks a cluster finds the event there, once for each change.
#[tokio::test(start_paused = true)]
async fn an_outage_and_a_recovery_of_a_cluster_are_reported_once_each() {
    let mut bed = Bed::new(Version::V1Beta2, &["eu-1"]);
    bed.good("eu-1").await;
    bed.until("eu-1", None).await;
    assert_eq!(bed.events().await, Vec::<String>::new());
    bed.break_down("eu-1", Fault::Refuse);
    bed.until("eu-1", Some(NotReady::Unreachable)).await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    // A pause is not a change of whether the cluster answers.
    for paused in [true, false] {
        let expect = if paused {
            NotReady::ClusterPaused
        } else {
            NotReady::Unreachable
        };
        bed.patch_cluster("eu-1", json!({"spec": {"paused": paused}}))
            .await;
        bed.until("eu-1", Some(expect)).await;
    }
    let away = "Unreachable: the API server of eu-1 does not answer: reading namespace muster-system: ";
    let check = |events: Vec<String>, expect: &[&str]| {
        let fits = events.len() == expect.len()
            && events
                .iter()
                .zip(expect)
                .all(|(event, begin)| event.starts_with(begin));
        assert!(fits, "{events:#?} are not {expect:#?}");
    };
    check(bed.events().await, &[away]);
    // A new process does not repeat the event, but reports when it is over.
    bed.restart();
    bed.registry.synced().await;
    bed.until("eu-1", Some(NotReady::Unreachable)).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    check(bed.events().await, &[away]);
    bed.repair("eu-1");
    bed.until("eu-1", None).await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    let back = "Answering: the API server of eu-1 answers";
    check(bed.events().await, &[away, back]);
    bed.break_down("eu-1", Fault::Status(Failure::Unauthorized));
    bed.until("eu-1", Some(NotReady::CredentialsRejected)).await;
    bed.repair("eu-1");
    bed.until("eu-1", None).await;
    tokio::time::sleep(SOON).await;
    let refused = "CredentialsRejected: the API server of eu-1 refuses the credential";
    check(bed.events().await, &[away, back, refused, back]);
}

/// Twice the longest pause: the known resourceVersion may be expired.
const NOTICED: Duration = Duration::from_secs(11);

#[tokio::test(start_paused = true)]
async fn an_api_server_that_comes_back_after_an_hour_is_noticed_soon() {
    let bed = Bed::new(Version::V1Beta2, &["eu-1"]);
    bed.good("eu-1").await;
    bed.until("eu-1", None).await;
    let faults = bed.management.faults();
    // More than once: the pause in which it returns may happen to be short.
    for paused in [true, false, true, false] {
        let before = bed.state("eu-1");
        faults.add(Rule::always(Match::default(), Fault::Refuse));
        faults.close_watches(Match::default());
        tokio::time::sleep(Duration::from_hours(1)).await;
        assert_eq!(bed.state("eu-1"), before, "the known state is kept");
        faults.clear();
        bed.patch_cluster("eu-1", json!({"spec": {"paused": paused}}))
            .await;
        let took = bed.until("eu-1", paused.then_some(NotReady::ClusterPaused)).await;
        assert!(took <= NOTICED, "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn fewer_failures_change_nothing() {
    let bed = Bed::new(Version::V1Beta2, &["eu-1"]);
    bed.good("eu-1").await;
    bed.until("eu-1", None).await;
    bed.downstream["eu-1"]
        .faults()
        .add(Rule::times(Match::default(), Fault::Refuse, 4));
    bed.registry.suspect("eu-1");
    let mut changes = Box::pin(bed.registry.subscribe());
    assert_eq!(changes.next().await.as_deref(), Some("eu-1"));
    assert!(
        tokio::time::timeout(Duration::from_mins(2), changes.next())
            .await
            .is_err(),
        "no row changed"
    );
    assert_eq!(bed.state("eu-1"), None);
}

#[tokio::test(start_paused = true)]
async fn ten_seconds_of_silence_are_a_failure_and_cost_the_others_nothing() {
    let bed = Bed::new(Version::V1Beta2, &["eu-1", "us-1"]);
    bed.good("eu-1").await;
    bed.until("eu-1", None).await;
    bed.break_down("eu-1", Fault::Delay(Duration::from_hours(1)));
    bed.registry.suspect("eu-1");
    bed.good("us-1").await;
    assert!(bed.until("us-1", None).await <= SOON);
    let took = bed.until("eu-1", Some(NotReady::Unreachable)).await;
    assert!(
        took >= Duration::from_secs(52) && took <= Duration::from_secs(56),
        "{took:?}"
    );
    assert!(
        bed.registry
            .get("eu-1")
            .unwrap()
            .state
            .message()
            .ends_with("no answer within 10 s")
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_credential_is_named_and_a_swapped_one_taken() {
    let bed = Bed::new(Version::V1Beta2, &["eu-1"]);
    bed.cluster("eu-1").await;
    bed.secret("eu-1", &kubeconfig("eu-1", "old")).await;
    bed.until("eu-1", None).await;
    let held = bed.registry.client("eu-1").unwrap();
    let refuse_old = Rule::always(Match::client("old"), Fault::Status(Failure::Unauthorized));
    bed.downstream["eu-1"].faults().add(refuse_old);
    bed.registry.suspect("eu-1");
    assert!(bed.until("eu-1", Some(NotReady::CredentialsRejected)).await <= SOON);
    bed.swap_secret("eu-1", &kubeconfig("eu-1", "new")).await;
    assert!(bed.until("eu-1", None).await <= SOON);
    let namespaces: Api<Namespace> = Api::all(held);
    assert!(
        namespaces.get("muster-system").await.is_ok(),
        "the client that was held has the new credential"
    );
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_no_watch_shows_is_read_once_more_before_a_credential_counts_as_refused() {
    let bed = Bed::new(Version::V1Beta2, &["eu-1"]);
    bed.cluster("eu-1").await;
    bed.secrets()
        .create(
            &PostParams::default(),
            &secret("eu-1", &kubeconfig("eu-1", "old"), Kind::Plain),
        )
        .await
        .unwrap();
    bed.until("eu-1", None).await;
    bed.downstream["eu-1"].faults().add(Rule::always(
        Match::client("old"),
        Fault::Status(Failure::Forbidden),
    ));
    bed.swap_secret("eu-1", &kubeconfig("eu-1", "new")).await;
    let mut changes = Box::pin(bed.registry.subscribe());
    changes.next().await.unwrap();
    bed.registry.suspect("eu-1");
    assert!(
        tokio::time::timeout(READ, changes.next()).await.is_err(),
        "it was never reported as rejected"
    );
    assert_eq!(bed.state("eu-1"), None);
}

#[tokio::test(start_paused = true)]
async fn a_missing_kind_stops_only_modules_and_its_creation_is_noticed_within_a_poll() {
    let bed = Bed::new(Version::V1Beta2, &["eu-1"]);
    let downstream = bed.downstream["eu-1"].client();
    let crds: Api<CustomResourceDefinition> = Api::all(downstream.clone());
    crds.delete("assemblages.fleet.muster.dev", &DeleteParams::default())
        .await
        .unwrap();
    bed.good("eu-1").await;
    bed.until("eu-1", Some(NotReady::KindMissing)).await;
    let row = bed.registry.get("eu-1").unwrap();
    assert_eq!(row.bootstrap_state(), ClusterState::Ready);
    assert!(
        bed.registry.client("eu-1").is_ok(),
        "a BootstrapModule can bring it"
    );
    let assemblage = crd("fleet.muster.dev", "v1alpha1", "Assemblage", "assemblages");
    bed.downstream["eu-1"].add([assemblage]).unwrap();
    let took = bed.until("eu-1", None).await;
    assert!(took <= Duration::from_secs(20), "{took:?}");
    let namespaces: Api<Namespace> = Api::all(downstream.clone());
    namespaces
        .delete("muster-system", &DeleteParams::default())
        .await
        .unwrap();
    let took = bed.until("eu-1", Some(NotReady::KindMissing)).await;
    assert!(took <= Duration::from_secs(20), "{took:?}");
    assert_eq!(
        bed.registry.get("eu-1").unwrap().state.message(),
        "in cluster eu-1: namespace muster-system does not exist"
    );
}

#[tokio::test(start_paused = true)]
async fn since_changes_with_the_reason_and_a_recreated_cluster_is_a_new_one() {
    let bed = Bed::new(Version::V1Beta2, &["eu-1"]);
    bed.good("eu-1").await;
    bed.until("eu-1", None).await;
    let before = bed.registry.get("eu-1").unwrap();
    tokio::time::sleep(Duration::from_mins(5)).await;
    let after = bed.registry.get("eu-1").unwrap();
    assert_eq!(before.since, after.since);
    assert!(after.last_contact > before.last_contact);
    bed.clusters()
        .delete("eu-1", &DeleteParams::default())
        .await
        .unwrap();
    bed.until("eu-1", Some(NotReady::Deleting)).await;
    bed.cluster("eu-1").await;
    bed.until("eu-1", None).await;
    let recreated = bed.registry.get("eu-1").unwrap();
    assert_ne!(recreated.uid, before.uid);
    assert!(recreated.since > before.since);
}

#[tokio::test(start_paused = true)]
async fn at_rest_a_cluster_costs_one_small_call_in_eighteen_seconds_and_no_write() {
    let bed = Bed::new(Version::V1Beta2, &["eu-1"]);
    bed.good("eu-1").await;
    bed.until("eu-1", None).await;
    bed.downstream["eu-1"].recorder().clear();
    bed.management.recorder().clear();
    tokio::time::sleep(Duration::from_hours(1)).await;
    let calls = bed.calls("eu-1");
    assert!(
        (180..=260).contains(&calls),
        "200 probes and every tenth time the kind: {calls}"
    );
    for server in [&bed.downstream["eu-1"], &bed.management] {
        assert_eq!(server.recorder().writes_of(|_| true), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn kustomizations_get_the_client_of_a_cluster_or_of_any_other_secret() {
    let bed = Bed::new(Version::V1Beta2, &["eu-1", "lone"]);
    bed.good("eu-1").await;
    bed.until("eu-1", None).await;
    bed.secret("lone", &kubeconfig("lone", "token")).await;
    let remote: Arc<dyn RemoteClients> = bed.registry.clone();
    for secret in ["eu-1-kubeconfig", "lone-kubeconfig"] {
        let client = remote.client(NS, secret, None).await.unwrap();
        assert!(
            Api::<Namespace>::all(client).get("muster-system").await.is_ok(),
            "{secret}"
        );
    }
    let message = |secret: &'static str| {
        let remote = Arc::clone(&remote);
        async move { remote.client(NS, secret, None).await.err().unwrap().to_string() }
    };
    assert_eq!(
        message("none-kubeconfig").await,
        "NoKubeconfig: Secret fleet/none-kubeconfig with the kubeconfig in key value or value.yaml is missing"
    );
    bed.patch_cluster("eu-1", json!({"spec": {"paused": true}})).await;
    bed.until("eu-1", Some(NotReady::ClusterPaused)).await;
    assert!(message("eu-1-kubeconfig").await.starts_with("ClusterPaused: "));
}
