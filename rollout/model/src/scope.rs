//! A scope: the size of a world, and the events that are possible in it.

use muster_rollout::{Absence, Batch, OnFailure, OnJoin};

use crate::set::Set;

/// A feature of a world or an event in it. Each pair of features occurs together in at least one scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// Two leaders, each with its own view.
    Leaders,
    /// Views are read at one time and decided on at another.
    Stale,
    /// Writes of assignments arrive late, in any order, or never.
    Late,
    /// A leader dies between any two of its writes.
    Crash,
    /// Assignments are mirrored into the cluster before its agent reads them.
    Mirror,
    /// The memory is lost and rebuilt.
    Loss,
    /// Clusters leave, and others with the same name join.
    Joins,
    /// Clusters become unreachable.
    Away,
    /// Clusters are held: they must not be changed, and still report.
    Held,
    /// The rollout is paused.
    Pause,
    /// The target changes, also back to a previous one.
    Targets,
    /// Some revisions fail.
    Failing,
    /// Failing changes are reverted.
    Revert,
    /// Clusters of one domain change at a time.
    Domains,
    /// Domains change one after the other, and one cluster of each at a time.
    Order,
    /// A change of an available cluster starts only while all others are available and not changing; clusters become
    /// unavailable.
    Budget,
    /// Change windows close, and open again.
    Windows,
    /// Stages, one of which requires an approval.
    Stages,
    /// Clusters are deselected and selected again.
    Withdraw,
    /// The run is aborted and retried.
    Words,
    /// Clusters are abandoned.
    GivenUp,
    /// Confirmed clusters fail, and recover.
    Relapse,
    /// Time passes: deadlines, absences, soaks.
    Time,
    /// The module is deleted with its assignments and its memory, and re-created; its clusters keep their content, and
    /// report it.
    Back,
}

impl Feature {
    /// All features.
    pub const ALL: [Self; 24] = [
        Self::Leaders,
        Self::Stale,
        Self::Late,
        Self::Crash,
        Self::Mirror,
        Self::Loss,
        Self::Joins,
        Self::Away,
        Self::Held,
        Self::Pause,
        Self::Targets,
        Self::Failing,
        Self::Revert,
        Self::Domains,
        Self::Order,
        Self::Budget,
        Self::Windows,
        Self::Stages,
        Self::Withdraw,
        Self::Words,
        Self::GivenUp,
        Self::Relapse,
        Self::Time,
        Self::Back,
    ];
}

/// Deadlines in ticks of the clock. None: never (or, for a soak, no soak).
#[derive(Clone, Copy, Debug)]
pub struct Beats {
    /// Until an assignment is acknowledged.
    pub pickup: Option<u8>,
    /// Until a change is confirmed.
    pub progress: Option<u8>,
    /// How long an absent cluster keeps its slot.
    pub absence: Option<u8>,
    /// The soak of the first stage.
    pub soak: Option<u8>,
    /// How long a success must last.
    pub ready: Option<u8>,
}

/// A row of the table of scopes.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The name of the scope.
    pub name: &'static str,
    /// The features of the scope.
    pub features: &'static [Feature],
    /// Number of clusters.
    pub clusters: usize,
    /// Number of revisions.
    pub revisions: u8,
    /// Number of leaders; their views are kept only with [`Feature::Stale`].
    pub leaders: usize,
    /// The limit of clusters that change at once.
    pub limit: u32,
    /// Maximum number of events from outside of the world: a new target, a loss, an absence and so on. The event that
    /// undoes one is free.
    pub events: u8,
    /// The clusters that these events affect.
    pub subjects: Set,
    /// Initially all clusters are confirmed at the first revision, and the second is the target.
    pub settled: bool,
    /// Revisions that always fail.
    pub failing: Set,
    /// How many clusters may fail before a revision is condemned.
    pub max_failed: u32,
    /// What happens when a revision is condemned.
    pub on_failure: OnFailure,
    /// What a joining cluster gets first.
    pub on_join: OnJoin,
    /// What the absence of a cluster means.
    pub absence: Absence,
    /// Batches, if any.
    pub batch: Option<Batch>,
    /// More withdrawals than this at once require an acknowledgement.
    pub brake: Option<u32>,
    /// Agents report the start before the result.
    pub slow: bool,
    /// The deadlines.
    pub beats: Beats,
    /// A fair time is tried from each state (EL1 to EL5).
    pub fair: bool,
    /// It is explored by the test command; the others by `cargo xtask model`.
    pub short: bool,
    /// Number of states.
    pub states: usize,
    /// Events that must occur somewhere in it.
    pub reaches: &'static [&'static str],
}

/// The defaults of most scopes.
pub const PLAIN: Scope = Scope {
    name: "",
    features: &[],
    clusters: 2,
    revisions: 2,
    leaders: 1,
    limit: 1,
    events: 0,
    subjects: Set::bits(0b1111),
    settled: true,
    failing: Set::bits(0),
    max_failed: 0,
    on_failure: OnFailure::Halt,
    on_join: OnJoin::LastGood,
    absence: Absence::Skip,
    batch: None,
    brake: None,
    slow: false,
    beats: Beats {
        pickup: None,
        progress: None,
        absence: None,
        soak: None,
        ready: None,
    },
    fair: false,
    short: false,
    states: 0,
    reaches: &[],
};

impl Scope {
    /// Whether the scope has this feature.
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }
}
