//! Validation of CustomResourceDefinitions.

use serde_json::{Value, json};

use super::versions::alike;
use crate::meta;
use crate::resources::names::is_dns_label;
use crate::schema::{Cause, Schema, reason};

/// Fills in defaults that follow from other fields.
pub(crate) fn fill(definition: &mut Value) {
    let spec = &mut definition["spec"];
    if !spec.is_object() {
        return;
    }
    let names = &mut spec["names"];
    if let Some(kind) = names["kind"].as_str().map(str::to_owned) {
        if names["singular"].as_str().unwrap_or_default().is_empty() {
            names["singular"] = kind.to_lowercase().into();
        }
        if names["listKind"].as_str().unwrap_or_default().is_empty() {
            names["listKind"] = format!("{kind}List").into();
        }
    }
    if spec["conversion"].is_null() {
        spec["conversion"] = json!({"strategy": "None"});
    }
}

/// Validation errors of a definition.
pub(crate) fn problems(new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &new["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    if meta::name(new) != format!("{plural}.{group}") {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        causes.push(Cause::invalid("metadata.name", &meta::name(new).into(), detail));
    }
    if group.is_empty() {
        causes.push(Cause::required("spec.group", ""));
    } else if group.split('.').count() < 2 {
        causes.push(Cause::invalid(
            "spec.group",
            &group.as_str().into(),
            "should be a domain with at least one dot",
        ));
    }
    scope(spec, &mut causes);
    names(spec, &mut causes);
    if group.ends_with(".k8s.io") || group.ends_with(".kubernetes.io") {
        approval(new, &mut causes);
    }
    if old.is_none_or(|old| old["spec"]["versions"] != spec["versions"]) {
        versions(spec, &mut causes);
    }
    if let Some(old) = old {
        immutable(new, old, &mut causes);
    }
    causes
}

fn scope(spec: &Value, causes: &mut Vec<Cause>) {
    match spec["scope"].as_str().unwrap_or_default() {
        "Namespaced" | "Cluster" => {}
        "" => causes.push(Cause::required("spec.scope", "")),
        other => {
            let message =
                format!("Unsupported value: \"{other}\": supported values: \"Cluster\", \"Namespaced\"");
            causes.push(Cause::new(reason::NOT_SUPPORTED, "spec.scope", message));
        }
    }
}

fn names(spec: &Value, causes: &mut Vec<Cause>) {
    const RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    let names = &spec["names"];
    for field in ["plural", "singular", "kind", "listKind"] {
        let value = names[field].as_str().unwrap_or_default();
        let path = format!("spec.names.{field}");
        if value.is_empty() {
            causes.push(Cause::required(path, ""));
        } else if !is_dns_label(&value.to_lowercase()) || value.starts_with(|c: char| c.is_ascii_digit()) {
            let mixed = if field.to_lowercase().contains("kind") {
                "may have mixed case, but should otherwise match: "
            } else {
                ""
            };
            causes.push(Cause::invalid(path, &value.into(), &format!("{mixed}{RULE}")));
        }
    }
    if !names["kind"].is_null() && names["kind"] == names["listKind"] {
        let detail = "kind and listKind may not be the same";
        causes.push(Cause::invalid("spec.names.listKind", &names["listKind"], detail));
    }
}

/// Groups of the Kubernetes project need an approval annotation.
fn approval(definition: &Value, causes: &mut Vec<Cause>) {
    const KEY: &str = "api-approved.kubernetes.io";
    if definition["metadata"]["annotations"][KEY]
        .as_str()
        .unwrap_or_default()
        .is_empty()
    {
        let detail = "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111";
        causes.push(Cause::required(format!("metadata.annotations[{KEY}]"), detail));
    }
}

fn versions(spec: &Value, causes: &mut Vec<Cause>) {
    let Some(versions) = spec["versions"]
        .as_array()
        .filter(|versions| !versions.is_empty())
    else {
        causes.push(Cause::required("spec.versions", "must have at least one version"));
        return;
    };
    if versions
        .iter()
        .filter(|version| version["storage"] == true)
        .count()
        != 1
    {
        let detail = "must have exactly one version marked as storage version";
        causes.push(Cause::invalid("spec.versions", &spec["versions"], detail));
    }
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        let name = version["name"].as_str().unwrap_or_default();
        if !is_dns_label(name) {
            let detail = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
            causes.push(Cause::invalid(format!("{path}.name"), &name.into(), detail));
        }
        if versions[..index]
            .iter()
            .any(|earlier| earlier["name"] == version["name"])
        {
            causes.push(Cause::invalid(
                "spec.versions",
                &spec["versions"],
                "must contain unique version names",
            ));
        }
        if !alike(versions, "schema") {
            schema(version, &format!("{path}.schema"), causes);
        }
        if !alike(versions, "additionalPrinterColumns") {
            columns(version, &path, causes);
        }
    }
    // What all versions share is reported at the spec, as in `v1beta1`.
    if alike(versions, "schema") {
        schema(&versions[0], "spec.validation", causes);
    }
    if alike(versions, "additionalPrinterColumns") {
        columns(&versions[0], "spec", causes);
    }
    causes.extend(super::selectable::problems(versions));
}

fn schema(version: &Value, path: &str, causes: &mut Vec<Cause>) {
    let openapi = &version["schema"]["openAPIV3Schema"];
    let at = format!("{path}.openAPIV3Schema");
    if openapi.is_null() {
        causes.push(Cause::required(at, "schemas are required"));
        return;
    }
    if let Err(problems) = Schema::shared(openapi) {
        causes.extend(problems.into_iter().map(|problem| Cause {
            field: format!("{path}.{}", problem.field),
            ..problem
        }));
    }
}

fn columns(version: &Value, path: &str, causes: &mut Vec<Cause>) {
    let columns = version["additionalPrinterColumns"]
        .as_array()
        .into_iter()
        .flatten();
    for (index, column) in columns.enumerate() {
        let at = format!("{path}.additionalPrinterColumns[{index}]");
        for (field, shown, detail) in [
            ("name", "name", ""),
            (
                "type",
                "type",
                "must be one of boolean,date,integer,number,string",
            ),
            ("jsonPath", "JSONPath", ""),
        ] {
            if column[field].as_str().unwrap_or_default().is_empty() {
                causes.push(Cause::required(format!("{at}.{shown}"), detail));
            }
        }
        let kind = column["type"].as_str().unwrap_or_default();
        if !kind.is_empty() && !matches!(kind, "boolean" | "date" | "integer" | "number" | "string") {
            let detail = "must be one of boolean,date,integer,number,string";
            causes.push(Cause::invalid(format!("{at}.type"), &kind.into(), detail));
        }
    }
}

fn immutable(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    const DETAIL: &str = "field is immutable";
    for (field, path) in [("group", "spec.group"), ("scope", "spec.scope")] {
        if new["spec"][field] != old["spec"][field] {
            causes.push(Cause::invalid(path, &new["spec"][field], DETAIL));
        }
    }
    for field in ["plural", "kind"] {
        if new["spec"]["names"][field] != old["spec"]["names"][field] {
            causes.push(Cause::invalid(
                format!("spec.names.{field}"),
                &new["spec"]["names"][field],
                DETAIL,
            ));
        }
    }
    let stored = old["status"]["storedVersions"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate();
    for (index, version) in stored {
        let versions = new["spec"]["versions"].as_array().into_iter().flatten();
        if !versions.into_iter().any(|v| v["name"] == *version) {
            let detail = "must appear in spec.versions";
            causes.push(Cause::invalid(
                format!("status.storedVersions[{index}]"),
                version,
                detail,
            ));
        }
    }
}
