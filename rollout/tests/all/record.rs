//! Records are read back as they were written, and replay to the same result; other content is rejected.

use std::cell::RefCell;

use muster_rollout::record::{Case, LineError, Origin, Reader, Recorder, SCHEMA};
use muster_rollout::{Memory, Millis, Spec, Unit, plan};
use muster_simulator::random;

use crate::world::World;

fn origin() -> Origin {
    Origin {
        module: "Module fleet/web".to_owned(),
        version: "1.0.0".to_owned(),
    }
}

fn case(spec: &Spec, memory: &Memory, units: &[Unit], now: Millis) -> Case {
    Case {
        now,
        spec: spec.clone(),
        memory: memory.clone(),
        units: units.to_vec(),
        decision: plan(spec, memory, units, now),
    }
}

/// The module and version of the fixture.
const LINES: usize = 149;

/// A recorder, and a reader of its lines.
struct Pair {
    recorder: Recorder,
    reader: Reader,
    lines: usize,
}

impl Pair {
    fn new() -> Self {
        Self {
            recorder: Recorder::new(origin()),
            reader: Reader::default(),
            lines: 0,
        }
    }

    fn pass(&mut self, case: &Case) {
        let Some(line) = self.recorder.line(case.clone()).unwrap() else {
            return;
        };
        self.lines += 1;
        assert_eq!(line.matches('\n').count(), 1, "a line is a line");
        let read = self.reader.read(line.as_bytes()).unwrap();
        assert_eq!((read.now, &read.spec), (case.now, &case.spec));
        assert_eq!(read.memory, case.memory);
        assert_eq!(read.decision, case.decision);
        assert_eq!(read.again(), case.decision);
        let mut units = case.units.clone();
        units.sort_unstable();
        assert_eq!(read.units, units);
    }
}

/// Some histories with fixed seeds, or the one that `MUSTER_SEED` names.
#[test]
fn every_decision_of_random_histories_is_read_and_made_again() {
    let named = std::env::var("MUSTER_SEED").ok();
    let first: u64 = named.as_deref().map_or(20_261_123, |seed| seed.parse().unwrap());
    let runs = if named.is_some() { 1 } else { 40 };
    println!("{runs} histories from seed {first}");
    let mut lines = 0;
    for seed in first..first + runs {
        println!("MUSTER_SEED={seed}");
        let pair = RefCell::new(Pair::new());
        let result = random::run_history(seed, &|spec, memory, units, now| {
            let case = case(spec, memory, units, now);
            pair.borrow_mut().pass(&case);
            case.decision
        });
        result.unwrap_or_else(|found| panic!("{found}"));
        lines += pair.into_inner().lines;
    }
    println!("{lines} lines");
    assert!(lines > 1000, "{lines}");
}

/// Decisions of four histories as muster recorded them before change windows, budgets and orders of domains existed.
#[test]
fn a_record_of_an_older_version_is_read_and_made_again() {
    let mut reader = Reader::default();
    let mut lines = 0;
    for line in include_str!("fixtures/decisions-v1.jsonl").lines() {
        let read = reader.read(line.as_bytes()).unwrap();
        assert!(read.units.iter().all(|unit| unit.available) && read.spec.unavailable.is_none());
        assert_eq!(read.again(), read.decision, "{line}");
        lines += 1;
    }
    assert_eq!(lines, LINES);
}

#[test]
fn a_line_holds_what_differs() {
    let world = World::new(&["a", "b", "c"], "r1");
    let (spec, memory, mut units) = (world.spec.clone(), world.memory.clone(), world.view());
    let mut recorder = Recorder::new(origin());
    let mut line = |units: &[Unit], now: u64| {
        recorder
            .line(case(&spec, &memory, units, Millis::seconds(now)))
            .unwrap()
    };
    let whole = line(&units, 1).unwrap();
    assert!(whole.contains(SCHEMA) && whole.contains(r#""spec""#));
    units.reverse();
    units.truncate(2);
    let delta: serde_json::Value = serde_json::from_str(&line(&units, 2).unwrap()).unwrap();
    assert_eq!(delta["gone"], serde_json::json!(["a"]), "{delta}");
    for as_before in ["schema", "origin", "spec", "units"] {
        assert!(delta.get(as_before).is_none(), "{as_before}: {delta}");
    }
    let again = line(&units, 2);
    assert_eq!(again, None, "nothing differs");
}

#[test]
fn an_invalid_record_line_is_an_error() {
    let mut recorder = Recorder::new(origin());
    let mut line = |paused| {
        let spec = Spec {
            paused,
            ..Spec::default()
        };
        let case = case(&spec, &Memory::default(), &[], Millis(1));
        recorder.line(case).unwrap().unwrap()
    };
    let (whole, delta) = (line(false), line(true));
    let check = |lines: &[&str], expected: &str| {
        let mut reader = Reader::default();
        let (last, before) = lines.split_last().unwrap();
        for line in before {
            reader.read(line.as_bytes()).unwrap();
        }
        let error = reader.read(last.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(expected), "{lines:?}: {error}");
        error
    };
    check(&["hello"], "not a line of recorded decisions");
    check(&["[1]"], "not a line of recorded decisions");
    check(&[""], "not a line of recorded decisions");
    let delta_first = check(&[&delta], "no complete line is before it");
    assert!(matches!(delta_first, LineError::NothingBefore));
    check(&[r#"{"now": 1}"#], "missing field `decided`");
    let newer = whole.replace(SCHEMA, "decisions/v2");
    let error = check(&[&newer], "its schema is decisions/v2");
    assert!(matches!(error, LineError::Schema { found } if found == "decisions/v2"));
    check(
        &[&whole, r#"{"schema": "decisions/v2", "anything": []}"#],
        "reads decisions/v1",
    );
    let unknown = whole.replace(r#""paused""#, r#""pausing""#);
    check(&[&unknown], "unknown field `pausing`");
    let torn = &whole[..whole.len() / 2];
    check(&[torn], "EOF");
}
