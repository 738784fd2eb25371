//! One version of an object: its JSON text, and the few facts needed without parsing it.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

use super::ObjectKey;
use crate::meta;
use crate::removal;

/// One version of an object: one compact text, shared by the store, the history and the responses.
///
/// A text takes a third to a tenth of the memory of the parsed value, and is sent in a response as it is.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Its resource version as a number.
    pub revision: u64,
    /// The object as JSON, `apiVersion` and `kind` first, `metadata.resourceVersion` included.
    text: Bytes,
    /// Where the text continues after `apiVersion` and `kind`.
    untyped: usize,
    /// Where `metadata` ends.
    metadata_end: usize,
    facts: Facts,
}

/// A shared version of an object.
pub(crate) type Object = Arc<Stored>;

/// What selectors, owners and the collector need of every version.
#[derive(Debug)]
struct Facts {
    key: ObjectKey,
    uid: Box<str>,
    labels: Box<[(Box<str>, Box<str>)]>,
    /// The uids of the owners.
    owners: Box<[Box<str>]>,
    /// `metadata.ownerReferences` as JSON, empty if there are none.
    references: Box<str>,
    is_terminating: bool,
    waits_for_dependents: bool,
}

impl Stored {
    /// An object that is returned but not stored, as for a dry run.
    pub(crate) fn unsaved(value: &Value) -> Object {
        let version = meta::resource_version(value);
        let revision = version.parse().unwrap_or_default(); // a new one has none
        Draft::of(value).finish(revision, version)
    }

    /// The object as JSON text.
    pub(crate) fn json(&self) -> &Bytes {
        &self.text
    }

    /// The fields of the object as JSON text, without `{`, `apiVersion` and `kind`, but with the final `}`.
    pub(crate) fn untyped_fields(&self) -> &[u8] {
        self.text.get(self.untyped..).unwrap_or_default() // the text is longer than its prefix
    }

    /// The object, parsed from its text.
    pub(crate) fn value(&self) -> Value {
        // The text was serialized from a value within `meta::MAX_DEPTH`.
        serde_json::from_slice(&self.text).unwrap_or_default()
    }

    /// `metadata`, parsed from its part of the text.
    pub(crate) fn metadata(&self) -> Value {
        let start = self.untyped + METADATA.len() - 1; // its `{`
        let text = self.text.get(start..self.metadata_end).unwrap_or_default();
        serde_json::from_slice(text).unwrap_or_default() // a part of what `value` parses
    }

    /// Whether the object was stored in this `apiVersion`.
    pub(crate) fn has_api_version(&self, api_version: &str) -> bool {
        let stored = self.text.strip_prefix(API_VERSION);
        let rest = stored.and_then(|text| text.strip_prefix(api_version.as_bytes()));
        rest.is_some_and(|rest| rest.starts_with(b"\""))
    }

    /// Namespace and name.
    pub(crate) fn key(&self) -> &ObjectKey {
        &self.facts.key
    }

    /// `metadata.uid`.
    pub(crate) fn uid(&self) -> &str {
        &self.facts.uid
    }

    /// The value of a label.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        let mut labels = self.facts.labels.iter();
        labels.find(|(name, _)| &**name == key).map(|(_, value)| &**value)
    }

    /// The uids of its owners.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &str> {
        self.facts.owners.iter().map(|uid| &**uid)
    }

    /// `metadata.ownerReferences` as JSON, empty if there are none.
    pub(crate) fn owner_references(&self) -> &str {
        &self.facts.references
    }

    /// Whether it is being deleted.
    pub(crate) fn is_terminating(&self) -> bool {
        self.facts.is_terminating
    }

    /// Whether it is being deleted and waits for its dependents.
    pub(crate) fn waits_for_dependents(&self) -> bool {
        self.facts.waits_for_dependents
    }

    /// The bytes of memory that this version takes.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + self.text.len() + self.facts.size()
    }
}

impl Facts {
    fn of(object: &Value) -> Self {
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        let references = &object["metadata"]["ownerReferences"];
        let text = |value: &Value| value.as_str().unwrap_or_default().into();
        Self {
            key: ObjectKey::of(object),
            uid: meta::uid(object).into(),
            labels: labels
                .map(|(key, value)| (key.as_str().into(), text(value)))
                .collect(),
            owners: meta::owners(object).map(|owner| text(&owner["uid"])).collect(),
            references: if references.is_null() {
                Box::default()
            } else {
                references.to_string().into()
            },
            is_terminating: meta::is_terminating(object),
            waits_for_dependents: removal::waits_for_dependents(object),
        }
    }

    fn size(&self) -> usize {
        let labels = self
            .labels
            .iter()
            .map(|(key, value)| size_of::<[Box<str>; 2]>() + key.len() + value.len());
        let owners = self.owners.iter().map(|uid| size_of::<Box<str>>() + uid.len());
        let texts = self.key.namespace.len() + self.key.name.len() + self.uid.len() + self.references.len();
        labels.chain(owners).sum::<usize>() + texts
    }
}

const API_VERSION: &[u8] = b"{\"apiVersion\":\"";
const METADATA: &[u8] = b"\"metadata\":{";

/// A version without its number yet: its text is serialized before the store is locked.
pub(super) struct Draft {
    /// The text up to the first field of `metadata`.
    head: Vec<u8>,
    /// The text after `metadata.resourceVersion`.
    tail: Vec<u8>,
    untyped: usize,
    /// Where `metadata` ends in the tail.
    metadata_end: usize,
    facts: Facts,
}

impl Draft {
    pub(super) fn of(object: &Value) -> Self {
        let none = Map::new();
        let fields = object.as_object().unwrap_or(&none);
        let metadata = object["metadata"].as_object().unwrap_or(&none);
        let mut head = API_VERSION[..1].to_vec();
        for name in ["apiVersion", "kind"] {
            if let Some(value) = fields.get(name) {
                write_field(&mut head, name, value);
                head.push(b',');
            }
        }
        let untyped = head.len();
        head.extend_from_slice(METADATA);
        let mut tail = Vec::new();
        for (name, value) in metadata.iter().filter(|(name, _)| *name != "resourceVersion") {
            if !tail.is_empty() {
                tail.push(b',');
            }
            write_field(&mut tail, name, value);
        }
        tail.push(b'}');
        let metadata_end = tail.len();
        for (name, value) in fields {
            if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                tail.push(b',');
                write_field(&mut tail, name, value);
            }
        }
        tail.push(b'}');
        Self {
            head,
            tail,
            untyped,
            metadata_end,
            facts: Facts::of(object),
        }
    }

    /// The version with its number.
    pub(super) fn numbered(self, revision: u64) -> Object {
        self.finish(revision, &revision.to_string())
    }

    fn finish(self, revision: u64, version: &str) -> Object {
        let Self {
            head,
            tail,
            untyped,
            metadata_end,
            facts,
        } = self;
        let mut text = Vec::with_capacity(head.len() + tail.len() + version.len() + 22);
        text.extend_from_slice(&head);
        if !version.is_empty() {
            write_field(&mut text, "resourceVersion", &version);
            if tail.first() != Some(&b'}') {
                text.push(b',');
            }
        }
        let metadata_end = text.len() + metadata_end;
        text.extend_from_slice(&tail);
        Arc::new(Stored {
            revision,
            text: Bytes::from(text.into_boxed_slice()),
            untyped,
            metadata_end,
            facts,
        })
    }
}

fn write_field(text: &mut Vec<u8>, name: &str, value: &impl Serialize) {
    // These values always serialize, and writing to memory cannot fail.
    serde_json::to_writer(&mut *text, name).unwrap_or_default();
    text.push(b':');
    serde_json::to_writer(&mut *text, value).unwrap_or_default();
}
