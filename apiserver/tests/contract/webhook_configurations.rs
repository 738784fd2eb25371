//! Webhook configurations: their defaults, their generation, and their validation.

use serde_json::{Value, json};

use crate::harness::{Cx, generation};
use crate::hooks::Kind;

fn configuration(cx: &Cx, name: &str, more: &Value) -> Value {
    let mut hook = json!({
        "name": format!("hook.{}.example", cx.id), "clientConfig": {"url": "https://localhost/x"}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "objectSelector": {"matchLabels": {"never": cx.id}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
    });
    for (field, value) in more.as_object().unwrap() {
        hook[field] = value.clone();
    }
    json!({"metadata": {"name": format!("{}-{name}", cx.id)}, "webhooks": [hook]})
}

#[tokio::test]
async fn what_is_left_out_has_a_default() {
    let cx = Cx::new().await;
    for kind in [Kind::Mutating, Kind::Validating] {
        let config = json!({"service": {"namespace": "n", "name": "s"}});
        let body = configuration(&cx, "a", &json!({"clientConfig": config}));
        let made = cx.post(kind.path(), &body).await.is(201);
        let hook = &made["webhooks"][0];
        assert_eq!(
            (
                &hook["failurePolicy"],
                &hook["matchPolicy"],
                &hook["timeoutSeconds"]
            ),
            (&json!("Fail"), &json!("Equivalent"), &json!(10))
        );
        assert_eq!(
            (&hook["namespaceSelector"], &hook["rules"][0]["scope"]),
            (&json!({}), &json!("*"))
        );
        assert_eq!(hook["clientConfig"]["service"]["port"], 443);
        let again = match kind {
            Kind::Mutating => json!("Never"),
            Kind::Validating => Value::Null,
        };
        assert_eq!(hook["reinvocationPolicy"], again);
        cx.delete(&format!("{}/{}-a", kind.path(), cx.id)).await.is(200);
    }
}

#[tokio::test]
async fn the_generation_counts_changes_of_the_webhooks() {
    let cx = Cx::new().await;
    let kind = Kind::Validating;
    let made = cx
        .post(kind.path(), &configuration(&cx, "a", &json!({})))
        .await
        .is(201);
    assert_eq!(generation(&made), 1);
    let path = format!("{}/{}-a", kind.path(), cx.id);
    let labelled = cx
        .merge(&path, &json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .is(200);
    assert_eq!(generation(&labelled), 1);
    let mut changed = labelled;
    changed["webhooks"][0]["timeoutSeconds"] = json!(3);
    let changed = cx.put(&path, &changed).await.is(200);
    assert_eq!(generation(&changed), 2);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let cx = Cx::new().await;
    let rule = |field: &str, value: Value| {
        let mut rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]});
        rule[field] = value;
        json!({"rules": [rule]})
    };
    let url = |url: &str| json!({"clientConfig": {"url": url}});
    let form = "; desired format: https://host[/path]";
    for (more, cause) in [
        (json!({"name": "short.example"}), "FieldValueInvalid webhooks[0].name: Invalid value: \"short.example\": should be a domain with at least three segments separated by dots".to_owned()),
        (json!({"sideEffects": null}), "FieldValueRequired webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun".to_owned()),
        (json!({"sideEffects": "Some"}), "FieldValueNotSupported webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"".to_owned()),
        (json!({"timeoutSeconds": 31}), "FieldValueInvalid webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds".to_owned()),
        (json!({"failurePolicy": "Maybe"}), "FieldValueNotSupported webhooks[0].failurePolicy: Unsupported value: \"Maybe\": supported values: \"Fail\", \"Ignore\"".to_owned()),
        (json!({"clientConfig": {}}), "FieldValueRequired webhooks[0].clientConfig: Required value: exactly one of url or service is required".to_owned()),
        (url("http://localhost/x"), format!("FieldValueInvalid webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme{form}")),
        (url("https://localhost/x?a=b"), "FieldValueInvalid webhooks[0].clientConfig.url: Invalid value: \"a=b\": query parameters are not permitted in the URL".to_owned()),
        (url("https://localhost/x#a"), "FieldValueInvalid webhooks[0].clientConfig.url: Invalid value: \"a\": fragments are not permitted in the URL".to_owned()),
        (json!({"admissionReviewVersions": ["v9"]}), "FieldValueInvalid webhooks[0].admissionReviewVersions: Invalid value: [\"v9\"]: must include at least one of v1, v1beta1".to_owned()),
        (json!({"admissionReviewVersions": []}), "FieldValueRequired webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1".to_owned()),
        (rule("operations", json!(["READ"])), "FieldValueNotSupported webhooks[0].rules[0].operations[0]: Unsupported value: \"READ\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\"".to_owned()),
        (rule("scope", json!("Some")), "FieldValueNotSupported webhooks[0].rules[0].scope: Unsupported value: \"Some\": supported values: \"*\", \"Cluster\", \"Namespaced\"".to_owned()),
        (rule("apiGroups", json!([])), "FieldValueRequired webhooks[0].rules[0].apiGroups: Required value".to_owned()),
        (json!({"matchConditions": [{"name": "a", "expression": ""}]}), "FieldValueRequired webhooks[0].matchConditions[0].expression: Required value".to_owned()),
    ] {
        let reply = cx
            .post(Kind::Mutating.path(), &configuration(&cx, "bad", &more))
            .await;
        reply.refuses(422, "Invalid", "").causes(&[&cause]);
    }
    let broken = json!({"matchConditions": [{"name": "a", "expression": "object."}]});
    cx.post(Kind::Validating.path(), &configuration(&cx, "bad", &broken))
        .await
        .refuses(
            422,
            "Invalid",
            "webhooks[0].matchConditions[0].expression: Invalid value: \"object.\": compilation failed: ",
        );
}

#[tokio::test]
async fn names_of_webhooks_are_unique_in_a_configuration() {
    let cx = Cx::new().await;
    let mut body = configuration(&cx, "a", &json!({}));
    let again = body["webhooks"][0].clone();
    body["webhooks"].as_array_mut().unwrap().push(again.clone());
    let cause = format!(
        "FieldValueDuplicate webhooks[1].name: Duplicate value: {}",
        again["name"]
    );
    cx.post(Kind::Validating.path(), &body)
        .await
        .refuses(422, "Invalid", "")
        .causes(&[&cause]);
}
