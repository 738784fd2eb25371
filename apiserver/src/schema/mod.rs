//! Structural OpenAPI v3 schemas of custom resources: their validation, and validation, defaulting and pruning of
//! objects.
//!
//! Pure functions over JSON. The rules, their order and their messages are those of kube-apiserver 1.36.

mod cause;
mod changed;
mod correlate;
mod default;
mod evaluate;
mod formats;
mod lists;
mod node;
mod path;
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

use path::Path;

pub use cause::{Cause, reason};
pub use changed::Changed;
pub(crate) use evaluate::Condition;
pub(crate) use node::Node;
pub(crate) use rules::member_at;
pub(crate) use types::Type;
pub use types::{ListType, MapType};

/// Number of unused schemas that are kept.
const UNUSED: usize = 64;

/// A structural schema of one version of a custom resource, with parsed CEL rules.
#[derive(Debug)]
pub struct Schema {
    root: Node,
}

impl Schema {
    /// Parses `openAPIV3Schema`. The causes are those that the real server reports for a schema that is not structural
    /// or has an invalid rule; their fields start with `openAPIV3Schema`.
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

    /// Like [`Schema::parse`], from JSON text and cached for all servers of the process: a hundred simulated clusters
    /// have the same definitions, and compiled patterns and rules are larger than their source. The newest unused
    /// schemas are kept too, since the next server usually needs them.
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

    /// Drops undeclared fields from the changed parts, and unknown metadata fields; returns their paths (`spec.bogus`,
    /// `spec.list[0].x`), sorted.
    pub fn prune(&self, object: &mut Value, changed: &Changed) -> Vec<String> {
        let mut dropped = prune::resource(object, &self.root, changed);
        if let Some(metadata) = object.get_mut("metadata") {
            let unknown = crate::builtin::prune_builtin(crate::builtin::OBJECT_META, metadata);
            dropped.extend(unknown.into_iter().map(|path| format!("metadata.{path}")));
            dropped.sort();
        }
        dropped
    }

    /// Drops nulls that the schema does not allow from the changed parts and applies its defaults to them.
    pub fn default(&self, object: &mut Value, changed: &Changed) {
        default::apply_defaults(object, &self.root, changed);
    }

    /// Applies defaults and keeps nulls, as for the result of an apply.
    pub fn fill(&self, object: &mut Value) {
        default::fill(object, &self.root, &Changed::Whole);
    }

    /// All validation errors of the changed parts of `new`, including CEL rules; `old` is the object that it replaces.
    /// Existing errors in unchanged values are accepted, as on the real server.
    pub fn validate(&self, new: &Value, old: Option<&Value>, changed: &Changed) -> Vec<Cause> {
        self.validate_more(value::check(new, old, &self.root, "", changed), new, old, changed)
    }

    /// Validation errors of `new` after a write to its status: without rules only the status is checked.
    pub fn validate_status(&self, new: &Value, old: Option<&Value>, changed: &Changed) -> Vec<Cause> {
        let mut causes = Vec::new();
        if let (Some(status), Some(node), Some(changed)) = (
            new.get("status"),
            self.root.properties.get("status"),
            changed.member("status"),
        ) {
            causes = value::check(status, old.and_then(|old| old.get("status")), node, "", changed);
        }
        for cause in &mut causes {
            cause.field = if cause.field == "<nil>" {
                "status".to_owned()
            } else {
                format!("status.{}", cause.field)
            };
        }
        self.validate_more(causes, new, old, changed)
    }

    /// Whether the next version of `new` needs to be checked only where it differs: all of it is valid, and all rules
    /// hold if nothing changes. `changed` are the parts of `new` of which this is not known yet.
    pub fn is_settled(&self, new: &Value, changed: &Changed) -> bool {
        let is_valid = || self.validate(new, None, changed).is_empty();
        let lasts = || !self.root.has_rules || evaluate::run(new, Some(new), &self.root, changed).is_empty();
        is_valid() && lasts()
    }

    /// Adds the errors of lists and rules.
    fn validate_more(
        &self,
        mut causes: Vec<Cause>,
        new: &Value,
        old: Option<&Value>,
        changed: &Changed,
    ) -> Vec<Cause> {
        let duplicates = |value: &Value, changed: &Changed| {
            let mut causes = Vec::new();
            lists::duplicates(value, &self.root, Path::Root(""), changed, &mut causes);
            causes
        };
        let more = duplicates(new, changed);
        // Duplicates that existed before are not an error of the update.
        if !more.is_empty() && old.is_none_or(|old| duplicates(old, &Changed::Whole).is_empty()) {
            causes.extend(more);
        }
        if self.root.has_rules {
            if causes.iter().any(Cause::blocks_rules) {
                causes.push(Cause::incomplete_check());
            } else {
                causes.extend(evaluate::run(new, old, &self.root, changed));
            }
        }
        causes
    }

    /// The list type at a path of members (`["spec", "items"]`); `*` represents items or entries. `None` if the schema
    /// has no list there.
    pub fn list_type(&self, path: &[&str]) -> Option<ListType> {
        self.at(path)
            .filter(|node| node.ty == Some(Type::Array))
            .map(|node| node.list_type)
    }

    /// The keys of the list map at `path`; empty for other lists.
    pub fn map_keys(&self, path: &[&str]) -> &[String] {
        self.at(path).map_or(&[], |node| &node.list_keys)
    }

    /// The map type at `path`. `None` if the schema has no object there.
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
