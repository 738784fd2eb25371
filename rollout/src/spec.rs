//! The desired state: the target and how to roll it out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Millis, Revision, Token, UnitId};

/// The current settings of one module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The revision that every selected unit should get. None: not known yet (its source cannot be read); no new change
    /// starts.
    pub target: Option<Revision>,
    /// How many units change at once.
    pub strategy: Strategy,
    /// Growing batches: the next one opens when the last one is confirmed. None: a free slot is used at once.
    pub batch: Option<Batch>,
    /// Which domains change together ([`Unit::domain`](crate::Unit::domain)). Records call it `exclusive`, as it used
    /// to be a boolean.
    #[serde(rename = "exclusive")]
    pub domains: Domains,
    /// Passed one after the other. They lower the limit, and never raise it.
    pub stages: Vec<Stage>,
    /// The last results of gates: see [`Step::Evaluate`](crate::Step::Evaluate).
    pub readings: Vec<Reading>,
    /// One-time commands such as abort, retry and approve.
    pub controls: Vec<Control>,
    /// Maximum number of units in flight. Ignored with [`Strategy::Replace`].
    pub limit: Limit,
    /// A change of an available unit starts only while fewer units than this are changing or unavailable
    /// ([`Unit::available`](crate::Unit::available)); an unavailable unit may change in addition. A percentage refers
    /// to the selected units, eligible or not. None: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<Limit>,
    /// How long a unit must be observed as succeeded before it is confirmed.
    pub min_ready: Millis,
    /// What happens when a revision is condemned.
    pub on_failure: OnFailure,
    /// How many units may fail before the revision is condemned. A percentage refers to all selected units, eligible or
    /// not: unreachable units must not lead to a verdict.
    pub max_failed: Limit,
    /// The deadlines of a change.
    pub deadlines: Deadlines,
    /// What a unit that joins during a run gets first.
    pub on_join: OnJoin,
    /// How to withdraw from units that are no longer selected.
    pub withdraw: Withdraw,
    /// No new change starts; those in flight finish.
    pub paused: bool,
    /// Abandoned units, as long as they are named here: what remains of them is not waited for, see
    /// [`Step::Abandon`](crate::Step::Abandon). Ignored for selected units, and for those that have nothing left.
    pub abandoned: BTreeSet<UnitId>,
    /// Units whose assignment was refused when it was written, and would be refused again. Applies to the in-flight
    /// change with this token.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<UnitId, RefusedWrite>,
    /// When the next change window opens or closes, as the caller knows: it then passes the units again. None: none
    /// will.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_change: Option<Millis>,
    /// The units passed to [`plan`](crate::plan) are a complete and successful read, not older than the memory passed
    /// with them. If false, nothing is withdrawn, no verdict "good" is reached, and a missing unit is absent rather
    /// than gone.
    pub complete: bool,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            target: None,
            strategy: Strategy::Incremental,
            batch: None,
            domains: Domains::ANY,
            stages: Vec::new(),
            readings: Vec::new(),
            controls: Vec::new(),
            limit: Limit::Count(1),
            unavailable: None,
            min_ready: Millis(0),
            on_failure: OnFailure::Halt,
            max_failed: Limit::Count(0),
            deadlines: Deadlines::default(),
            on_join: OnJoin::LastGood,
            withdraw: Withdraw::default(),
            paused: false,
            abandoned: BTreeSet::new(),
            refused: BTreeMap::new(),
            window_change: None,
            complete: true,
        }
    }
}

/// An assignment that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedWrite {
    /// The token of the assignment.
    pub token: Token,
    /// The error message of the API server.
    pub message: Arc<str>,
}

/// How many units change at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strategy {
    /// All of them.
    Replace,
    /// As many as the limit allows.
    Incremental,
}

/// A number or a percentage of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// A number of units.
    Count(u32),
    /// A percentage (0 to 100; more is 100).
    Percent(u8),
}

/// How units that share something, such as a rack or a region, change together. The default constrains nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "WireDomains", into = "WireDomains")]
pub struct Domains {
    /// Domains start in the order of their numbers; units without a domain come last. A domain gets the target only
    /// while fewer than `at_once` domains before it are not done: their needed units, as far as their stage is open,
    /// are not all confirmed. A unit that reverts, joins with the last good revision, or follows its pin waits for no
    /// order. Ignored without `at_once`.
    pub ordered: bool,
    /// Maximum number of domains with units in flight. None: any number.
    pub at_once: Option<u32>,
    /// Maximum number of units in flight of one domain (a percentage refers to its selected, eligible units). None: any
    /// number.
    pub limit: Option<Limit>,
}

impl Domains {
    /// Whether the domain of a unit does not matter.
    pub const ANY: Self = Self {
        ordered: false,
        at_once: None,
        limit: None,
    };
    /// All units in flight share one domain.
    pub const EXCLUSIVE: Self = Self {
        ordered: false,
        at_once: Some(1),
        limit: None,
    };

    /// Whether the domain of a unit matters.
    pub fn constrain(self) -> bool {
        self.at_once.is_some() || self.limit.is_some()
    }
}

/// The recorded form: whether there is only one domain, or all settings.
// An unknown field is an error: ignoring it could lead to another decision.
#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum WireDomains {
    Exclusive(bool),
    All {
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        ordered: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_once: Option<u32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<Limit>,
    },
}

impl From<Domains> for WireDomains {
    fn from(domains: Domains) -> Self {
        let Domains {
            ordered,
            at_once,
            limit,
        } = domains;
        match domains {
            Domains::EXCLUSIVE => Self::Exclusive(true),
            _ if domains == Domains::ANY => Self::Exclusive(false),
            _ => Self::All {
                ordered,
                at_once,
                limit,
            },
        }
    }
}

impl From<WireDomains> for Domains {
    fn from(wire: WireDomains) -> Self {
        match wire {
            WireDomains::Exclusive(true) => Self::EXCLUSIVE,
            WireDomains::Exclusive(false) => Self::ANY,
            WireDomains::All {
                ordered,
                at_once,
                limit,
            } => Self {
                ordered,
                at_once,
                limit,
            },
        }
    }
}

/// What happens when a revision is condemned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnFailure {
    /// No new change starts; units in flight may still be confirmed.
    Halt,
    /// Units that have it return to the last good revision, latest change first, under the same limits. Without a last
    /// good revision: as `Halt`.
    Revert,
    /// The verdict is recorded once, and the run continues.
    Continue,
}

/// Growing batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The size of the first batch.
    pub start: u32,
    /// The size of a batch relative to the previous one.
    pub factor: u32,
    /// Maximum size of a batch.
    pub max: u32,
}

/// A group of units that is passed before the next one starts: when its eligible units are confirmed and have soaked,
/// its gates have passed, and it is approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// Identifies the stage in the memory, even if its position changes.
    pub name: Arc<str>,
    /// Maximum number of its units in flight.
    pub limit: Option<Limit>,
    /// How long all its units must stay confirmed before it is passed.
    pub soak: Millis,
    /// An approval is required.
    pub approval: bool,
    /// The gates of the stage.
    pub gates: Vec<Gate>,
}

/// A check that is evaluated elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// Hash of the definition: results of another definition do not count.
    pub definition: u64,
    /// The time between readings.
    pub interval: Millis,
    /// Number of consecutive passes that are required.
    pub passes: u32,
    /// Treats missing data as a failed reading; otherwise it is ignored.
    pub no_data_fails: bool,
}

/// A result of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The gate.
    pub gate: GateId,
    /// When it was read. Readings older than the recorded one are ignored.
    pub at: Millis,
    /// The result.
    pub outcome: GateResult,
}

/// A gate of a stage, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GateId {
    /// The index of the stage.
    pub stage: u8,
    /// The index of the gate in the stage.
    pub gate: u8,
}

/// The result of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GateResult {
    /// The gate passes.
    Pass,
    /// The gate does not pass.
    Fail,
    /// No data, or inconclusive.
    NoData,
}

/// A one-time command: it is taken when it is first observed, and has no effect again while it remains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// Unique id of the control.
    pub id: u64,
    /// The command.
    pub says: ControlCommand,
}

/// The one-time commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ControlCommand {
    /// Aborts the run of the target: like a verdict, without blame.
    Abort(Revision),
    /// Forgets the verdict about this revision; if it is the target, it is rolled out again.
    Retry(Revision),
    /// Approves this stage of the target's run.
    Approve(Revision, Arc<str>),
    /// Approves the stage, and skips its soak and its gates.
    Promote(Revision, Arc<str>),
}

/// The deadlines of a change. Only time in which the unit was eligible and a leader ran counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlines {
    /// From the write of the assignment until the unit acknowledges it.
    pub pickup: Millis,
    /// From the acknowledgement until the unit is confirmed; for a unit that reports steps, from one completed step to
    /// the next.
    pub progress: Millis,
    /// How long a unit in flight that is not eligible keeps its slot.
    pub absence: Millis,
    /// From the acknowledgement until the unit is confirmed, over all steps. None: no limit while it makes progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Millis>,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            pickup: Millis::minutes(5),
            progress: Millis::minutes(10),
            absence: Millis::minutes(5),
            total: None,
        }
    }
}

/// What a unit that joins during a run gets first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnJoin {
    /// The last good revision, if there is one, and the target when its turn comes.
    LastGood,
    /// The target, when its turn comes.
    Target,
}

/// How to withdraw from units that are no longer selected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withdraw {
    /// Maximum number of units withdrawn from at the same time, in addition to the limit (a percentage refers to the
    /// units that have content).
    pub max: Limit,
    /// If more units than this (and more than one) are deselected at once, an acknowledgement is required. None: never.
    pub brake: Option<Limit>,
    /// What happens to the content.
    pub how: How,
    /// The acknowledged withdrawal, as named by [`Why::WithdrawalHeld`](crate::Why::WithdrawalHeld).
    pub acknowledged: Option<String>,
    /// The units whose content moves to another owner: withdrawing from them removes nothing that is desired, so the
    /// brake does not count them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub moving: BTreeSet<UnitId>,
}

impl Default for Withdraw {
    fn default() -> Self {
        Self {
            max: Limit::Percent(10),
            brake: Some(Limit::Percent(20)),
            how: How::Prune,
            acknowledged: None,
            moving: BTreeSet::new(),
        }
    }
}

/// What happens to the content of a unit that is withdrawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum How {
    /// It is removed.
    Prune,
    /// It stays, without an owner.
    Orphan,
}
