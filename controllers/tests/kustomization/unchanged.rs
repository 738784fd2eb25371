//! Bad input has its reason and a message that names the problem and its place; nothing that is deployed changes by it,
//! and a fix is applied without manual action.

use std::time::Duration;

use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
};
use serde_json::{Value, json};

use crate::support::{
    Bed, condition, config_yaml, deployment, deployment_yaml, done, ids, kustomization, message, ready,
    refused_yaml,
};

/// What is done to a Kustomization that is healthy.
#[derive(Default)]
struct Cause {
    /// Files of the next revision, in addition to the existing ones; `None` for a removed file.
    files: Vec<(&'static str, Option<String>)>,
    /// A change of the spec.
    spec: Option<Value>,
    /// Calls that are refused.
    refused: Option<Match>,
}

const GOOD: [&str; 3] = ["app/a.yaml", "app/b.yaml", "app/d.yaml"];

fn good(path: &str) -> String {
    match path {
        "app/d.yaml" => deployment_yaml("d", "nginx"),
        _ => config_yaml(path.trim_start_matches("app/").trim_end_matches(".yaml"), "one"),
    }
}

/// Files of a revision: the good ones, except for these.
fn commit(bed: &Bed, changed: &[(&'static str, Option<String>)]) -> String {
    let kept = GOOD
        .iter()
        .filter(|path| !changed.iter().any(|(other, _)| other == *path));
    let mut files: Vec<(&str, String)> = kept.map(|path| (*path, good(path))).collect();
    files.extend(
        changed
            .iter()
            .filter_map(|(path, text)| Some((*path, text.clone()?))),
    );
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    bed.commit(&files)
}

/// Deploys, does it, and returns the resulting status: the history of Ready, whether the revision counts as attempted,
/// and the message.
async fn check(cause: Cause, expect: &str) -> String {
    let bed = Bed::new();
    let first = commit(&bed, &[]);
    bed.deploy(json!({})).await;
    bed.until(&deployment("d"), |_| true).await;
    bed.edit(&format!("{}/status", deployment("d")), done(1)).await;
    bed.until_at("app", &first).await;
    let (deployed, recorded) = (bed.deployed().await, bed.history("app").len());
    let original = bed.read(&kustomization("app")).await.unwrap()["spec"].clone();

    if let Some(matching) = cause.refused.clone() {
        bed.api
            .faults()
            .add(Rule::always(matching, Fault::Status(Failure::Forbidden)));
    }
    if let Some(spec) = &cause.spec {
        bed.edit(&kustomization("app"), json!({"spec": spec})).await;
    }
    let bad = if cause.files.is_empty() {
        first.clone()
    } else {
        commit(&bed, &cause.files)
    };
    bed.fetch("bad").await;
    bed.until_ready("app", expect).await;
    // Long enough for ten retries and an interval.
    bed.pass(Duration::from_secs(700)).await;
    let object = bed.read(&kustomization("app")).await.unwrap();
    assert_eq!(ready(&object), expect);
    let now = bed.deployed().await;
    let lost: Vec<&String> = deployed.iter().filter(|object| !now.contains(object)).collect();
    assert!(lost.is_empty(), "{expect}: {lost:?} changed, now {now:?}");
    assert_eq!(
        object["status"]["lastAppliedRevision"],
        format!("main@sha1:{first}")
    );
    assert!(
        GOOD.iter()
            .all(|path| ids(&object).iter().any(|id| id.contains(&path[4..5])))
    );
    let attempted = object["status"]["lastAttemptedRevision"] == format!("main@sha1:{bad}");
    let stalled = condition(&object, "Stalled").map_or("", |_| ", stalled");
    let text = message(&object, "Ready")
        .replace(&bad, "<bad>")
        .replace(&first, "<good>");
    let history = bed.history("app").split_off(recorded).join(", ");
    let text = format!("{history}; attempted: {attempted}{stalled}\n  {text}");

    bed.api.faults().clear();
    if let Some(Value::Object(spec)) = cause.spec {
        let before: Value = spec
            .keys()
            .map(|field| (field.clone(), original[field].clone()))
            .collect();
        bed.edit(&kustomization("app"), json!({"spec": before})).await;
    }
    let fixed = commit(&bed, &[("app/mended.yaml", Some(config_yaml("mended", "x")))]);
    bed.fetch("mended").await;
    bed.until_at("app", &fixed).await;
    text
}

fn files(files: &[(&'static str, Option<&str>)]) -> Cause {
    let files = files
        .iter()
        .map(|(path, text)| (*path, text.map(str::to_owned)))
        .collect();
    Cause {
        files,
        ..Cause::default()
    }
}

fn spec(spec: Value) -> Cause {
    let files = vec![("app/a.yaml", Some(config_yaml("a", "two")))];
    Cause {
        spec: Some(spec),
        files,
        ..Cause::default()
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_source_lacks() {
    let gone: Vec<(&str, Option<&str>)> = GOOD.iter().map(|path| (*path, None)).collect();
    let elsewhere = [gone.as_slice(), &[("elsewhere.yaml", Some(""))]].concat();
    let emptied = [gone.as_slice(), &[("app/empty.yaml", Some("# nothing\n"))]].concat();
    let outcomes = [
        check(files(&elsewhere), "False ArtifactFailed").await,
        check(spec(json!({"path": "../etc"})), "False ArtifactFailed").await,
        check(
            spec(json!({"sourceRef": {"kind": "GitRepository", "name": "nothing"}})),
            "False ArtifactFailed",
        )
        .await,
        check(files(&emptied), "False EmptyWouldPruneAll").await,
    ];
    insta::assert_snapshot!(outcomes.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_built() {
    let kustomization = files(&[("app/kustomization.yaml", Some("resources: [a.yaml]\n"))]);
    let variable = Some(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\ndata: {key: '${LOST}'}\n",
    );
    let unknown = Cause {
        spec: Some(json!({"postBuild": {"substitute": {"FOUND": "x"}}})),
        ..files(&[("app/a.yaml", variable)])
    };
    let lost = json!({"postBuild": {"substituteFrom": [{"kind": "ConfigMap", "name": "lost"}]}});
    let twice = config_yaml("b", "again");
    let outcomes = [
        check(kustomization, "False BuildFailed").await,
        check(files(&[("app/a.yaml", Some("a: [b\n"))]), "False BuildFailed").await,
        check(files(&[("app/c.yaml", Some(&twice))]), "False BuildFailed").await,
        check(unknown, "False BuildFailed").await,
        check(spec(lost), "False BuildFailed").await,
    ];
    insta::assert_snapshot!(outcomes.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_supported_or_makes_no_sense() {
    let outcomes = [
        check(spec(json!({"images": []})), "False Unsupported").await,
        check(
            spec(json!({"serviceAccountName": "deployer", "commonMetadata": {}})),
            "False Unsupported",
        )
        .await,
        check(
            spec(json!({"postBuild": {"substituteStrategy": "Always"}})),
            "False Unsupported",
        )
        .await,
        check(
            spec(json!({"kubeConfig": {"configMapRef": {"name": "access"}}})),
            "False Unsupported",
        )
        .await,
        check(
            spec(json!({"dependsOn": [{"name": "base", "readyExpr": "true"}]})),
            "False Unsupported",
        )
        .await,
        check(
            spec(json!({"dependsOn": [{"name": "base"}]})),
            "False DependencyNotReady",
        )
        .await,
        check(
            spec(json!({"dependsOn": [{"name": "app"}]})),
            "False DependencyNotReady",
        )
        .await,
        check(
            spec(json!({"kubeConfig": {"secretRef": {"name": "lost"}}})),
            "False ReconciliationFailed",
        )
        .await,
    ];
    insta::assert_snapshot!(outcomes.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn what_the_cluster_refuses() {
    let refused = |verb, path: &str| Match {
        verbs: vec![verb],
        path: Some(path.to_owned()),
        ..Match::default()
    };
    let no_key = refused_yaml("c");
    let nowhere = config_yaml("c", "x").replace("default", "nowhere");
    let unknown = "apiVersion: example.org/v1\nkind: Gadget\nmetadata: {name: g, namespace: default}\n";
    let forbidden = Cause {
        refused: Some(refused(Verb::Patch, "configmaps/c")),
        ..files(&[("app/c.yaml", Some(&config_yaml("c", "x")))])
    };
    let unprunable = Cause {
        refused: Some(refused(Verb::Delete, "configmaps/b")),
        ..files(&[("app/b.yaml", None)])
    };
    let ill = deployment_yaml("e", "nginx:bad");
    let outcomes = [
        check(
            files(&[("app/c.yaml", Some(&no_key))]),
            "False ReconciliationFailed",
        )
        .await,
        check(
            files(&[("app/c.yaml", Some(&nowhere))]),
            "False ReconciliationFailed",
        )
        .await,
        check(
            files(&[("app/c.yaml", Some(unknown))]),
            "False ReconciliationFailed",
        )
        .await,
        check(forbidden, "False ReconciliationFailed").await,
        check(unprunable, "False PruneFailed").await,
        check(files(&[("app/e.yaml", Some(&ill))]), "False HealthCheckFailed").await,
    ];
    insta::assert_snapshot!(outcomes.join("\n"));
}
