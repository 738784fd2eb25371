//! What a request is, as far as admission is concerned.

use serde_json::{Value, json};

use crate::meta;
use crate::resources::Resource;
use crate::status::{ApiError, GroupResource};

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    /// As rules and reviews name it.
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

/// Reads an object that a webhook has changed as the body of a request is read: prunes it, fills in defaults.
pub(crate) type Remake<'a> = &'a (dyn Fn(Value) -> Result<Value, ApiError> + Send + Sync);

/// A request as webhooks are asked about it.
pub(crate) struct Attributes<'a> {
    pub operation: Operation,
    pub resource: &'a Resource,
    /// The kind of the object that is sent: of `scale` and `eviction` another one than the resource's.
    pub kind: TypeName,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty for cluster-scoped kinds; of a Namespace its own name.
    pub namespace: String,
    /// Empty if the server is to generate it.
    pub name: String,
    pub object: Option<Value>,
    pub old: Option<Value>,
    /// `CreateOptions`, `UpdateOptions` or `DeleteOptions`.
    pub options: Value,
    pub dry_run: bool,
    pub user: &'a str,
    /// Without it an object that a webhook has changed is taken as it is.
    pub remake: Option<Remake<'a>>,
}

impl Attributes<'_> {
    /// The same about an object and the one before it.
    pub(crate) fn about(mut self, name: &str, object: Option<Value>, old: Option<Value>) -> Self {
        name.clone_into(&mut self.name);
        if self.is_namespace() {
            name.clone_into(&mut self.namespace);
        }
        Self { object, old, ..self }
    }

    /// The resource as messages name it.
    pub(super) fn named(&self) -> GroupResource {
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

    /// The labels of the object and of the one before it.
    pub(super) fn labels(&self) -> impl Iterator<Item = &Value> {
        let objects = [&self.object, &self.old].into_iter().flatten();
        objects
            .filter(|object| object["metadata"].is_object())
            .map(|object| &object["metadata"]["labels"])
    }

    /// The labels of a Namespace that is itself written.
    pub(super) fn own_labels(&self) -> Option<&Value> {
        let object = self.object.as_ref().filter(|_| self.is_namespace())?;
        Some(&object["metadata"]["labels"])
    }

    /// Whether the request is about a Namespace itself.
    pub(super) fn is_namespace(&self) -> bool {
        self.resource.is("", "Namespace")
    }

    /// The name in refusals: of an object without one, what it is generated from.
    pub(super) fn shown_name(&self) -> &str {
        let base = self
            .object
            .as_ref()
            .map(|object| meta::text(object, "generateName"));
        if self.name.is_empty() {
            base.unwrap_or_default() // a deletion has a name
        } else {
            &self.name
        }
    }
}

/// How a webhook sees the request: at the version of its rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    /// The version of the resource.
    pub version: String,
    pub kind: TypeName,
}
