//! The serialized form of the memory: compact arrays, revisions by index, hashes by their first 16 bytes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Acknowledged, Course, Evidence, InFlight, Kind, Memory, Run, Stopwatch};
use crate::{Digest, Incarnation, Millis, Revision, Token, UnitId};

#[derive(Serialize, Deserialize)]
pub(super) struct Wire {
    /// The version of this form.
    v: u8,
    seq: Token,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<Run>,
    /// Revisions that in-flight changes refer to by index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    revs: Vec<Revision>,
    #[serde(default, rename = "charges", skip_serializing_if = "BTreeMap::is_empty")]
    in_flight: BTreeMap<UnitId, WireInFlight>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    marks: BTreeMap<UnitId, Millis>,
    #[serde(default, skip_serializing_if = "is_zero")]
    beyond: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    good: Option<Revision>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    bad: BTreeMap<Revision, Evidence>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ack: Option<Acknowledged>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    rebuilt: bool,
    #[serde(default, skip_serializing_if = "is_empty")]
    course: Course,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    taken: BTreeSet<u64>,
}

/// Incarnation, index of the revision, digest, token, flags, `since`, time from `since` to success, time spent, one
/// instant (when the clock was started, or since when the unit is absent), and the difference to the first token issued
/// or, if none was issued, 1 for a doubtful change. 0 means none (an index counts from 1). For a unit with steps also:
/// the completed steps, and the time spent on them.
#[derive(Serialize, Deserialize)]
struct WireInFlight(
    Incarnation,
    u16,
    Option<Digest>,
    Token,
    u16,
    Millis,
    Millis,
    Millis,
    Millis,
    u64,
    #[serde(default, skip_serializing_if = "Option::is_none")] Option<(u32, Millis)>,
);

const VERSION: u8 = 1;

const KINDS: [Kind; 7] = [
    Kind::Assign,
    Kind::Join,
    Kind::Relapsed,
    Kind::Fence,
    Kind::Withdraw,
    Kind::Abandon,
    Kind::Revert,
];
const KIND_MASK: u16 = 0b111;
const PICKED_UP: u16 = 1 << 3;
const WAS_READY: u16 = 1 << 4;
const VALUES_ONLY: u16 = 1 << 5;
const FAILED: u16 = 1 << 6;
const SKIPPED: u16 = 1 << 7;
const RUNNING: u16 = 1 << 8;
const ABSENT: u16 = 1 << 9;
const SUCCEEDED: u16 = 1 << 10;
const SENT: u16 = 1 << 11;
const MARKED: u16 = 1 << 12;
const RETURNED: u16 = 1 << 13;
const UNBEGUN: u16 = 1 << 14;
const RESUMED: u16 = 1 << 15;

impl From<Memory> for Wire {
    fn from(memory: Memory) -> Self {
        let mut revs: Vec<Revision> = memory
            .in_flight
            .values()
            .filter_map(|change| change.revision)
            .collect();
        revs.sort_unstable();
        revs.dedup();
        let changes = memory
            .in_flight
            .into_iter()
            .map(|(unit, change)| {
                let place = change
                    .revision
                    .and_then(|revision| revs.binary_search(&revision).ok());
                let place = place.map_or(0, |place| u16::try_from(place + 1).unwrap_or(0));
                (unit, WireInFlight::new(&change, place))
            })
            .collect();
        Self {
            v: VERSION,
            seq: memory.seq,
            run: memory.run,
            revs,
            in_flight: changes,
            marks: memory.marks,
            beyond: memory.marks_beyond,
            good: memory.last_good,
            bad: memory.bad,
            ack: memory.acknowledged,
            rebuilt: memory.rebuilt,
            course: memory.course,
            taken: memory.taken,
        }
    }
}

impl TryFrom<Wire> for Memory {
    type Error = String;

    fn try_from(wire: Wire) -> Result<Self, String> {
        if wire.v != VERSION {
            return Err(format!(
                "memory of version {}, known is {VERSION}: rebuild it from the assignments",
                wire.v
            ));
        }
        let revs = wire.revs;
        let changes = wire
            .in_flight
            .into_iter()
            .map(|(unit, change)| match change.read(&revs) {
                Some(change) => Ok((unit, change)),
                None => Err(format!(
                    "the in-flight change of {unit} cannot be read: rebuild the memory from the assignments"
                )),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            seq: wire.seq,
            run: wire.run,
            in_flight: changes,
            marks: wire.marks,
            marks_beyond: wire.beyond,
            last_good: wire.good,
            bad: wire.bad,
            acknowledged: wire.ack,
            rebuilt: wire.rebuilt,
            course: wire.course,
            taken: wire.taken,
        })
    }
}

impl WireInFlight {
    fn new(change: &InFlight, place: u16) -> Self {
        let kind = match change.kind {
            Kind::Assign => 0,
            Kind::Join => 1,
            Kind::Relapsed => 2,
            Kind::Fence => 3,
            Kind::Withdraw => 4,
            Kind::Abandon => 5,
            Kind::Revert => 6,
        };
        let flags = [
            (change.picked_up, PICKED_UP),
            (change.sent.is_some(), SENT),
            (change.was_ready, WAS_READY),
            (change.values_only, VALUES_ONLY),
            (change.failed, FAILED),
            (change.marked, MARKED),
            (change.returned, RETURNED),
            (change.skipped, SKIPPED),
            (change.unbegun, UNBEGUN),
            (change.resumed, RESUMED),
            (change.clock.from.is_some(), RUNNING),
            (change.absent_since.is_some(), ABSENT),
            (change.succeeded_since.is_some(), SUCCEEDED),
        ];
        let flags = flags
            .iter()
            .filter(|(set, _)| *set)
            .fold(kind, |sum, (_, flag)| sum | flag);
        Self(
            change.incarnation,
            place,
            change.digest,
            change.token,
            flags,
            change.since,
            change
                .succeeded_since
                .map_or(Millis(0), |at| at.since(change.since)),
            change.clock.spent,
            change.clock.from.or(change.absent_since).unwrap_or_default(),
            match change.sent {
                Some(first) => change.token.0.saturating_sub(first.0),
                None => change.doubtful.into(),
            },
            (change.clock.done > 0).then_some((change.clock.done, change.clock.before)),
        )
    }

    fn read(self, revs: &[Revision]) -> Option<InFlight> {
        let Self(incarnation, place, digest, token, flags, since, succeeded, spent, at, before, steps) = self;
        let (done, spent_before) = steps.unwrap_or_default();
        let set = |flag: u16| flags & flag != 0;
        let revision = match usize::from(place).checked_sub(1) {
            Some(place) => Some(*revs.get(place)?),
            None => None,
        };
        Some(InFlight {
            incarnation,
            kind: *KINDS.get(usize::from(flags & KIND_MASK))?,
            revision,
            digest,
            token,
            since,
            picked_up: set(PICKED_UP),
            succeeded_since: set(SUCCEEDED).then_some(since.plus(succeeded)),
            sent: set(SENT).then(|| Token(token.0.saturating_sub(before))),
            returned: set(RETURNED),
            doubtful: !set(SENT) && before == 1,
            was_ready: set(WAS_READY),
            values_only: set(VALUES_ONLY),
            failed: set(FAILED),
            marked: set(MARKED),
            clock: Stopwatch {
                spent,
                from: set(RUNNING).then_some(at),
                before: spent_before,
                done,
            },
            absent_since: (set(ABSENT) && !set(RUNNING)).then_some(at),
            skipped: set(SKIPPED),
            unbegun: set(UNBEGUN),
            resumed: set(RESUMED),
        })
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde calls
fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_empty(course: &Course) -> bool {
    *course == Course::default()
}
