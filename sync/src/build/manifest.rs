//! One object and its location.

use kube::core::GroupVersionKind;
use serde_json::Value;

use super::{BuildError, Identity, Origin, is_plan, names};
use crate::inventory::ObjectId;
use crate::yaml::Document;

/// How errors call the whole document.
const DOCUMENT: &str = "the document";

/// A manifest that can be applied: it has apiVersion, kind and metadata.name.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The whole object.
    pub object: Value,
    /// Where the object is in the files.
    pub origin: Origin,
}

impl Manifest {
    /// Checks the object in a document. An error points to the field, or to the document that lacks it.
    pub(super) fn new(object: Value, document: &Document) -> Result<Self, BuildError> {
        let checked = if object.is_object() {
            check(&object)
        } else {
            Err((DOCUMENT.to_owned(), "must be an object"))
        };
        match checked {
            Ok(()) => {
                let origin = Origin::of(document, &[]);
                let manifest = Self { object, origin };
                manifest.check_names(document).map(|()| manifest)
            }
            Err((field, why)) => Err(BuildError::Field {
                origin: Origin::of(document, &field.splitn(3, '.').collect::<Vec<_>>()),
                field,
                why,
            }),
        }
    }

    /// Checks the values that become parts of URLs and of ids.
    fn check_names(&self, document: &Document) -> Result<(), BuildError> {
        let id = self.id();
        let api_version = self.text("/apiVersion");
        let misread = if id.misread() {
            Err(names::NameProblem::Misread)
        } else {
            Ok(())
        };
        let checks = [
            ("apiVersion", api_version, names::api_version(api_version)),
            ("kind", &id.kind, names::kind(&id.kind)),
            (
                "metadata.namespace",
                &id.namespace,
                self.namespace().map_or(Ok(()), names::namespace),
            ),
            (
                "metadata.name",
                &id.name,
                names::name(&id.group, &id.kind, &id.name),
            ),
            ("metadata.name", &id.name, misread),
        ];
        for (field, text, checked) in checks {
            checked.map_err(|problem| BuildError::Name {
                origin: Origin::of(document, &field.split('.').collect::<Vec<_>>()),
                field,
                text: text.to_owned(),
                problem,
            })?;
        }
        Ok(())
    }

    /// The id of the object, with the namespace as written.
    fn id(&self) -> ObjectId {
        let Identity {
            group,
            kind,
            namespace,
            name,
        } = self.identity();
        ObjectId {
            namespace,
            name,
            group,
            kind,
        }
    }

    /// Group, version and kind.
    pub fn gvk(&self) -> GroupVersionKind {
        let (group, version) = match self.text("/apiVersion").split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", self.text("/apiVersion")),
        };
        GroupVersionKind::gvk(group, version, self.text("/kind"))
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// `metadata.namespace`, if there is one.
    pub fn namespace(&self) -> Option<&str> {
        Some(self.text("/metadata/namespace")).filter(|namespace| !namespace.is_empty())
    }

    /// The identity of the object.
    pub fn identity(&self) -> Identity {
        let gvk = self.gvk();
        let namespace = self.namespace().unwrap_or_default().to_owned();
        Identity {
            group: gvk.group,
            kind: gvk.kind,
            namespace,
            name: self.name().to_owned(),
        }
    }

    fn text(&self, pointer: &str) -> &str {
        self.object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

/// A field, and the problem with it.
type Wrong = (String, &'static str);

/// Checks the fields that every object needs, and metadata that no server accepts.
fn check(object: &Value) -> Result<(), Wrong> {
    let wrong = |field: &str, why| Err((field.to_owned(), why));
    required(object.get("apiVersion"), "apiVersion")?;
    required(object.get("kind"), "kind")?;
    if is_plan(object) {
        return wrong(
            "kind",
            "is a plan that its Module does not reference; set spec.sync.package.plan.file",
        );
    }
    let metadata = match object.get("metadata") {
        None | Some(Value::Null) => return wrong("metadata.name", "is missing"),
        Some(Value::Object(metadata)) => metadata,
        Some(_) => return wrong("metadata", "must be a map"),
    };
    if metadata.get("name").is_none() && metadata.contains_key("generateName") {
        return wrong(
            "metadata.name",
            "is missing; generateName would make a new object each time",
        );
    }
    required(metadata.get("name"), "metadata.name")?;
    if !is_text_or_none(metadata.get("namespace")) {
        return wrong("metadata.namespace", "must be text; quote it");
    }
    for map in ["labels", "annotations"] {
        match metadata.get(map) {
            None | Some(Value::Null) => {}
            Some(Value::Object(texts)) => {
                if let Some(key) = texts.keys().find(|key| !is_text_or_none(texts.get(*key))) {
                    return wrong(&format!("metadata.{map}.{key}"), "must be text; quote it");
                }
            }
            Some(_) => return wrong(&format!("metadata.{map}"), "must be a map"),
        }
    }
    Ok(())
}

fn required(value: Option<&Value>, field: &str) -> Result<(), Wrong> {
    let why = match value {
        None | Some(Value::Null) => "is missing",
        Some(Value::String(text)) if text.is_empty() => "is empty",
        Some(Value::String(_)) => return Ok(()),
        Some(_) => "must be text; quote it",
    };
    Err((field.to_owned(), why))
}

fn is_text_or_none(value: Option<&Value>) -> bool {
    matches!(value, None | Some(Value::Null | Value::String(_)))
}
