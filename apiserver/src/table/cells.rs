//! The cells of each kind.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::values::{age, count_cell, items, joined, number, selector_cell, text_or};
use super::workloads;
use crate::jsonpath;
use crate::meta;
use crate::resources::Resource;

/// The cells of an object, in the order of its kind's columns.
pub(super) fn row_cells(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    if let Some(custom) = resource.custom() {
        let mut cells = vec![meta::name(object).into()];
        if custom.columns.is_empty() {
            cells.push(age_of(object, now));
        }
        cells.extend(
            custom
                .columns
                .iter()
                .map(|column| custom_cell(column, object, now)),
        );
        return cells;
    }
    builtin(resource, object, now)
}

fn custom_cell(column: &Value, object: &Value, now: Timestamp) -> Value {
    let path = column["jsonPath"].as_str().unwrap_or_default();
    let found = jsonpath::values_at(object, path);
    let Some(first) = found.first() else {
        return Value::Null;
    };
    match (column["type"].as_str().unwrap_or_default(), *first) {
        (_, Value::Null) => Value::Null,
        ("integer", value) => value.as_f64().map_or(Value::Null, |number| {
            value.as_i64().map_or_else(|| json!(number), |whole| json!(whole))
        }),
        ("number", value) if value.is_number() => value.clone(),
        ("boolean", value) if value.is_boolean() => value.clone(),
        ("date", Value::String(text)) => age(text, now).into(),
        ("string", _) if found.len() > 1 => {
            let all: Vec<String> = found.iter().map(|value| jsonpath::cell_text(value)).collect();
            all.join(",").into()
        }
        ("string", value) => jsonpath::cell_text(value).into(),
        _ => Value::Null,
    }
}

fn age_of(object: &Value, now: Timestamp) -> Value {
    age(meta::metadata_text(object, "creationTimestamp"), now).into()
}

fn builtin(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let name = json!(meta::name(object));
    let age = age_of(object, now);
    if let Some(cells) = workloads::cells(&resource.kind, object, &name, &age, now) {
        return cells;
    }
    match resource.kind.as_str() {
        "Node" => node(object, name, age),
        "Namespace" => vec![name, status["phase"].clone(), age],
        "Service" => service(spec, status, name, age),
        "ConfigMap" => {
            let data = count_cell(&object["data"]).as_u64().unwrap_or(0)
                + count_cell(&object["binaryData"]).as_u64().unwrap_or(0);
            vec![name, data.into(), age]
        }
        "Secret" => vec![name, object["type"].clone(), count_cell(&object["data"]), age],
        "ServiceAccount" => vec![name, count_cell(&object["secrets"]), age],
        "Event" => event(object, name, now),
        "Lease" => vec![name, text_or(&spec["holderIdentity"], ""), age],
        "Endpoints" => vec![name, endpoints(object), age],
        "EndpointSlice" => {
            let ports = joined(items(&object["ports"]).map(|port| jsonpath::cell_text(&port["port"])));
            let addresses = items(&object["endpoints"]).flat_map(|endpoint| items(&endpoint["addresses"]));
            vec![
                name,
                object["addressType"].clone(),
                ports,
                joined(addresses.map(jsonpath::cell_text)),
                age,
            ]
        }
        "RoleBinding" | "ClusterRoleBinding" => role_binding(object, name, age),
        "Ingress" => {
            let hosts = joined(items(&spec["rules"]).map(|rule| jsonpath::cell_text(&rule["host"])));
            vec![
                name,
                text_or(&spec["ingressClassName"], "<none>"),
                hosts,
                "".into(),
                "80".into(),
                age,
            ]
        }
        "PersistentVolumeClaim" => {
            let modes = joined(items(&spec["accessModes"]).map(jsonpath::cell_text));
            let mut cells = vec![name, status["phase"].clone(), text_or(&spec["volumeName"], "")];
            cells.extend([
                text_or(&status["capacity"]["storage"], ""),
                modes,
                text_or(&spec["storageClassName"], ""),
                age,
            ]);
            cells
        }
        "CustomResourceDefinition" | "Role" | "ClusterRole" => {
            vec![name, meta::metadata_text(object, "creationTimestamp").into()]
        }
        _ => vec![name, age],
    }
}

fn node(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let status = &object["status"];
    let info = &status["nodeInfo"];
    let ready = items(&status["conditions"]).find(|condition| condition["type"] == "Ready");
    let mut state = match ready.map(|condition| condition["status"] == "True") {
        Some(true) => "Ready".to_owned(),
        Some(false) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if object["spec"]["unschedulable"] == true {
        state.push_str(",SchedulingDisabled");
    }
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    let roles = labels.filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/").map(str::to_owned));
    let address = |kind: &str| {
        let found = items(&status["addresses"]).find(|address| address["type"] == kind);
        found.map_or_else(|| "<none>".into(), |address| address["address"].clone())
    };
    let mut cells = vec![
        name,
        state.into(),
        joined(roles),
        age,
        text_or(&info["kubeletVersion"], ""),
    ];
    cells.extend([
        address("InternalIP"),
        address("ExternalIP"),
        text_or(&info["osImage"], "<unknown>"),
        text_or(&info["kernelVersion"], "<unknown>"),
        text_or(&info["containerRuntimeVersion"], "<unknown>"),
    ]);
    cells
}

fn service(spec: &Value, status: &Value, name: Value, age: Value) -> Vec<Value> {
    let ports = joined(items(&spec["ports"]).map(|port| {
        let node = number(&port["nodePort"]);
        let number = number(&port["port"]);
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        if node > 0 {
            format!("{number}:{node}/{protocol}")
        } else {
            format!("{number}/{protocol}")
        }
    }));
    let balancers = items(&status["loadBalancer"]["ingress"]);
    let external =
        joined(balancers.map(|at| jsonpath::cell_text(at.get("ip").unwrap_or_else(|| &at["hostname"]))));
    let kind = text_or(&spec["type"], "ClusterIP");
    vec![
        name,
        kind,
        text_or(&spec["clusterIP"], "<none>"),
        external,
        ports,
        age,
        selector_cell(&spec["selector"]),
    ]
}

fn event(object: &Value, name: Value, now: Timestamp) -> Vec<Value> {
    let pick = |fields: &[&str]| {
        let found = fields
            .iter()
            .map(|field| &object[*field])
            .find(|value| !value.is_null());
        found.cloned().unwrap_or(Value::Null)
    };
    let elapsed = |fields: &[&str]| {
        let at = pick(fields);
        at.as_str()
            .map_or_else(|| "<unknown>".to_owned(), |text| age(text, now))
    };
    let about = pick(&["involvedObject", "regarding"]);
    let kind = about["kind"].as_str().unwrap_or_default().to_lowercase();
    let target = format!("{kind}/{}", about["name"].as_str().unwrap_or_default());
    let source = pick(&["source", "deprecatedSource"])["component"].clone();
    let source = if source.is_null() {
        pick(&["reportingComponent", "reportingController"])
    } else {
        source
    };
    let last = match object["series"]["lastObservedTime"].as_str() {
        Some(text) => age(text, now),
        None => elapsed(&["lastTimestamp", "deprecatedLastTimestamp", "eventTime"]),
    };
    let count = object["series"]["count"]
        .as_i64()
        .or_else(|| pick(&["count", "deprecatedCount"]).as_i64())
        .unwrap_or(1); // observed once
    vec![
        last.into(),
        pick(&["type"]),
        pick(&["reason"]),
        target.into(),
        text_or(&about["fieldPath"], ""),
        text_or(&source, ""),
        pick(&["message", "note"]),
        elapsed(&["firstTimestamp", "deprecatedFirstTimestamp", "eventTime"]).into(),
        count.into(),
        name,
    ]
}

fn endpoints(object: &Value) -> Value {
    joined(items(&object["subsets"]).flat_map(|subset| {
        let ports: Vec<String> = items(&subset["ports"])
            .map(|port| jsonpath::cell_text(&port["port"]))
            .collect();
        items(&subset["addresses"]).flat_map(move |address| {
            let ip = jsonpath::cell_text(&address["ip"]);
            ports
                .iter()
                .map(|port| format!("{ip}:{port}"))
                .collect::<Vec<_>>()
        })
    }))
}

fn role_binding(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let role = &object["roleRef"];
    let role = format!(
        "{}/{}",
        jsonpath::cell_text(&role["kind"]),
        jsonpath::cell_text(&role["name"])
    );
    let subjects = |kind: &'static str| {
        let of_kind = items(&object["subjects"]).filter(move |subject| subject["kind"] == kind);
        joined(of_kind.map(|subject| match subject["namespace"].as_str() {
            Some(namespace) => format!("{namespace}/{}", jsonpath::cell_text(&subject["name"])),
            None => jsonpath::cell_text(&subject["name"]),
        }))
    };
    vec![
        name,
        role.into(),
        age,
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}
