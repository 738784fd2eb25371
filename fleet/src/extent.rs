//! What is watched of a fleet.

/// What is watched of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// What the matrix, the tree and `why` are made of.
    Fleet,
    /// Revisions, ZoneRollouts and events, too.
    Whole,
    /// The same, and NodeModules where they are served.
    WithNodes,
    /// The nodes of a cluster that serves no Modules: NodeModules, ZoneRollouts and events.
    Nodes,
}

impl Extent {
    /// Modules and what is made of them are watched.
    pub const fn has_modules(self) -> bool {
        !matches!(self, Self::Nodes)
    }

    /// What is of nodes is watched.
    pub const fn has_nodes(self) -> bool {
        matches!(self, Self::WithNodes | Self::Nodes)
    }
}
