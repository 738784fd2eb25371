//! A state of the world: what stands in objects, what is on its way, and what leaders have seen.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_rollout::{Echo, Memory, Row, Token};

use crate::eye::Eye;
use crate::flying::Flying;
use crate::set::Set;

/// A state of the world. Its time is always [`NOW`](crate::normal::NOW): see [`crate::normal`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The module's object: what people wish, and the memory.
    pub module: Module,
    /// The clusters.
    pub clusters: Vec<Cluster>,
    /// What leaders have seen; none where views are never stale.
    pub leaders: Vec<Leader>,
    /// Writes of rows on their way.
    pub flying: BTreeSet<Flying>,
    /// How much may still happen.
    pub left: u8,
    /// What an observer has seen.
    pub eye: Eye,
    /// The law that is broken.
    pub broken: Option<Arc<str>>,
}

/// The module's object: one, so that all of it is written by compare-and-swap.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Module {
    /// The revision that is wished.
    pub target: u8,
    /// Nothing new is to begin.
    pub paused: bool,
    /// What was said once: approve, abort, retry.
    pub said: [Option<Said>; 3],
    /// The withdrawal that was acknowledged.
    pub acknowledged: Option<String>,
    /// Who was given up.
    pub given_up: Set,
    /// None: lost.
    pub memory: Option<Arc<Memory>>,
    /// What was told of revisions in objects of their own.
    pub told: Told,
}

/// What somebody said once of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Said {
    /// Which.
    pub revision: u8,
    /// Nobody took it yet.
    pub fresh: bool,
}

/// Verdicts on record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Told {
    /// The last good revision.
    pub good: Option<u8>,
    /// The bad ones.
    pub bad: Set,
}

/// A cluster, with its row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cluster {
    /// The registry's entry.
    pub entry: Entry,
    /// Its assemblage.
    pub sheet: Sheet,
    /// The row as it was mirrored into the cluster.
    pub mirror: Option<Row>,
}

/// What the registry says of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Which life of the name.
    pub life: u8,
    /// There is such a cluster.
    pub present: bool,
    /// It is selected.
    pub selected: bool,
    /// Whether it can be touched.
    pub fit: Fit,
}

/// Whether a cluster can be touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fit {
    /// Yes.
    Ready,
    /// It cannot be reached.
    Away,
    /// Nobody may.
    Held,
    /// Yes, but it does not do its work.
    Unavailable,
    /// Yes, but its change window is closed.
    Closed,
}

impl Fit {
    /// A leader may write its row.
    pub fn is_eligible(self) -> bool {
        !matches!(self, Self::Away | Self::Held)
    }
}

/// An assemblage with the module's row, and its status.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sheet {
    /// The life of the cluster that owns it.
    pub life: u8,
    /// The row.
    pub row: Option<Row>,
    /// What the cluster said last.
    pub echo: Option<Echo>,
    /// The token of the fence that wrote it last: only for worlds in which fences are wrong.
    pub fence: Option<Token>,
}

/// A leader.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leader {
    /// The assemblages as its watch has them.
    pub sheets: Arc<Vec<Sheet>>,
    /// The registry as its watch has it.
    pub entries: Arc<Vec<Entry>>,
    /// The memory as it read it: only for a world without compare-and-swap.
    pub memory: Option<Arc<Memory>>,
    /// Who came back since the registry was seen.
    pub returned: Set,
    /// Who was confirmed since the assemblages were seen.
    pub confirmed: Set,
}
