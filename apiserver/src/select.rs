//! Label and field selectors.

use std::cell::LazyCell;

use serde_json::Value;

use crate::jsonpath;
use crate::resources::Resource;
use crate::status::ApiError;
use crate::store::Stored;

/// Selects the objects of a list, watch or collection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: Vec<LabelRequirement>,
    fields: Vec<FieldRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LabelRequirement {
    key: String,
    test: LabelTest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelTest {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    /// Path in the stored object.
    path: String,
    value: String,
    equal: bool,
}

impl Selector {
    /// Parses `labelSelector` and `fieldSelector`.
    pub(crate) fn parse(resource: &Resource, labels: &str, fields: &str) -> Result<Self, ApiError> {
        Ok(Self {
            labels: parse_labels(labels)?,
            fields: parse_fields(resource, fields)?,
        })
    }

    /// Whether everything is selected.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether the object is selected.
    pub(crate) fn matches(&self, object: &Stored) -> bool {
        self.labels
            .iter()
            .all(|requirement| requirement.matches(object.label(&requirement.key)))
            && self.matches_fields(object)
    }

    /// Parses the JSON only for fields that are not stored separately.
    fn matches_fields(&self, object: &Stored) -> bool {
        let value = LazyCell::new(|| object.value());
        self.fields
            .iter()
            .all(|requirement| match requirement.path.as_str() {
                "metadata.name" => (object.key().name == requirement.value) == requirement.equal,
                "metadata.namespace" => (object.key().namespace == requirement.value) == requirement.equal,
                _ => requirement.matches(&value),
            })
    }

    /// Narrows the selection to one name.
    pub(crate) fn require_name(&mut self, name: &str) {
        self.fields.push(FieldRequirement {
            path: "metadata.name".to_owned(),
            value: name.to_owned(),
            equal: true,
        });
    }
}

impl LabelRequirement {
    fn matches(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok()); // not a number: no match
        match &self.test {
            LabelTest::Exists => value.is_some(),
            LabelTest::Absent => value.is_none(),
            LabelTest::In(values) => value.is_some_and(|value| values.iter().any(|v| v == value)),
            LabelTest::NotIn(values) => value.is_none_or(|value| values.iter().all(|v| v != value)),
            LabelTest::Greater(than) => number().is_some_and(|number| number > *than),
            LabelTest::Less(than) => number().is_some_and(|number| number < *than),
        }
    }
}

impl FieldRequirement {
    fn matches(&self, object: &Value) -> bool {
        let value = self.path.split('.').fold(object, |value, part| &value[part]);
        let shown = match value {
            Value::String(text) => text.clone(),
            Value::Null if matches!(self.value.as_str(), "true" | "false") => "false".to_owned(),
            Value::Null if self.path == "status.replicas" => "0".to_owned(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        (shown == self.value) == self.equal
    }
}

/// Splits at commas that are not inside parentheses.
fn clauses(text: &str) -> Vec<&str> {
    let mut depth = 0i32;
    let parts = text.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn parse_labels(text: &str) -> Result<Vec<LabelRequirement>, ApiError> {
    clauses(text)
        .into_iter()
        .map(|clause| label_requirement(clause).ok_or_else(|| unparsable(text)))
        .collect()
}

fn unparsable(text: &str) -> ApiError {
    ApiError::bad_request(&format!(
        "unable to parse requirement: found '{text}', which is not a label selector"
    ))
}

fn label_requirement(clause: &str) -> Option<LabelRequirement> {
    let requirement = |key: &str, test| {
        let key = key.trim();
        let is_key =
            !key.is_empty() && !key.contains(char::is_whitespace) && !key.contains(['(', ')', '!', '=']);
        is_key.then(|| LabelRequirement {
            key: key.to_owned(),
            test,
        })
    };
    if let Some((key, set)) = clause
        .split_once(" notin ")
        .or_else(|| clause.split_once(" notin("))
    {
        return requirement(key, LabelTest::NotIn(set_values(set)?));
    }
    if let Some((key, set)) = clause.split_once(" in ").or_else(|| clause.split_once(" in(")) {
        return requirement(key, LabelTest::In(set_values(set)?));
    }
    if let Some((key, value)) = clause.split_once("!=") {
        return requirement(key, LabelTest::NotIn(vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = clause.split_once("==").or_else(|| clause.split_once('=')) {
        return requirement(key, LabelTest::In(vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = clause.split_once('>') {
        return requirement(key, LabelTest::Greater(value.trim().parse().ok()?)); // not a number: not a selector
    }
    if let Some((key, value)) = clause.split_once('<') {
        return requirement(key, LabelTest::Less(value.trim().parse().ok()?)); // not a number: not a selector
    }
    match clause.strip_prefix('!') {
        Some(key) => requirement(key, LabelTest::Absent),
        None => requirement(clause, LabelTest::Exists),
    }
}

fn set_values(text: &str) -> Option<Vec<String>> {
    let inner = text.trim().trim_start_matches('(').strip_suffix(')')?;
    Some(inner.split(',').map(|value| value.trim().to_owned()).collect())
}

fn parse_fields(resource: &Resource, text: &str) -> Result<Vec<FieldRequirement>, ApiError> {
    clauses(text)
        .into_iter()
        .map(|clause| {
            let (path, value, equal) = field_clause(clause).ok_or_else(|| {
                ApiError::bad_request(&format!(
                    "invalid selector: '{text}'; can't understand '{clause}'"
                ))
            })?;
            let path = stored_path(resource, path)
                .ok_or_else(|| ApiError::bad_request(&unsupported(resource, path)))?;
            Ok(FieldRequirement {
                path,
                value: value.to_owned(),
                equal,
            })
        })
        .collect()
}

fn field_clause(clause: &str) -> Option<(&str, &str, bool)> {
    if let Some((path, value)) = clause.split_once("!=") {
        return Some((path, value, false));
    }
    let (path, value) = clause.split_once("==").or_else(|| clause.split_once('='))?;
    Some((path, value, true))
}

/// The path in the stored object for a field label, if the kind supports it.
fn stored_path(resource: &Resource, label: &str) -> Option<String> {
    if label == "metadata.name" || label == "metadata.namespace" {
        return Some(label.to_owned());
    }
    if let Some(custom) = resource.custom() {
        let known = custom
            .selectable
            .iter()
            .any(|path| jsonpath::dotted(path) == label);
        return known.then(|| label.to_owned());
    }
    let renamed = match (resource.group.as_str(), resource.kind.as_str(), label) {
        ("events.k8s.io", "Event", _) => label
            .replace("regarding.", "involvedObject.")
            .replace("reportingController", "reportingComponent"),
        ("", "Event", "source") => "source.component".to_owned(),
        ("batch", "Job", "status.successful") => "status.succeeded".to_owned(),
        _ => label.to_owned(),
    };
    supported(&resource.kind, &renamed).then_some(renamed)
}

/// The message for an unsupported field label: the real server has different ones for kinds with labels of their own.
fn unsupported(resource: &Resource, label: &str) -> String {
    if resource.custom().is_some() || !own_labels(&resource.kind).is_empty() {
        format!("field label not supported: {label}")
    } else {
        format!("{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    }
}

fn supported(kind: &str, path: &str) -> bool {
    own_labels(kind).contains(&path)
}

fn own_labels(kind: &str) -> &'static [&'static str] {
    match kind {
        "Event" => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source.component",
            "type",
        ],
        "Secret" => &["type"],
        "Pod" => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        "Node" => &["spec.unschedulable"],
        "Namespace" => &["status.phase"],
        "ReplicaSet" | "ReplicationController" => &["status.replicas"],
        "Job" => &["status.succeeded"],
        "Service" => &["spec.clusterIP", "spec.type"],
        "CertificateSigningRequest" => &["spec.signerName"],
        _ => &[],
    }
}

/// Whether labels match a `LabelSelector` object. An unknown operator matches nothing.
pub(crate) fn label_selector_matches(selector: &Value, labels: &Value) -> bool {
    let exact = selector["matchLabels"].as_object().into_iter().flatten();
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    exact
        .into_iter()
        .all(|(key, value)| &labels[key.as_str()] == value)
        && expressions
            .into_iter()
            .all(|expression| expression_matches(expression, labels))
}

fn expression_matches(expression: &Value, labels: &Value) -> bool {
    let values = || {
        let all = expression["values"].as_array().into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let test = match expression["operator"].as_str() {
        Some("In") => LabelTest::In(values()),
        Some("NotIn") => LabelTest::NotIn(values()),
        Some("Exists") => LabelTest::Exists,
        Some("DoesNotExist") => LabelTest::Absent,
        _ => return false,
    };
    let key = expression["key"].as_str().unwrap_or_default().to_owned();
    let value = labels[key.as_str()].as_str();
    LabelRequirement { key, test }.matches(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selects(selector: &str) -> Option<bool> {
        let object = json!({"a": "1", "tier": "web", "n": "5"});
        let requirements = parse_labels(selector).ok()?;
        Some(
            requirements
                .iter()
                .all(|requirement| requirement.matches(object[requirement.key.as_str()].as_str())),
        )
    }

    #[test]
    fn label_selectors() {
        for (selector, expect) in [
            ("", Some(true)),
            ("a", Some(true)),
            ("!a", Some(false)),
            ("!b", Some(true)),
            ("a=1", Some(true)),
            ("a==1,tier!=db", Some(true)),
            ("b!=1", Some(true)),
            ("tier in (web,db)", Some(true)),
            ("tier in (db), a=1", Some(false)),
            ("tier notin (db)", Some(true)),
            ("b notin (db)", Some(true)),
            ("n > 4", Some(true)),
            ("n<5", Some(false)),
            ("a b", None),
            ("n>x", None),
        ] {
            assert_eq!(selects(selector), expect, "{selector}");
        }
    }
}
