//! Promise: bad input is rejected with a typed reason and a message that says what is wrong, where, and what to do;
//! deployed objects do not change, and everything else continues.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    bed::{Bed, Ground, kinds},
    fleet::{Quality, ROLLED, condition, manifests, status_text},
};

/// The cluster that fails, and one that must not be affected.
const CLUSTERS: [&str; 2] = ["eu-1", "eu-2"];
/// After this time every failure that may be transient counts as permanent.
const PROGRESS: &str = "1m";
/// Several retries long.
const WATCHED: Duration = Duration::from_secs(30);
/// Longer than the deadline.
const REPORTED: Duration = Duration::from_secs(90);

/// What the API server itself rejects: the version has an invalid form.
pub async fn refused_at_the_door(ground: Ground) {
    let bed = Bed::with_clusters(ground, &["eu-1"]).await;
    let commit = bed
        .git
        .commit(&[("apps/web/all.yaml", &manifests("web", "v1", Quality::Good))]);
    let check = async |version: Value, words: &[&str]| {
        let mut spec = bed.spec("web", "-");
        spec["sync"]["source"]["git"]["version"] = version.clone();
        let refused = bed
            .fleet()
            .try_create(kinds::MODULE, json!({"metadata": {"name": "web"}, "spec": spec}))
            .await;
        let refused = refused.expect_err(&version.to_string());
        println!("{refused}");
        for word in words {
            assert!(
                refused.contains(word),
                "{word} is not said for {version}: {refused}"
            );
        }
    };
    let place = "spec.sync.source.git.version";
    check(
        json!({"tag": "v1", "commit": commit}),
        &["422 Invalid", place, "set exactly one of tag and commit"],
    )
    .await;
    check(
        json!({}),
        &["422 Invalid", place, "set exactly one of tag and commit"],
    )
    .await;
    check(
        json!({"commit": &commit[..12]}),
        &["422 Invalid", "spec.sync.source.git.version.commit"],
    )
    .await;
    assert_eq!(bed.fleet().list(kinds::MODULE).await, Vec::<Value>::new());
}

/// What cannot be resolved or parsed: no cluster is touched at all.
pub async fn nothing_moves(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web", "other"]).await;
    let before = all(&bed, "web").await;
    let url = "https://nowhere.test/fleet.git";
    let cases = [
        (
            "an unknown tag",
            json!({"sync": {"source": {"git": {"version": {"tag": "web-v99"}}}}}),
            "SourceNotReady",
            vec!["web-v99", "since", "clusters keep what they have"],
        ),
        (
            "an unreachable repository",
            json!({"sync": {"source": {"git": {"url": url}}}}),
            "SourceNotReady",
            vec![url, "since", "clusters keep what they have"],
        ),
        (
            "a selector with a bad operator",
            json!({"selector": {"matchExpressions": [{"key": "env", "operator": "Equals", "values": ["prod"]}]}}),
            "InvalidSpec",
            vec!["spec.selector", "Equals", "NotIn"],
        ),
    ];
    for (number, (what, patch, reason, words)) in (2..).zip(cases) {
        bed.fleet()
            .patch(kinds::MODULE, "web", json!({"spec": patch}))
            .await;
        let module = bed.until_reason("web", reason, REPORTED).await;
        assert_not_ready_message(what, &module, &words);
        goes_on(&bed, "other", number).await;
        bed.pass(WATCHED).await;
        assert_eq!(all(&bed, "web").await, before, "{what}: nothing deployed changes");
        let fixed = json!({"metadata": {"name": "web"}, "spec": bed.spec("web", "web-v1")});
        bed.fleet()
            .patch(
                kinds::MODULE,
                "web",
                json!({"spec": {"selector": {"matchExpressions": null}}}),
            )
            .await;
        bed.fleet().patch(kinds::MODULE, "web", fixed).await;
        bed.until_ready("web", "web-v1").await;
        assert_eq!(
            all(&bed, "web").await,
            before,
            "{what}: fixed, nothing had to change"
        );
    }
}

/// What only fails when it is applied: the rollout stops at the first cluster, and other modules there continue.
pub async fn stops_at_the_first_cluster(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web", "other"]).await;
    let progress = json!({"spec": {"rollout": {"deadlines": {"progress": PROGRESS}}}});
    bed.fleet().patch(kinds::MODULE, "web", progress).await;
    for (number, (what, manifests, words)) in (2..).zip(bad_contents()) {
        let before = all(&bed, "web").await;
        let bad = format!("web-v{}", number * 10);
        let path = if let Some(manifests) = &manifests {
            bed.commit_version("web", manifests, &bad);
            "apps/web"
        } else {
            bed.git.tag(&bad);
            "apps/nowhere"
        };
        set_package(&bed, path, &bad).await;
        let module = until_halted(&bed, what).await;
        assert_not_ready_message(what, &module, &[&words[..], &["eu-1", "next: "]].concat());
        goes_on(&bed, "other", number).await;
        bed.pass(WATCHED).await;
        assert_eq!(all(&bed, "web").await, before, "{what}: nothing deployed changes");
        let good = bed.release("web", number * 10 + 1, Quality::Good);
        set_package(&bed, "apps/web", &good).await;
        bed.until_ready("web", &good).await;
    }
    assert_eq!(bed.most_in_flight(kinds::PROXY_ASSEMBLAGE, "web"), 1);
}

/// Per case: what is wrong, the manifests (none: another path), and the text that the message must contain. The
/// manifests include the deployed objects unchanged.
fn bad_contents() -> [(&'static str, Option<String>, Vec<&'static str>); 4] {
    let twice = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, namespace: default}\ndata: {a: b}\ndata: {a: c}\n";
    let refused = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: odd, namespace: default}\nspec: {replicas: many}\n";
    let elsewhere =
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, namespace: nowhere}\ndata: {a: b}\n";
    let and = |version: &str, rest: &str| Some(format!("{}{rest}", manifests("web", version, Quality::Good)));
    [
        ("a path that does not exist", None, vec!["apps/nowhere"]),
        (
            "a duplicate key",
            Some(twice.to_owned()),
            vec!["apps/web/all.yaml:5:", "data"],
        ),
        (
            "an object that the API refuses",
            and("web-v31", refused),
            vec!["Deployment", "odd", "replicas"],
        ),
        (
            "a namespace that does not exist",
            and("web-v41", elsewhere),
            vec!["nowhere", "not found"],
        ),
    ]
}

async fn set_package(bed: &Bed, path: &str, tag: &str) {
    let sync = json!({"package": {"path": path}, "source": {"git": {"version": {"tag": tag}}}});
    bed.fleet()
        .patch(kinds::MODULE, "web", json!({"spec": {"sync": sync}}))
        .await;
}

/// Each forbidden kubeconfig field: the cluster is skipped with the name of the field, and continues when it is fixed.
pub async fn kubeconfigs(ground: Ground) {
    let bed = Bed::with_clusters(ground, &CLUSTERS).await;
    bed.deploy(&["web"]).await;
    let before = all(&bed, "web").await;
    let good: Value = serde_json::from_str(&bed.kubeconfig("eu-2")).unwrap();
    for (place, field, value) in forbidden_fields() {
        let mut config = good.clone();
        config.pointer_mut(place).unwrap()[field] = value.clone();
        bed.give_kubeconfig("eu-2", &config.to_string()).await;
        let check = async || {
            let module = bed.module("web").await;
            let entry = module["status"]["attention"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|entry| entry["cluster"] == "eu-2")
                .cloned();
            let named = entry.filter(|entry| {
                entry["reason"] == "KubeconfigRejected"
                    && entry["message"].as_str().is_some_and(|text| text.contains(field))
            });
            named.ok_or_else(|| status_text(&module))
        };
        let (_, entry) = bed.wait_until(&format!("{field} is named"), ROLLED, check).await;
        let text = entry.to_string();
        assert!(
            value.as_str().is_none_or(|value| !text.contains(value)),
            "a value is repeated: {text}"
        );
        println!("{}", entry["message"].as_str().unwrap());
    }
    assert_eq!(bed.module("web").await["status"]["summary"]["skipped"], 1);
    assert_eq!(all(&bed, "web").await, before, "nothing deployed changes");
    let version = bed.roll("web", 2, Quality::Good).await;
    bed.until_ready("web", &version).await;
    assert_eq!(bed.version_in("eu-2", "web").await.as_deref(), Some("web-v1"));
    bed.give_kubeconfig("eu-2", &good.to_string()).await;
    bed.until_wanted("eu-2", "web", &version).await;
}

/// The entry that contains the field, its name, and a value.
fn forbidden_fields() -> [(&'static str, &'static str, Value); 15] {
    [
        ("/users/0/user", "exec", json!({"command": "/bin/true"})),
        ("/users/0/user", "auth-provider", json!({"name": "gcp"})),
        ("/users/0/user", "tokenFile", json!("/etc/passwd")),
        ("/users/0/user", "client-certificate", json!("/etc/passwd")),
        ("/users/0/user", "client-key", json!("/etc/passwd")),
        ("/users/0/user", "as", json!("admin")),
        ("/users/0/user", "as-uid", json!("1234567")),
        ("/users/0/user", "as-groups", json!(["system:masters"])),
        ("/users/0/user", "as-user-extra", json!({"team": ["b"]})),
        ("/users/0/user", "username", json!("admin")),
        ("/users/0/user", "password", json!("admin")),
        (
            "/clusters/0/cluster",
            "certificate-authority",
            json!("/etc/passwd"),
        ),
        ("/clusters/0/cluster", "proxy-url", json!("http://proxy.test")),
        ("/clusters/0/cluster", "insecure-skip-tls-verify", json!(true)),
        ("/clusters/0/cluster", "server", json!("http://eu-2.test")),
    ]
}

async fn until_halted(bed: &Bed, what: &str) -> Value {
    let check = async || {
        let module = bed.module("web").await;
        let halted = condition(&module, "Halted").is_some() && module["status"]["summary"]["failed"] == 1;
        if halted {
            Ok(module)
        } else {
            Err(status_text(&module))
        }
    };
    bed.wait_until(what, REPORTED, check).await.1
}

/// Another module rolls out a version over all clusters in the meantime.
async fn goes_on(bed: &Bed, app: &str, number: u32) {
    let version = bed.roll(app, number, Quality::Good).await;
    bed.until_ready(app, &version).await;
}

fn assert_not_ready_message(what: &str, module: &Value, words: &[&str]) {
    let ready = condition(module, "Ready").unwrap();
    let message = ready["message"].as_str().unwrap();
    println!("{what}: {}: {message}", ready["reason"].as_str().unwrap());
    assert_eq!(ready["status"], "False", "{what}");
    for word in words {
        assert!(message.contains(word), "{what}: {word} is not said: {message}");
    }
}

async fn all(bed: &Bed, app: &str) -> Vec<Vec<String>> {
    let mut versions = Vec::new();
    for cluster in CLUSTERS {
        versions.push(bed.resource_versions(cluster, app).await);
    }
    versions
}
