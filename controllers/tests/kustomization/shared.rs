//! Several Kustomizations that declare one object in one cluster: one of them manages and applies it, the others
//! compare, and it is deleted with the last of them.

use std::time::Duration;

use muster_apiserver::{
    ApiServer, Verb,
    fault::{Failure, Fault, Match, Rule},
    send,
};
use serde_json::{Value, json};

use crate::support::{
    Bed, condition, config, config_yaml, ids, kubeconfig, kustomization, message, read, ready, until,
};

const NAME: &str = "kustomize.toolkit.fluxcd.io/name";
const FROM: &str = "fleet.muster.dev/applied-from";
const EU_1: &str = "https://eu-1.test";

/// The Kustomization whose labels an object has.
fn owner(object: &Value) -> &str {
    object["metadata"]["labels"][NAME].as_str().unwrap_or_default()
}

fn namespace(name: &str) -> String {
    format!("/api/v1/namespaces/{name}")
}

fn namespace_yaml(name: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
}

/// A bed in which `one` and `two` declare Namespace `web`, one after the other, and each an object of its own.
async fn shared_by_two() -> Bed {
    let bed = Bed::new();
    let commit = bed.commit(&[
        ("one/web.yaml", &namespace_yaml("web")),
        ("one/k.yaml", &config_yaml("k", "one")),
        ("two/web.yaml", &namespace_yaml("web")),
        ("two/l.yaml", &config_yaml("l", "two")),
    ]);
    bed.repository("src", json!({})).await;
    for name in ["one", "two"] {
        bed.kustomization(name, json!({})).await;
        bed.until_at(name, &commit).await;
    }
    bed
}

#[tokio::test(start_paused = true)]
async fn the_holder_applies_and_the_other_one_compares() {
    let bed = shared_by_two().await;
    let web = bed.read(&namespace("web")).await.unwrap();
    assert_eq!(owner(&web), "one");
    let two = bed.read(&kustomization("two")).await.unwrap();
    assert_eq!(ids(&two), ["_web__Namespace", "default_l__ConfigMap"]);
    assert_eq!(condition(&two, "SharedObject").unwrap()["status"], "True");
    assert_eq!(
        message(&two, "SharedObject"),
        "declared here too, and not applied: Namespace/web is managed by Kustomization fleet/one"
    );
    let one = bed.read(&kustomization("one")).await.unwrap();
    assert_eq!(condition(&one, "SharedObject"), None);
    // At rest nothing is written, at whatever interval.
    bed.api.recorder().clear();
    bed.pass(Duration::from_secs(3_600)).await;
    assert_eq!(bed.writes(), [""; 0]);
    assert_eq!(bed.read(&namespace("web")).await.unwrap(), web);
}

#[tokio::test(start_paused = true)]
async fn a_conflicting_declaration_is_not_ready_and_names_the_field() {
    let bed = Bed::new();
    let commit = bed.commit(&[
        ("one/a.yaml", &config_yaml("a", "one")),
        ("two/a.yaml", &config_yaml("a", "two")),
        ("two/l.yaml", &config_yaml("l", "two")),
    ]);
    bed.repository("src", json!({})).await;
    bed.kustomization("one", json!({"interval": "1h"})).await;
    bed.until_at("one", &commit).await;
    let before = bed.read(&config("a")).await.unwrap();
    bed.kustomization("two", json!({"interval": "2h"})).await;
    let two = bed.until_ready("two", "False SharedObject").await;
    let said = "ConfigMap/default/a is managed by Kustomization fleet/one, and data.key is declared differently there: declare the same in both, \
                or remove the object from one of them";
    assert_eq!(message(&two, "Ready"), said);
    assert_eq!(message(&two, "SharedObject"), said);
    assert!(bed.read(&config("l")).await.is_some(), "all else is applied");
    bed.api.recorder().clear();
    bed.pass(Duration::from_secs(20_000)).await;
    assert_eq!(bed.writes(), [""; 0]);
    assert_eq!(bed.read(&config("a")).await.unwrap(), before);
    // It declares the same: it is confirmed.
    let same = bed.commit(&[
        ("one/a.yaml", &config_yaml("a", "one")),
        ("two/a.yaml", &config_yaml("a", "one")),
    ]);
    let two = bed.until_at("two", &same).await;
    assert_eq!(condition(&two, "SharedObject").unwrap()["reason"], "AsDeclared");
    assert_eq!(bed.read(&config("a")).await.unwrap(), before);
}

/// One is deleted, or its new version drops the object: what the other declares stays, now managed by it; it is deleted
/// with the last.
#[tokio::test(start_paused = true)]
async fn it_goes_with_the_last_that_declares_it() {
    for (first, last) in [("one", "two"), ("two", "one")] {
        for deleted in [true, false] {
            let bed = shared_by_two().await;
            let uid = bed.read(&namespace("web")).await.unwrap()["metadata"]["uid"].clone();
            let left = |name: &str| [(format!("{name}/k.yaml"), config_yaml("k", "x"))];
            if deleted {
                bed.delete(&kustomization(first)).await;
                bed.until_gone(&kustomization(first)).await;
            } else {
                let [(path, text)] = left(first);
                let web = (format!("{last}/web.yaml"), namespace_yaml("web"));
                let commit = bed.commit(&[(&path, &text), (&web.0, &web.1)]);
                bed.until_at(first, &commit).await;
            }
            bed.pass(Duration::from_secs(5)).await;
            let web = bed.read(&namespace("web")).await.expect("the other declares it");
            assert_eq!(web["metadata"]["uid"], uid, "{first} {deleted}");
            assert_eq!(web["metadata"]["deletionTimestamp"], Value::Null);
            assert_eq!(owner(&web), last, "{first} {deleted}");
            bed.delete(&kustomization(last)).await;
            bed.until_gone(&kustomization(last)).await;
            bed.until_gone(&namespace("web")).await;
        }
    }
}

/// A CRD that two of them install keeps its custom resources.
#[tokio::test(start_paused = true)]
async fn a_definition_stays_with_all_of_its_objects() {
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.example.org}\nspec:\n  group: \
                      example.org\n  scope: Namespaced\n  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}\n  versions: \
                      [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: \
                      true}}}]\n";
    let bed = Bed::new();
    let commit = bed.commit(&[("one/crd.yaml", definition), ("two/crd.yaml", definition)]);
    bed.repository("src", json!({})).await;
    for name in ["one", "two"] {
        bed.kustomization(name, json!({})).await;
        bed.until_at(name, &commit).await;
    }
    let widget = json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w"}});
    bed.create("/apis/example.org/v1/namespaces/default/widgets", widget)
        .await;
    bed.delete(&kustomization("one")).await;
    bed.until_gone(&kustomization("one")).await;
    bed.pass(Duration::from_secs(60)).await;
    assert!(
        bed.read("/apis/example.org/v1/namespaces/default/widgets/w")
            .await
            .is_some()
    );
}

/// All of them are deleted at once: each still declares the object until the Kustomization is gone, and in the end the
/// object is gone.
#[tokio::test(start_paused = true)]
async fn where_all_go_at_once_nothing_is_left() {
    let bed = shared_by_two().await;
    for name in ["one", "two"] {
        bed.delete(&kustomization(name)).await;
    }
    for name in ["one", "two"] {
        bed.until_gone(&kustomization(name)).await;
    }
    bed.until_gone(&namespace("web")).await;
}

/// While one deletes an object no other one considers it confirmed: ids are recorded before, or after.
#[tokio::test(start_paused = true)]
async fn what_is_being_deleted_is_not_confirmed_meanwhile() {
    let bed = Bed::new();
    let keep = config_yaml("l", "two");
    let first = bed.commit(&[("one/web.yaml", &namespace_yaml("web")), ("two/l.yaml", &keep)]);
    bed.repository("src", json!({})).await;
    for name in ["one", "two"] {
        bed.kustomization(name, json!({})).await;
        bed.until_at(name, &first).await;
    }
    let deleting = Match {
        verbs: vec![Verb::Delete],
        path: Some("namespaces/web".into()),
        ..Match::default()
    };
    let slow = Rule::always(deleting, Fault::Delay(Duration::from_secs(20)));
    bed.api.faults().add(slow);
    bed.delete(&kustomization("one")).await;
    bed.pass(Duration::from_secs(1)).await;
    let second = bed.commit(&[
        ("one/web.yaml", &namespace_yaml("web")),
        ("two/l.yaml", &keep),
        ("two/web.yaml", &namespace_yaml("web")),
    ]);
    bed.fetch("now").await;
    bed.until_at("two", &second).await;
    let web = bed.read(&namespace("web")).await.expect("two is ready");
    assert_eq!(
        (owner(&web), &web["metadata"]["deletionTimestamp"]),
        ("two", &Value::Null)
    );
}

/// An object that moves from one path to another is not lost on the way, whichever Kustomization is first.
#[tokio::test(start_paused = true)]
async fn what_moves_to_another_is_there_in_the_end() {
    for (from, to) in [("one", "two"), ("two", "one")] {
        let bed = Bed::new();
        let keep = [
            ("one/k.yaml", config_yaml("k", "one")),
            ("two/l.yaml", config_yaml("l", "two")),
        ];
        let with = |directory: &str| {
            let moved = (format!("{directory}/a.yaml"), config_yaml("a", "x"));
            let [k, l] = &keep;
            bed.commit(&[(k.0, &k.1), (l.0, &l.1), (&moved.0, &moved.1)])
        };
        let first = with(from);
        bed.repository("src", json!({})).await;
        for name in ["one", "two"] {
            bed.kustomization(name, json!({})).await;
            bed.until_at(name, &first).await;
        }
        let second = with(to);
        bed.until_at("one", &second).await;
        bed.until_at("two", &second).await;
        bed.pass(Duration::from_secs(660)).await;
        let object = bed.read(&config("a")).await.expect("it is wanted");
        assert_eq!(owner(&object), to);
    }
}

/// If the manager drops the object without pruning, or disappears, the other one takes over.
#[tokio::test(start_paused = true)]
async fn a_holder_that_is_gone_is_followed() {
    let bed = shared_by_two().await;
    bed.edit(
        &kustomization("one"),
        json!({"spec": {"deletionPolicy": "Orphan"}}),
    )
    .await;
    bed.delete(&kustomization("one")).await;
    bed.until_gone(&kustomization("one")).await;
    bed.until(&namespace("web"), |web| owner(web) == "two").await;
    bed.until(&kustomization("two"), |two| {
        condition(two, "SharedObject").is_none()
    })
    .await;
}

/// After a start only what is recorded is known.
#[tokio::test(start_paused = true)]
async fn a_restarted_process_knows_which_kustomizations_share_an_object() {
    let mut bed = shared_by_two().await;
    bed.crash();
    bed.delete(&kustomization("one")).await;
    bed.start();
    bed.until_gone(&kustomization("one")).await;
    bed.pass(Duration::from_secs(60)).await;
    let web = bed.read(&namespace("web")).await.unwrap();
    assert_eq!(owner(&web), "two");
}

/// A Kustomization that cannot be parsed may declare anything: nothing is deleted until it can.
#[tokio::test(start_paused = true)]
async fn what_one_declares_that_cannot_be_read_is_not_deleted() {
    let bed = shared_by_two().await;
    let broken = json!({"spec": {"dependsOn": "anything"}});
    let definition =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/kustomizations.kustomize.toolkit.fluxcd.io";
    let mut crd = bed.read(definition).await.unwrap();
    for version in crd["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"] =
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    }
    crd["metadata"]["managedFields"] = Value::Null;
    send(&bed.api.client(), "PUT", definition, Some(crd))
        .await
        .unwrap();
    bed.pass(Duration::from_secs(5)).await;
    bed.edit(&kustomization("two"), broken).await;
    bed.delete(&kustomization("one")).await;
    bed.pass(Duration::from_secs(600)).await;
    let one = bed.read(&kustomization("one")).await.expect("it waits");
    assert_eq!(ready(&one), "False PruneFailed");
    assert!(
        message(&one, "Ready").contains("Kustomization fleet/two cannot be read"),
        "{one:#}"
    );
    assert!(bed.read(&namespace("web")).await.is_some());
    bed.edit(&kustomization("two"), json!({"spec": {"dependsOn": null}}))
        .await;
    bed.until_gone(&kustomization("one")).await;
    let web = bed.read(&namespace("web")).await.unwrap();
    assert_eq!(owner(&web), "two");
}

/// A cluster that accepts the token `t`, by the Secret with that name.
async fn cluster(bed: &Bed, secrets: &[&str]) -> ApiServer {
    let cluster = ApiServer::in_process().unwrap();
    let_in(bed, secrets, &cluster).await;
    cluster
}

async fn let_in(bed: &Bed, secrets: &[&str], cluster: &ApiServer) {
    for name in secrets {
        let server = format!("https://{name}.test");
        bed.doors.open(&server, "t", cluster.client_as("muster"));
        bed.secret(name, json!({"value": kubeconfig(&server, "t")})).await;
    }
}

fn through(secret: &str) -> Value {
    json!({"kubeConfig": {"secretRef": {"name": secret}}})
}

/// Two Secrets lead to one cluster: what is applied through either is shared.
#[tokio::test(start_paused = true)]
async fn one_cluster_behind_two_secrets_is_one() {
    let bed = Bed::new();
    let downstream = cluster(&bed, &["eu-1", "same"]).await;
    let other = cluster(&bed, &["us-1"]).await;
    let commit = bed.commit(&[
        ("one/web.yaml", &namespace_yaml("web")),
        ("two/web.yaml", &namespace_yaml("web")),
        ("three/web.yaml", &namespace_yaml("web")),
    ]);
    bed.repository("src", json!({})).await;
    for (name, secret) in [("one", "eu-1"), ("two", "same"), ("three", "us-1")] {
        bed.kustomization(name, through(secret)).await;
        bed.until_at(name, &commit).await;
    }
    let web = read(&downstream, &namespace("web")).await.unwrap();
    assert_eq!(owner(&web), "one");
    bed.delete(&kustomization("one")).await;
    bed.until_gone(&kustomization("one")).await;
    assert_eq!(owner(&read(&downstream, &namespace("web")).await.unwrap()), "two");
    // An object with that name in another cluster is another object.
    bed.delete(&kustomization("three")).await;
    bed.until_gone(&kustomization("three")).await;
    until(&other, namespace("web"), |web| web.is_none().then_some(())).await;
    bed.delete(&kustomization("two")).await;
    bed.until_gone(&kustomization("two")).await;
    until(&downstream, namespace("web"), |web| web.is_none().then_some(())).await;
}

/// Objects that a management cluster applies have a mark; an agent there compares them, and neither takes them over nor
/// deletes them.
#[tokio::test(start_paused = true)]
async fn an_agent_leaves_what_another_cluster_applies() {
    let management = Bed::new();
    let agent = Bed::elsewhere();
    management
        .doors
        .open(EU_1, "t", agent.api.client_as("management"));
    management
        .secret("eu-1", json!({"value": kubeconfig(EU_1, "t")}))
        .await;
    let commit = management.commit(&[("app/web.yaml", &namespace_yaml("web"))]);
    management.deploy(through("eu-1")).await;
    management.until_at("app", &commit).await;
    let web = agent.read(&namespace("web")).await.unwrap();
    assert!(web["metadata"]["labels"][FROM].is_string(), "{web:#}");

    // Even with the same name.
    let commit = agent.commit(&[("app/web.yaml", &namespace_yaml("web"))]);
    agent.deploy(json!({})).await;
    let app = agent.until_at("app", &commit).await;
    assert_eq!(
        message(&app, "SharedObject"),
        "declared here too, and not applied: Namespace/web is managed by Kustomization fleet/app of another cluster, which applies it through \
         spec.kubeConfig"
    );
    agent.pass(Duration::from_secs(3_600)).await;
    assert_eq!(agent.read(&namespace("web")).await.unwrap(), web);
    agent.delete(&kustomization("app")).await;
    agent.until_gone(&kustomization("app")).await;
    assert_eq!(agent.read(&namespace("web")).await.unwrap(), web);
    // It is deleted with the management cluster's.
    management.delete(&kustomization("app")).await;
    management.until_gone(&kustomization("app")).await;
    agent.until_gone(&namespace("web")).await;
}

/// The controller reads from the cluster what its agent declares before it deletes anything there.
#[tokio::test(start_paused = true)]
async fn what_an_agent_declares_goes_to_the_agent() {
    const AGENTS: &str = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/muster-system/kustomizations";
    let bed = Bed::new();
    let base = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": {"name": "base", "namespace": "muster-system"},
        "spec": {"sourceRef": {"kind": "GitRepository", "name": "src"}, "interval": "10m", "prune": true}});
    let downstream = ApiServer::builder()
        .namespace("muster-system")
        .with(muster_api::crds::flux())
        .with([base])
        .in_process()
        .unwrap();
    let_in(&bed, &["eu-1"], &downstream).await;
    let status = json!({"status": {"inventory": {"entries": [{"id": "_web__Namespace", "v": "v1"}]}}});
    let path = format!("{AGENTS}/base/status");
    send(&downstream.client(), "PATCH", &path, Some(status))
        .await
        .unwrap();

    let commit = bed.commit(&[
        ("app/web.yaml", &namespace_yaml("web")),
        ("app/k.yaml", &config_yaml("k", "x")),
    ]);
    bed.deploy(through("eu-1")).await;
    bed.until_at("app", &commit).await;
    let lists = Match {
        verbs: vec![Verb::List],
        path: Some("muster-system/kustomizations".into()),
        ..Match::default()
    };
    let rule = downstream
        .faults()
        .add(Rule::always(lists, Fault::Status(Failure::Forbidden)));
    bed.delete(&kustomization("app")).await;
    bed.pass(Duration::from_secs(600)).await;
    let app = bed
        .read(&kustomization("app"))
        .await
        .expect("an error deletes nothing");
    assert!(
        message(&app, "Ready").contains("cannot list the Kustomizations of namespace muster-system"),
        "{app:#}"
    );
    assert!(read(&downstream, &namespace("web")).await.is_some());
    assert!(read(&downstream, &config("k")).await.is_some());
    downstream.faults().remove(rule);
    bed.until_gone(&kustomization("app")).await;
    let web = read(&downstream, &namespace("web")).await.unwrap();
    assert_eq!(
        (owner(&web), &web["metadata"]["labels"][FROM]),
        ("base", &Value::Null)
    );
    assert!(read(&downstream, &config("k")).await.is_none());
}
