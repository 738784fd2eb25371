//! Promise: a Secret leads to the same cluster as at first contact, unless a user accepted another one; before that is
//! known nothing is written there.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use muster_api::cluster::{NotReady, Version};
use muster_apiserver::fault::{Failure, Fault, Match, Rule};
use serde_json::json;

use crate::support::{Bed, NS, SOON, kubeconfig};

async fn write(client: &Client, name: &str) -> Result<(), String> {
    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let object = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    let written = config_maps.create(&PostParams::default(), &object).await;
    written.map(|_| ()).map_err(|error| error.to_string())
}

/// The number of writes that reached a cluster through credentials of this name.
fn writes(bed: &Bed, cluster: &str, client: &str) -> usize {
    bed.downstream[cluster].recorder().writes(client).len()
}

async fn accept(bed: &Bed, cluster: &str, uid: &str) {
    let annotations = json!({"metadata": {"annotations": {"fleet.muster.dev/accept-identity": uid}}});
    bed.patch_cluster(cluster, annotations).await;
}

/// Waits until a cluster is refused with this message.
async fn until_refused(bed: &Bed, cluster: &str, words: &str) {
    let mut changes = Box::pin(bed.registry.subscribe());
    let refused = async {
        while !bed.message(cluster).contains(words) {
            changes.next().await.unwrap();
        }
    };
    let in_time = tokio::time::timeout(Duration::from_mins(4), refused).await;
    assert!(in_time.is_ok(), "{:?}", bed.registry.get(cluster));
    assert_eq!(bed.state(cluster), Some(NotReady::KubeconfigRejected));
    assert!(bed.registry.get(cluster).unwrap().leads_elsewhere);
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_leads_elsewhere_stops_writes_before_the_first_one_until_it_is_accepted() {
    let bed = Bed::new(Version::V1Beta2, &["eu-1", "us-1"]);
    bed.good("eu-1").await;
    bed.until("eu-1", None).await;
    let (here, there) = (bed.uid("eu-1").await, bed.uid("us-1").await);
    let held = bed.registry.client("eu-1").unwrap();
    write(&held, "one").await.unwrap();
    // Same server, same CA: only the credential differs. The identity of the cluster is known only after five seconds.
    let slow = Match {
        path: Some("/namespaces/kube-system".to_owned()),
        ..Match::client("to-us-1")
    };
    bed.downstream["us-1"]
        .faults()
        .add(Rule::always(slow, Fault::Delay(Duration::from_secs(5))));
    bed.swap_secret("eu-1", &kubeconfig("eu-1", "to-us-1")).await;
    let refused = loop {
        match write(&held, "two").await {
            // The swap is not observed yet: writes reach the former cluster.
            Ok(()) => take_back(&bed).await,
            Err(error) if error.contains("already exists") => take_back(&bed).await,
            Err(error) => break error,
        }
    };
    assert!(
        refused.contains("nothing is sent: it points to another cluster"),
        "{refused}"
    );
    until_refused(&bed, "eu-1", "it points to another cluster").await;
    assert_eq!(
        bed.message("eu-1"),
        format!(
            "the kubeconfig in Secret fleet/eu-1-kubeconfig is not accepted: it points to another cluster: the uid of its kube-system namespace is \
             {there}, was {here}; nothing is written to it; if this is intended: kubectl annotate -n fleet \
             clusters.cluster.x-k8s.io/eu-1 --overwrite --field-manager=muster-cli fleet.muster.dev/accept-identity={there}"
        )
    );
    assert!(bed.registry.client("eu-1").is_err());
    accept(&bed, "eu-1", "another").await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(bed.state("eu-1"), Some(NotReady::KubeconfigRejected));
    assert!(write(&held, "three").await.is_err());
    assert_eq!(writes(&bed, "us-1", "to-us-1"), 0, "nothing was written there");

    accept(&bed, "eu-1", &there).await;
    assert!(bed.until("eu-1", None).await <= SOON);
    write(&held, "four").await.unwrap();
    assert_eq!(writes(&bed, "us-1", "to-us-1"), 1);
    assert_eq!(
        bed.records().await[0].data.as_ref().unwrap()["kubeSystemUid"],
        there
    );
    let events = bed.events().await;
    assert_eq!(events.len(), 2, "{events:#?}");
    assert!(
        events[0].starts_with("IdentityChanged: nothing is sent with"),
        "{events:#?}"
    );
    assert!(
        events[1].starts_with("ControlApplied: this Cluster is now"),
        "{events:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_concurrent_controller_adopts_the_identity_already_recorded() {
    let bed = Bed::new(Version::V1Beta2, &["eu-1"]);
    let (other, _running) = bed.beside();
    let mut changes = Box::pin(other.subscribe());
    bed.good("eu-1").await;
    assert!(bed.until("eu-1", None).await <= SOON);
    let reached = async {
        while other.get("eu-1").is_none_or(|row| row.state.reason().is_some()) {
            changes.next().await.unwrap();
        }
    };
    let in_time = tokio::time::timeout(SOON, reached).await;
    assert!(in_time.is_ok(), "{:?}", other.get("eu-1"));
    let recorded = bed.management.recorder().requests();
    let attempts = recorded
        .iter()
        .filter(|request| request.is_write() && request.path.contains("/configmaps"));
    assert_eq!(attempts.count(), 2, "they did meet");
    assert_eq!(bed.records().await.len(), 1);
}

async fn take_back(bed: &Bed) {
    let config_maps: Api<ConfigMap> = Api::namespaced(bed.downstream["eu-1"].client(), "default");
    config_maps.delete("two", &DeleteParams::default()).await.unwrap();
    tokio::task::yield_now().await;
}

#[tokio::test(start_paused = true)]
async fn another_server_is_checked_like_another_credential() {
    let bed = Bed::new(Version::V1Beta2, &["eu-1", "us-1"]);
    bed.good("eu-1").await;
    bed.until("eu-1", None).await;
    bed.swap_secret("eu-1", &kubeconfig("us-1", "token")).await;
    until_refused(&bed, "eu-1", "it points to another cluster").await;
    bed.swap_secret("eu-1", &kubeconfig("eu-1", "token")).await;
    assert!(
        bed.until("eu-1", None).await <= SOON,
        "back again, nothing has to be accepted"
    );
    assert_eq!(writes(&bed, "us-1", "token"), 0);
}

#[tokio::test(start_paused = true)]
async fn the_record_outlives_the_process_and_goes_with_the_cluster() {
    let mut bed = Bed::new(Version::V1Beta2, &["eu-1", "us-1"]);
    bed.good("eu-1").await;
    bed.until("eu-1", None).await;
    bed.restart();
    assert!(bed.until("eu-1", None).await <= SOON, "nothing is new");
    bed.swap_secret("eu-1", &kubeconfig("us-1", "token")).await;
    bed.restart();
    until_refused(&bed, "eu-1", "it points to another cluster").await;

    bed.clusters()
        .delete("eu-1", &DeleteParams::default())
        .await
        .unwrap();
    bed.until("eu-1", Some(NotReady::Deleting)).await;
    bed.cluster("eu-1").await;
    assert!(
        bed.until("eu-1", None).await <= SOON,
        "a Cluster re-created under the same name is another one"
    );
    let records = bed.records().await;
    assert_eq!(records.len(), 1, "the old record is gone: {records:#?}");
    assert_eq!(
        records[0].data.as_ref().unwrap()["kubeSystemUid"],
        bed.uid("us-1").await
    );
}

#[tokio::test(start_paused = true)]
async fn of_two_clusters_that_lead_to_one_the_second_is_refused() {
    let mut bed = Bed::new(Version::V1Beta2, &["eu-1", "us-1"]);
    bed.good("us-1").await;
    bed.until("us-1", None).await;
    bed.cluster("eu-1").await;
    bed.secret("eu-1", &kubeconfig("eu-1", "to-us-1")).await;
    until_refused(&bed, "eu-1", "it points to the cluster of Cluster us-1").await;
    assert_eq!(bed.state("us-1"), None);
    bed.restart();
    until_refused(&bed, "eu-1", "it points to the cluster of Cluster us-1").await;
    bed.until("us-1", None).await;
    bed.clusters()
        .delete("us-1", &DeleteParams::default())
        .await
        .unwrap();
    assert!(bed.until("eu-1", None).await <= SOON, "the other one is gone");
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_may_not_see_which_cluster_it_is_proves_nothing() {
    let bed = Bed::new(Version::V1Beta2, &["eu-1"]);
    let hidden = Match {
        path: Some("/namespaces/kube-system".to_owned()),
        ..Match::client("old")
    };
    bed.downstream["eu-1"]
        .faults()
        .add(Rule::always(hidden, Fault::Status(Failure::Forbidden)));
    bed.cluster("eu-1").await;
    bed.secret("eu-1", &kubeconfig("eu-1", "old")).await;
    bed.until("eu-1", None).await;
    assert_eq!(bed.registry.get("eu-1").unwrap().identity, None);
    bed.swap_secret("eu-1", &kubeconfig("eu-1", "new")).await;
    let mut changes = Box::pin(bed.registry.subscribe());
    while bed.registry.get("eu-1").unwrap().identity.is_none() {
        tokio::time::timeout(SOON, changes.next()).await.unwrap();
    }
    bed.swap_secret("eu-1", &kubeconfig("eu-1", "old")).await;
    until_refused(
        &bed,
        "eu-1",
        "its credential is not allowed to get namespace kube-system",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_foreign_object_under_the_name_of_a_record_is_left_alone_and_named() {
    let bed = Bed::new(Version::V1Beta2, &["eu-1"]);
    bed.cluster("eu-1").await;
    bed.until("eu-1", Some(NotReady::NoKubeconfig)).await;
    let uid = bed.registry.get("eu-1").unwrap().uid.clone();
    let name = muster_api::names::cluster_identity(NS, "eu-1", &uid);
    let config_maps: Api<ConfigMap> = Api::namespaced(bed.management.client(), NS);
    let foreign =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}});
    config_maps
        .patch(&name, &PatchParams::apply("somebody"), &Patch::Apply(foreign))
        .await
        .unwrap();
    bed.secret("eu-1", &kubeconfig("eu-1", "token")).await;
    until_refused(&bed, "eu-1", "which cluster it points to cannot be recorded: ").await;
    assert!(bed.message("eu-1").contains(&name), "{}", bed.message("eu-1"));
    assert_eq!(config_maps.get(&name).await.unwrap().data.unwrap()["a"], "b");
    config_maps.delete(&name, &DeleteParams::default()).await.unwrap();
    assert!(bed.until("eu-1", None).await <= Duration::from_secs(5));
}
