//! The served resources: one [`Resource`] for each group, version and plural, built in or from a definition.
//!
//! - `builtin`: the table of built-in kinds.
//! - `catalog`: all served resources at one moment.
//! - `versions`: conversion between a resource's version and the stored one; `events`: the two versions of Event.

pub(crate) mod builtin;
pub(crate) mod catalog;
pub(crate) mod events;
pub(crate) mod names;
pub(crate) mod types;
pub(crate) mod versions;

use std::sync::Arc;

use serde_json::Value;

use crate::apply::TypeRef;
use crate::schema::Schema;
use crate::status::GroupResource;

/// One resource at one version.
#[derive(Debug)]
pub(crate) struct Resource {
    /// API group, empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural name, as in paths.
    pub plural: String,
    /// Singular name.
    pub singular: String,
    /// Kind.
    pub kind: String,
    /// Kind of lists.
    pub list_kind: String,
    /// Short names.
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether there is a status subresource.
    pub status: bool,
    /// The scale subresource, if any.
    pub scale: Option<Scale>,
    /// Where objects are stored (two resources may share one store).
    pub storage: GroupResource,
    /// The apiVersion of stored objects.
    pub storage_api_version: String,
    /// Field types.
    pub typing: Typing,
}

/// The field types of a kind.
#[derive(Debug)]
pub(crate) enum Typing {
    /// A built-in kind, by the name of its type, if the type table has it.
    Builtin(Option<&'static str>),
    /// A version of a custom resource.
    Custom(Arc<CustomVersion>),
}

/// One version of a custom resource definition.
#[derive(Debug)]
pub(crate) struct CustomVersion {
    /// Its schema.
    pub schema: Arc<Schema>,
    /// The schema of the storage version: fields that it lacks are not stored.
    pub stored: Arc<Schema>,
    /// The schema as the definition has it.
    pub openapi: Arc<str>,
    /// `additionalPrinterColumns`.
    pub columns: Vec<Value>,
    /// Paths of `selectableFields`.
    pub selectable: Vec<String>,
    /// Whether the definition is being deleted: no instances can be created.
    pub terminating: bool,
    /// Identifies the definition and its state from which this was built.
    pub source: String,
    /// Warning in responses of a deprecated version.
    pub deprecation: Option<String>,
}

/// Fields of the scale subresource, as dotted paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    /// Desired replicas.
    pub spec: String,
    /// Observed replicas.
    pub status: String,
    /// The pod selector, as text or as a label selector.
    pub selector: Option<String>,
}

impl Resource {
    /// `apiVersion` of objects at this version.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The resource, as written in messages.
    pub(crate) fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.plural)
    }

    /// The custom version, for custom resources.
    pub(crate) fn custom(&self) -> Option<&CustomVersion> {
        match &self.typing {
            Typing::Custom(version) => Some(version),
            Typing::Builtin(_) => None,
        }
    }

    /// The type, for merges by field.
    pub(crate) fn type_ref(&self) -> TypeRef<'_> {
        match &self.typing {
            Typing::Custom(version) => TypeRef::Custom(&version.schema),
            Typing::Builtin(Some(name)) => TypeRef::Builtin(name),
            Typing::Builtin(None) => TypeRef::Untyped,
        }
    }

    /// Whether objects have a `metadata.generation` that counts changes of the spec.
    pub(crate) fn counts_generations(&self) -> bool {
        self.custom().is_some() || builtin::counts_generations(&self.group, &self.kind)
    }

    /// Whether objects are stored in the version that this resource serves.
    pub(crate) fn is_stored_as_served(&self) -> bool {
        self.storage_api_version == self.api_version()
    }

    /// Whether this is the built-in `kind` of `group`.
    pub(crate) fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }
}
