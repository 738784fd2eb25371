//! `metadata.managedFields`: which manager owns which paths.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::set::FieldSet;

/// `Apply` or `Update`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// A manager: for apply regardless of the version, for updates per version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manager {
    pub name: String,
    pub operation: Operation,
    /// API version, for updates only.
    pub api_version: Option<String>,
    pub subresource: Option<String>,
}

impl Manager {
    pub(super) fn applier(name: &str, subresource: Option<&str>) -> Self {
        Self {
            name: or_unknown(name),
            operation: Operation::Apply,
            api_version: None,
            subresource: subresource.map(str::to_owned),
        }
    }

    pub(super) fn updater(name: &str, api_version: &str, subresource: Option<&str>) -> Self {
        Self {
            name: or_unknown(name),
            operation: Operation::Update,
            api_version: Some(api_version.to_owned()),
            subresource: subresource.map(str::to_owned),
        }
    }

    /// The manager as printed in messages: `"kubectl" with subresource "status" using v1`.
    pub(super) fn printed(&self) -> String {
        let mut text = format!("{:?}", self.name);
        if let Some(subresource) = &self.subresource {
            text = format!("{text} with subresource {subresource:?}");
        }
        if let Some(version) = &self.api_version {
            text = format!("{text} using {version}");
        }
        text
    }
}

/// The fields that a manager owns, the version of the paths, and the time of its last change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    pub fields: FieldSet,
    pub api_version: String,
    pub time: Option<String>,
}

/// All entries of one object.
pub(super) type Managers = BTreeMap<Manager, Owned>;

/// Reads `metadata.managedFields`; `Err` if an entry is not of the known form.
pub(super) fn read(object: &Value) -> Result<Managers, ()> {
    let entries = object
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    entries.into_iter().flatten().map(read_entry).collect()
}

fn read_entry(entry: &Value) -> Result<(Manager, Owned), ()> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let api_version = text("apiVersion")
        .filter(|version| !version.is_empty())
        .ok_or(())?;
    let name = text("manager").unwrap_or_default();
    let subresource = text("subresource").filter(|name| !name.is_empty());
    let manager = match text("operation") {
        Some("Apply") => Manager {
            name: name.to_owned(),
            ..Manager::applier(name, subresource)
        },
        Some("Update") => Manager {
            name: name.to_owned(),
            ..Manager::updater(name, api_version, subresource)
        },
        _ => return Err(()),
    };
    if text("fieldsType") != Some("FieldsV1") {
        return Err(());
    }
    let fields = FieldSet::read(entry.get("fieldsV1").unwrap_or(&Value::Null));
    Ok((
        manager,
        Owned {
            fields,
            api_version: api_version.to_owned(),
            time: text("time").map(str::to_owned),
        },
    ))
}

/// Writes the entries in the order of the real server: appliers first, then by time, name, version, subresource.
pub(super) fn write(object: &mut Value, managers: &Managers) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    if managers.is_empty() {
        metadata.remove("managedFields");
        return;
    }
    let mut entries: Vec<(&Manager, &Owned)> = managers.iter().collect();
    entries.sort_by_key(|(manager, owned)| {
        (
            manager.operation,
            owned.time.as_ref(),
            &manager.name,
            &owned.api_version,
            manager.subresource.as_ref(),
        )
    });
    let entries: Vec<Value> = entries
        .into_iter()
        .map(|(manager, owned)| entry(manager, owned))
        .collect();
    metadata.insert("managedFields".to_owned(), Value::Array(entries));
}

fn entry(manager: &Manager, owned: &Owned) -> Value {
    let mut entry = json!({
        "manager": manager.name,
        "operation": manager.operation.name(),
        "apiVersion": owned.api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": owned.fields.to_json(),
    });
    if let Some(time) = &owned.time {
        entry["time"] = json!(time);
    }
    if let Some(subresource) = &manager.subresource {
        entry["subresource"] = json!(subresource);
    }
    entry
}

fn or_unknown(name: &str) -> String {
    if name.is_empty() {
        "unknown".to_owned()
    } else {
        name.to_owned()
    }
}
