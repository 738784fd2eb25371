//! The NodeBudget of a cluster: which nodes a NodeModule may begin to change. Pure; claims are written before the
//! memory is.
//!
//! ```text
//!   NodeBudget (claims of all NodeModules), nodes ─► Room ─► claim ─► claims are written first ─► only claimed nodes are eligible
//!                                                       └► release: claims of changes that are over
//! ```
//!
//! Invariant: the nodes with a claim and the unavailable nodes together never exceed the budget, except by nodes that
//! were unavailable before.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::{
    amount::Amount,
    node::budget::{Claim, NodeBudgetSpec, NodeBudgetStatus},
};

/// A node as counted by a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted<'a> {
    /// The name of the node.
    pub name: &'a str,
    /// The uid of the node.
    pub uid: &'a str,
    /// Whether it is a control-plane node.
    pub control_plane: bool,
    /// Whether it is available: Ready, and not being deleted.
    pub available: bool,
}

/// What a budget allows now.
#[derive(Clone, Debug)]
pub struct Room<'a> {
    spec: NodeBudgetSpec,
    nodes: BTreeMap<&'a str, Counted<'a>>,
    claims: BTreeSet<Claim>,
    /// The number of nodes: workers, and control plane.
    counts: [usize; 2],
    /// The number of those that are changing or unavailable.
    used: [BTreeSet<&'a str>; 2],
}

impl<'a> Room<'a> {
    /// The budget over all nodes of the cluster. Claims of nodes that are gone or were re-created no longer count;
    /// neither do claims of NodeModules for which `exists` returns false.
    pub fn new(
        spec: &NodeBudgetSpec,
        status: &NodeBudgetStatus,
        nodes: impl IntoIterator<Item = Counted<'a>>,
        exists: impl Fn(&str) -> bool,
    ) -> Self {
        let nodes: BTreeMap<_, _> = nodes.into_iter().map(|node| (node.name, node)).collect();
        let is_valid = |claim: &&Claim| {
            let node = nodes.get(claim.node.as_str());
            exists(&claim.module) && node.is_some_and(|node| node.uid == claim.uid)
        };
        let claims: BTreeSet<Claim> = status.claims.iter().filter(is_valid).cloned().collect();
        let mut room = Self {
            spec: *spec,
            counts: [0; 2],
            used: [BTreeSet::new(), BTreeSet::new()],
            nodes,
            claims,
        };
        room.count();
        room
    }

    fn count(&mut self) {
        let claimed: BTreeSet<&str> = self.claims.iter().map(|claim| claim.node.as_str()).collect();
        (self.counts, self.used) = ([0; 2], [BTreeSet::new(), BTreeSet::new()]);
        for node in self.nodes.values() {
            let class = usize::from(node.control_plane);
            self.counts[class] += 1;
            if !node.available || claimed.contains(node.name) {
                self.used[class].insert(node.name);
            }
        }
    }

    /// Whether a NodeModule has a claim on a node.
    pub fn has(&self, module: &str, node: &str) -> bool {
        let mut claims = self.claims.iter();
        claims.any(|claim| claim.module == module && claim.node == node)
    }

    /// Whether a change of this node would exceed the budget.
    pub fn is_full_for(&self, node: &str) -> bool {
        let Some(of) = self.nodes.get(node) else {
            return true;
        };
        let class = usize::from(of.control_plane);
        let (used, count) = (&self.used[class], self.counts[class]);
        let limit = if of.control_plane {
            Some(self.spec.control_plane)
        } else {
            self.spec.workers
        };
        !used.contains(node) && limit.is_some_and(|limit| used.len() >= allowed(limit, count))
    }

    /// Claims a node for a change whose token is above `token`. False: the budget is used up, or the node does not
    /// exist.
    pub fn claim(&mut self, module: &str, node: &str, token: u64) -> bool {
        if self.has(module, node) {
            return true;
        }
        let Some(of) = self.nodes.get(node).filter(|_| !self.is_full_for(node)) else {
            return false;
        };
        self.used[usize::from(of.control_plane)].insert(of.name);
        self.claims.insert(Claim {
            module: module.to_owned(),
            node: node.to_owned(),
            uid: of.uid.to_owned(),
            token,
        })
    }

    /// Releases the claims of a NodeModule on nodes for which `keeps` returns false.
    pub fn release(&mut self, module: &str, keeps: impl Fn(&str) -> bool) {
        self.claims
            .retain(|claim| claim.module != module || keeps(&claim.node));
        self.count();
    }

    /// The status with these claims.
    pub fn status(&self) -> NodeBudgetStatus {
        NodeBudgetStatus {
            claims: self.claims.iter().cloned().collect(),
        }
    }
}

fn allowed(limit: Amount, nodes: usize) -> usize {
    match limit {
        Amount::Count(count) => usize::try_from(count).unwrap_or(usize::MAX),
        Amount::Percent(0) => 0,
        Amount::Percent(percent) => (nodes * usize::from(percent.min(100)) / 100).max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: [(&str, bool, bool); 6] = [
        ("cp-1", true, true),
        ("cp-2", true, true),
        ("cp-3", true, true),
        ("w-1", false, true),
        ("w-2", false, true),
        ("w-3", false, false),
    ];

    fn room<'a>(
        workers: Option<Amount>,
        claims: &[(&str, &str)],
        cluster: &[(&'a str, bool, bool)],
    ) -> Room<'a> {
        let spec = NodeBudgetSpec {
            workers,
            ..NodeBudgetSpec::default()
        };
        let claims = claims.iter().map(|(module, node)| Claim {
            module: (*module).to_owned(),
            node: (*node).to_owned(),
            uid: (*node).to_owned(),
            token: 1,
        });
        let status = NodeBudgetStatus {
            claims: claims.collect(),
        };
        let nodes = cluster.iter().map(|(name, control_plane, available)| Counted {
            name,
            uid: name,
            control_plane: *control_plane,
            available: *available,
        });
        Room::new(&spec, &status, nodes, |module| module != "gone")
    }

    #[test]
    fn one_node_of_the_control_plane_is_changed_at_a_time_whatever_node_module_it_is() {
        let mut room = room(None, &[], &CLUSTER);
        assert!(room.claim("fabric", "cp-1", 7));
        assert!(room.claim("fabric", "cp-1", 7), "it has it");
        assert!(!room.claim("sysctl", "cp-2", 3));
        assert!(room.is_full_for("cp-2") && !room.is_full_for("cp-1"));
        // Workers have no limit of their own here.
        assert!(
            ["w-1", "w-2", "w-3"]
                .iter()
                .all(|node| room.claim("sysctl", node, 3))
        );
        assert!(!room.claim("sysctl", "unknown", 3));
        room.release("fabric", |node| node != "cp-1");
        assert!(room.claim("sysctl", "cp-2", 3));
        assert_eq!(room.status().claims.len(), 4);
    }

    #[test]
    fn a_node_that_is_not_available_uses_the_budget_and_may_be_changed_itself() {
        let mut workers = room(Some(Amount::Count(1)), &[], &CLUSTER);
        assert!(!workers.claim("fabric", "w-1", 1), "w-3 is not available");
        assert!(workers.claim("fabric", "w-3", 1));
        let mut two = room(Some(Amount::Percent(67)), &[], &CLUSTER);
        assert!(two.claim("fabric", "w-1", 1));
        assert!(!two.claim("fabric", "w-2", 1));
        assert!(!room(Some(Amount::Count(0)), &[], &CLUSTER[..5]).claim("fabric", "w-1", 1));
    }

    #[test]
    fn claims_of_what_is_gone_count_no_more() {
        let stale = [("gone", "cp-1"), ("fabric", "cp-9")];
        let mut room = room(None, &stale, &CLUSTER);
        assert_eq!(room.status().claims, []);
        assert!(room.claim("sysctl", "cp-2", 1));
    }
}
