//! A state of the world: the content of objects, pending writes, and the views of leaders.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_rollout::{Assignment, Memory, Report, Token};

use crate::observer::Observer;
use crate::pending_write::PendingWrite;
use crate::set::Set;

/// A state of the world. Its time is always [`NOW`](crate::normal::NOW): see [`crate::normal`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The module's object: the spec and the memory.
    pub module: Module,
    /// The clusters.
    pub clusters: Vec<Cluster>,
    /// The views of leaders; empty if views are never stale.
    pub leaders: Vec<Leader>,
    /// Pending writes of assignments.
    pub flying: BTreeSet<PendingWrite>,
    /// Number of events that may still happen.
    pub left: u8,
    /// The observations of the observer.
    pub eye: Observer,
    /// The law that is broken.
    pub broken: Option<Arc<str>>,
}

/// The module's object: a single one, so that all of it is written by compare-and-swap.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Module {
    /// The target revision.
    pub target: u8,
    /// The rollout is paused: no change may start.
    pub paused: bool,
    /// The one-time commands: approve, abort, retry.
    pub commands: [Option<RevisionCommand>; 3],
    /// The acknowledged withdrawal.
    pub acknowledged: Option<String>,
    /// The abandoned clusters.
    pub given_up: Set,
    /// The memory; None if it is lost.
    pub memory: Option<Arc<Memory>>,
    /// The verdicts recorded in objects of their own.
    pub verdicts: RecordedVerdicts,
}

/// A one-time command about a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RevisionCommand {
    /// The revision.
    pub revision: u8,
    /// It is not taken yet.
    pub fresh: bool,
}

/// Recorded verdicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RecordedVerdicts {
    /// The last good revision.
    pub good: Option<u8>,
    /// The bad revisions.
    pub bad: Set,
}

/// A cluster, with its assignment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cluster {
    /// The registry entry of the cluster.
    pub entry: Entry,
    /// The assemblage of the cluster.
    pub sheet: Assemblage,
    /// The assignment as it was mirrored into the cluster.
    pub mirror: Option<Assignment>,
}

/// The registry entry of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The incarnation of the cluster.
    pub life: u8,
    /// The cluster exists.
    pub present: bool,
    /// It is selected.
    pub selected: bool,
    /// Whether it can be changed.
    pub fit: Fit,
}

/// Whether a cluster can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fit {
    /// Yes.
    Ready,
    /// It is unreachable.
    Away,
    /// No change is allowed.
    Held,
    /// Yes, but it is unavailable.
    Unavailable,
    /// Yes, but its change window is closed.
    Closed,
}

impl Fit {
    /// A leader may write its assignment.
    pub fn is_eligible(self) -> bool {
        !matches!(self, Self::Away | Self::Held)
    }
}

/// An assemblage with the module's assignment, and its status.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Assemblage {
    /// The incarnation of the cluster that owns it.
    pub life: u8,
    /// The assignment.
    pub assignment: Option<Assignment>,
    /// The last report of the cluster.
    pub report: Option<Report>,
    /// The token of the fence that wrote it last: only for worlds with wrong fences.
    pub fence: Option<Token>,
}

/// A leader.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leader {
    /// The assemblages in its watch.
    pub sheets: Arc<Vec<Assemblage>>,
    /// The registry in its watch.
    pub entries: Arc<Vec<Entry>>,
    /// The memory as it read it: only for a world without compare-and-swap.
    pub memory: Option<Arc<Memory>>,
    /// Clusters that returned since the registry was read.
    pub returned: Set,
    /// Clusters that were confirmed since the assemblages were read.
    pub confirmed: Set,
}
