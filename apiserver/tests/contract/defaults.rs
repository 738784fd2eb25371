//! Defaulting and pruning of custom resources, unknown fields.

use serde_json::{Value, json};

use crate::harness::{Cx, Kind};

async fn defaulted(cx: &Cx) -> Kind {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "n": {"type": "integer", "default": 5},
        "outer": {"type": "object", "default": {}, "properties": {"inner": {"type": "string", "default": "x"}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string", "default": "y"}}}},
        "nullable": {"type": "string", "nullable": true, "default": "d"},
        "plain": {"type": "string"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
    }}}});
    cx.crd("widgets", &schema, &json!({})).await
}

#[tokio::test]
async fn defaults_come_in_at_every_level() {
    let cx = Cx::new().await;
    let widgets = defaulted(&cx).await;
    let made = widgets
        .post("a", &json!({"list": [{}, {"a": "z"}]}))
        .await
        .is(201);
    assert_eq!(
        made["spec"],
        json!({
            "n": 5, "outer": {"inner": "x"}, "list": [{"a": "y"}, {"a": "z"}], "nullable": "d",
        })
    );
}

#[tokio::test]
async fn nothing_is_defaulted_below_what_is_absent() {
    let cx = Cx::new().await;
    let widgets = defaulted(&cx).await;
    let object = json!({"apiVersion": widgets.api_version, "kind": "Widget", "metadata": {"name": "a"}});
    let made = cx.post(&widgets.path, &object).await.is(201);
    assert_eq!(made.get("spec"), None);
}

#[tokio::test]
async fn nulls_are_dropped_defaulted_or_kept() {
    let cx = Cx::new().await;
    let widgets = defaulted(&cx).await;
    let spec = json!({"n": null, "nullable": null, "plain": null});
    let made = widgets.post("a", &spec).await.is(201);
    assert_eq!(
        made["spec"],
        json!({"n": 5, "outer": {"inner": "x"}, "nullable": null})
    );
}

#[tokio::test]
async fn defaults_belong_to_no_applier() {
    let cx = Cx::new().await;
    let widgets = defaulted(&cx).await;
    let made = widgets.apply("x", &json!({"plain": "p"})).await.is(201);
    assert_eq!(made["spec"]["n"], 5);
    assert_eq!(
        crate::harness::owners(&made),
        [r#"x Apply - {"f:spec":{"f:plain":{}}}"#]
    );
    let again = widgets.apply("x", &json!({"plain": "p"})).await.is(200);
    assert_eq!(again, made);
    let changed = widgets.apply("y", &json!({"n": 6})).await.is(200);
    assert_eq!(changed["spec"]["n"], 6);
    let back = widgets.apply("y", &json!({})).await.is(200);
    assert_eq!(back["spec"]["n"], 5);
}

#[tokio::test]
async fn unknown_fields_are_dropped_with_a_warning() {
    let cx = Cx::new().await;
    let widgets = defaulted(&cx).await;
    let reply = widgets.post("a", &json!({"n": 1, "bogus": 1})).await;
    assert_eq!(reply.warnings(), ["299 - \"unknown field \\\"spec.bogus\\\"\""]);
    assert_eq!(reply.is(201)["spec"].get("bogus"), None);
}

#[tokio::test]
async fn ignore_drops_silently() {
    let cx = Cx::new().await;
    let widgets = defaulted(&cx).await;
    let path = format!("{}?fieldValidation=Ignore", widgets.path);
    let reply = cx.post(&path, &widgets.object("a", &json!({"bogus": 1}))).await;
    assert_eq!(reply.warnings(), Vec::<String>::new());
    assert_eq!(reply.is(201)["spec"].get("bogus"), None);
}

#[tokio::test]
async fn strict_refuses_unknown_fields() {
    let cx = Cx::new().await;
    let widgets = defaulted(&cx).await;
    let path = format!("{}?fieldValidation=Strict", widgets.path);
    let mut object = widgets.object("a", &json!({"bogus": 1}));
    cx.post(&path, &object).await.refuses(
        400,
        "BadRequest",
        "strict decoding error: unknown field \"spec.bogus\"",
    );
    object["metadata"]["odd"] = json!(1);
    let reply = cx.post(&path, &object).await;
    reply.refuses(400, "BadRequest", "unknown field \"spec.bogus\"");
    assert!(
        reply.message().contains("unknown field \"metadata.odd\""),
        "{}",
        reply.text
    );
}

#[tokio::test]
async fn strict_refuses_unknown_fields_of_built_in_kinds() {
    let cx = Cx::new().await;
    let path = format!("{}?fieldValidation=Strict", cx.cm());
    let reply = cx
        .post(&path, &json!({"metadata": {"name": "a"}, "dta": {}}))
        .await;
    reply.refuses(400, "BadRequest", "strict decoding error: unknown field \"dta\"");
    let made = cx
        .post(&cx.cm(), &json!({"metadata": {"name": "a"}, "dta": {}}))
        .await
        .is(201);
    assert_eq!(made.get("dta"), None);
}

#[tokio::test]
async fn preserved_and_embedded_fields_stay() {
    let cx = Cx::new().await;
    let widgets = defaulted(&cx).await;
    let embedded = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"l": "1"}}, "spec": {"x": 1}});
    let spec = json!({"free": {"any": {"thing": [1]}}, "embedded": embedded});
    let made = widgets.post("a", &spec).await.is(201);
    let same = |key: &str| -> (Value, Value) { (made["spec"][key].clone(), spec[key].clone()) };
    for key in ["free", "embedded"] {
        let (left, right) = same(key);
        assert_eq!(left, right);
    }
}
