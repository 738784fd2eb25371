//! The player with a failing API server: the same result, later.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use muster_apiserver::Verb;
use muster_apiserver::fault::{Failure, Fault, Match, Rule};
use serde_json::json;

use crate::bed::{Bed, deployment, set_image, template};

#[tokio::test(start_paused = true)]
async fn failed_writes_and_lost_responses_are_retried() {
    for fault in [
        Fault::Refuse,
        Fault::DropResponse,
        Fault::Status(Failure::Conflict),
        Fault::Status(Failure::Internal),
        Fault::Status(Failure::TooManyRequests(1)),
    ] {
        let bed = Bed::new();
        let writes = Match {
            verbs: vec![Verb::Create, Verb::Update, Verb::Delete],
            ..Match::client("workload-player")
        };
        bed.api
            .faults()
            .add(Rule::times(writes.clone(), fault.clone(), 12));
        let state = json!({"metadata": {"name": "db"}, "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "db"}}, "template": template("db", "db:1"),
        }});
        bed.create::<StatefulSet>(state).await;
        bed.create::<Deployment>(deployment("web", 3, "web:1")).await;
        bed.deployment_done("web").await;
        bed.api.faults().add(Rule::times(writes, fault.clone(), 12));
        bed.patch::<Deployment>("web", set_image("web:2")).await;
        bed.deployment_done("web").await;
        bed.until::<StatefulSet>("db", |set| set["status"]["availableReplicas"] == 2)
            .await;
        bed.until_all::<Pod>(|pods| pods.len() == 5).await;
        assert_eq!(bed.names::<ReplicaSet>().await.len(), 2, "{fault:?}");
    }
}
