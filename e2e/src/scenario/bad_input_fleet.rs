//! Promise: bad input of users, other management clusters, foreign objects and clusters is answered with a typed
//! reason; deployed objects do not change, and another module and another cluster continue.

use std::time::Duration;

use muster_api::{
    labels::{SYSTEM_NAMESPACE, annotation},
    names,
};
use serde_json::{Value, json};

use crate::{
    bed::{Bed, Ground, Obstacle, kinds},
    fleet::{Quality, ROLLED, condition, status_text},
};

/// The module that continues, and the one with bad input. Clusters are changed in this order of names.
const CLUSTERS: [&str; 2] = ["eu-1", "us-1"];
/// Several retries long.
const WATCHED: Duration = Duration::from_secs(25);
/// Until the result of a poll of a cluster is reported.
const REPORTED: Duration = Duration::from_secs(90);

/// What the API server itself rejects, with messages of the CRD.
pub async fn numbers_and_sizes_at_the_door(ground: Ground) {
    let bed = Bed::with_clusters(ground, &["eu-1"]).await;
    bed.deploy(&["other"]).await;
    let refuses = async |kind, what: &str, object: Value, words: &[&str]| {
        let refused = bed.fleet().try_create(kind, object).await.expect_err(what);
        println!("{what}: {}", &refused[..refused.floor_char_boundary(300)]);
        for word in ["422 Invalid"].iter().chain(words) {
            assert!(
                refused.contains(word),
                "{what}: {word} is not said: {}",
                &refused[..refused.floor_char_boundary(2_000)]
            );
        }
    };
    let module = |name: &str, change: Value| {
        let mut spec = bed.spec("web", "web-v1");
        json_merge(&mut spec, &change);
        json!({"metadata": {"name": name}, "spec": spec})
    };
    for limit in [json!("abc"), json!(-1), json!("101%"), json!("-1%"), json!("1.5")] {
        let change = json!({"rollout": {"maxUnreadyClusters": limit}});
        let what = format!("maxUnreadyClusters: {limit}");
        refuses(
            kinds::MODULE,
            &what,
            module("web", change),
            &["spec.rollout.maxUnreadyClusters"],
        )
        .await;
    }
    refuses(
        kinds::MODULE,
        "a name of 253 characters",
        module(&"m".repeat(253), json!({})),
        &["63"],
    )
    .await;
    let rows = |count: usize| -> Vec<Value> {
        (0..count)
            .map(|number| json!({"name": format!("row-{number}")}))
            .collect()
    };
    let assemblage = |syncs: Value| json!({"metadata": {"name": "theirs"}, "spec": {"clusterRef": {"name": "eu-1"}, "syncs": syncs}});
    refuses(
        kinds::PROXY_ASSEMBLAGE,
        "300 syncs",
        assemblage(json!(rows(300))),
        &["spec.syncs", "256"],
    )
    .await;
    let value = "v".repeat(4_097);
    refuses(
        kinds::PROXY_ASSEMBLAGE,
        "a value of 4 KiB and a byte",
        assemblage(json!([{"name": "web", "values": {"REGION": value}}])),
        &["spec.syncs[0].values", "4096"],
    )
    .await;
    let many: serde_json::Map<String, Value> =
        (0..65).map(|number| (format!("V{number}"), json!("v"))).collect();
    refuses(
        kinds::PROXY_ASSEMBLAGE,
        "65 values",
        assemblage(json!([{"name": "web", "values": many}])),
        &["spec.syncs[0].values", "64"],
    )
    .await;
    assert_eq!(bed.fleet().list(kinds::MODULE).await.len(), 1);
    goes_on(&bed, "other", 2).await;
}

/// Names of maximum length: of a Cluster whose Secret name just fits, of one whose Secret name would be too long, and
/// of a third party's sync.
pub async fn the_longest_names(ground: Ground) {
    let mut bed = Bed::with_clusters(ground, &["eu-1"]).await;
    bed.deploy(&["other"]).await;
    let (long, longest) = ("c".repeat(242), "c".repeat(253));
    bed.join(&long, &[("env", "prod")], &[]).await;
    let cluster = json!({"metadata": {"name": longest, "labels": {"env": "prod"}}, "spec": {}});
    bed.fleet().create(kinds::CLUSTER, cluster).await;
    let ready = json!({"status": {"initialization": {"controlPlaneInitialized": true}}});
    bed.fleet().patch_status(kinds::CLUSTER, &longest, ready).await;
    until_named(&bed, "other", &longest, "NoKubeconfig", &["kubeconfig"]).await;
    let version = bed.roll("other", 2, Quality::Good).await;
    bed.until_ready("other", &version).await;
    assert_eq!(bed.version_in(&long, "other").await.as_deref(), Some("other-v2"));

    let commit =
        bed.fleet().get(kinds::PROXY_ASSEMBLAGE, "eu-1").await.unwrap()["spec"]["syncs"][0]["commit"].clone();
    let sync = "s".repeat(253);
    let row = json!({
        "name": sync, "commit": commit,
        "source": {"git": {"url": bed.git.url(), "version": {"tag": "other-v2"}}}, "package": {"path": "apps/other", "substitute": {"CLUSTER": "eu-1"}},
    });
    let theirs =
        json!({"metadata": {"name": "theirs"}, "spec": {"clusterRef": {"name": "eu-1"}, "syncs": [row]}});
    bed.fleet().create(kinds::PROXY_ASSEMBLAGE, theirs).await;
    let name = names::kustomization(SYSTEM_NAMESPACE, "theirs", &sync);
    let poll = async || {
        let kustomization = bed
            .inside("eu-1", SYSTEM_NAMESPACE)
            .get(kinds::KUSTOMIZATION, &name)
            .await;
        kustomization
            .filter(crate::fleet::is_ready)
            .map(|_| ())
            .ok_or_else(|| name.clone())
    };
    bed.wait_until("the third party's sync is applied", ROLLED, poll)
        .await;
}

/// A value that is too large for a row fails its own cluster only; that cluster keeps what it has, and the others are
/// updated.
pub async fn values_over_their_size(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web", "other"]).await;
    for (cluster, size) in CLUSTERS.iter().zip([10, 5_000]) {
        let facts =
            json!({"metadata": {"name": format!("{cluster}-facts")}, "data": {"host": "h".repeat(size)}});
        bed.fleet().create(kinds::CONFIG_MAP, facts).await;
    }
    let before = bed.resource_versions("us-1", "web").await;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "$(CLUSTER_NAME)-facts", "fieldPath": "/data/host"});
    let change = json!({
        "controlPlaneBindings": [{"name": "HOST", "objectFieldRef": reference}],
        "sync": {"package": {"substitute": {"HOST": "$(HOST)"}}},
    });
    bed.fleet()
        .patch(kinds::MODULE, "web", json!({"spec": change}))
        .await;
    until_named(&bed, "web", "us-1", "BindingFailed", &["HOST", "4096"]).await;
    let version = bed.roll("web", 2, Quality::Good).await;
    bed.until_wanted("eu-1", "web", &version).await;
    goes_on(&bed, "other", 2).await;
    assert_eq!(bed.resource_versions("us-1", "web").await, before);
    let facts = json!({"data": {"host": "h"}});
    bed.fleet().patch(kinds::CONFIG_MAP, "us-1-facts", facts).await;
    bed.until_ready("web", &version).await;
    bed.until_wanted("us-1", "web", &version).await;
}

/// An incomplete Secret, and one with several contexts, of which the current one is used.
pub async fn secrets(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web", "other"]).await;
    let before = bed.resource_versions("us-1", "web").await;
    let good = bed.kubeconfig("us-1");
    let mut two: Value = serde_json::from_str(&good).unwrap();
    let foreign = json!({"name": "other", "context": {"cluster": "nowhere", "user": "nobody"}});
    two["contexts"].as_array_mut().unwrap().push(foreign);
    let mut none = two.clone();
    none["current-context"] = json!("missing");
    let cases = [
        (
            "half of it",
            good[..good.len() / 2].to_owned(),
            "KubeconfigRejected",
            vec!["not YAML"],
        ),
        ("nothing", String::new(), "KubeconfigRejected", vec![]),
        (
            "a context that does not exist",
            none.to_string(),
            "KubeconfigRejected",
            vec!["missing"],
        ),
    ];
    for (number, (what, text, reason, words)) in (2..).zip(cases) {
        bed.give_kubeconfig("us-1", &text).await;
        println!("{what}");
        until_named(&bed, "web", "us-1", reason, &words).await;
        goes_on(&bed, "other", number).await;
        assert_eq!(bed.resource_versions("us-1", "web").await, before, "{what}");
    }
    bed.give_kubeconfig("us-1", &two.to_string()).await;
    let version = bed.roll("web", 2, Quality::Good).await;
    bed.until_ready("web", &version).await;
    assert_eq!(bed.version_in("us-1", "web").await, Some(version));
}

/// An Assemblage of another management cluster, a foreign ProxyAssemblage and a foreign GitRepository use names that
/// muster needs.
pub async fn names_that_others_have(ground: Ground) {
    let mut bed = Bed::with_clusters(ground, &["eu-1"]).await;
    bed.deploy(&["other"]).await;
    bed.join("us-1", &[("env", "test")], &[]).await;
    bed.join("us-2", &[("env", "test")], &[]).await;
    bed.join("us-3", &[("env", "test")], &[Obstacle::Paused]).await;
    let origin = "11111111-2222-3333-4444-555555555555/fleet/us-1";
    let plane = json!({"metadata": {"name": "us-1", "annotations": {annotation::ORIGIN: origin}}, "spec": {"syncs": [{"name": "web", "token": 7}]}});
    bed.inside("us-1", SYSTEM_NAMESPACE)
        .create(kinds::ASSEMBLAGE, plane)
        .await;
    let theirs = json!({"metadata": {"name": "us-2"}, "spec": {"clusterRef": {"name": "us-2"}, "syncs": []}});
    bed.fleet().create(kinds::PROXY_ASSEMBLAGE, theirs).await;
    let (version, commit) = ("other-v1", commit_of(&bed, "eu-1").await);
    let source = names::source(bed.git.url(), &commit, None);
    let repository = json!({"metadata": {"name": source}, "spec": {"url": "https://elsewhere.test/x.git", "interval": "1h", "suspend": true}});
    bed.inside("us-3", SYSTEM_NAMESPACE)
        .create(kinds::GIT_REPOSITORY, repository)
        .await;
    bed.clear("us-3", Obstacle::Paused).await;
    // A cluster that cannot be touched releases its slot soon.
    let absence = json!({"spec": {"rollout": {"deadlines": {"absence": "30s"}}}});
    bed.fleet().patch(kinds::MODULE, "other", absence).await;
    let objects = [
        ("us-1", SYSTEM_NAMESPACE, kinds::ASSEMBLAGE, "us-1"),
        ("us-3", SYSTEM_NAMESPACE, kinds::GIT_REPOSITORY, &*source),
    ];
    let mut before = Vec::new();
    for (cluster, namespace, kind, name) in objects {
        before.push(spec_of(
            &bed.inside(cluster, namespace).get(kind, name).await.unwrap(),
        ));
    }
    let ours = spec_of(&bed.fleet().get(kinds::PROXY_ASSEMBLAGE, "us-2").await.unwrap());
    for cluster in ["us-1", "us-2", "us-3"] {
        bed.label_cluster(cluster, json!({"env": "prod"})).await;
    }
    for (cluster, word) in [("us-1", origin), ("us-2", "not muster's own"), ("us-3", &*source)] {
        until_named(&bed, "other", cluster, "NameConflict", &[word]).await;
    }
    assert_eq!(bed.version_in("eu-1", "other").await.as_deref(), Some(version));
    bed.pass(WATCHED).await;
    for ((cluster, namespace, kind, name), before) in objects.iter().zip(before) {
        let now = bed.inside(cluster, namespace).get(*kind, name).await.unwrap();
        assert_eq!(spec_of(&now), before, "{cluster}");
    }
    assert_eq!(
        spec_of(&bed.fleet().get(kinds::PROXY_ASSEMBLAGE, "us-2").await.unwrap()),
        ours
    );
    // The other cluster continues; the module is not ready, and reports the conflict.
    let version = bed.roll("other", 2, Quality::Good).await;
    let arrived = async || {
        let module = bed.fleet().get(kinds::MODULE, "other").await.unwrap();
        let has = bed.version_in("eu-1", "other").await;
        let is_stalled = ["Ready", "Stalled"].map(|kind| {
            let stalled = condition(&module, kind);
            stalled.is_some_and(|stalled| stalled["reason"] == "NameConflict")
        });
        let ready = condition(&module, "Ready").map(|ready| ready["status"].clone());
        let is_so =
            has.as_ref() == Some(&version) && is_stalled == [true; 2] && ready == Some(json!("False"));
        is_so
            .then_some(())
            .ok_or_else(|| format!("eu-1 has {has:?}: {module}"))
    };
    bed.wait_until(
        "the other cluster is updated, the module is stalled",
        ROLLED,
        arrived,
    )
    .await;
}

/// A cluster that reports a false status: nothing but its own row is affected, and it is not counted as done.
pub async fn a_hostile_status(ground: Ground) {
    let mut bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web", "other"]).await;
    bed.label_cluster("eu-1", json!({"only": "eu-1"})).await;
    bed.usurp("us-1").await;
    let before = bed.resource_versions("us-1", "web").await;
    let row = row_of(&bed, "us-1", "web").await;
    let (digest, token) = (row["digest"].clone(), row["token"].as_u64().unwrap());
    let long = "ä".repeat(500_000);
    let lies = [
        (
            "another digest",
            json!({"digest": format!("sha256:{}", "0".repeat(64)), "token": token + 1, "state": "succeeded"}),
        ),
        (
            "a token of tomorrow",
            json!({"digest": digest, "token": token + 1_000, "state": "succeeded"}),
        ),
        (
            "a token without end",
            json!({"digest": digest, "token": 9_007_199_254_740_991_u64, "state": "succeeded"}),
        ),
        (
            "a message of 1 MB",
            json!({"digest": digest, "token": token, "state": "updating", "class": "Infra", "message": long, "reason": "Progressing"}),
        ),
        (
            "a word of 1 MB",
            json!({"digest": digest, "token": token, "state": "updating", "class": "Infra", "reason": long}),
        ),
    ];
    let version = bed.roll("web", 2, Quality::Good).await;
    bed.until_wanted("eu-1", "web", &version).await;
    for (what, mut lie) in lies {
        println!("{what}");
        lie["name"] = json!("web");
        let other = row_of(&bed, "us-1", "other").await;
        let honest = json!({"name": "other", "digest": other["digest"], "token": other["token"], "state": "succeeded"});
        bed.lie("us-1", json!([lie, honest])).await;
        bed.pass(WATCHED).await;
        let module = bed.module("web").await;
        assert_eq!(
            module["status"]["summary"]["clusters"],
            "1/2",
            "{what}: {}",
            status_text(&module)
        );
        assert_eq!(
            bed.version_in("eu-1", "web").await.as_deref(),
            Some(&*version),
            "{what}"
        );
        let proxy = bed.fleet().get(kinds::PROXY_ASSEMBLAGE, "us-1").await.unwrap();
        let bytes = proxy["status"].to_string().len();
        assert!(bytes < 8 * 1024, "{what}: {bytes} bytes of status");
    }
    // While its status is false.
    alone(&bed).await;
    assert_eq!(bed.resource_versions("us-1", "web").await, before);
    let row = row_of(&bed, "us-1", "web").await;
    assert!(
        row["token"].as_u64().unwrap() <= token + 2_000,
        "a forged token has little effect: {row}"
    );
}

/// An annotation that starts like JSON and is invalid: it is reported, and has no effect.
pub async fn an_annotation_that_is_no_json(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web", "other"]).await;
    let before = bed.resource_versions("us-1", "web").await;
    for (number, control) in (2..).zip([annotation::PAUSED, annotation::ACKNOWLEDGE_WITHDRAWAL]) {
        let annotate = json!({"metadata": {"annotations": {control: "{\"by\": ann"}}});
        bed.fleet().patch(kinds::MODULE, "web", annotate).await;
        let poll = async || {
            let module = bed.module("web").await;
            let status = module["status"].to_string();
            if status.contains(control) && status.contains("not valid JSON") {
                Ok(condition(&module, "Ready").unwrap()["reason"].clone())
            } else {
                Err(status_text(&module))
            }
        };
        let (_, reason) = bed
            .wait_until(&format!("{control} is said"), REPORTED, poll)
            .await;
        println!("{control}: {reason}");
        let version = bed.release("web", number, Quality::Good);
        bed.target("web", &version).await;
        goes_on(&bed, "other", number).await;
        bed.pass(WATCHED).await;
        assert_eq!(
            bed.resource_versions("us-1", "web").await,
            before,
            "{control}: no cluster changes"
        );
        bed.target("web", "web-v1").await;
        let fixed = json!({"metadata": {"annotations": {control: null}}});
        bed.fleet().patch(kinds::MODULE, "web", fixed).await;
        bed.until_ready("web", "web-v1").await;
    }
}

/// Another module rolls out a version over all clusters in the meantime.
async fn goes_on(bed: &Bed, app: &str, number: u32) {
    let version = bed.roll(app, number, Quality::Good).await;
    bed.until_ready(app, &version).await;
}

/// A module that selects only the good cluster completes.
async fn alone(bed: &Bed) {
    let name = "alone";
    let version = bed.release(name, 1, Quality::Good);
    let mut spec = bed.spec(name, &version);
    spec["selector"] = json!({"matchLabels": {"only": "eu-1"}});
    bed.fleet()
        .create(kinds::MODULE, json!({"metadata": {"name": name}, "spec": spec}))
        .await;
    bed.until_ready(name, &version).await;
}

/// Waits until a module lists a cluster with a reason and with this text in its message.
async fn until_named(bed: &Bed, module: &str, cluster: &str, reason: &str, words: &[&str]) {
    let message = bed.until_named(module, cluster, reason, words, REPORTED).await;
    println!("{reason}: {message}");
}

async fn row_of(bed: &Bed, cluster: &str, module: &str) -> Value {
    let assemblage = bed.fleet().get(kinds::PROXY_ASSEMBLAGE, cluster).await.unwrap();
    let rows = assemblage["spec"]["syncs"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == module).unwrap().clone()
}

async fn commit_of(bed: &Bed, cluster: &str) -> String {
    row_of(bed, cluster, "other").await["commit"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// An object without what others may write: status and managed fields.
fn spec_of(object: &Value) -> Value {
    json!({"uid": object["metadata"]["uid"], "spec": object["spec"], "labels": object["metadata"]["labels"], "annotations": object["metadata"]["annotations"]})
}

/// RFC 7386, for objects.
fn json_merge(target: &mut Value, change: &Value) {
    match (target, change) {
        (Value::Object(target), Value::Object(change)) => {
            for (key, value) in change {
                json_merge(target.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (target, change) => *target = change.clone(),
    }
}
