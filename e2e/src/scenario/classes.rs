//! Promise: one table classifies failures, whichever component applies. Each line of it is a real failure of one row.
//!
//! The rows are a third party's: in a separate assemblage beside muster's, without digests and tokens.

use std::{collections::BTreeMap, time::Duration};

use muster_api::{labels::SYSTEM_NAMESPACE, names};
use serde_json::{Value, json};

use crate::{
    bed::{Bed, Ground, Kind, Obstacle, kinds},
    fleet::{APPS, Quality, manifests},
};

/// The longest failure is a health check that takes 10 s.
const REPORTED: Duration = Duration::from_mins(3);
/// A namespace that does not exist.
const NOWHERE: &str = "nowhere";
/// A namespace with a quota of no ConfigMaps.
const TIGHT: &str = "tight";

/// A row, the files in its directory, and the expected report: state, class, whether it is terminal, reason.
struct Case {
    name: &'static str,
    files: Vec<(&'static str, String)>,
    expect: (&'static str, &'static str, bool, &'static str),
}

/// Failures that every API server can produce.
fn cases() -> Vec<Case> {
    let patient = manifests("pending", "v1", Quality::Bad)
        .replace("progressDeadlineSeconds: 3", "progressDeadlineSeconds: 600");
    vec![
        case(
            "good",
            &config("good", APPS),
            ("succeeded", "", false, "UpToDate"),
        ),
        case("broken", "a: [", ("failed", "Revision", true, "BuildFailed")),
        Case {
            name: "missing",
            files: Vec::new(),
            expect: ("failed", "Revision", true, "ArtifactFailed"),
        },
        case(
            "stalled",
            &manifests("stalled", "v1", Quality::Bad),
            ("failed", "Revision", true, "HealthCheckFailed"),
        ),
        case(
            "pending",
            &patient,
            ("failed", "Revision", false, "HealthCheckFailed"),
        ),
        case(
            "unknown",
            "apiVersion: example.com/v1\nkind: Nothing\nmetadata: {name: a, namespace: default}\n",
            ("failed", "Revision", false, "ReconciliationFailed"),
        ),
        case(
            "homeless",
            &config("homeless", NOWHERE),
            ("failed", "Unit", false, "ReconciliationFailed"),
        ),
    ]
}

/// Failures that only a complete Kubernetes can produce.
fn cases_of_admission() -> Vec<Case> {
    vec![
        case(
            "over-quota",
            &config("over-quota", TIGHT),
            ("failed", "Unit", false, "ReconciliationFailed"),
        ),
        case(
            "denied",
            &config("denied", APPS),
            ("failed", "Unit", false, "ReconciliationFailed"),
        ),
        Case {
            name: "kept",
            files: vec![
                ("a.yaml", config("stays", APPS)),
                ("b.yaml", config("kept", APPS)),
            ],
            expect: ("succeeded", "", false, "UpToDate"),
        },
    ]
}

/// Every line of the table, then what is reported when the removal of an object is blocked, and when the host of the
/// source is unreachable.
pub async fn as_the_table_says(ground: Ground) {
    let bed = Bed::with_clusters(ground, &["eu-1"]).await;
    let mut cases = cases();
    if bed.is_real() {
        bed.administer("eu-1", ADMISSION).await;
        cases.extend(cases_of_admission());
    }
    let files: Vec<(String, &str)> = cases
        .iter()
        .flat_map(|case| {
            let path = |file: &str| format!("cases/{}/{file}", case.name);
            case.files
                .iter()
                .map(move |(file, text)| (path(file), text.as_str()))
        })
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let commit = bed.git.commit(&files);
    let mut rows: Vec<Value> = cases
        .iter()
        .map(|case| row(bed.git.url(), case.name, &commit))
        .collect();
    rows.push(row("http://127.0.0.1:9/away.git", "away", &commit));
    let object = json!({
        "metadata": {"name": "cases"},
        "spec": {"clusterRef": {"name": "eu-1"}, "syncs": rows},
    });
    bed.fleet().create(kinds::PROXY_ASSEMBLAGE, object).await;
    let until_states =
        async |expect: &_| until_reported(&bed, (kinds::PROXY_ASSEMBLAGE, "cases"), expect).await;
    let mut expect: BTreeMap<&str, _> = cases.iter().map(|case| (case.name, case.expect)).collect();
    expect.insert("away", ("updating", "Infra", false, ""));
    until_states(&expect).await;

    if bed.is_real() {
        // Only the other row is left.
        let commit = bed.git.commit(&[("cases/kept/b.yaml", "")]);
        let kept = rows.iter_mut().find(|row| row["name"] == "kept").unwrap();
        *kept = row(bed.git.url(), "kept", &commit);
        let syncs = json!({"spec": {"syncs": rows}});
        bed.fleet().patch(kinds::PROXY_ASSEMBLAGE, "cases", syncs).await;
        expect.insert("kept", ("failed", "Unit", false, "PruneFailed"));
        until_states(&expect).await;
    }
}

/// An unreachable cluster is an external failure, if it is accessed from the management cluster: the row waits, and is
/// applied automatically later. One assemblage names the Cluster, the other only a Secret, so that only the failure
/// itself shows that the cluster is unreachable.
pub async fn clusters_away(ground: Ground) {
    let mut bed = Bed::with_clusters(ground, &["eu-1"]).await;
    bed.let_bootstrap().await;
    let rows = ["near", "far"].map(|name| {
        let path = format!("cases/{name}/all.yaml");
        let commit = bed.git.commit(&[(&path, &config(name, APPS))]);
        json!([row(bed.git.url(), name, &commit)])
    });
    let places = [
        (
            "by-cluster",
            json!({"clusterRef": {"name": "eu-1"}, "syncs": rows[0]}),
        ),
        (
            "by-secret",
            json!({"kubeconfigRef": {"name": "eu-1-kubeconfig"}, "syncs": rows[0]}),
        ),
    ];
    for (name, spec) in &places {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        bed.fleet().create(kinds::REMOTE_ASSEMBLAGE, object).await;
    }
    until_both(&bed, "near", ("succeeded", "", false, "UpToDate")).await;

    bed.obstruct("eu-1", Obstacle::Unreachable).await;
    for (name, _) in places {
        let syncs = json!({"spec": {"syncs": rows[1]}});
        bed.fleet().patch(kinds::REMOTE_ASSEMBLAGE, name, syncs).await;
    }
    until_both(&bed, "far", ("updating", "Infra", false, "")).await;
    bed.clear("eu-1", Obstacle::Unreachable).await;
    until_both(&bed, "far", ("succeeded", "", false, "UpToDate")).await;
}

/// Waits until both assemblages report this for their only row.
async fn until_both(bed: &Bed, row: &str, expect: (&str, &str, bool, &str)) {
    for name in ["by-cluster", "by-secret"] {
        until_reported(bed, (kinds::REMOTE_ASSEMBLAGE, name), &[(row, expect)].into()).await;
    }
}

/// Where Flux cancels health checks on a new revision, a canceled check is not a failure.
pub async fn canceled_checks(ground: Ground) {
    let bed = Bed::with_clusters(ground, &["eu-1"]).await;
    bed.restart_flux("eu-1", "CancelHealthCheckOnNewRevision=true")
        .await;
    let files = manifests("pending", "v1", Quality::Bad)
        .replace("progressDeadlineSeconds: 3", "progressDeadlineSeconds: 600");
    let commit = bed.git.commit(&[("cases/pending/all.yaml", &files)]);
    let mut row = row(bed.git.url(), "pending", &commit);
    row["package"]["timeout"] = json!("5m");
    let object = json!({
        "metadata": {"name": "cases"},
        "spec": {"clusterRef": {"name": "eu-1"}, "syncs": [row]},
    });
    bed.fleet().create(kinds::PROXY_ASSEMBLAGE, object).await;
    let name = names::kustomization(SYSTEM_NAMESPACE, "cases", "pending");
    let check = async || {
        let versions = bed.versions("eu-1", kinds::ASSEMBLAGE, "cases");
        let states: Vec<_> = versions
            .iter()
            .map(|version| version["status"]["syncs"][0].clone())
            .collect();
        assert!(
            states.iter().all(|state| state["state"] != "failed"),
            "{states:#?}"
        );
        if states
            .iter()
            .any(|state| state["reason"] == "HealthCheckCanceled")
        {
            return Ok(());
        }
        let inside = bed.inside("eu-1", SYSTEM_NAMESPACE);
        if inside.get(kinds::KUSTOMIZATION, &name).await.is_some() {
            let annotations =
                json!({"reconcile.fluxcd.io/requestedAt": bed.elapsed().as_nanos().to_string()});
            let patch = json!({"metadata": {"annotations": annotations}});
            inside.patch(kinds::KUSTOMIZATION, &name, patch).await;
        }
        Err(format!("{states:#?}"))
    };
    bed.wait_until("a health check is canceled, and reported", REPORTED, check)
        .await;
}

/// A quota of no ConfigMaps, and a policy that denies the creation of one object and the deletion of another.
const ADMISSION: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: tight}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: none, namespace: tight}
spec: {hard: {configmaps: "0"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: cases}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - {apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE, UPDATE, DELETE]}
  validations:
    - {expression: "request.name != 'denied'", message: no ConfigMap is called denied, reason: Forbidden}
    - {expression: "request.name != 'kept' || request.operation != 'DELETE'", message: kept is kept, reason: Forbidden}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: cases}
spec: {policyName: cases, validationActions: [Deny]}
"#;

async fn until_reported(
    bed: &Bed,
    (kind, name): (Kind, &str),
    expect: &BTreeMap<&str, (&str, &str, bool, &str)>,
) {
    let check = async || {
        let assemblage = bed.fleet().get(kind, name).await.unwrap();
        let states = assemblage["status"]["syncs"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let wrong: Vec<String> = expect
            .iter()
            .filter_map(|(name, expect)| {
                let state = states.iter().find(|state| state["name"] == **name);
                let reported = state.map(reported_state);
                let as_expected = reported.as_ref().is_some_and(|(state, class, terminal, reason)| {
                    // The message may differ while the row waits for its source.
                    (state.as_str(), class.as_str(), *terminal) == (expect.0, expect.1, expect.2)
                        && (expect.3.is_empty() || reason == expect.3)
                });
                (!as_expected).then(|| format!("{name}: {expect:?}, not {}", state.unwrap_or(&Value::Null)))
            })
            .collect();
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(wrong.join("\n"))
        }
    };
    bed.wait_until("every row is reported as in the table", REPORTED, check)
        .await;
}

fn reported_state(state: &Value) -> (String, String, bool, String) {
    let text = |field: &str| state[field].as_str().unwrap_or_default().to_owned();
    (
        text("state"),
        text("class"),
        state["terminal"].as_bool().unwrap_or_default(),
        text("reason"),
    )
}

fn case(name: &'static str, text: &str, expect: (&'static str, &'static str, bool, &'static str)) -> Case {
    Case {
        name,
        files: vec![("all.yaml", text.to_owned())],
        expect,
    }
}

fn config(name: &str, namespace: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\ndata: {{a: b}}\n"
    )
}

fn row(url: &str, name: &str, commit: &str) -> Value {
    json!({
        "name": name, "commit": commit,
        "source": {"git": {"url": url, "version": {"commit": commit}}},
        "package": {"path": format!("cases/{name}"), "interval": "1m", "retryInterval": "5s", "timeout": "10s"},
    })
}
