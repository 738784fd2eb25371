//! A scope: how large a world is, and what may happen in it.

use muster_rollout::{Absence, Batch, OnFailure, OnJoin};

use crate::set::Set;

/// Something that a world has, or that may happen in it. Each pair of them is together in at least one scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// Two leaders, each with its own view.
    Leaders,
    /// Views are read at one time and decided on at another.
    Stale,
    /// Writes of rows arrive late, in any order, or never.
    Late,
    /// A leader dies between any two of its writes.
    Crash,
    /// Rows are mirrored into the cluster before its agent sees them.
    Mirror,
    /// The memory is lost and rebuilt.
    Loss,
    /// Clusters leave, and others of their name join.
    Joins,
    /// Clusters cannot be reached.
    Away,
    /// Clusters are held: nobody may write them, and they still report.
    Held,
    /// Somebody pauses the rollout.
    Pause,
    /// The target changes, also back to one of before.
    Targets,
    /// Some revisions fail.
    Failing,
    /// What failed is taken back.
    Revert,
    /// Clusters of one domain change at a time.
    Domains,
    /// Domains change one after the other, and one cluster of each at a time.
    Order,
    /// A change of an available cluster begins only while all others are available and none changes; clusters become unavailable.
    Budget,
    /// Change windows close, and open again.
    Windows,
    /// Stages, one of which asks for an approval.
    Stages,
    /// Clusters are deselected and selected again.
    Withdraw,
    /// Somebody aborts, and tries again.
    Words,
    /// Clusters are given up.
    GivenUp,
    /// Confirmed clusters fail, and recover.
    Relapse,
    /// Time passes: deadlines, absences, soaks.
    Time,
    /// The module goes with its rows and its memory, and comes back; its clusters keep what they have, and report it.
    Back,
}

impl Feature {
    /// All of them.
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

/// How long is waited for what, in beats of the clock. None: for ever (or, of a soak, not at all).
#[derive(Clone, Copy, Debug)]
pub struct Beats {
    /// Until an assignment is acknowledged.
    pub pickup: Option<u8>,
    /// Until it is confirmed.
    pub progress: Option<u8>,
    /// How long who is away keeps its slot.
    pub absence: Option<u8>,
    /// How long the first stage stays confirmed.
    pub soak: Option<u8>,
    /// How long a success has to last.
    pub ready: Option<u8>,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Its name.
    pub name: &'static str,
    /// What it has.
    pub features: &'static [Feature],
    /// How many clusters there are.
    pub clusters: usize,
    /// How many there are revisions.
    pub revisions: u8,
    /// How many leaders; their views are kept only with [`Feature::Stale`].
    pub leaders: usize,
    /// How many clusters may change at once.
    pub limit: u32,
    /// How many things may happen that nobody in the world makes: a target, a loss, an absence, … What undoes one is free.
    pub events: u8,
    /// To which clusters they happen.
    pub subjects: Set,
    /// Before the first event all clusters are confirmed at the first revision, and the second is the target.
    pub settled: bool,
    /// Revisions that fail wherever they are carried out.
    pub failing: Set,
    /// How many clusters may fail before a revision is condemned.
    pub max_failed: u32,
    /// What that leads to.
    pub on_failure: OnFailure,
    /// What who joins gets first.
    pub on_join: OnJoin,
    /// What an absence means.
    pub absence: Absence,
    /// Batches.
    pub batch: Option<Batch>,
    /// More withdrawals than this at once wait for an acknowledgement.
    pub brake: Option<u32>,
    /// Agents say that they began before they say how it ended.
    pub slow: bool,
    /// How long is waited for what.
    pub beats: Beats,
    /// From each state a fair time is tried (EL1 to EL5).
    pub fair: bool,
    /// It is exhausted by the test command; the others by `cargo xtask model`.
    pub short: bool,
    /// How many states it has.
    pub states: usize,
    /// What happens somewhere in it.
    pub reaches: &'static [&'static str],
}

/// What most scopes have.
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
    /// Whether it has this.
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }
}
