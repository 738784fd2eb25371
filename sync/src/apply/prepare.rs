//! From a manifest to the applied body: identity, namespace, ownership labels, options set by annotations. Pure.

use std::{collections::BTreeSet, time::Duration};

use muster_api::labels::label;
use serde_json::{Map, Value};

use super::{error::ObjectFailure, normalize::normalize};
pub use crate::prepared::{ObjectPolicy, Prepared};
use crate::{
    build::names,
    cluster::kinds::split_api_version,
    inventory::{ObjectId, stage},
};

/// The Kustomization that the objects belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Name of the Kustomization.
    pub name: String,
    /// Namespace of the Kustomization.
    pub namespace: String,
}

/// How objects are applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The Kustomization that the objects belong to.
    pub owner: Owner,
    /// The namespace that overrides that of all namespaced objects.
    pub target_namespace: Option<String>,
    /// Whether objects are deleted and created again if an immutable field changes.
    pub force: bool,
    /// How long to wait for a definition to be established, and for a deleted object to be gone.
    pub timeout: Duration,
}

impl Owner {
    /// The owner in the labels of a live object, if they name one.
    pub fn of(object: &Value) -> Option<Self> {
        let labels = object.pointer("/metadata/labels")?;
        let value = |key: &str| labels.get(key)?.as_str().map(str::to_owned);
        Some(Self {
            name: value(label::KUSTOMIZE_NAME)?,
            namespace: value(label::KUSTOMIZE_NAMESPACE)?,
        })
    }

    /// Whether the labels of a live object name this owner.
    pub fn owns(&self, object: &Value) -> bool {
        Self::of(object).as_ref() == Some(self)
    }
}

/// Prepares one manifest, given its `kind` as served.
pub fn prepare(manifest: Value, namespaced: bool, options: &Options) -> Result<Prepared, Box<ObjectFailure>> {
    let mut id = identity(&manifest);
    let version = split_api_version(text_at(&manifest, "/apiVersion")).1.to_owned();
    id.namespace = match (namespaced, &options.target_namespace) {
        (false, _) => String::new(),
        (true, Some(target)) => target.clone(),
        (true, None) if id.namespace.is_empty() => return Err(Box::new(ObjectFailure::no_namespace(id))),
        (true, None) => id.namespace,
    };
    check_names(&id)?;
    let wishes = ObjectPolicy::of(&manifest);
    let mut body = manifest;
    if let Some(object) = body.as_object_mut() {
        normalize(&id, object);
    }
    let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) else {
        return Err(Box::new(ObjectFailure::no_metadata(id)));
    };
    if namespaced {
        metadata.insert("namespace".into(), id.namespace.clone().into());
    } else {
        metadata.remove("namespace");
    }
    let labels = metadata
        .entry("labels")
        .or_insert_with(|| Value::Object(Map::new()));
    if labels.is_null() {
        *labels = Value::Object(Map::new());
    }
    let Some(labels) = labels.as_object_mut() else {
        return Err(Box::new(ObjectFailure::labels_are_no_map(id)));
    };
    // The label says where an object was applied from, which a manifest cannot know.
    labels.remove(label::APPLIED_FROM);
    labels.insert(label::KUSTOMIZE_NAME.into(), options.owner.name.clone().into());
    labels.insert(
        label::KUSTOMIZE_NAMESPACE.into(),
        options.owner.namespace.clone().into(),
    );
    Ok(Prepared {
        id,
        version,
        body,
        wishes,
    })
}

/// Repeats the checks of the build, now that the namespace is known: from here on an id is used as a path and stored.
fn check_names(id: &ObjectId) -> Result<(), Box<ObjectFailure>> {
    let namespace = match id.namespace.as_str() {
        "" => Ok(()),
        namespace => names::namespace(namespace),
    };
    namespace
        .and_then(|()| names::name(&id.group, &id.kind, &id.name))
        .map_err(|problem| Box::new(ObjectFailure::invalid_name(id.clone(), &problem)))?;
    if id.misread() {
        return Err(Box::new(ObjectFailure::misread_name(id.clone())));
    }
    Ok(())
}

/// The identity given in a manifest; its scope may override the namespace.
pub fn identity(manifest: &Value) -> ObjectId {
    ObjectId {
        namespace: text_at(manifest, "/metadata/namespace").to_owned(),
        name: text_at(manifest, "/metadata/name").to_owned(),
        group: split_api_version(text_at(manifest, "/apiVersion")).0.to_owned(),
        kind: text_at(manifest, "/kind").to_owned(),
    }
}

/// The kinds that a definition declares: the `apiVersion` of each served version, the kind, and whether it is
/// namespaced.
pub fn defined_kinds(definition: &Value) -> impl Iterator<Item = (String, String, bool)> {
    let group = text_at(definition, "/spec/group");
    let kind = text_at(definition, "/spec/names/kind");
    let namespaced = text_at(definition, "/spec/scope") == "Namespaced";
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    versions
        .into_iter()
        .flatten()
        .filter(|version| version["served"] == true)
        .map(move |version| {
            (
                format!("{group}/{}", text_at(version, "/name")),
                kind.to_owned(),
                namespaced,
            )
        })
}

/// Whether the object defines a kind.
pub fn is_definition(id: &ObjectId) -> bool {
    id.group == "apiextensions.k8s.io" && id.kind == "CustomResourceDefinition"
}

/// Orders by stage, and within a stage by kind, dependencies first.
pub fn sort(objects: &mut [Prepared]) {
    objects.sort_by_cached_key(|object| {
        let (group, kind) = (object.id.group.as_str(), object.id.kind.as_str());
        (
            stage::stage_of(group, kind),
            stage::rank(group, kind),
            object.id.clone(),
        )
    });
}

/// Objects that occur more than once; this happens only if a target namespace makes two of them the same.
pub fn duplicates(objects: &[Prepared]) -> Vec<ObjectFailure> {
    let mut ids = BTreeSet::new();
    objects
        .iter()
        .filter(|object| !ids.insert(&object.id))
        .map(|object| ObjectFailure::duplicate(object.id.clone()))
        .collect()
}

/// The text at a pointer; empty if there is none.
pub(super) fn text_at<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
