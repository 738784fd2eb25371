//! Tables and metadata-only representations: what `kubectl get` shows.

mod cells;
mod columns;
mod values;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::resources::Resource;

/// What each row includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    /// Nothing.
    None,
    /// The metadata.
    Metadata,
    /// The complete object.
    Object,
}

/// A column of a Table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Heading.
    pub name: String,
    /// `string`, `integer`, `date`, ...
    pub kind: String,
    /// `name` for the first one.
    pub format: String,
    /// Description of the column.
    pub description: String,
    /// 0 is always shown, higher values only in wide output.
    pub priority: i64,
}

impl Column {
    fn new(name: &str, kind: &str, priority: i64) -> Self {
        let format = if name == "Name" { "name" } else { "" };
        Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            format: format.to_owned(),
            description: format!("{name} of the object"),
            priority,
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name, "type": self.kind, "format": self.format, "description": self.description,
            "priority": self.priority,
        })
    }
}

/// Only the metadata of an object.
pub(crate) fn partial(metadata: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

/// Objects as a Table.
pub(crate) fn render(
    resource: &Resource,
    objects: &[&Value],
    metadata: &Value,
    include: Include,
    now: Timestamp,
) -> Value {
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut row = json!({"cells": cells::row_cells(resource, object, now)});
            match include {
                Include::None => {}
                Include::Metadata => row["object"] = partial(&object["metadata"]),
                Include::Object => row["object"] = (*object).clone(),
            }
            row
        })
        .collect();
    let columns: Vec<Value> = columns::kind_columns(resource)
        .iter()
        .map(Column::to_json)
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns,
        "rows": rows,
    })
}
