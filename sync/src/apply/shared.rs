//! Objects that several Kustomizations declare in one cluster: one of them holds the object and applies it, the others
//! compare.
//!
//! ```text
//!   labels of the live object ─► Declarers::holder ─┬─► none, or this one: apply it
//!                                                   └─► another: dry run of what is declared here ─► equal: confirmed, no write
//!                                                                                                 └► different: SharedObject
//!   to be pruned ─► Declarers::heir ─┬─► none: delete it
//!                                    └─► another: its labels, no deletion
//! ```
//!
//! Invariant: an object that another Kustomization holds is neither written nor deleted.

use async_trait::async_trait;
use muster_api::labels::label;
use serde_json::{Map, Value, json};

use super::{
    CallError, Cluster, Kind, ObjectFailure, Owner, Prepared,
    drift::{VOLATILE, drifted_content},
    error::immutable_fields,
    handover::send_patch,
    managed,
};
use crate::inventory::ObjectId;

/// The labels that name the owner of an object.
pub(super) const OWNERSHIP: [&str; 3] = [
    label::KUSTOMIZE_NAME,
    label::KUSTOMIZE_NAMESPACE,
    label::APPLIED_FROM,
];

/// The other Kustomizations that declare objects in the target cluster.
#[async_trait]
pub trait Declarers: Send + Sync {
    /// The other Kustomization that holds the live object, as text; `None` if there is none. On an error the object is
    /// left as it is.
    async fn holder(&self, id: &ObjectId, live: &Value) -> Result<Option<String>, String>;

    /// The Kustomization that takes over an object to be pruned; `None` if no other one declares it. On an error
    /// nothing is deleted.
    async fn heir(&self, id: &ObjectId) -> Result<Option<Successor>, String>;
}

/// A Kustomization that an object is handed over to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Successor {
    /// The Kustomization.
    pub owner: Owner,
    /// Whether it is applied in the target cluster itself, not through `spec.kubeConfig`.
    pub in_cluster: bool,
}

/// No other Kustomization declares objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

#[async_trait]
impl Declarers for Alone {
    async fn holder(&self, _id: &ObjectId, _live: &Value) -> Result<Option<String>, String> {
        Ok(None)
    }

    async fn heir(&self, _id: &ObjectId) -> Result<Option<Successor>, String> {
        Ok(None)
    }
}

/// Compares the manifest with an object that `holder` holds. Fails if a declared field differs.
pub(super) async fn compare(
    cluster: &Cluster,
    kind: &Kind,
    object: &Prepared,
    live: &Value,
    holder: &str,
) -> Result<(), ObjectFailure> {
    let id = &object.id;
    let dry_run = match cluster.compare(kind, id, &declared(&object.body)).await {
        Ok(dry_run) => dry_run,
        Err(error) => {
            return Err(match immutable_fields(&error) {
                Some(fields) => ObjectFailure::shared(id.clone(), holder, &fields.join(", ")),
                None => ObjectFailure::call(id.clone(), "dry-run", &error),
            });
        }
    };
    if drifted_content(live, &dry_run) {
        let field = first_difference(live, &dry_run).unwrap_or_else(|| "a field".to_owned());
        return Err(ObjectFailure::shared(id.clone(), holder, &field));
    }
    Ok(())
}

/// The manifest without the ownership labels.
fn declared(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        let labels = metadata.get_mut("labels").and_then(Value::as_object_mut);
        let is_empty = labels.is_some_and(|labels| {
            labels.retain(|label, _| !OWNERSHIP.contains(&label.as_str()));
            labels.is_empty()
        });
        if is_empty {
            metadata.remove("labels");
        }
    }
    body
}

/// The path of the first field of content that differs.
fn first_difference(live: &Value, dry_run: &Value) -> Option<String> {
    let none = Map::new();
    let fields = |object: &'_ Value| object.as_object().cloned().unwrap_or_default();
    let metadata = |object: &Value| {
        let mut metadata = object["metadata"].as_object().unwrap_or(&none).clone();
        metadata.retain(|field, _| !VOLATILE.contains(&field.as_str()));
        metadata
    };
    let (mut one, mut other) = (fields(live), fields(dry_run));
    for (content, object) in [(&mut one, live), (&mut other, dry_run)] {
        content.remove("status");
        content.insert("metadata".to_owned(), Value::Object(metadata(object)));
    }
    let path = different(&Value::Object(one), &Value::Object(other))?;
    Some(path.trim_start_matches('.').to_owned())
}

/// The path of the first value that differs, in the notation of `kubectl get -o jsonpath`.
fn different(one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        _ if one == other => None,
        (Value::Object(one), Value::Object(other)) => {
            let names = one
                .keys()
                .chain(other.keys().filter(|name| !one.contains_key(*name)));
            let mut changed = names.filter_map(|name| {
                let (before, after) = (one.get(name), other.get(name));
                let below = match (before, after) {
                    (Some(before), Some(after)) => different(before, after)?,
                    (Some(only), None) | (None, Some(only)) => leaf(only),
                    (None, None) => return None,
                };
                Some(format!("{}{below}", step(name)))
            });
            changed.next()
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let mut items = one.iter().zip(other).enumerate();
            items.find_map(|(index, (one, other))| Some(format!("[{index}]{}", different(one, other)?)))
        }
        _ => Some(String::new()),
    }
}

/// The path to the first leaf of a value that only one of two objects has.
fn leaf(value: &Value) -> String {
    match value {
        Value::Object(fields) => fields.iter().next().map_or_else(String::new, |(name, below)| {
            format!("{}{}", step(name), leaf(below))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => String::new(),
    }
}

fn step(name: &str) -> String {
    if name.contains(['.', '/']) {
        format!("['{name}']")
    } else {
        format!(".{name}")
    }
}

/// Hands the object over to its successor by changing its labels. `false` if the object has changed since it was read,
/// or is gone.
pub(super) async fn release(
    cluster: &Cluster,
    kind: &Kind,
    id: &ObjectId,
    live: &Value,
    to: &Successor,
) -> Result<bool, CallError> {
    let written = send_patch(cluster, kind, id, &relabelled(live, to)).await?;
    Ok(written.is_some())
}

/// The JSON patch that sets the ownership labels of a Kustomization on an object.
fn relabelled(live: &Value, to: &Successor) -> Value {
    let path = |label: &str| format!("/metadata/labels/{}", label.replace('/', "~1"));
    let mut operations = vec![
        json!({"op": "add", "path": path(label::KUSTOMIZE_NAME), "value": to.owner.name}),
        json!({"op": "add", "path": path(label::KUSTOMIZE_NAMESPACE), "value": to.owner.namespace}),
    ];
    let stamped = applied_from(live).is_some();
    if stamped && to.in_cluster {
        operations.push(json!({"op": "remove", "path": path(label::APPLIED_FROM)}));
    }
    operations.push(managed::on_version(live));
    Value::Array(operations)
}

/// The cluster that an object was applied from, according to its label.
pub fn applied_from(live: &Value) -> Option<&str> {
    live.pointer("/metadata/labels")?
        .get(label::APPLIED_FROM)?
        .as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merge(into: &mut Value, change: Value) {
        match (into, change) {
            (Value::Object(into), Value::Object(change)) => {
                for (name, value) in change {
                    merge(into.entry(name).or_insert(Value::Null), value);
                }
            }
            (into, change) => *into = change,
        }
    }

    #[test]
    fn the_first_field_that_differs_is_named() {
        let live = json!({"metadata": {"name": "a", "uid": "1", "labels": {"x": "1"}}, "data": {"key": "one"}, "status": {"a": 1},
            "spec": {"ports": [{"port": 1}, {"port": 2}]}});
        for (change, field) in [
            (json!({}), None),
            (json!({"metadata": {"uid": "2"}, "status": {"a": 2}}), None),
            (json!({"data": {"key": "two"}}), Some("data.key")),
            (json!({"data": {"tls.crt": "two"}}), Some("data['tls.crt']")),
            (
                json!({"metadata": {"labels": {"x": "2"}}}),
                Some("metadata.labels.x"),
            ),
            (
                json!({"metadata": {"annotations": {"example.org/x": "2"}}}),
                Some("metadata.annotations['example.org/x']"),
            ),
            (
                json!({"spec": {"ports": [{"port": 1}, {"port": 3}]}}),
                Some("spec.ports[1].port"),
            ),
            (json!({"spec": {"ports": []}}), Some("spec.ports")),
        ] {
            let mut other = live.clone();
            merge(&mut other, change.clone());
            assert_eq!(first_difference(&live, &other).as_deref(), field, "{change}");
        }
    }

    #[test]
    fn what_is_declared_names_no_owner() {
        let labels =
            json!({label::KUSTOMIZE_NAME: "a", label::KUSTOMIZE_NAMESPACE: "b", label::APPLIED_FROM: "c"});
        let body = json!({"metadata": {"name": "a", "labels": labels}});
        assert_eq!(declared(&body), json!({"metadata": {"name": "a"}}));
        let mut body = body;
        body["metadata"]["labels"]["team"] = json!("x");
        assert_eq!(
            declared(&body),
            json!({"metadata": {"name": "a", "labels": {"team": "x"}}})
        );
    }

    #[test]
    fn the_mark_of_another_cluster_goes_where_it_is_applied_in_the_cluster() {
        let to = |in_cluster| Successor {
            owner: Owner {
                name: "two".to_owned(),
                namespace: "ns".to_owned(),
            },
            in_cluster,
        };
        let live = json!({"metadata": {"resourceVersion": "7", "labels": {label::KUSTOMIZE_NAME: "one",
            label::KUSTOMIZE_NAMESPACE: "ns", label::APPLIED_FROM: "c"}}});
        for (in_cluster, stays) in [(true, false), (false, true)] {
            let operations = relabelled(&live, &to(in_cluster));
            let removes = operations.to_string().contains(r#""op":"remove""#);
            assert_eq!(removes, !stays, "{operations}");
        }
    }
}
