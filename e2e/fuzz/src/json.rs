//! JSON as in objects and patches of a cluster, derived from fuzzed bytes.

use arbitrary::{Result, Unstructured};
use serde_json::{Map, Value, json};

/// Names of fields: lists with and without keys, maps, text, and one that no kind has.
const FIELDS: [&str; 24] = [
    "name",
    "containers",
    "metadata",
    "spec",
    "template",
    "labels",
    "annotations",
    "finalizers",
    "ports",
    "env",
    "volumes",
    "containerPort",
    "image",
    "tolerations",
    "nodeSelector",
    "emptyDir",
    "hostPath",
    "imagePullSecrets",
    "replicas",
    "key",
    "value",
    "data",
    "",
    "a/b~c",
];

/// Directives of a strategic merge patch.
const DIRECTIVES: [&str; 8] = [
    "$patch",
    "$retainKeys",
    "$setElementOrder/containers",
    "$setElementOrder/finalizers",
    "$setElementOrder/ports",
    "$deleteFromPrimitiveList/finalizers",
    "$deleteFromPrimitiveList/containers",
    "$setElementOrder/a",
];

const TEXTS: [&str; 11] = [
    "a",
    "b",
    "c",
    "",
    "80",
    "merge",
    "replace",
    "delete",
    "x=y",
    "TCP",
    "ä\u{1f600}",
];

/// Maximum nesting of collections.
const DEPTH: usize = 5;

/// An object; `directives` adds those of a strategic merge patch.
pub(crate) fn object(u: &mut Unstructured<'_>, directives: bool) -> Result<Value> {
    members(u, directives, DEPTH)
}

/// Any JSON value.
pub(crate) fn value(u: &mut Unstructured<'_>, directives: bool) -> Result<Value> {
    any(u, directives, DEPTH)
}

/// The name of a field.
pub(crate) fn field(u: &mut Unstructured<'_>) -> Result<&'static str> {
    u.choose(&FIELDS).copied()
}

fn members(u: &mut Unstructured<'_>, directives: bool, depth: usize) -> Result<Value> {
    let mut members = Map::new();
    for _ in 0..u.int_in_range(0..=4)? {
        let key = if directives && u.ratio(1, 4)? {
            *u.choose(&DIRECTIVES)?
        } else {
            field(u)?
        };
        members.insert(key.to_owned(), member(u, key, directives, depth)?);
    }
    Ok(Value::Object(members))
}

/// Usually the type that the field has in Kubernetes, so that patches apply.
fn member(u: &mut Unstructured<'_>, key: &str, directives: bool, depth: usize) -> Result<Value> {
    if u.ratio(1, 8)? {
        return any(u, directives, depth.saturating_sub(1));
    }
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    match name {
        "containers" | "ports" | "env" | "volumes" | "tolerations" | "imagePullSecrets" => {
            let bare = key.starts_with("$setElementOrder/");
            list(u, |u| {
                keyed(u, name, directives && !bare, if bare { 0 } else { depth })
            })
        }
        "finalizers" | "$retainKeys" => list(u, |u| {
            Ok(json!(if name == "finalizers" {
                *u.choose(&TEXTS)?
            } else {
                field(u)?
            }))
        }),
        "metadata" | "spec" | "template" | "labels" | "annotations" | "nodeSelector" | "emptyDir"
        | "hostPath" | "data"
            if depth > 0 =>
        {
            members(u, directives, depth - 1)
        }
        "$patch" => Ok(json!(u.choose(&TEXTS)?)),
        _ => scalar(u),
    }
}

/// An item of a list that may have a key.
fn keyed(u: &mut Unstructured<'_>, list: &str, directives: bool, depth: usize) -> Result<Value> {
    if u.ratio(1, 16)? {
        return any(u, directives, depth.saturating_sub(1));
    }
    let mut item = if depth > 0 {
        members(u, directives, depth - 1)?
    } else {
        json!({})
    };
    if !u.ratio(1, 16)? {
        if list == "ports" {
            item["containerPort"] = json!(u.int_in_range(80..=82)?);
            item["protocol"] = json!("TCP");
        } else {
            item["name"] = json!(u.choose(&TEXTS[..3])?);
        }
    }
    Ok(item)
}

fn list(
    u: &mut Unstructured<'_>,
    mut item: impl FnMut(&mut Unstructured<'_>) -> Result<Value>,
) -> Result<Value> {
    let length = u.int_in_range(0..=3)?;
    (0..length).map(|_| item(u)).collect()
}

fn any(u: &mut Unstructured<'_>, directives: bool, depth: usize) -> Result<Value> {
    match u.int_in_range(0..=5)? {
        0 if depth > 0 => members(u, directives, depth - 1),
        1 if depth > 0 => list(u, |u| any(u, directives, depth - 1)),
        _ => scalar(u),
    }
}

fn scalar(u: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match u.int_in_range(0..=7)? {
        0 => Value::Null,
        1 => json!(u.arbitrary::<bool>()?),
        2 => json!(u.int_in_range(-1..=3)?),
        3 => json!(u.arbitrary::<i64>()?),
        4 => json!(u.arbitrary::<f64>()?),
        5 => json!(u.arbitrary::<&str>()?),
        _ => json!(u.choose(&TEXTS)?),
    })
}
