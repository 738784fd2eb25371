//! Compares the definitions of muster's kinds in a cluster with those of this command.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use muster_api::crds;
use muster_controllers::runtime::Api;
use muster_controllers::runtime::{CallError, call_within};
use serde_json::{Map, Value};

use crate::apply::DEADLINE;

/// Every definition that this command may install, except the minimal Cluster kind: that one is Cluster API's.
pub fn all_definitions() -> Vec<CustomResourceDefinition> {
    let mut all = crds::management();
    all.extend(crds::downstream());
    all.extend(crds::flux());
    all
}

/// The names of the definitions that are installed and differ from those of this command.
pub async fn differing(client: &Client, names: &[&str]) -> Result<Vec<String>, CallError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut differing = Vec::new();
    for ours in all_definitions() {
        let name = ours.metadata.name.clone().unwrap_or_default(); // muster's definitions have one
        if !names.contains(&name.as_str()) {
            continue;
        }
        let there = call_within(DEADLINE, format!("reading definition {name}"), api.get_opt(&name)).await?;
        if there.is_some_and(|there| !same(&ours, &there)) {
            differing.push(name);
        }
    }
    Ok(differing)
}

/// Whether both serve the same versions with the same schemas and columns; fields that a server fills in do not count.
pub fn same(ours: &CustomResourceDefinition, there: &CustomResourceDefinition) -> bool {
    versions(ours) == versions(there)
}

fn versions(definition: &CustomResourceDefinition) -> Value {
    // A definition always serializes to JSON.
    bare(&serde_json::to_value(&definition.spec.versions).unwrap_or_default())
}

/// Without empty values, and with numbers normalized.
fn bare(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().map(|(key, value)| (key.clone(), bare(value)));
            // A default, such as `{}`, is a value.
            let kept = kept.filter(|(key, value)| key == "default" || !is_empty(value));
            Value::Object(kept.collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(bare).collect()),
        Value::Number(number) => number.as_f64().map_or_else(|| value.clone(), Value::from),
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_fills_in_is_no_difference_and_a_changed_schema_is_one() {
        let ours = crds::management().remove(0);
        let mut there = ours.clone();
        there.metadata.uid = Some("1".to_owned());
        there.spec.preserve_unknown_fields = Some(false);
        assert!(same(&ours, &there));
        if let Some(version) = there.spec.versions.first_mut() {
            version.additional_printer_columns = None;
        }
        assert!(!same(&ours, &there));
    }
}
