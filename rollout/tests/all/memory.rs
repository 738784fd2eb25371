//! E13: the size limits and the serialized form of the memory.

use muster_rollout::{
    Evidence, InFlight, Incarnation, Kind, Limit, MAX_BAD, MAX_BYTES, MAX_IN_FLIGHT, MAX_MARKS, MAX_MESSAGE,
    Memory, Millis, State, Stopwatch, Token, UnitId,
};

use crate::world::{World, digest, rev};

const NOW: Millis = Millis(1_800_000_000_000);

fn long_name(at: usize) -> UnitId {
    format!("{at:03}-{}", "x".repeat(59)).into()
}

fn full() -> Memory {
    let mut memory = Memory {
        seq: Token(u64::MAX),
        marks_beyond: u32::MAX,
        ..Memory::default()
    };
    for at in 0..MAX_IN_FLIGHT {
        let change = InFlight {
            incarnation: Incarnation::of("6ad1-whatever"),
            kind: Kind::Assign,
            revision: Some(rev(&format!("revision-{at}"))),
            digest: Some(digest(&format!("r-{at}"), 9)),
            token: Token(1 << 53),
            since: NOW,
            picked_up: true,
            succeeded_since: Some(NOW.plus(Millis::minutes(24 * 60))),
            sent: Some(Token(1)),
            returned: false,
            doubtful: false,
            was_ready: true,
            values_only: true,
            failed: true,
            marked: true,
            clock: Stopwatch {
                spent: Millis::minutes(60 * 24),
                from: Some(NOW),
                before: Millis::minutes(60 * 24),
                done: u32::MAX,
            },
            absent_since: None,
            skipped: true,
            unbegun: true,
            resumed: true,
        };
        memory.in_flight.insert(long_name(at), change);
    }
    memory.marks = (0..MAX_MARKS).map(|at| (long_name(at), NOW)).collect();
    let message = "\"\\\u{7}\n".repeat(200);
    let evidence = |at| Evidence::new(long_name(at), &message, NOW);
    memory.bad = (0..MAX_BAD)
        .map(|at| (rev(&format!("bad-{at}")), evidence(at)))
        .collect();
    memory
}

#[test]
fn a_full_memory_fits() {
    let bytes = serde_json::to_vec(&full()).unwrap().len();
    println!("full memory: {bytes} bytes of {MAX_BYTES}");
    assert!(bytes <= MAX_BYTES, "{bytes}");
}

#[test]
fn it_is_read_as_it_was_written() {
    let memory = full();
    let text = serde_json::to_string(&memory).unwrap();
    assert_eq!(serde_json::from_str::<Memory>(&text).unwrap(), memory);
    let empty = serde_json::to_string(&Memory::default()).unwrap();
    assert_eq!(empty, r#"{"v":1,"seq":0}"#);
}

#[test]
fn what_cannot_be_read_is_refused_and_not_guessed() {
    let check = |text: &str| assert!(serde_json::from_str::<Memory>(text).is_err(), "{text}");
    check("{}");
    check(r#"{"v":2,"seq":0}"#);
    check(r#"{"v":1,"seq":-1}"#);
    check(r#"{"v":1,"seq":1,"charges":{"a":[1,1,null,1,0,0,0,0,0,0]}}"#);
    check(r#"{"v":1,"seq":1,"charges":{"a":[1,0,null,1,7,0,0,0,0,0]}}"#);
    check(r#"{"v":1,"seq":1,"good":"xyz"}"#);
}

#[test]
fn it_reads_like_this() {
    let mut world = World::settled(&["a", "b"], "r1");
    world.aim("r2");
    world.step();
    world.report("a", State::Updating);
    world.step();
    insta::assert_snapshot!(serde_json::to_string(&world.memory).unwrap(), @r#"{"v":1,"seq":3,"run":{"id":2,"target":"72320000000000000000000000000000","from":"72310000000000000000000000000000","started":1000000,"state":"Open"},"revs":["72320000000000000000000000000000"],"charges":{"a":[192842644096513,1,"72322e30000000000000000000000000",3,2328,1000000,0,0,1000000,0]},"good":"72310000000000000000000000000000"}"#);
}

#[test]
fn messages_are_cut_at_a_character() {
    let evidence = Evidence::new("a".into(), &"ü".repeat(400), NOW);
    assert_eq!(evidence.message.len(), MAX_MESSAGE - 1);
    assert!(evidence.message.ends_with("üü…"), "it says that it was cut");
    let again = Evidence::new("a".into(), &evidence.message, NOW);
    assert_eq!(again.message, evidence.message, "once is enough");
}

#[test]
fn the_oldest_bad_revision_is_forgotten_first() {
    let mut world = World::settled(&["a"], "r0");
    for at in 1..=25 {
        world.aim(&format!("r{at}"));
        world.step();
        world.fail("a");
        world.step();
        world.pass(Millis::seconds(1));
    }
    assert_eq!(world.memory.bad.len(), MAX_BAD);
    assert!(
        !world.memory.is_bad(rev("r5")) && world.memory.is_bad(rev("r6")) && world.memory.is_bad(rev("r25"))
    );
}

#[test]
fn marks_beyond_those_kept_are_counted() {
    let names: Vec<String> = (0..130).map(|at| format!("u{at:03}")).collect();
    let mut world = World::settled(&names.iter().map(String::as_str).collect::<Vec<_>>(), "r1");
    world.spec.limit = Limit::Count(200);
    world.spec.max_failed = Limit::Count(120);
    world.aim("r2");
    world.step();
    names.iter().take(120).for_each(|name| world.fail(name));
    world.step();
    assert_eq!(
        (world.memory.marks.len(), world.memory.marks_beyond),
        (MAX_MARKS, 20)
    );
    assert!(!world.memory.is_bad(rev("r2")));
    world.fail("u120");
    world.step();
    assert!(world.memory.is_bad(rev("r2")));
}
