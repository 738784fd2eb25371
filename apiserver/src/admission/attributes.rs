//! Attributes of a request for admission.

use serde_json::{Value, json};

use crate::meta;
use crate::resources::Resource;
use crate::status::{ApiError, GroupResource};

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    /// The operation as written in rules and reviews.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// Group, version and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TypeName {
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl TypeName {
    /// The kind of a resource.
    pub(crate) fn of(resource: &Resource) -> Self {
        Self {
            group: resource.group.clone(),
            version: resource.version.clone(),
            kind: resource.kind.clone(),
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({"group": self.group, "version": self.version, "kind": self.kind})
    }
}

/// Decodes an object changed by a webhook like a request body: prunes it and applies defaults.
pub(crate) type Remake<'a> = &'a (dyn Fn(Value) -> Result<Value, ApiError> + Send + Sync);

/// A request as sent to webhooks.
pub(crate) struct Attributes<'a> {
    pub operation: Operation,
    pub resource: &'a Resource,
    /// Kind of the object sent; for `scale` and `eviction` it differs from the resource's.
    pub kind: TypeName,
    /// Subresource; empty for the object itself.
    pub subresource: &'a str,
    /// Namespace; empty for cluster-scoped kinds; for a Namespace its own name.
    pub namespace: String,
    /// Name; empty if the server generates it.
    pub name: String,
    pub object: Option<Value>,
    pub old: Option<Value>,
    /// `CreateOptions`, `UpdateOptions` or `DeleteOptions`.
    pub options: Value,
    pub dry_run: bool,
    pub user: &'a str,
    /// Decodes an object changed by a webhook; without it the object is used unchanged.
    pub remake: Option<Remake<'a>>,
}

impl Attributes<'_> {
    /// The same request for another object and its old version.
    pub(crate) fn about(mut self, name: &str, object: Option<Value>, old: Option<Value>) -> Self {
        name.clone_into(&mut self.name);
        if self.is_namespace() {
            name.clone_into(&mut self.namespace);
        }
        Self { object, old, ..self }
    }

    /// The resource, as written in messages.
    pub(super) fn group_resource(&self) -> GroupResource {
        self.resource.group_resource()
    }

    /// The user of the request, with the groups that a real cluster would give it.
    pub(super) fn user_info(&self) -> Value {
        let account = self.user.strip_prefix("system:serviceaccount:");
        let groups = match account.and_then(|account| account.split_once(':')) {
            Some((namespace, _)) => vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
            None => vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
        };
        json!({"username": self.user, "groups": groups})
    }

    /// Labels of the object and of its old version.
    pub(super) fn labels(&self) -> impl Iterator<Item = &Value> {
        let objects = [&self.object, &self.old].into_iter().flatten();
        objects
            .filter(|object| object["metadata"].is_object())
            .map(|object| &object["metadata"]["labels"])
    }

    /// Labels of the Namespace itself, if a Namespace is written.
    pub(super) fn own_labels(&self) -> Option<&Value> {
        let object = self.object.as_ref().filter(|_| self.is_namespace())?;
        Some(&object["metadata"]["labels"])
    }

    /// Whether the request is about a Namespace itself.
    pub(super) fn is_namespace(&self) -> bool {
        self.resource.is("", "Namespace")
    }

    /// Name in error messages: for an object without a name, its `generateName`.
    pub(super) fn shown_name(&self) -> &str {
        let base = self
            .object
            .as_ref()
            .map(|object| meta::metadata_text(object, "generateName"));
        if self.name.is_empty() {
            base.unwrap_or_default() // a deletion always has a name
        } else {
            &self.name
        }
    }
}

/// The version in which a webhook receives the request, from its rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    /// Version of the resource.
    pub version: String,
    pub kind: TypeName,
}
