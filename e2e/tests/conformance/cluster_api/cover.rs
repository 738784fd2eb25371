//! Tables of which changes are covered in place.

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use muster_machines::{
    CanAnswer, Coverage, Covered, Fallback, Level, Unanswered, Verdict, can_answer, verdict,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::registry::{Input, Table, product};

const COVERAGE: &str = "muster_machines::Coverage";

pub(super) const TABLES: &[Table] = &[
    product("hook-can-update-machine-extensions.json", COVERAGE, of_machine),
    product(
        "hook-can-update-machine-patches.json",
        COVERAGE,
        patches_of_machine,
    ),
    product(
        "hook-can-update-machineset-decision.json",
        "muster_machines::verdict",
        decision,
    )
    .wording(&["error"])
    .without(&["cached"]),
    product(
        "hook-can-update-machineset-extensions.json",
        COVERAGE,
        of_machine_set,
    ),
    product(
        "hook-can-update-machineset-patches.json",
        COVERAGE,
        patches_of_machine_set,
    ),
    product("hook-matching.json", COVERAGE, matching)
        .optional(&["changed", "current"])
        .beginning(&["error"]),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExtensionsInput {
    current: Value,
    desired: Value,
    handlers: Vec<String>,
    responses: BTreeMap<String, Value>,
}

fn of_machine(input: &Input<'_>) -> anyhow::Result<Value> {
    extensions(Level::Machine, input)
}

fn of_machine_set(input: &Input<'_>) -> anyhow::Result<Value> {
    extensions(Level::MachineSet, input)
}

fn extensions(level: Level, input: &Input<'_>) -> anyhow::Result<Value> {
    let given: ExtensionsInput = input.parse()?;
    let mut coverage = Coverage::begin(
        level,
        &json!({"current": given.current, "desired": given.desired}),
    )?;
    let before = coverage.sides()["current"].clone();
    let mut changes = Map::new();
    for handler in &given.handlers {
        if !coverage.is_open() {
            break;
        }
        let differences = leaves(&before, &coverage.sides()["current"]);
        if !differences.is_empty() {
            changes.insert(handler.clone(), Value::Object(differences));
        }
        let taken = answer(level, &given.responses[handler])
            .map_err(|refused| refused.to_string())
            .and_then(|answer| coverage.take(handler, &answer).map_err(|error| error.to_string()));
        if let Err(error) = taken {
            return Ok(json!({"error": error}));
        }
    }
    let mut result = end(coverage);
    result["seen"] = Value::Object(changes);
    Ok(result)
}

fn end(coverage: Coverage) -> Value {
    match coverage.end() {
        Covered::InPlace { .. } => json!({"canUpdate": true}),
        Covered::NotCovered(left) => {
            let kinds: Vec<String> = left.into_iter().map(|difference| difference.kind).collect();
            json!({"canUpdate": false, "notCovered": kinds})
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PatchesInput {
    current: Value,
    response: Value,
}

fn patches_of_machine(input: &Input<'_>) -> anyhow::Result<Value> {
    patches(Level::Machine, input)
}

fn patches_of_machine_set(input: &Input<'_>) -> anyhow::Result<Value> {
    patches(Level::MachineSet, input)
}

fn patches(level: Level, input: &Input<'_>) -> anyhow::Result<Value> {
    let given: PatchesInput = input.parse()?;
    let mut coverage = Coverage::begin(
        level,
        &json!({"current": given.current, "desired": given.current}),
    )?;
    let answer = answer(level, &given.response)?;
    Ok(match coverage.take("updater", &answer) {
        Ok(_) => json!({"current": coverage.reached().side()}),
        Err(error) => json!({"error": error.to_string()}),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MatchingInput {
    current: Value,
    desired: Value,
    response: Value,
}

fn matching(input: &Input<'_>) -> anyhow::Result<Value> {
    let given: MatchingInput = input.parse()?;
    let level = Level::MachineSet;
    let mut current = input.objects["base"].clone();
    json_patch::merge(&mut current, &given.current);
    let mut desired = current.clone();
    json_patch::merge(&mut desired, &given.desired);
    let mut coverage = Coverage::begin(level, &json!({"current": current, "desired": desired}))?;
    let answer = answer(level, &given.response)?;
    let before = coverage.sides()["current"].clone();
    let changed = match coverage.take("updater", &answer) {
        Ok(changed) => changed,
        Err(error) => return Ok(json!({"error": error.to_string()})),
    };
    let current = merge_patch(&before, &coverage.sides()["current"]);
    let mut result = end(coverage);
    result["changed"] = json!(changed);
    result["current"] = current;
    Ok(result)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DecisionInput {
    infrastructure_template: There,
    bootstrap_template: There,
    handlers: Vec<String>,
    extension_answer: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct There {
    old: bool,
    new: bool,
}

/// The change is a change of the version; an extension that approves covers it.
fn decision(input: &Input<'_>) -> anyhow::Result<Value> {
    let given: DecisionInput = input.parse()?;
    let side = |version: &str, infrastructure: bool, bootstrap: bool| {
        let template = json!({"spec": {"template": {"spec": {}}}});
        let mut side = json!({"machineSet": {"kind": "MachineSet", "spec": {"template": {"spec": {"version": version}}}}});
        for (key, is_there) in [
            ("infrastructureMachineTemplate", infrastructure),
            ("bootstrapConfigTemplate", bootstrap),
        ] {
            if is_there {
                side[key] = template.clone();
            }
        }
        side
    };
    let request = json!({
        "current": side("v1.30.0", given.infrastructure_template.old, given.bootstrap_template.old),
        "desired": side("v1.31.0", given.infrastructure_template.new, given.bootstrap_template.new),
    });
    let result = |can: bool, error: Option<String>, asked: bool| {
        Ok(json!({"canUpdate": can, "error": error, "extensionAsked": asked}))
    };
    let mut coverage = match Coverage::begin(Level::MachineSet, &request) {
        Ok(coverage) => coverage,
        Err(error) => return result(false, Some(error.to_string()), false),
    };
    let mut asked = false;
    for handler in given.handlers.iter().filter(|_| given.extension_answer.is_some()) {
        if coverage.is_open() {
            asked = true;
            let patch = json!([{"op": "replace", "path": "/spec/template/spec/version", "value": "v1.31.0"}]);
            let response = match given.extension_answer {
                Some(true) => {
                    json!({"status": "Success", "machineSetPatch": {"patchType": "JSONPatch", "patch": patch.to_string()}})
                }
                _ => json!({"status": "Success"}),
            };
            coverage.take(handler, &answer(Level::MachineSet, &response)?)?;
        }
    }
    let outcome = if given.handlers.is_empty() {
        Err(Unanswered::NoUpdaters)
    } else {
        Ok(coverage.end())
    };
    match verdict(outcome, Fallback::Replace) {
        Verdict::InPlace { .. } => result(true, None, asked),
        Verdict::Replace(_) => result(false, None, asked),
        Verdict::Hold(words) | Verdict::Again(words) => result(false, Some(words), asked),
    }
}

/// Patches in the tables are plain text; on the wire they are base64.
fn answer(level: Level, response: &Value) -> anyhow::Result<CanAnswer> {
    let mut response = response.clone();
    for (name, value) in response.as_object_mut().into_iter().flatten() {
        if let (true, Some(text)) = (name.ends_with("Patch"), value["patch"].as_str()) {
            value["patch"] = json!(BASE64_STANDARD.encode(text));
        }
    }
    Ok(can_answer(level, Ok((200, response.to_string().as_bytes())))?)
}

/// The values that differ from the previous object, by JSON pointer.
fn leaves(before: &Value, after: &Value) -> Map<String, Value> {
    let changed = json_patch::diff(before, after).0.into_iter();
    let paths = changed.map(|operation| operation.path().to_string());
    paths
        .map(|path| (path.clone(), after.pointer(&path).cloned().unwrap_or_default()))
        .collect()
}

/// The RFC 7386 patch from one value to the other; nothing if they are equal.
fn merge_patch(before: &Value, after: &Value) -> Value {
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return after.clone();
    };
    let mut patch = Map::new();
    for name in before.keys().chain(after.keys()) {
        match (before.get(name), after.get(name)) {
            (one, other) if one == other => {}
            (_, None) => {
                patch.insert(name.clone(), Value::Null);
            }
            (None, Some(value)) => {
                patch.insert(name.clone(), value.clone());
            }
            (Some(one), Some(other)) => {
                patch.insert(name.clone(), merge_patch(one, other));
            }
        }
    }
    Value::Object(patch)
}
