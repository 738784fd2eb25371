//! Promise: a row that needs more than an agent reports to support is not assigned to it. The cluster is named, and the
//! others continue.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use muster_api::{
    Assemblage, Module, ProxyAssemblage,
    conditions::{AGENT_OUTDATED, STALLED, find},
    crds,
    flux::GitRepository,
};
use serde_json::{Value, json};

use crate::bed::*;

/// The CRD in clusters whose agent is older than the reports of features.
const BEFORE: &str = include_str!("../fixtures/assemblages-without-agent.json");

fn before() -> Vec<CustomResourceDefinition> {
    vec![serde_json::from_str(BEFORE).unwrap()]
}

/// The present CRD, without a field that its agent supports.
fn without_settle() -> Vec<CustomResourceDefinition> {
    let mut kinds = crds::downstream();
    kinds.retain(|kind| kind.spec.names.kind == "Assemblage");
    for kind in &mut kinds {
        let mut value = serde_json::to_value(&*kind).unwrap();
        let package = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/syncs/items/properties/package/properties";
        let fields = value.pointer_mut(package).unwrap().as_object_mut().unwrap();
        assert!(fields.remove("settle").is_some());
        let rules = value.pointer_mut(&package.replace(
            "/properties/package/properties",
            "/properties/package/x-kubernetes-validations",
        ));
        if let Some(Value::Array(rules)) = rules {
            rules.retain(|rule| !rule["rule"].as_str().unwrap().contains("settle"));
        }
        *kind = serde_json::from_value(value).unwrap();
    }
    kinds
}

/// The agent of `eu-1` is older than the reports of features.
async fn bed() -> Bed {
    mixed(before).await
}

async fn mixed(kinds: fn() -> Vec<CustomResourceDefinition>) -> Bed {
    let of = |name: &str| {
        if name == "eu-1" {
            kinds()
        } else {
            crds::downstream()
        }
    };
    let mut bed = Bed::with_kinds(&CLUSTERS, of).await;
    for tag in ["one", "two"] {
        bed.release(tag, &["web", "plain"], tag);
    }
    bed.start_controller();
    bed
}

fn settles() -> Value {
    json!({"sync": {"package": {"settle": "5s"}}})
}

async fn reason(bed: &Bed, cluster: &str) -> Option<String> {
    let module = bed.module("web").await?;
    let groups = module["status"]["reasons"].as_array()?.clone();
    let names = |group: &Value| group["clusters"].as_str().unwrap_or_default().contains(cluster);
    let group = groups.into_iter().find(names)?;
    Some(group["reason"].as_str()?.to_owned())
}

async fn until_unsupported(bed: &Bed) {
    bed.until("eu-1 is skipped, and the others have it", || async {
        let skipped = reason(bed, "eu-1").await.as_deref() == Some("SyncUnsupported");
        (skipped && bed.texts("web").await == ["", "one", "one"]).then_some(())
    })
    .await;
}

fn mirrors(bed: &Bed, cluster: &str) -> Api<Assemblage> {
    Api::namespaced(bed.clusters[cluster].client(), SYSTEM)
}

async fn proxy(bed: &Bed, cluster: &str) -> ProxyAssemblage {
    bed.api().get(cluster).await.unwrap()
}

async fn upgrade(bed: &mut Bed, cluster: &str) {
    bed.crash_agent(cluster);
    let definitions: Api<CustomResourceDefinition> = Api::all(bed.clusters[cluster].client());
    for kind in crds::downstream() {
        let by = PatchParams::apply("test").force();
        definitions
            .patch(&kind.name_any(), &by, &Patch::Apply(&kind))
            .await
            .unwrap();
    }
    bed.start_agent(cluster);
}

/// Changes of assemblages, in the management cluster and in a cluster.
fn changes(bed: &Bed, cluster: &str) -> usize {
    let servers = [&bed.management, &bed.clusters[cluster]];
    let events = servers.iter().flat_map(|server| server.recorder().events());
    events
        .filter(|event| event.resource.resource.ends_with("assemblages"))
        .count()
}

#[tokio::test(start_paused = true)]
async fn an_agent_of_before_is_skipped_until_it_is_upgraded() {
    let mut bed = bed().await;
    bed.create::<Module>(module("web", "one", settles())).await;
    until_unsupported(&bed).await;
    let module = bed.module("web").await.unwrap();
    let stalled = condition(&module, STALLED).unwrap();
    assert!(
        stalled.starts_with("True SyncUnsupported: ")
            && stalled.contains("eu-1: its agent has not reported support for: settle; "),
        "{stalled}"
    );
    // It was created so that an agent has an object to report in: no row, no token.
    assert_eq!(proxy(&bed, "eu-1").await.spec.syncs, []);
    assert_eq!(mirrors(&bed, "eu-1").get("eu-1").await.unwrap().spec.syncs, []);

    // The default row of another module needs no feature.
    bed.deploy("plain", "one", json!({})).await;
    assert_eq!(bed.texts("plain").await, ["one", "one", "one"]);
    let conditions = proxy(&bed, "eu-1").await.status.unwrap().conditions;
    let older = find(&conditions, AGENT_OUTDATED).unwrap();
    assert!(
        older.message.starts_with("its agent reports no version, "),
        "{older:?}"
    );
    let status = proxy(&bed, "eu-2").await.status.unwrap();
    assert_eq!(find(&status.conditions, AGENT_OUTDATED), None);
    assert_eq!(status.agent.unwrap().version, env!("CARGO_PKG_VERSION"));

    pass(Duration::from_mins(2)).await;
    let quiet = changes(&bed, "eu-1");
    pass(Duration::from_hours(1)).await;
    assert_eq!(changes(&bed, "eu-1"), quiet, "nothing is written each poll");
    assert_eq!(bed.text("eu-1", "web").await, None);

    upgrade(&mut bed, "eu-1").await;
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["one", "one", "one"]);
    let conditions = proxy(&bed, "eu-1").await.status.unwrap().conditions;
    assert_eq!(find(&conditions, AGENT_OUTDATED), None);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_another_automation_writes_is_left_out_of_the_mirror() {
    let bed = bed().await;
    bed.deploy("plain", "one", json!({})).await;
    let mut object = proxy(&bed, "eu-1").await;
    let mut row = object.spec.syncs[0].clone();
    row.name = "asks".to_owned();
    let package = row.package.as_mut().unwrap();
    package.path = "web".to_owned();
    package.settle = Some("5s".parse().unwrap());
    row.digest = None;
    object.spec.syncs.push(row);
    let proxies: Api<ProxyAssemblage> = bed.api();
    proxies
        .replace("eu-1", &PostParams::default(), &object)
        .await
        .unwrap();
    bed.until("it is named", || async {
        let states = proxy(&bed, "eu-1").await.status?.syncs;
        let of = |name: &str| states.iter().find(|state| state.name == name).cloned();
        let asks = of("asks")?;
        (asks.reason.as_deref() == Some("SyncUnsupported")
            && of("plain")?.reason.as_deref() == Some("UpToDate"))
        .then_some(())
    })
    .await;
    let mirror = mirrors(&bed, "eu-1").get("eu-1").await.unwrap();
    let names: Vec<String> = mirror.spec.syncs.iter().map(|row| row.name.clone()).collect();
    assert_eq!(names, ["plain"]);
    bed.patch("plain", version("two")).await;
    bed.until_ready("plain").await;
    assert_eq!(bed.texts("plain").await, ["two", "two", "two"]);
    assert_eq!(bed.text("eu-1", "web").await, None);
}

/// Its agent was upgraded, but the CRD was not: the API server would drop the field.
#[tokio::test(start_paused = true)]
async fn a_field_that_the_kind_does_not_have_is_not_dropped_in_silence() {
    let mut bed = mixed(without_settle).await;
    bed.deploy("plain", "one", json!({})).await;
    bed.create::<Module>(module("web", "one", settles())).await;
    bed.until("it is held up there, and the others have it", || async {
        let states = proxy(&bed, "eu-1").await.status?.syncs;
        let web = states.into_iter().find(|state| state.name == "web")?;
        let named =
            web.reason.as_deref() == Some("SyncUnsupported") && web.message.as_ref()?.contains("settle");
        (named && bed.text("eu-1", "web").await.is_none()).then_some(())
    })
    .await;
    bed.patch("plain", version("two")).await;
    bed.until_ready("plain").await;
    assert_eq!(bed.texts("plain").await, ["two", "two", "two"]);
    upgrade(&mut bed, "eu-1").await;
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["one", "one", "one"]);
}

/// Its Secret is in the management cluster, where the tag is resolved, and in each cluster, where the commit is
/// fetched.
#[tokio::test(start_paused = true)]
async fn a_repository_over_ssh_goes_to_agents_that_speak_it() {
    const OVER_SSH: &str = "ssh://git@git.test/fleet.git";
    let mut bed = bed().await;
    let files = [("web/all.yaml".to_owned(), config_map("web", "one"))];
    let commit = bed.source.commit(OVER_SSH, "main", files);
    bed.source.tag(OVER_SSH, "one", &commit);
    let git = json!({"url": OVER_SSH, "secretRef": {"name": "deploy-key"}});
    bed.create::<Module>(module("web", "one", json!({"sync": {"source": {"git": git}}})))
        .await;
    let stalled = bed.until_said("web", "Ready", "False SourceNotReady").await;
    assert!(
        stalled.contains("Secret fleet/deploy-key does not exist"),
        "{stalled}"
    );
    let secret =
        json!({"metadata": {"name": "deploy-key"}, "stringData": {"identity": "key", "known_hosts": "line"}});
    let secret: Secret = serde_json::from_value(secret).unwrap();
    for server in bed.clusters.values() {
        let secrets: Api<Secret> = Api::namespaced(server.client(), SYSTEM);
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }
    bed.api::<Secret>()
        .create(&PostParams::default(), &secret)
        .await
        .unwrap();
    until_unsupported(&bed).await;
    upgrade(&mut bed, "eu-1").await;
    bed.until_ready("web").await;
    assert_eq!(bed.texts("web").await, ["one", "one", "one"]);
    let repositories: Api<GitRepository> = Api::namespaced(bed.clusters["us-1"].client(), SYSTEM);
    let all = repositories.list(&ListParams::default()).await.unwrap().items;
    let spec = &all
        .iter()
        .find(|object| object.spec.url == OVER_SSH)
        .unwrap()
        .spec;
    assert_eq!(spec.secret_ref.as_ref().unwrap().name, "deploy-key");
    assert!(
        muster_api::features::own(true).contains("ssh"),
        "Flux reads it too"
    );
}

/// Where Flux applies, too: it is a field of Flux.
#[test]
fn health_expressions_are_a_feature_of_either_sync() {
    for flux in [false, true] {
        assert!(
            muster_api::features::own(flux).contains("healthExpressions"),
            "{flux}"
        );
    }
    let row: muster_api::assemblage::SyncRow = serde_json::from_value(json!({
        "name": "web", "package": {"healthExpressions": [{"apiVersion": "a.test/v1", "kind": "Widget", "current": "true"}]},
    }))
    .unwrap();
    assert_eq!(muster_api::features::needed(&row), ["healthExpressions"].into());
}

#[test]
fn the_table_of_health_is_a_feature_of_either_sync() {
    for flux in [false, true] {
        assert!(muster_api::features::own(flux).contains("healthTable"), "{flux}");
    }
    let row = |package: serde_json::Value| {
        serde_json::from_value::<muster_api::assemblage::SyncRow>(json!({"name": "web", "package": package}))
            .unwrap()
    };
    let needed = |package| muster_api::features::needed(&row(package));
    assert_eq!(needed(json!({"healthTable": "v1"})), ["healthTable"].into());
    assert_eq!(needed(json!({})), [].into());
}

#[tokio::test(start_paused = true)]
async fn an_expression_that_no_agent_could_evaluate_moves_nothing() {
    let bed = Bed::new(&["eu-1"]).await;
    bed.release("one", &["web"], "one");
    let expressions = json!([{"apiVersion": "a.test/v1", "kind": "Widget", "current": "status.phase =="}]);
    let package = json!({"sync": {"package": {"healthExpressions": expressions}}});
    bed.create::<Module>(module("web", "one", package)).await;
    let message = bed.until_said("web", "Stalled", "True InvalidSpec").await;
    let expect = "spec.sync.package.healthExpressions[0]: a.test/v1 Widget: current \"status.phase ==\": does not parse: 1:16: ";
    assert!(message.starts_with(expect), "{message}");
    assert_eq!(bed.row("eu-1", "web").await, None);
}
