//! What is watched of a fleet.

/// What is watched of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The objects of the matrix, the tree and `why`.
    Fleet,
    /// Also revisions, ZoneRollouts and events.
    Whole,
    /// The same, and NodeModules where they are served.
    WithNodes,
    /// The nodes of a cluster that serves no Modules: NodeModules, ZoneRollouts and events.
    Nodes,
}

impl Extent {
    /// Whether modules and their objects are watched.
    pub const fn has_modules(self) -> bool {
        !matches!(self, Self::Nodes)
    }

    /// Whether the objects of nodes are watched.
    pub const fn has_nodes(self) -> bool {
        matches!(self, Self::WithNodes | Self::Nodes)
    }
}
