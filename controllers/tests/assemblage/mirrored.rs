//! Promise: a proxy's rows reach the cluster, the cluster's report reaches the proxy, with as few calls as promised; a
//! cluster that is not ready is reported and left alone.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PatchParams},
};
use muster_api::{Assemblage, ProxyAssemblage, assemblage::SyncRow};
use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
};
use serde_json::json;

use super::support::*;

struct Fleet {
    management: Cluster,
    downstream: BTreeMap<&'static str, Cluster>,
}

impl Fleet {
    async fn new(clusters: &[&'static str]) -> Self {
        let mut downstream = BTreeMap::new();
        for name in clusters {
            let mut cluster = Cluster::downstream();
            cluster.run_assemblages();
            downstream.insert(*name, cluster);
        }
        let mut management = Cluster::management();
        enrol(&management, clusters).await;
        management.run_management(&downstream);
        Self {
            management,
            downstream,
        }
    }

    async fn proxy(&self, cluster: &str, rows: &[SyncRow]) -> ProxyAssemblage {
        self.management
            .create(ProxyAssemblage::new(cluster, targeted(cluster, rows)))
            .await
    }

    async fn succeeded(&self, cluster: &str, row: &str, commit: &str, token: u64) {
        self.downstream[cluster].carry_out(cluster, row, commit).await;
        self.management
            .until_state::<ProxyAssemblage>(cluster, row, &format!("{token} Succeeded UpToDate"))
            .await;
    }

    async fn condition(&self, cluster: &str, type_: &str, expect: &str) -> String {
        until(&format!("{type_} {expect}"), || async {
            let proxy: ProxyAssemblage = self.management.api().get(cluster).await.unwrap();
            let conditions = proxy.status.map(|status| status.conditions).unwrap_or_default();
            conditions
                .into_iter()
                .find(|condition| {
                    condition.type_ == type_ && format!("{} {}", condition.status, condition.reason) == expect
                })
                .map(|condition| condition.message)
        })
        .await
    }

    /// Reads of the mirror by the management cluster.
    fn polls(&self, cluster: &str) -> usize {
        self.downstream[cluster].requests(|request| {
            request.verb == Some(Verb::List)
                && request.path.ends_with("/assemblages")
                && request.query.contains("fieldSelector")
        })
    }
}

#[tokio::test(start_paused = true)]
async fn rows_go_down_and_states_come_up() {
    let fleet = Fleet::new(&["eu-1"]).await;
    let mut web = row("web", OLD, 1);
    web.package = Some(
        serde_json::from_value(json!({"substitute": {"CLUSTER": "$(CLUSTER_NAME)", "TIER": "$(TIER)"}}))
            .unwrap(),
    );
    web.control_plane_bindings =
        serde_json::from_value(json!([{"name": "TIER", "value": "$(CLUSTER_LABEL_env)"}])).unwrap();
    fleet.proxy("eu-1", &[web]).await;
    fleet.succeeded("eu-1", "web", OLD, 1).await;
    let mirror: Assemblage = fleet.downstream["eu-1"].api().get("eu-1").await.unwrap();
    let system: Namespace = Api::all(fleet.management.server.client())
        .get("kube-system")
        .await
        .unwrap();
    assert_eq!(
        mirror.annotations()["fleet.muster.dev/origin"],
        format!("{}/fleet/eu-1", system.uid().unwrap())
    );
    assert_eq!(
        mirror.spec.syncs[0].values,
        [
            ("CLUSTER_NAME".to_owned(), "eu-1".to_owned()),
            ("TIER".to_owned(), "prod".to_owned())
        ]
        .into()
    );
    assert!(mirror.spec.syncs[0].control_plane_bindings.is_empty());
    fleet.condition("eu-1", "Ready", "True Succeeded").await;
    fleet.condition("eu-1", "Reachable", "True Answering").await;

    fleet
        .management
        .set_rows::<ProxyAssemblage>("eu-1", &[row("web", NEW, 2)])
        .await;
    fleet.succeeded("eu-1", "web", NEW, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_watched_mirror_is_read_each_five_minutes_and_an_unwatched_one_each_twenty_seconds() {
    let fleet = Fleet::new(&["eu-1"]).await;
    fleet.proxy("eu-1", &[row("web", OLD, 1)]).await;
    fleet.succeeded("eu-1", "web", OLD, 1).await;
    pass(Duration::from_mins(1)).await;
    let (polls, writes) = (
        fleet.polls("eu-1"),
        fleet.management.writes() + fleet.downstream["eu-1"].writes(),
    );
    pass(Duration::from_hours(1)).await;
    let watched = fleet.polls("eu-1") - polls;
    assert!((10..=15).contains(&watched), "{watched} reads in an hour");
    assert_eq!(
        fleet.management.writes() + fleet.downstream["eu-1"].writes(),
        writes,
        "at rest nothing is written"
    );

    // Watches are refused: polls take over, and the state still arrives within one.
    let refuse = Match {
        client: Some(CONTROLLERS.to_owned()),
        verbs: vec![Verb::Watch],
        path: Some("/assemblages".to_owned()),
        ..Match::default()
    };
    let faults = fleet.downstream["eu-1"].server.faults();
    faults.add(Rule::always(refuse.clone(), Fault::Status(Failure::Forbidden)));
    faults.close_watches(refuse);
    pass(Duration::from_secs(400)).await;
    let polls = fleet.polls("eu-1");
    pass(Duration::from_hours(1)).await;
    let unwatched = fleet.polls("eu-1") - polls;
    assert!((160..=215).contains(&unwatched), "{unwatched} reads in an hour");
    assert_eq!(
        fleet.management.writes() + fleet.downstream["eu-1"].writes(),
        writes
    );
}

#[tokio::test(start_paused = true)]
async fn a_change_downstream_is_known_at_once_while_it_is_watched() {
    let fleet = Fleet::new(&["eu-1"]).await;
    fleet.proxy("eu-1", &[row("web", OLD, 1)]).await;
    fleet.succeeded("eu-1", "web", OLD, 1).await;
    pass(Duration::from_mins(1)).await;
    let web = fleet.downstream["eu-1"]
        .kustomization("eu-1", "web")
        .await
        .unwrap();
    fleet.downstream["eu-1"]
        .report(
            &web,
            "False",
            "HealthCheckFailed",
            "timeout waiting for: [Deployment/a/b status: 'InProgress']",
        )
        .await;
    let started = tokio::time::Instant::now();
    fleet
        .management
        .until_state::<ProxyAssemblage>("eu-1", "web", "1 Failed HealthCheckFailed Revision")
        .await;
    assert!(
        started.elapsed() < Duration::from_secs(2),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_mirror_deleted_or_edited_downstream_is_put_back() {
    let fleet = Fleet::new(&["eu-1"]).await;
    fleet.proxy("eu-1", &[row("web", OLD, 1)]).await;
    fleet.succeeded("eu-1", "web", OLD, 1).await;
    let cluster = &fleet.downstream["eu-1"];
    let first: Assemblage = cluster.api().get("eu-1").await.unwrap();
    let mut edited = row("web", NEW, 1);
    edited.digest = Some("sha256:by-hand".to_owned());
    cluster.set_rows::<Assemblage>("eu-1", &[edited]).await;
    until("the row to be put back", || async {
        let now: Assemblage = cluster.api().get("eu-1").await.unwrap();
        (now.spec == first.spec).then_some(())
    })
    .await;
    cluster
        .api::<Assemblage>()
        .delete("eu-1", &DeleteParams::background())
        .await
        .unwrap();
    let again = until("the mirror", || async {
        cluster
            .api::<Assemblage>()
            .get_opt("eu-1")
            .await
            .unwrap()
            .filter(|again| again.uid() != first.uid())
    })
    .await;
    assert_eq!(again.spec, first.spec);
}

#[tokio::test(start_paused = true)]
async fn an_assemblage_of_another_origin_is_not_written_until_it_is_adopted() {
    let fleet = Fleet::new(&["eu-1"]).await;
    let mut theirs = assemblage("eu-1", &[row("base", OLD, 9)]);
    theirs.metadata.annotations = Some(
        [(
            "fleet.muster.dev/origin".to_owned(),
            "other/fleet/eu-1".to_owned(),
        )]
        .into(),
    );
    fleet.downstream["eu-1"].create(theirs).await;
    fleet.proxy("eu-1", &[row("web", OLD, 1)]).await;
    let message = fleet.condition("eu-1", "Ready", "False NameConflict").await;
    assert!(message.contains("belongs to other/fleet/eu-1"), "{message}");
    pass(Duration::from_mins(10)).await;
    let untouched: Assemblage = fleet.downstream["eu-1"].api().get("eu-1").await.unwrap();
    assert_eq!(untouched.metadata.generation, Some(1));

    let _: ProxyAssemblage = fleet
        .management
        .patch(
            "eu-1",
            json!({"metadata": {"annotations": {"fleet.muster.dev/adopt": "other/fleet/eu-1"}}}),
        )
        .await;
    fleet.succeeded("eu-1", "web", OLD, 1).await;
    let adopted: Assemblage = fleet.downstream["eu-1"].api().get("eu-1").await.unwrap();
    assert_eq!(adopted.spec.syncs.len(), 2, "the row that was there stays");
    fleet
        .management
        .until_state::<ProxyAssemblage>("eu-1", "base", "9 Updating Unclaimed")
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_cluster_is_named_and_what_it_reported_stays() {
    let fleet = Fleet::new(&["eu-1", "eu-2"]).await;
    for name in ["eu-1", "eu-2"] {
        fleet.proxy(name, &[row("web", OLD, 1)]).await;
        fleet.succeeded(name, "web", OLD, 1).await;
    }
    let faults = fleet.downstream["eu-1"].server.faults();
    faults.add(Rule::always(Match::client(CONTROLLERS), Fault::Refuse));
    faults.close_watches(Match::client(CONTROLLERS));
    fleet.condition("eu-1", "Reachable", "False Unreachable").await;
    fleet.condition("eu-1", "Ready", "Unknown Unreachable").await;
    fleet
        .management
        .until_state::<ProxyAssemblage>("eu-1", "web", "1 Succeeded UpToDate")
        .await;
    let proxy: ProxyAssemblage = fleet.management.api().get("eu-1").await.unwrap();
    assert!(proxy.status.unwrap().last_contact.is_some());
    // The other one continues.
    fleet
        .management
        .set_rows::<ProxyAssemblage>("eu-2", &[row("web", NEW, 2)])
        .await;
    fleet
        .management
        .set_rows::<ProxyAssemblage>("eu-1", &[row("web", NEW, 2)])
        .await;
    fleet.succeeded("eu-2", "web", NEW, 2).await;

    pass(Duration::from_mins(1)).await;
    let polls = fleet.polls("eu-1");
    pass(Duration::from_mins(10)).await;
    assert_eq!(fleet.polls("eu-1"), polls, "only the registry's probes go there");
    faults.clear();
    fleet.succeeded("eu-1", "web", NEW, 2).await;
    fleet.condition("eu-1", "Reachable", "True Answering").await;
    let proxy: ProxyAssemblage = fleet.management.api().get("eu-1").await.unwrap();
    assert!(
        proxy.status.unwrap().last_contact.is_none(),
        "only while it does not answer"
    );
}

#[tokio::test(start_paused = true)]
async fn a_paused_cluster_gets_no_call() {
    let fleet = Fleet::new(&["eu-1"]).await;
    fleet.proxy("eu-1", &[row("web", OLD, 1)]).await;
    fleet.succeeded("eu-1", "web", OLD, 1).await;
    let clusters: Api<kube::api::DynamicObject> = Api::namespaced_with(
        fleet.management.server.client(),
        FLEET,
        &muster_api::cluster::Version::V1Beta2.api_resource(),
    );
    let pause = |paused: bool| json!({"spec": {"paused": paused}});
    clusters
        .patch(
            "eu-1",
            &PatchParams::default(),
            &kube::api::Patch::Merge(pause(true)),
        )
        .await
        .unwrap();
    fleet.condition("eu-1", "Ready", "Unknown ClusterPaused").await;
    fleet
        .management
        .set_rows::<ProxyAssemblage>("eu-1", &[row("web", NEW, 2)])
        .await;
    let polls = fleet.polls("eu-1");
    pass(Duration::from_mins(10)).await;
    assert_eq!(fleet.polls("eu-1"), polls);
    clusters
        .patch(
            "eu-1",
            &PatchParams::default(),
            &kube::api::Patch::Merge(pause(false)),
        )
        .await
        .unwrap();
    fleet.succeeded("eu-1", "web", NEW, 2).await;
}

#[tokio::test(start_paused = true)]
async fn an_account_that_may_not_patch_replaces_and_is_not_denied_each_time() {
    let fleet = Fleet::new(&["eu-1"]).await;
    fleet.proxy("eu-1", &[row("web", OLD, 1)]).await;
    fleet.succeeded("eu-1", "web", OLD, 1).await;
    let there = &fleet.downstream["eu-1"];
    let denied = Match {
        client: Some(CONTROLLERS.to_owned()),
        verbs: vec![Verb::Patch],
        path: Some("/assemblages/eu-1".to_owned()),
        ..Match::default()
    };
    there
        .server
        .faults()
        .add(Rule::always(denied, Fault::Status(Failure::Forbidden)));
    let patches = || {
        there.requests(|request| {
            request.verb == Some(Verb::Patch) && request.path.ends_with("/assemblages/eu-1")
        })
    };
    let before = patches();
    for token in [2, 3] {
        fleet
            .management
            .set_rows::<ProxyAssemblage>("eu-1", &[row("web", NEW, token)])
            .await;
        until("the row in the cluster", || async {
            let mirror: Assemblage = there.api().get("eu-1").await.unwrap();
            (mirror.spec.syncs[0].token == Some(token)).then_some(())
        })
        .await;
    }
    assert_eq!(patches() - before, 1);
}
