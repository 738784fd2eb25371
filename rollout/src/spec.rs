//! What people wish: the target and how it shall be rolled out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Millis, Revision, Token, UnitId};

/// The settings of one module, as they are now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The revision that every selected unit shall get. None: not known yet (its source cannot be read); nothing new moves.
    pub target: Option<Revision>,
    /// How many units change at once.
    pub strategy: Strategy,
    /// Growing batches: the next one opens when the last is confirmed. None: slots refill one by one.
    pub batch: Option<Batch>,
    /// Which domains change together ([`Unit::domain`](crate::Unit::domain)). In records it is called `exclusive`, as it was a yes or no once.
    #[serde(rename = "exclusive")]
    pub domains: Domains,
    /// Passed one after the other. They narrow the limit, and never widen it.
    pub stages: Vec<Stage>,
    /// What gates last said: see [`Step::Evaluate`](crate::Step::Evaluate).
    pub readings: Vec<Reading>,
    /// What somebody said once.
    pub controls: Vec<Control>,
    /// The most units that may be charged at one time. Of no effect with [`Strategy::Replace`].
    pub limit: Limit,
    /// A change of an available unit begins only while fewer units than this are changing or not available
    /// ([`Unit::available`](crate::Unit::available)); a unit that is not available may be changed beside them. A percentage is of the
    /// selected units, eligible or not. None: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<Limit>,
    /// How long a unit must have been seen as succeeded before it is confirmed.
    pub min_ready: Millis,
    /// What a condemned revision leads to.
    pub on_failure: OnFailure,
    /// How many units may fail before the revision is condemned (a percentage is of the selected units, whether they can be
    /// touched or not: that others cannot be reached condemns nothing).
    pub max_failed: Limit,
    /// How long is waited for what.
    pub deadlines: Deadlines,
    /// What a unit gets first that joins while a run is under way.
    pub on_join: OnJoin,
    /// How units are left that are no longer selected.
    pub withdraw: Withdraw,
    /// No new charge; the charged ones finish.
    pub paused: bool,
    /// Units that somebody gave up, for as long as they are named here: what is left of them is not waited for, see
    /// [`Step::Abandon`](crate::Step::Abandon). Of no effect on selected units, nor on those that have nothing left.
    pub abandoned: BTreeSet<UnitId>,
    /// Units whose row was refused when it was written, and would be refused again. Of effect on the charge that has this token.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<UnitId, Refusal>,
    /// When the first change window of a unit opens or closes, as the caller knows: it then gives the units anew. None: none will.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_change: Option<Millis>,
    /// The units given to [`plan`](crate::plan) are a complete and successful read, not older than the memory given with them.
    /// When false nothing is withdrawn, nothing is concluded to be good, and a unit that is missing is absent rather than gone.
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

/// A row that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The token of the row.
    pub token: Token,
    /// The words of the refusal.
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

/// A number of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// So many.
    Count(u32),
    /// This part of a whole (0 to 100; more is 100).
    Percent(u8),
}

/// How units change together that share something: a rack, a region. The default constrains nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "WireDomains", into = "WireDomains")]
pub struct Domains {
    /// Domains begin in the order of their numbers; units that share nothing come last. A domain gets what is rolled out only while fewer
    /// than `at_once` domains before it are not done: their needed units, as far as their stage has come, are not all confirmed. A unit that
    /// goes back, joins with the last good revision, or follows its pin waits for no order. Of no effect without `at_once`.
    pub ordered: bool,
    /// The most domains with charged units. None: any number.
    pub at_once: Option<u32>,
    /// The most units of one domain that may be charged (a percentage is of its selected, eligible units). None: any number.
    pub limit: Option<Limit>,
}

impl Domains {
    /// It does not matter which domain a unit is of.
    pub const ANY: Self = Self {
        ordered: false,
        at_once: None,
        limit: None,
    };
    /// Charged units share one domain.
    pub const EXCLUSIVE: Self = Self {
        ordered: false,
        at_once: Some(1),
        limit: None,
    };

    /// Whether it matters at all which domain a unit is of.
    pub fn constrain(self) -> bool {
        self.at_once.is_some() || self.limit.is_some()
    }
}

/// As it is recorded: whether there is only to be one domain, or all of it.
// A field that is not known would be left out, and something else decided: it is an error.
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

/// What a condemned revision leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnFailure {
    /// Nothing new; who is in flight may still confirm.
    Halt,
    /// Who has it goes back to the last good revision, the newest first, under the same limits. Without one: as `Halt`.
    Revert,
    /// It is recorded, once, and the run goes on.
    Continue,
}

/// Batches that grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The first.
    pub start: u32,
    /// How many times as large as the last one the next is.
    pub factor: u32,
    /// No batch is larger.
    pub max: u32,
}

/// A part of the units, which is passed before the next begins: when its eligible units are confirmed, have been so for a while,
/// its gates hold, and somebody approved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// By this it is remembered as passed, whatever becomes of its place.
    pub name: Arc<str>,
    /// The most of its units that may be charged at one time.
    pub limit: Option<Limit>,
    /// How long all its units stay confirmed before it is passed.
    pub soak: Millis,
    /// Somebody must approve.
    pub approval: bool,
    /// What must hold.
    pub gates: Vec<Gate>,
}

/// Something that is measured elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// Tells what is asked from what was asked in its place before: what that said counts for nothing.
    pub definition: u64,
    /// The time from one reading to the next.
    pub interval: Millis,
    /// How many times in a row it must hold.
    pub passes: u32,
    /// No data is as bad as a reading that does not hold; or else it says nothing.
    pub no_data_fails: bool,
}

/// What a gate said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Whose.
    pub gate: GateId,
    /// When it was read. Of older ones than what is remembered nothing is made.
    pub at: Millis,
    /// What it said.
    pub outcome: Outcome,
}

/// A gate of a stage, by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GateId {
    /// The place of the stage.
    pub stage: u8,
    /// The place in the stage.
    pub gate: u8,
}

/// What a reading says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Outcome {
    /// It holds.
    Pass,
    /// It does not hold.
    Fail,
    /// It cannot be told.
    NoData,
}

/// What somebody said once: taken when first seen, and of no effect again while it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// Tells it from all others.
    pub id: u64,
    /// What.
    pub says: Says,
}

/// What can be said once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Says {
    /// The target, which is being rolled out, shall not be: as a verdict, without blame.
    Abort(Revision),
    /// What is known of this revision is forgotten; if it is the target, it is rolled out again.
    Retry(Revision),
    /// This stage of the target's run may be passed.
    Approve(Revision, Arc<str>),
    /// The same, without waiting for its soak and its gates.
    Promote(Revision, Arc<str>),
}

/// How long is waited for what, on time that the unit was eligible and somebody led.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlines {
    /// From the row being written until the unit acknowledges it.
    pub pickup: Millis,
    /// From the acknowledgement until it is confirmed; of one that reports its steps, from the last that was done to the next.
    pub progress: Millis,
    /// How long a charged unit that is not eligible keeps its slot.
    pub absence: Millis,
    /// From the acknowledgement until it is confirmed, whatever steps are reported as done meanwhile. None: as long as it gets on.
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

/// What a unit gets first that joins while a run is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnJoin {
    /// The last good revision, if there is one, and the target when its turn comes.
    LastGood,
    /// The target, when its turn comes.
    Target,
}

/// How units are left that are no longer selected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withdraw {
    /// The most units withdrawn from at one time, beside the limit (a percentage is of the units that carry something).
    pub max: Limit,
    /// More than this (and more than one) deselected at once waits for an acknowledgement. None: no brake.
    pub brake: Option<Limit>,
    /// What becomes of the content.
    pub how: How,
    /// The withdrawal that somebody acknowledged, as named by [`Why::WithdrawalHeld`](crate::Why::WithdrawalHeld).
    pub acknowledged: Option<String>,
    /// The units whose content moves to another owner: withdrawing from them removes nothing that is wanted, so the brake does not count
    /// them.
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

/// What becomes of the content of a unit that is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum How {
    /// It is removed.
    Prune,
    /// It stays, nobody's.
    Orphan,
}
