//! Renders a revision for many nodes: work that is the same for several of them is done once. Pure.

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
    observation::ObservedNode,
};
use crate::bindings::{self, Evaluation, Kinds, KnownObjects, ObjectId};

/// A row without its token and its identity; `None`: the digest is invalid. Or a message with the reason why it cannot
/// be rendered.
pub type Made = Result<Option<(Digest, Arc<NodeRow>)>, String>;

/// The result of rendering a revision for a node.
#[derive(Debug)]
pub enum Rendered {
    /// The rendered row, or an error.
    Made(Made),
    /// Its bindings read objects that were not read yet.
    Needs(BTreeSet<ObjectId>),
}

/// The renderings of nodes, cached from one pass over a NodeModule to the next: a pass renders only what changed. Only
/// a cache: without it everything is rendered again.
#[derive(Debug, Default)]
pub struct Renderings(Mutex<BTreeMap<String, ByRevision>>);

/// The renderings of a NodeModule, by the hash of the revision.
pub type ByRevision = BTreeMap<String, Rendering>;

impl Renderings {
    /// Takes the renderings of a NodeModule out.
    pub fn take(&self, module: &str) -> ByRevision {
        self.0.lock().remove(module).unwrap_or_default()
    }

    /// Keeps the renderings of a NodeModule that this pass over `nodes` used; `nodes` are sorted by name.
    pub fn keep(&self, module: &str, mut all: ByRevision, nodes: &[ObservedNode]) {
        all.retain(|_, rendering| std::mem::take(&mut rendering.is_used));
        for rendering in all.values_mut() {
            rendering.forget_others(nodes);
        }
        if !all.is_empty() {
            self.0.lock().insert(module.to_owned(), all);
        }
    }
}

/// A revision, and its renderings.
#[derive(Debug)]
pub struct Rendering {
    definition: Definition,
    /// The name of the NodeModule.
    module: String,
    /// Whether this pass used it.
    is_used: bool,
    selectors: Selectors,
    /// The variables that parts use.
    used: BTreeMap<BTreeSet<u32>, Result<BTreeSet<String>, String>>,
    /// Nodes with the same parts and values share one rendering.
    made: BTreeMap<(BTreeSet<u32>, Values), Made>,
    /// The rendering of each node with its input: without bound objects it is valid until the node changes.
    of_nodes: HashMap<String, (Arc<NodeFacts>, Made)>,
}

impl Rendering {
    /// The cache for a revision of a NodeModule.
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

    /// The rendering for a node.
    pub fn of(&mut self, node: &Arc<NodeFacts>, kinds: &Kinds, objects: &KnownObjects) -> Rendered {
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

    /// Drops renderings of nodes that are not in the list, and of values that no node has had for a while.
    fn forget_others(&mut self, nodes: &[ObservedNode]) {
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
        objects: &KnownObjects,
    ) -> Result<Evaluation, String> {
        let content = &self.definition.content;
        let known = self.used.entry(parts.clone());
        let used = known.or_insert_with(|| render::used(content, parts).map_err(|error| error.to_string()));
        let used = used.as_ref().map_err(Clone::clone)?;
        let mut all = Values::new();
        if !content.bindings.is_empty() {
            // A binding that no part uses is evaluated as well: its errors are reported before it is used.
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
