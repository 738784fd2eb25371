//! The table of scopes. Each is explored exhaustively, and has exactly the given number of states; a different number
//! means a change of the rules, of the shell, or of the model, which must be understood before the table is updated.

use muster_rollout::{Absence, Batch, OnFailure, OnJoin};

use crate::scope::Feature::{
    self, Away, Back, Budget, Crash, Domains, Failing, GivenUp, Held, Joins, Late, Leaders, Loss, Mirror,
    Order, Pause, Relapse, Revert, Stages, Stale, Targets, Time, Windows, Withdraw, Words,
};
use crate::scope::{Beats, PLAIN, Scope};
use crate::set::Set;

/// The third revision fails.
const C_FAILS: Set = Set::bits(0b100);
/// The second revision fails.
const B_FAILS: Set = Set::bits(0b10);
/// Events affect the first cluster only.
const FIRST: Set = Set::bits(1);

/// Two ticks each, so that one may begin during another.
const CLOCKS: Beats = Beats {
    pickup: Some(2),
    progress: Some(2),
    absence: Some(2),
    soak: Some(1),
    ready: None,
};

/// All events of clusters and all one-time commands.
const EVENTS: &[Feature] = &[
    Late, Crash, Mirror, Loss, Joins, Away, Held, Pause, Targets, Failing, Withdraw, Words, GivenUp, Relapse,
];

/// All scopes.
pub const SCOPES: &[Scope] = &[
    Scope {
        name: "first-ever",
        features: &[Late, Crash, Mirror, Pause, Failing, Targets],
        settled: false,
        failing: B_FAILS,
        events: 2,
        fair: true,
        short: true,
        reaches: &["halted", "paused during a change", "a stale mirror", "done"],
        states: 1_594,
        ..PLAIN
    },
    Scope {
        name: "there-and-back",
        features: &[Late, Crash, Targets, Failing],
        revisions: 3,
        failing: C_FAILS,
        events: 3,
        fair: true,
        short: true,
        reaches: &[
            "a fence",
            "known to be bad",
            "two pending writes to one cluster",
            "a target that returned",
        ],
        states: 5_978,
        ..PLAIN
    },
    Scope {
        name: "taken-back",
        features: &[Late, Crash, Failing, Revert, Targets, Held],
        revisions: 3,
        failing: C_FAILS,
        on_failure: OnFailure::Revert,
        events: 2,
        fair: true,
        short: true,
        reaches: &["reverting", "in flight and held"],
        states: 4_535,
        ..PLAIN
    },
    Scope {
        name: "two-leaders",
        features: &[Leaders, Stale, Late, Targets],
        leaders: 2,
        revisions: 3,
        events: 1,
        fair: true,
        short: true,
        reaches: &["two stale views", "in doubt"],
        states: 10_592,
        ..PLAIN
    },
    Scope {
        name: "stages",
        features: &[Late, Crash, Stages, Domains, Time, Targets],
        clusters: 4,
        limit: 2,
        events: 1,
        beats: Beats {
            soak: Some(2),
            ..PLAIN.beats
        },
        fair: true,
        short: true,
        reaches: &["a stage is passed", "a soak"],
        states: 1_550,
        ..PLAIN
    },
    Scope {
        name: "batches",
        features: &[Late, Failing, Relapse, Targets],
        clusters: 3,
        limit: 3,
        max_failed: 1,
        failing: B_FAILS,
        revisions: 3,
        batch: Some(Batch {
            start: 1,
            factor: 2,
            max: 2,
        }),
        events: 1,
        fair: true,
        short: true,
        reaches: &["a second batch", "a mark that condemns nothing"],
        states: 181,
        ..PLAIN
    },
    Scope {
        name: "away",
        features: &[Late, Time, Away, Withdraw],
        events: 1,
        subjects: FIRST,
        beats: CLOCKS,
        fair: true,
        short: true,
        reaches: &["released", "in flight and absent"],
        states: 17_729,
        ..PLAIN
    },
    Scope {
        name: "withdrawn",
        features: &[Late, Crash, Withdraw, Loss, GivenUp],
        events: 2,
        brake: Some(1),
        fair: true,
        short: true,
        reaches: &[
            "withdrawing",
            "a tombstone",
            "the memory is lost",
            "abandoned during a change",
            "in flight and not selected",
        ],
        states: 49_213,
        ..PLAIN
    },
    Scope {
        name: "back",
        features: &[Late, Crash, Mirror, Back],
        events: 1,
        fair: true,
        short: true,
        reaches: &["reported without an assignment", "a greater token is reported"],
        states: 729,
        ..PLAIN
    },
    Scope {
        name: "away-and-back",
        features: &[Late, Time, Away, Withdraw],
        events: 2,
        subjects: FIRST,
        beats: CLOCKS,
        fair: true,
        reaches: &["released", "in flight and absent"],
        states: 439_212,
        ..PLAIN
    },
    Scope {
        name: "fleet",
        features: &[Late, Domains, Targets],
        clusters: 4,
        revisions: 3,
        limit: 2,
        events: 2,
        fair: true,
        reaches: &["two pending writes", "a target that returned"],
        states: 21_434,
        ..PLAIN
    },
    Scope {
        name: "all-events",
        features: EVENTS,
        revisions: 3,
        failing: C_FAILS,
        events: 2,
        fair: true,
        reaches: &[
            "relapsed",
            "another incarnation",
            "aborted",
            "joins with the last good",
        ],
        states: 234_600,
        ..PLAIN
    },
    Scope {
        name: "all-events-in-time",
        features: &[
            Late, Crash, Mirror, Loss, Joins, Away, Held, Pause, Targets, Failing, Withdraw, Words, GivenUp,
            Relapse, Time,
        ],
        revisions: 3,
        failing: C_FAILS,
        events: 1,
        beats: CLOCKS,
        fair: true,
        reaches: &["released"],
        states: 89_491,
        ..PLAIN
    },
    Scope {
        name: "all-rules",
        features: &[
            Late, Crash, Mirror, Loss, Joins, Away, Held, Pause, Targets, Failing, Withdraw, Words, GivenUp,
            Relapse, Domains, Stages, Revert, Time,
        ],
        failing: B_FAILS,
        on_failure: OnFailure::Revert,
        subjects: FIRST,
        events: 1,
        beats: Beats {
            absence: Some(1),
            soak: Some(1),
            ..PLAIN.beats
        },
        fair: true,
        reaches: &["reverting", "a stage is passed"],
        states: 21_053,
        ..PLAIN
    },
    Scope {
        name: "all-rules-of-two-leaders",
        features: &[
            Leaders, Stale, Late, Crash, Mirror, Domains, Stages, Revert, Failing, Time,
        ],
        leaders: 2,
        failing: B_FAILS,
        on_failure: OnFailure::Revert,
        beats: Beats {
            soak: Some(1),
            ..PLAIN.beats
        },
        reaches: &["reverting", "two stale views"],
        states: 611,
        ..PLAIN
    },
    Scope {
        name: "loss-of-two-leaders",
        features: &[Leaders, Stale, Loss, Joins, Targets, Failing, Words],
        leaders: 2,
        failing: B_FAILS,
        subjects: FIRST,
        events: 1,
        reaches: &["another incarnation", "the memory is lost", "two stale views"],
        states: 209_485,
        ..PLAIN
    },
    Scope {
        name: "absence-of-two-leaders",
        features: &[Leaders, Stale, Away, Held, Pause],
        leaders: 2,
        failing: B_FAILS,
        subjects: FIRST,
        events: 1,
        reaches: &["two stale views"],
        states: 11_733,
        ..PLAIN
    },
    Scope {
        name: "there-and-back-of-two-leaders",
        features: &[Leaders, Stale, Late, Targets],
        leaders: 2,
        revisions: 3,
        events: 2,
        reaches: &["two stale views", "a target that returned"],
        states: 209_088,
        ..PLAIN
    },
    Scope {
        name: "relapse-of-two-leaders",
        features: &[Leaders, Stale, Late, Relapse],
        leaders: 2,
        events: 1,
        reaches: &["two stale views", "relapsed"],
        states: 11_412,
        ..PLAIN
    },
    Scope {
        name: "withdrawn-by-old-views",
        features: &[Stale, Late, Crash, Withdraw, GivenUp, Relapse],
        events: 2,
        fair: true,
        reaches: &[
            "a stale view",
            "a tombstone",
            "abandoned during a change",
            "in flight and not selected",
            "relapsed",
        ],
        states: 134_359,
        ..PLAIN
    },
    Scope {
        name: "withdrawn-by-two-leaders",
        features: &[Leaders, Stale, Withdraw],
        leaders: 2,
        events: 1,
        reaches: &[
            "two stale views",
            "a tombstone",
            "in flight and not selected",
            "withdrawing",
        ],
        states: 971_666,
        ..PLAIN
    },
    Scope {
        name: "given-up-by-two-leaders",
        features: &[Leaders, Stale, Withdraw, GivenUp],
        leaders: 2,
        clusters: 1,
        events: 2,
        reaches: &["two stale views", "abandoned during a change"],
        states: 825_859,
        ..PLAIN
    },
    Scope {
        name: "absent-is-failed",
        features: &[Late, Away, Targets, Time, Failing],
        absence: Absence::Fail,
        on_failure: OnFailure::Continue,
        on_join: OnJoin::Target,
        failing: B_FAILS,
        events: 1,
        beats: CLOCKS,
        reaches: &["released", "more counted than the limit"],
        states: 11_993,
        ..PLAIN
    },
    Scope {
        name: "waited-for",
        features: &[Late, Away, Targets, Time],
        absence: Absence::Wait,
        events: 1,
        beats: CLOCKS,
        reaches: &["in flight and absent"],
        states: 4_694,
        ..PLAIN
    },
    Scope {
        name: "removed-and-back",
        features: &[Late, Mirror, Withdraw, Back],
        events: 2,
        subjects: FIRST,
        fair: true,
        reaches: &[
            "reported without an assignment",
            "a greater token is reported",
            "a tombstone",
        ],
        states: 55_967,
        ..PLAIN
    },
    Scope {
        name: "removed-and-back-with-other-targets",
        features: &[Late, Crash, Mirror, Targets, Withdraw, Back],
        events: 2,
        fair: true,
        reaches: &[
            "reported without an assignment",
            "a greater token is reported",
            "a fence",
            "the memory is lost",
        ],
        states: 157_689,
        ..PLAIN
    },
    Scope {
        name: "all-rules-and-back",
        features: &[
            Late, Crash, Mirror, Loss, Joins, Away, Held, Pause, Targets, Failing, Withdraw, Words, GivenUp,
            Relapse, Domains, Stages, Revert, Time, Back,
        ],
        failing: B_FAILS,
        on_failure: OnFailure::Revert,
        subjects: FIRST,
        events: 1,
        beats: Beats {
            absence: Some(1),
            soak: Some(1),
            ..PLAIN.beats
        },
        fair: true,
        reaches: &["reported without an assignment", "a greater token is reported"],
        states: 22_584,
        ..PLAIN
    },
    Scope {
        name: "windows",
        features: &[Late, Crash, Windows, Targets, Failing, Revert],
        revisions: 3,
        failing: C_FAILS,
        on_failure: OnFailure::Revert,
        events: 2,
        fair: true,
        short: true,
        reaches: &["in flight and closed", "a change that waits for its window"],
        states: 4_534,
        ..PLAIN
    },
    Scope {
        name: "budget-and-order",
        features: &[Late, Crash, Budget, Order, Targets],
        clusters: 3,
        limit: 2,
        revisions: 3,
        events: 2,
        fair: true,
        short: true,
        reaches: &["in flight and unavailable", "two pending writes"],
        states: 4_947,
        ..PLAIN
    },
    Scope {
        name: "all-rules-and-windows",
        features: &[
            Late, Crash, Mirror, Loss, Joins, Away, Held, Pause, Targets, Failing, Withdraw, Words, GivenUp,
            Relapse, Domains, Order, Budget, Windows, Stages, Revert, Time, Back,
        ],
        failing: B_FAILS,
        on_failure: OnFailure::Revert,
        subjects: FIRST,
        events: 1,
        beats: Beats {
            absence: Some(1),
            soak: Some(1),
            ..PLAIN.beats
        },
        fair: true,
        reaches: &["in flight and closed", "in flight and unavailable"],
        states: 8_868,
        ..PLAIN
    },
    Scope {
        name: "all-events-and-windows",
        features: &[
            Late, Crash, Mirror, Loss, Joins, Away, Held, Pause, Targets, Failing, Withdraw, Words, GivenUp,
            Relapse, Budget, Windows,
        ],
        revisions: 3,
        failing: C_FAILS,
        subjects: FIRST,
        events: 2,
        fair: true,
        reaches: &[
            "relapsed",
            "another incarnation",
            "aborted",
            "a change that waits for its window",
        ],
        states: 75_360,
        ..PLAIN
    },
    Scope {
        name: "windows-of-two-leaders",
        features: &[Leaders, Stale, Order, Budget, Windows],
        leaders: 2,
        subjects: FIRST,
        events: 2,
        reaches: &[
            "two stale views",
            "in flight and closed",
            "in flight and unavailable",
        ],
        states: 40_015,
        ..PLAIN
    },
    Scope {
        name: "back-of-two-leaders",
        features: &[Leaders, Stale, Mirror, Back],
        leaders: 2,
        events: 1,
        reaches: &["two stale views", "a greater token is reported"],
        states: 8_947,
        ..PLAIN
    },
];

/// The pairs of features that no scope has together.
pub fn missing_pairs() -> Vec<(Feature, Feature)> {
    let together =
        |one: Feature, other: Feature| SCOPES.iter().any(|scope| scope.has(one) && scope.has(other));
    let all = Feature::ALL;
    let pairs = all
        .iter()
        .enumerate()
        .flat_map(|(at, one)| all[at + 1..].iter().map(move |other| (*one, *other)));
    pairs.filter(|(one, other)| !together(*one, *other)).collect()
}

/// A line of the table in the docs.
pub fn row(scope: &Scope, states: usize) -> String {
    let yes = |is: bool| if is { "yes" } else { "" };
    let features: Vec<String> = scope
        .features
        .iter()
        .map(|feature| format!("{feature:?}"))
        .collect();
    format!(
        "| `{}` | {} | {} / {} / {} / {} | {} | {} | {} | {states} |",
        scope.name,
        features.join(" "),
        scope.clusters,
        scope.revisions,
        scope.leaders,
        scope.limit,
        scope.events,
        yes(scope.fair),
        yes(scope.short),
    )
}

/// The whole table.
pub fn table() -> String {
    let head = "| scope | has | clusters / revisions / leaders / limit | events | fair runs | test command | states |\n|---|---|---|---|---|---|---|\n";
    let rows: Vec<String> = SCOPES
        .iter()
        .map(|scope| row(scope, scope.states) + "\n")
        .collect();
    head.to_owned() + &rows.concat()
}
