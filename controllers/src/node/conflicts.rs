//! Paths that two NodeModules write on one node. Pure.
//!
//! Invariant: of two NodeModules in conflict, neither assigns anything: it is unknown which of them is right.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::{
    node::{content::NodeContent, overlap::meeting, render},
    selector::SelectorError,
};

/// A NodeModule, and the nodes that it selects.
#[derive(Clone, Copy, Debug)]
pub struct Claimant<'a> {
    /// The NodeModule's name.
    pub name: &'a str,
    /// The content of the NodeModule.
    pub content: &'a NodeContent,
    /// The labels of the nodes that it selects, by name.
    pub nodes: &'a BTreeMap<String, BTreeMap<String, String>>,
}

/// A path of one NodeModule that another one also writes, or writes below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The path of this NodeModule.
    pub path: String,
    /// The path of the other one: the same, one above it, or one below it.
    pub other_path: String,
    /// The name of the other NodeModule.
    pub other: String,
    /// The first node that both select.
    pub node: String,
}

/// The first conflict of a NodeModule with others, in the order of their names.
pub fn first(module: Claimant<'_>, others: &[Claimant<'_>]) -> Result<Option<Conflict>, SelectorError> {
    for other in others.iter().filter(|other| other.name != module.name) {
        // Nodes with the same labels have the same parts: most fleets have few distinct sets of labels.
        let mut checked = BTreeSet::new();
        for (node, labels) in module.nodes {
            if !other.nodes.contains_key(node) {
                continue;
            }
            let own = render::matching_parts(module.content, labels)?;
            let theirs = render::matching_parts(other.content, labels)?;
            if !checked.insert((own.clone(), theirs.clone())) {
                continue;
            }
            let (own, theirs) = (paths(module.content, &own), paths(other.content, &theirs));
            if let Some((path, other_path)) = meeting(&own, &theirs) {
                return Ok(Some(Conflict {
                    path: path.to_owned(),
                    other_path: other_path.to_owned(),
                    other: other.name.to_owned(),
                    node: node.clone(),
                }));
            }
        }
    }
    Ok(None)
}

fn paths<'a>(content: &'a NodeContent, parts: &BTreeSet<u32>) -> BTreeSet<&'a str> {
    // Every part that selects a node is in its content.
    let files = render::merged(content, parts).unwrap_or_default();
    files.iter().map(|file| file.path.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type Part<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

    fn content(parts: &[Part<'_>]) -> NodeContent {
        let parts = parts.iter().map(|(labels, paths)| {
            let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
            let files = paths.iter().map(|path| json!({"path": path, "content": ""}));
            json!({"selector": {"matchLabels": labels}, "files": files.collect::<Vec<_>>()})
        });
        serde_json::from_value(json!({"parts": parts.collect::<Vec<_>>()})).unwrap()
    }

    fn nodes(names: &[(&str, &str)]) -> BTreeMap<String, BTreeMap<String, String>> {
        let names = names.iter();
        names
            .map(|(name, rack)| {
                (
                    (*name).to_owned(),
                    BTreeMap::from([("rack".to_owned(), (*rack).to_owned())]),
                )
            })
            .collect()
    }

    #[test]
    fn one_path_of_one_node_is_of_one_node_module() {
        let check = |own: &NodeContent, theirs: &NodeContent, expect: Option<(&str, &str, &str)>| {
            let (here, there) = (
                nodes(&[("n1", "a"), ("n2", "b")]),
                nodes(&[("n2", "b"), ("n3", "b")]),
            );
            let module = Claimant {
                name: "fabric",
                content: own,
                nodes: &here,
            };
            let other = Claimant {
                name: "sysctl",
                content: theirs,
                nodes: &there,
            };
            let found = first(module, &[module, other]).unwrap();
            let found = found.as_ref().map(|found| {
                assert_eq!(found.other, "sysctl");
                (
                    found.path.as_str(),
                    found.other_path.as_str(),
                    found.node.as_str(),
                )
            });
            assert_eq!(found, expect);
        };
        let of = |paths: &[&str]| content(&[(&[], paths)]);
        check(&of(&["/etc/a"]), &of(&["/etc/b"]), None);
        check(&of(&["/etc/a"]), &of(&["/etc/ab"]), None);
        check(
            &of(&["/etc/x", "/etc/a"]),
            &of(&["/etc/a"]),
            Some(("/etc/a", "/etc/a", "n2")),
        );
        check(
            &of(&["/etc/a/b"]),
            &of(&["/etc/a"]),
            Some(("/etc/a/b", "/etc/a", "n2")),
        );
        check(
            &of(&["/etc/a"]),
            &of(&["/etc/a/b/c"]),
            Some(("/etc/a", "/etc/a/b/c", "n2")),
        );
        // Only nodes of rack a would get it, and the other one selects none of them.
        check(
            &content(&[(&[("rack", "a")], &["/etc/a"])]),
            &of(&["/etc/a"]),
            None,
        );
        check(
            &content(&[(&[("rack", "b")], &["/etc/a"])]),
            &of(&["/etc/a"]),
            Some(("/etc/a", "/etc/a", "n2")),
        );
    }
}
