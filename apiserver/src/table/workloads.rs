//! The cells of pods and of workload kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::values::{items, joined, number, selector_cell, text_or};
use crate::jsonpath;
use crate::meta;

/// The cells of a workload; `None` for other kinds.
pub(super) fn cells(
    kind: &str,
    object: &Value,
    name: &Value,
    age: &Value,
    now: Timestamp,
) -> Option<Vec<Value>> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let (name, age) = (name.clone(), age.clone());
    Some(match kind {
        "Pod" => pod(object, name, age),
        "Deployment" => {
            let ready = format!(
                "{}/{}",
                number(&status["readyReplicas"]),
                number(&spec["replicas"])
            );
            let mut cells = vec![name, ready.into(), number(&status["updatedReplicas"]).into()];
            cells.extend([number(&status["availableReplicas"]).into(), age]);
            cells.extend(containers(spec));
            cells.push(selector_cell(&spec["selector"]));
            cells
        }
        "ReplicaSet" | "ReplicationController" => {
            let mut cells = vec![
                name,
                number(&spec["replicas"]).into(),
                number(&status["replicas"]).into(),
            ];
            cells.extend([number(&status["readyReplicas"]).into(), age]);
            cells.extend(containers(spec));
            cells.push(selector_cell(&spec["selector"]));
            cells
        }
        "StatefulSet" => {
            let ready = format!(
                "{}/{}",
                number(&status["readyReplicas"]),
                number(&spec["replicas"])
            );
            let mut cells = vec![name, ready.into(), age];
            cells.extend(containers(spec));
            cells
        }
        "DaemonSet" => {
            let counts = [
                "desiredNumberScheduled",
                "currentNumberScheduled",
                "numberReady",
                "updatedNumberScheduled",
                "numberAvailable",
            ];
            let mut cells = vec![name];
            cells.extend(counts.iter().map(|field| json!(number(&status[field]))));
            cells.extend([selector_cell(&spec["template"]["spec"]["nodeSelector"]), age]);
            cells.extend(containers(spec));
            cells.push(selector_cell(&spec["selector"]));
            cells
        }
        "Job" => job(spec, status, name, age, now),
        _ => return None,
    })
}

fn pod(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let statuses: Vec<&Value> = items(&status["containerStatuses"]).collect();
    let ready = statuses.iter().filter(|status| status["ready"] == true).count();
    let total = items(&spec["containers"]).count();
    let restarts: i64 = statuses
        .iter()
        .map(|status| number(&status["restartCount"]))
        .sum();
    let reason = statuses.iter().find_map(|status| {
        let state = &status["state"];
        state["waiting"]["reason"]
            .as_str()
            .or_else(|| state["terminated"]["reason"].as_str())
    });
    let shown = if meta::is_terminating(object) {
        "Terminating"
    } else {
        reason
            .or_else(|| status["reason"].as_str())
            .or_else(|| status["phase"].as_str())
            .unwrap_or("Unknown")
    };
    let mut cells = vec![
        name,
        format!("{ready}/{total}").into(),
        shown.into(),
        restarts.to_string().into(),
        age,
    ];
    cells.extend([
        text_or(&status["podIP"], "<none>"),
        text_or(&spec["nodeName"], "<none>"),
        text_or(&status["nominatedNodeName"], "<none>"),
        "<none>".into(),
    ]);
    cells
}

fn containers(spec: &Value) -> [Value; 2] {
    let all = &spec["template"]["spec"]["containers"];
    ["name", "image"].map(|field| joined(items(all).map(|container| jsonpath::cell_text(&container[field]))))
}

fn job(spec: &Value, status: &Value, name: Value, age: Value, now: Timestamp) -> Vec<Value> {
    let is = |kind: &str| items(&status["conditions"]).any(|c| c["type"] == kind && c["status"] == "True");
    let state = match (is("Complete"), is("Failed"), is("Suspended")) {
        (true, ..) => "Complete",
        (_, true, _) => "Failed",
        (.., true) => "Suspended",
        _ => "Running",
    };
    let wanted = spec["completions"].as_i64().unwrap_or(1); // unset: 1
    let done = format!("{}/{wanted}", number(&status["succeeded"]));
    let end = status["completionTime"]
        .as_str()
        .and_then(|text| text.parse::<Timestamp>().ok())
        .unwrap_or(now); // still running
    let duration = status["startTime"]
        .as_str()
        .map(|start| super::values::age(start, end));
    let mut cells = vec![
        name,
        state.into(),
        done.into(),
        duration.unwrap_or_default().into(),
        age,
    ];
    cells.extend(containers(spec));
    cells.push(selector_cell(&spec["selector"]));
    cells
}
