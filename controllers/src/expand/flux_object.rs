//! Flux's source objects: `GitRepository`, and `OCIRepository` if Flux applies.

use std::{collections::BTreeMap, fmt::Debug};

use kube::{
    Resource, ResourceExt,
    core::{NamespaceResourceScope, ObjectMeta},
};
use muster_api::{
    flux::{GitRepository, GitRepositorySpec, GitRepositoryStatus, OciRepository, OciRepositorySpec},
    names,
    sync::SOURCE_FIELDS,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// A kind of Flux source.
pub trait SourceKind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + PartialEq
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// The name of the kind.
    const KIND: &'static str;
    /// The value of `spec.suspend`.
    fn suspend(&self) -> Option<bool>;
    /// The spec, with this value of `suspend`.
    fn spec(&self, suspend: Option<bool>) -> Map<String, Value>;
    /// The spec fields that are not modeled.
    fn other(&self) -> &BTreeMap<String, Value>;
    /// The same object with the spec of another one, this value of `suspend`, and these unmodeled fields.
    #[must_use]
    fn with_spec(&self, of: &Self, suspend: Option<bool>, other: BTreeMap<String, Value>) -> Self;
    /// The status that its controller reports.
    fn report(&self) -> Option<&GitRepositoryStatus>;
}

/// Whether the name is derived from the content: labels can be copied, but such a name does not occur by chance.
pub fn is_named_by_content<K: SourceKind>(object: &K) -> bool {
    let (name, spec) = (object.name_any(), content(object));
    let text = |field: &str, key: &str| spec.get(field)?.get(key)?.as_str();
    let of_git = || {
        let (url, commit) = (spec.get("url")?.as_str()?, text("ref", "commit")?);
        let (secret, proxy) = (text("secretRef", "name"), text("proxySecretRef", "name"));
        Some(names::source_through(url, commit, secret, proxy))
    };
    name == names::flux_source(K::KIND, &spec) || of_git().is_some_and(|of_git| name == of_git)
}

/// The part of the spec that the name is derived from: without the fields that every source has, and without defaults
/// of the kind.
pub fn content<K: SourceKind>(object: &K) -> Map<String, Value> {
    let mut spec = object.spec(None);
    spec.retain(|field, _| SOURCE_FIELDS.contains(&field.as_str()));
    spec
}

fn fields(spec: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(spec) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

macro_rules! source_kind {
    ($object:ident, $spec:ident, $kind:literal) => {
        impl SourceKind for $object {
            const KIND: &'static str = $kind;

            fn suspend(&self) -> Option<bool> {
                self.spec.suspend
            }

            fn spec(&self, suspend: Option<bool>) -> Map<String, Value> {
                let spec = $spec {
                    suspend,
                    ..self.spec.clone()
                };
                fields(&spec)
            }

            fn other(&self) -> &BTreeMap<String, Value> {
                &self.spec.other
            }

            fn with_spec(&self, of: &Self, suspend: Option<bool>, other: BTreeMap<String, Value>) -> Self {
                let spec = $spec {
                    suspend,
                    other,
                    ..of.spec.clone()
                };
                Self {
                    metadata: self.metadata.clone(),
                    spec,
                    status: None,
                }
            }

            fn report(&self) -> Option<&GitRepositoryStatus> {
                self.status.as_ref()
            }
        }
    };
}

source_kind!(GitRepository, GitRepositorySpec, "GitRepository");
source_kind!(OciRepository, OciRepositorySpec, "OCIRepository");

/// A Flux source object.
#[derive(Clone, Debug, PartialEq)]
pub enum FluxObject {
    /// A git repository.
    Git(Box<GitRepository>),
    /// An OCI artifact.
    Oci(Box<OciRepository>),
}

impl FluxObject {
    /// The name of the kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Git(_) => GitRepository::KIND,
            Self::Oci(_) => OciRepository::KIND,
        }
    }

    /// The object's metadata.
    pub const fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Git(object) => &object.metadata,
            Self::Oci(object) => &object.metadata,
        }
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }
}

impl From<GitRepository> for FluxObject {
    fn from(object: GitRepository) -> Self {
        Self::Git(Box::new(object))
    }
}

impl From<OciRepository> for FluxObject {
    fn from(object: OciRepository) -> Self {
        Self::Oci(Box::new(object))
    }
}
