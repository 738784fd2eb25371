//! No value of a Secret is ever shown: not if the server refuses it, not if it drifted, not in a conflict.

use http::header::CONTENT_TYPE;
use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule},
};
use muster_sync::apply::{self, ApplyError, ApplyOutcome};
use serde_json::{Value, json};

use crate::support::{Bed, altered, hooked, pass, secret};

const CANARY: &str = "canary-f3a9";
const PATH: &str = "/api/v1/namespaces/default/secrets/s";

/// The canary as it is in a manifest, and as it is in an object.
fn is_silent(text: &str) {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let encoded = STANDARD.encode(CANARY);
    for form in [CANARY, encoded.trim_end_matches('=')] {
        assert!(!text.contains(form), "{text}");
    }
}

/// Everything that can be printed of a failed apply.
async fn failure_output(bed: &Bed, manifest: &Value) -> String {
    let plan = bed.plan(std::slice::from_ref(manifest)).await;
    let error = apply::run(&bed.cluster, &plan, &bed.ledger, &apply::Alone)
        .await
        .unwrap_err();
    let ApplyError::Objects { failures, .. } = &error else {
        panic!("{error}")
    };
    format!("{plan:?}\n{error}\n{error:?}\n{failures:?}")
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_the_server_refuses() {
    let plain = |data: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}, "data": data});
    let mut key = secret("s", &json!({"k": CANARY}));
    key["data"] = json!({"bad key": ""});
    let mut kind = secret("s", &json!({"k": CANARY}));
    kind["type"] = json!("kubernetes.io/tls");
    for refused in [
        plain(json!({"password": format!("{CANARY} is not base64")})),
        plain(json!({"password": {"nested": CANARY}})),
        plain(json!(CANARY)),
        secret("s", &json!({"port": 80, "password": CANARY})),
        key,
        kind,
    ] {
        let output = failure_output(&Bed::new(), &refused).await;
        is_silent(&output);
        assert!(output.contains("the server's message is withheld"), "{output}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_drifted() {
    let bed = Bed::new();
    let wanted = [secret("s", &json!({"k": CANARY}))];
    bed.applied(&wanted).await;
    bed.edit(PATH, json!({"stringData": {"k": "other", "theirs": CANARY}}))
        .await;
    let plan = bed.plan(&wanted).await;
    let applied = apply::run(&bed.cluster, &plan, &bed.ledger, &apply::Alone)
        .await
        .unwrap();
    assert_eq!(applied.count(ApplyOutcome::Configured), 1);
    is_silent(&format!("{plan:?}{applied:?}{:?}", bed.ledger.recorded.lock()));
}

/// A conflict that quotes the object, as that of a webhook may; and one during a takeover.
#[tokio::test(start_paused = true)]
async fn a_secret_in_a_conflict() {
    for (editor, expect) in [
        ("kubectl-edit", "was changed by another client"),
        ("operator", "dry-run failed (Conflict)"),
    ] {
        let bed = Bed::new();
        let wanted = secret("s", &json!({"k": CANARY}));
        bed.applied(std::slice::from_ref(&wanted)).await;
        bed.edit_as(editor, PATH, json!({"stringData": {"k": "other"}}))
            .await;
        let matching = Match {
            verbs: vec![Verb::Patch],
            path: Some("secrets".into()),
            ..Match::default()
        };
        bed.api
            .faults()
            .add(Rule::always(matching, Fault::Status(Failure::Conflict)));
        let client = hooked(bed.api.client(), |request, client| async move {
            let of_secret =
                request.uri().path().contains("secrets") && request.headers().contains_key(CONTENT_TYPE);
            let answer = pass(request, client).await?;
            if !of_secret {
                return Ok(answer);
            }
            altered(answer, |status| {
                status["message"] = json!(format!("the object has {CANARY}"));
            })
            .await
        });
        let bed = bed.through(client);
        let words = failure_output(&bed, &wanted).await;
        is_silent(&words);
        assert!(words.contains(expect), "{words}");
    }
}
