//! Explains the state of a module, as a whole or for one of its clusters or nodes.

use anyhow::Context as _;
use muster_dashboard::{Fleet, NodeObjects, Objects, Why, why_on};

use crate::{
    missing, missing_cluster,
    name::ModuleName,
    nodes::{self, NodeError},
};

/// Explains a module, or a module in one cluster. A missing module or cluster is an error.
pub fn explain_module(
    objects: &Objects,
    fleet: &Fleet,
    (module, cluster): (&ModuleName, Option<&str>),
    namespace: &str,
) -> anyhow::Result<Why> {
    let view = fleet
        .module(module.kind, &module.name)
        .with_context(|| missing(fleet, module, namespace))?;
    let Some(name) = cluster else {
        return Ok(muster_dashboard::why(view));
    };
    why_on(objects, fleet, &module.reference(), name).with_context(|| missing_cluster(fleet, name, namespace))
}

/// Explains a NodeModule, or a NodeModule on one node. A missing NodeModule or node is an error.
pub fn node_module(
    nodes: NodeObjects,
    fleet: &Fleet,
    module: &ModuleName,
    node: Option<&str>,
) -> Result<Why, NodeError> {
    let view = nodes::find_node_module(fleet, &module.name)?;
    let Some(node) = node else {
        return Ok(muster_dashboard::why(view));
    };
    nodes::check_node(fleet, node)?;
    let objects = Objects {
        nodes,
        ..Objects::default()
    };
    let no_node = || NodeError::NoNode {
        name: node.to_owned(),
        near: String::new(),
    };
    why_on(&objects, fleet, &module.reference(), node).ok_or_else(no_node)
}
