//! `selectableFields`: fields by which the objects of a definition can be selected.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::versions::alike;
use crate::schema::{self, Cause};

/// Maximum number per version.
const MOST: usize = 8;

/// Validation errors of the selectable fields of all versions. As for schemas and columns, fields that all versions
/// share are treated as if they were in the spec; if they are there while the schemas are not, or vice versa, that is
/// an error.
pub(super) fn problems(versions: &[Value]) -> Vec<Cause> {
    match (alike(versions, "selectableFields"), alike(versions, "schema")) {
        (true, true) => fields(&versions[0], "spec"),
        (true, false) => misplaced(
            &versions[0],
            "spec",
            "may only be set when validations.schema is included",
        ),
        (false, shared) => {
            let all = versions.iter().enumerate().map(|(index, version)| {
                let path = format!("spec.versions[{index}]");
                if shared {
                    let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
                    misplaced(version, &path, detail)
                } else {
                    fields(version, &path)
                }
            });
            all.flatten().collect()
        }
    }
}

fn paths(version: &Value) -> Vec<&str> {
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    fields
        .map(|field| field["jsonPath"].as_str().unwrap_or_default())
        .collect()
}

fn misplaced(version: &Value, at: &str, detail: &str) -> Vec<Cause> {
    if paths(version).is_empty() {
        return Vec::new();
    }
    vec![Cause::invalid(
        format!("{at}.selectableFields"),
        &json!(""),
        detail,
    )]
}

fn fields(version: &Value, at: &str) -> Vec<Cause> {
    let (at, paths) = (format!("{at}.selectableFields"), paths(version));
    let mut causes = Vec::new();
    let mut unique_paths = BTreeSet::new();
    for (index, path) in paths.iter().enumerate() {
        let at = format!("{at}[{index}].jsonPath");
        if let Some(cause) = field(&version["schema"]["openAPIV3Schema"], path, &at) {
            causes.push(cause);
        } else if !unique_paths.insert(path) {
            causes.push(Cause::duplicate(at, &json!(path)));
        }
    }
    if unique_paths.len() > MOST {
        causes.push(Cause::too_many(at, paths.len(), MOST as u64));
    }
    causes
}

/// Validation error of one path into a schema.
fn field(schema: &Value, path: &str, at: &str) -> Option<Cause> {
    if path.is_empty() {
        return Some(Cause::required(at, ""));
    }
    let detail = match schema::member_at(path, schema) {
        Some(found) if matches!(found["type"].as_str(), Some("string" | "boolean" | "integer")) => {
            return None;
        }
        Some(_) => {
            "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
        }
        None if path.contains('[') => "is an invalid path: array notation is not allowed",
        None => "is an invalid path: does not refer to a valid field",
    };
    Some(Cause::invalid(at, &json!(path), detail))
}
