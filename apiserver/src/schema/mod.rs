//! Structural OpenAPI v3 schemas of custom resources: what a CRD may say, and what follows for its objects.
//!
//! Pure functions over JSON. The rules, their order and their texts are those of kube-apiserver 1.36.

mod cause;
mod correlate;
mod default;
mod evaluate;
mod formats;
mod lists;
mod node;
mod prune;
mod rules;
mod structural;
mod types;
mod value;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

pub use cause::{Cause, reason};
pub(crate) use evaluate::Condition;
pub(crate) use node::Node;
pub(crate) use rules::member_at;
pub(crate) use types::Type;
pub use types::{ListType, MapType};

/// How many schemas are kept before those that no server uses are dropped.
const UNUSED: usize = 64;

/// A structural schema of one version of a custom resource, its CEL rules parsed once.
#[derive(Debug)]
pub struct Schema {
    root: Node,
}

impl Schema {
    /// Reads `openAPIV3Schema`. The causes are those that the real server gives for a schema that is not structural or
    /// has a rule that does not compile; their fields start with `openAPIV3Schema`.
    pub fn parse(openapi: &Value) -> Result<Self, Vec<Cause>> {
        let causes = structural::check(openapi, "openAPIV3Schema");
        if causes.is_empty() {
            Ok(Self {
                root: Node::read(openapi),
            })
        } else {
            Err(causes)
        }
    }

    /// As [`Schema::parse`], of a schema as text, once for all servers of the process: each of a hundred simulated clusters has the same
    /// definitions, and what patterns and rules compile to is larger than they are. The newest that no server uses are kept too: the
    /// next server has the same.
    pub fn shared(openapi: &Value) -> Result<(Arc<str>, Arc<Self>), Vec<Cause>> {
        static ALL: Mutex<BTreeMap<Arc<str>, Arc<Schema>>> = Mutex::new(BTreeMap::new());
        let text: Arc<str> = openapi.to_string().into();
        if let Some((text, schema)) = ALL.lock().get_key_value(&text) {
            return Ok((Arc::clone(text), Arc::clone(schema)));
        }
        let schema = Arc::new(Self::parse(openapi)?);
        let mut all = ALL.lock();
        if all.len() >= UNUSED {
            all.retain(|_, schema| Arc::strong_count(schema) > 1);
        }
        all.insert(Arc::clone(&text), Arc::clone(&schema));
        Ok((text, schema))
    }

    /// Drops what the schema does not declare, and unknown metadata fields; returns the paths dropped
    /// (`spec.bogus`, `spec.list[0].x`), sorted.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut dropped = prune::resource(object, &self.root);
        if let Some(metadata) = object.get_mut("metadata") {
            let unknown = crate::builtin::prune(crate::builtin::OBJECT_META, metadata);
            dropped.extend(unknown.into_iter().map(|path| format!("metadata.{path}")));
            dropped.sort();
        }
        dropped
    }

    /// Drops nulls that the schema does not allow and fills in the defaults that it declares.
    pub fn default(&self, object: &mut Value) {
        default::apply(object, &self.root);
    }

    /// Fills in defaults and leaves nulls where they are: what the result of an apply gets.
    pub fn fill(&self, object: &mut Value) {
        default::fill(object, &self.root);
    }

    /// Everything that is wrong with `new`, CEL rules included; `old` is the object that it replaces. What was wrong
    /// before and did not change is let through, as the real server does.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<Cause> {
        self.validate_more(value::check(new, old, &self.root, ""), new, old)
    }

    /// What is wrong with `new` after a write to its status: of what has no rules only the status is looked at.
    pub fn validate_status(&self, new: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        if let (Some(status), Some(node)) = (new.get("status"), self.root.properties.get("status")) {
            causes = value::check(status, old.and_then(|old| old.get("status")), node, "");
        }
        for cause in &mut causes {
            cause.field = if cause.field == "<nil>" {
                "status".to_owned()
            } else {
                format!("status.{}", cause.field)
            };
        }
        self.validate_more(causes, new, old)
    }

    /// Adds what is wrong with lists and rules.
    fn validate_more(&self, mut causes: Vec<Cause>, new: &Value, old: Option<&Value>) -> Vec<Cause> {
        let duplicates = |value: &Value| {
            let mut causes = Vec::new();
            lists::duplicates(value, &self.root, "", &mut causes);
            causes
        };
        let more = duplicates(new);
        // If anything was there twice before, this is not what is wrong with the update.
        if !more.is_empty() && old.is_none_or(|old| duplicates(old).is_empty()) {
            causes.extend(more);
        }
        if self.root.has_rules() {
            if causes.iter().any(Cause::blocks_rules) {
                causes.push(Cause::incomplete_check());
            } else {
                causes.extend(evaluate::run(new, old, &self.root));
            }
        }
        causes
    }

    /// The list type at a path of members (`["spec", "items"]`); `*` steps into items or entries. `None` if the schema
    /// knows no list there.
    pub fn list_type(&self, path: &[&str]) -> Option<ListType> {
        self.at(path)
            .filter(|node| node.ty == Some(Type::Array))
            .map(|node| node.list_type)
    }

    /// The keys of the list map at `path`; empty for other lists.
    pub fn map_keys(&self, path: &[&str]) -> &[String] {
        self.at(path).map_or(&[], |node| &node.list_keys)
    }

    /// The map type at `path`. `None` if the schema knows no object there.
    pub fn map_type(&self, path: &[&str]) -> Option<MapType> {
        self.at(path)
            .filter(|node| node.ty == Some(Type::Object))
            .map(|node| node.map_type)
    }

    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(&self.root, |node, step| match *step {
            "*" => node.items.as_deref().or_else(|| node.additional.schema()),
            name => node.member(name),
        })
    }
}
