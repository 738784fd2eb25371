//! A revision rendered for many nodes: what is the same for several of them is done once. Pure.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use muster_api::{
    node::{
        assemblage::NodeRow,
        render::{self, NODE_LABEL, NODE_NAME, Selectors, Values},
    },
    selector::SelectorError,
};
use muster_rollout::Digest;
use parking_lot::Mutex;

use super::{
    facts::{Definition, NodeFacts},
    observation::NodeSeen,
};
use crate::bindings::{self, Evaluation, Kinds, Known, ObjectId};

/// A row without its token and its identity; none: the digest cannot be read. Or why there is none, for people.
pub type Made = Result<Option<(Digest, Arc<NodeRow>)>, String>;

/// What became of rendering a revision for a node.
#[derive(Debug)]
pub enum Rendered {
    /// This.
    Made(Made),
    /// Its bindings read objects that were not read yet.
    Needs(BTreeSet<ObjectId>),
}

/// What was rendered for nodes, kept from one pass over a NodeModule to the next: a pass renders what changed. It decides nothing: without
/// it all is rendered again.
#[derive(Debug, Default)]
pub struct Renderings(Mutex<BTreeMap<String, ByRevision>>);

/// The renderings of a NodeModule, by the hash of the revision.
pub type ByRevision = BTreeMap<String, Rendering>;

impl Renderings {
    /// Takes those of a NodeModule out.
    pub fn take(&self, module: &str) -> ByRevision {
        self.0.lock().remove(module).unwrap_or_default()
    }

    /// Keeps those of a NodeModule that this pass over `nodes` used; they are in the order of their names.
    pub fn keep(&self, module: &str, mut all: ByRevision, nodes: &[NodeSeen]) {
        all.retain(|_, rendering| std::mem::take(&mut rendering.is_used));
        for rendering in all.values_mut() {
            rendering.forget_others(nodes);
        }
        if !all.is_empty() {
            self.0.lock().insert(module.to_owned(), all);
        }
    }
}

/// A revision, and what was rendered of it.
#[derive(Debug)]
pub struct Rendering {
    definition: Definition,
    /// The NodeModule.
    module: String,
    /// This pass asked for it.
    is_used: bool,
    selectors: Selectors,
    /// The variables that parts use.
    used: BTreeMap<BTreeSet<u32>, Result<BTreeSet<String>, String>>,
    /// Of nodes with the same parts and values one is rendered.
    made: BTreeMap<(BTreeSet<u32>, Values), Made>,
    /// By node, with what it was rendered for: what binds no objects stays until the node changes.
    of_nodes: HashMap<String, (Arc<NodeFacts>, Made)>,
}

impl Rendering {
    /// Of a revision of a NodeModule.
    pub fn new(definition: Definition, module: &str) -> Result<Self, SelectorError> {
        Ok(Self {
            selectors: Selectors::new(&definition.content)?,
            definition,
            module: module.to_owned(),
            is_used: false,
            used: BTreeMap::new(),
            made: BTreeMap::new(),
            of_nodes: HashMap::new(),
        })
    }

    /// What a node gets of it.
    pub fn of(&mut self, node: &Arc<NodeFacts>, kinds: &Kinds, objects: &Known) -> Rendered {
        self.is_used = true;
        if let Some((facts, made)) = self.of_nodes.get(&node.name)
            && (Arc::ptr_eq(facts, node) || facts.labels == node.labels)
        {
            return Rendered::Made(made.clone());
        }
        let parts = self.selectors.select(&node.labels);
        let made = match self.values(&parts, node, kinds, objects) {
            Ok(Evaluation::Values(values)) => self.made(parts, values),
            Ok(Evaluation::Needs(objects)) => return Rendered::Needs(objects),
            Err(message) => Err(message),
        };
        if self.definition.content.bindings.is_empty() {
            let known = (Arc::clone(node), made.clone());
            self.of_nodes.insert(node.name.clone(), known);
        }
        Rendered::Made(made)
    }

    /// Drops what is of nodes that are none of these, and of values that no node has had for long.
    fn forget_others(&mut self, nodes: &[NodeSeen]) {
        if self.of_nodes.len() > nodes.len() {
            let is_one = |name: &str| {
                nodes
                    .binary_search_by(|node| node.name.as_str().cmp(name))
                    .is_ok()
            };
            self.of_nodes.retain(|name, _| is_one(name));
        }
        if self.made.len() > 2 * nodes.len() {
            self.made.clear();
        }
    }

    fn made(&mut self, parts: BTreeSet<u32>, values: Values) -> Made {
        let key = (parts, values);
        if let Some(made) = self.made.get(&key) {
            return made.clone();
        }
        let made = self.row(&key.0, &key.1);
        self.made.insert(key, made.clone());
        made
    }

    fn row(&self, parts: &BTreeSet<u32>, values: &Values) -> Made {
        let rendered = render::render(&self.definition.content, parts, values);
        let digest = rendered.map_err(|error| error.to_string())?.digest();
        let row = NodeRow {
            name: self.module.clone(),
            revision: Some(self.definition.revision.clone()),
            parts: parts.clone(),
            values: values.clone(),
            digest: Some(digest.clone()),
            ..NodeRow::default()
        };
        Ok(Digest::parse(&digest).map(|digest| (digest, Arc::new(row))))
    }

    /// The values of the variables that the parts use.
    fn values(
        &mut self,
        parts: &BTreeSet<u32>,
        node: &NodeFacts,
        kinds: &Kinds,
        objects: &Known,
    ) -> Result<Evaluation, String> {
        let content = &self.definition.content;
        let known = self.used.entry(parts.clone());
        let used = known.or_insert_with(|| render::used(content, parts).map_err(|error| error.to_string()));
        let used = used.as_ref().map_err(Clone::clone)?;
        let mut all = Values::new();
        if !content.bindings.is_empty() {
            // A binding that no part uses is evaluated, too: what is wrong with it is known before it is used.
            let given = render::given(&node.name, &node.labels);
            let evaluated = bindings::evaluate(&content.bindings, &given, kinds, objects);
            match evaluated.map_err(|error| error.to_string())? {
                Evaluation::Values(values) => all = values,
                needs @ Evaluation::Needs(_) => return Ok(needs),
            }
            all.retain(|name, _| used.contains(name));
        }
        let given = |name: &String| -> Option<String> {
            match name.strip_prefix(NODE_LABEL) {
                Some(label) => node.labels.get(label).cloned(),
                None => (name == NODE_NAME).then(|| node.name.clone()),
            }
        };
        let given = used.iter().filter_map(|name| Some((name.clone(), given(name)?)));
        all.extend(given);
        Ok(Evaluation::Values(all))
    }
}
