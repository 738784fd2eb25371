//! Table output.

use serde_json::{Value, json};

use crate::harness::{Cx, widgets};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn columns(table: &Value) -> Vec<String> {
    let columns = table["columnDefinitions"].as_array().unwrap();
    columns
        .iter()
        .map(|column| column["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn columns_of_a_crd() {
    let cx = Cx::new().await;
    let columns_given = json!({"additionalPrinterColumns": [
        {"name": "Text", "type": "string", "jsonPath": ".spec.text"},
        {"name": "Num", "type": "integer", "jsonPath": ".spec.num", "priority": 1, "description": "the number"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]});
    let widgets = cx
        .crd("widgets", &crate::harness::widget_schema(), &columns_given)
        .await;
    widgets.post("a", &json!({"text": "abc", "num": 1})).await.is(201);
    widgets.post("b", &json!({})).await.is(201);
    let table = cx.get_as(&widgets.path, TABLE).await.is(200);
    assert_eq!(
        (&table["kind"], &table["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(columns(&table), ["Name", "Text", "Num", "Age"]);
    assert_eq!(table["columnDefinitions"][0]["format"], "name");
    assert_eq!(table["columnDefinitions"][2]["priority"], 1);
    let cells = &table["rows"][0]["cells"];
    assert_eq!(
        (&cells[0], &cells[1], &cells[2]),
        (&json!("a"), &json!("abc"), &json!(1))
    );
    let age = cells[3].as_str().unwrap();
    assert!(age.ends_with('s'), "{age}");
    assert_eq!(
        (&table["rows"][1]["cells"][1], &table["rows"][1]["cells"][2]),
        (&Value::Null, &Value::Null)
    );
    let object = &table["rows"][0]["object"];
    assert_eq!(
        (&object["kind"], &object["apiVersion"]),
        (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(object.get("spec"), None);
}

#[tokio::test]
async fn a_crd_without_columns_has_name_and_age() {
    let (cx, widgets) = widgets().await;
    let table = cx.get_as(&widgets.path, TABLE).await.is(200);
    assert_eq!(columns(&table), ["Name", "Age"]);
}

#[tokio::test]
async fn a_crd_with_columns_has_age_only_if_it_names_it() {
    let cx = Cx::new().await;
    let one =
        json!({"additionalPrinterColumns": [{"name": "Num", "type": "integer", "jsonPath": ".spec.num"}]});
    let widgets = cx.crd("widgets", &crate::harness::widget_schema(), &one).await;
    assert_eq!(
        columns(&cx.get_as(&widgets.path, TABLE).await.is(200)),
        ["Name", "Num"]
    );
}

#[tokio::test]
async fn one_object_as_a_table() {
    let (cx, widgets) = widgets().await;
    widgets.post("a", &json!({})).await.is(201);
    let table = cx.get_as(&widgets.at("a"), TABLE).await.is(200);
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["rows"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn columns_of_built_in_kinds() {
    let cx = Cx::new().await;
    for (path, expect) in [
        (cx.cm(), "Name Data Age"),
        (cx.core("secrets"), "Name Type Data Age"),
        (
            cx.deployments(),
            "Name Ready Up-to-date Available Age Containers Images Selector",
        ),
        (
            cx.core("services"),
            "Name Type Cluster-IP External-IP Port(s) Age Selector",
        ),
        ("/api/v1/namespaces".to_owned(), "Name Status Age"),
        (crate::harness::CRDS.to_owned(), "Name Created At"),
    ] {
        let table = cx.get_as(&path, TABLE).await.is(200);
        assert_eq!(columns(&table).join(" "), expect, "{path}");
    }
}

#[tokio::test]
async fn kubectl_may_also_take_plain_json() {
    let cx = Cx::new().await;
    let accept = format!("{TABLE},application/json");
    assert_eq!(cx.get_as(&cx.cm(), &accept).await.is(200)["kind"], "Table");
    let reply = cx.get_as(&cx.cm(), "text/odd").await;
    assert_eq!(
        (reply.code, reply.reason()),
        (406, "NotAcceptable"),
        "{}",
        reply.text
    );
}

#[tokio::test]
async fn a_date_column_is_the_age_of_any_field_and_null_without_one() {
    let cx = Cx::new().await;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "at": {"type": "string", "format": "date-time"},
    }}}});
    let column =
        json!({"additionalPrinterColumns": [{"name": "At", "type": "date", "jsonPath": ".spec.at"}]});
    let widgets = cx.crd("widgets", &schema, &column).await;
    // Half an hour away from the next change of the age text.
    let at = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(24 * 60 + 30);
    widgets
        .post("a", &json!({"at": at.strftime("%FT%TZ").to_string()}))
        .await
        .is(201);
    widgets.post("b", &json!({})).await.is(201);
    let table = cx.get_as(&widgets.path, TABLE).await.is(200);
    let cells: Vec<&Value> = (0..2).map(|row| &table["rows"][row]["cells"][1]).collect();
    assert_eq!(cells, [&json!("24h"), &Value::Null]);
}
