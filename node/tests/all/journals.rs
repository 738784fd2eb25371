//! Promise: whatever bytes the journal contains, a start is safe: it uses the other slot for a torn one, does nothing
//! for a newer one, and renames a journal of another machine.

use muster_node::{
    Agent, State,
    journal::{self, Reading, SLOT, Step},
};
use proptest::prelude::*;

use crate::{
    interruptions::{files_of, node, second},
    support::{
        disk::Fault,
        world::{OWN, World, assign, assign_once, reason, until_quiet},
    },
};

fn journal() -> String {
    format!("{OWN}/journal")
}

/// A node that was killed during its swaps.
fn interrupted() -> World {
    let world = node();
    let mut agent = world.start();
    assert!(
        world
            .with_fault(Fault::Kill(52), || assign(&mut agent, &[second("a two")]))
            .is_none()
    );
    drop(agent);
    assert!(!world.leftovers().is_empty());
    world
}

fn steps(bytes: &[u8]) -> Vec<Step> {
    let slots = bytes.chunks(SLOT).map(|slot| {
        let mut one = slot.to_vec();
        one.resize(2 * SLOT, 0);
        journal::read(&one)
    });
    slots
        .filter_map(|reading| match reading {
            Reading::Record(record) => Some(record.step),
            _ => None,
        })
        .collect()
}

/// DX18.
#[test]
fn a_torn_slot_falls_back_to_the_other() {
    let world = interrupted();
    let bytes = world.disk.bytes(&journal()).unwrap();
    assert_eq!(steps(&bytes).len(), 2);
    for slot in 0..2 {
        for cut in [0, 10, 16, 40, 200, 300] {
            let mut torn = bytes.clone();
            torn[slot * SLOT + cut..(slot + 1) * SLOT].fill(b'x');
            let Reading::Record(record) = journal::read(&torn) else {
                panic!("slot {slot} cut at {cut}")
            };
            assert_eq!(record.step, steps(&bytes)[1 - slot], "slot {slot} cut at {cut}");
        }
    }
}

#[test]
fn both_slots_damaged_restores_by_the_plan() {
    let world = interrupted();
    world.disk.damage(&journal(), |bytes| {
        for byte in bytes.iter_mut() {
            *byte ^= 0x55;
        }
    });
    drop(world.start());
    assert_eq!(world.files(), files_of(true, ""));
    // With no change in progress it is no obstacle.
    world.disk.damage(&journal(), |bytes| bytes.fill(1));
    let mut agent = world.start();
    assert_eq!(
        until_quiet(&world, &mut agent, &[second("a two")]),
        [State::Confirmed]
    );
}

#[test]
fn a_newer_format_writes_nothing() {
    let world = interrupted();
    world.disk.damage(&journal(), |bytes| {
        let newer = journal::frame(2, b"whatever that means");
        bytes[..SLOT].fill(0);
        bytes[..newer.len()].copy_from_slice(&newer);
    });
    let before = world.disk.files("/");
    world.disk.operations.set(0);
    let mut agent = world.start();
    let report = assign_once(&mut agent, &second("a two"));
    assert_eq!(report.state.reason(), "JournalFromNewer");
    assert!(!agent.restore() || world.disk.files("/") == before);
    assert_eq!(world.disk.operations.get(), 0, "{:?}", world.disk.log.borrow());
    assert_eq!(world.disk.files("/"), before);
    let status = muster_node::status(&world.agent_environment()).unwrap();
    assert_eq!(status.journal_problem, Some("Newer"));
}

#[test]
fn another_machine_is_put_away() {
    let mut world = interrupted();
    world.identity.machine_id = "machine-2".to_owned();
    world.identity.boot_id = "boot-9".to_owned();
    let before = world.files();
    let mut agent = world.start();
    assert_eq!(
        world.files(),
        before,
        "the files of a copied disk are left as they are"
    );
    assert!(world.disk.is_there(&format!("{OWN}/journal.other-machine")));
    assert!(
        muster_node::status(&world.agent_environment())
            .unwrap()
            .rows
            .is_empty(),
        "nothing is known of this machine"
    );
    assert_eq!(reason(&mut agent, &second("a two")), "Confirmed");
}

#[test]
fn a_journal_that_was_lost_begins_where_the_memory_ended() {
    let world = node();
    let mut agent = world.start();
    let numbers = |row: &muster_node::Assignment, agent: &mut Agent| {
        assert_eq!(reason(agent, row), "Confirmed");
        agent.journal().unwrap().seq
    };
    let before = numbers(&second("a two"), &mut agent);
    drop(agent);
    world.disk.damage(&journal(), |bytes| bytes.fill(1));
    let mut agent = world.start();
    let again = muster_node::Assignment {
        token: 3,
        ..second("a two")
    };
    assert!(numbers(&again, &mut agent) > before);
    let status = muster_node::status(&world.agent_environment()).unwrap();
    assert_eq!(
        status.rows[0].outcome.as_ref().unwrap().verdict,
        muster_node::Verdict::Confirmed
    );
}

#[test]
fn a_damaged_memory_keeps_no_agent_from_starting() {
    for file in ["memory", "memory.before"] {
        let world = node();
        let mut agent = world.start();
        assert_eq!(reason(&mut agent, &second("a two")), "Confirmed");
        drop(agent);
        world
            .disk
            .damage(&format!("{OWN}/{file}"), |bytes| bytes.truncate(bytes.len() / 2));
        let mut agent = world.start();
        assert_eq!(reason(&mut agent, &second("a two")), "Confirmed", "{file}");
        assert_eq!(world.files(), files_of(false, "a two"), "{file}");
    }
    // Without any memory the files are compared again, and nothing is written to them.
    let world = node();
    let mut agent = world.start();
    assert_eq!(reason(&mut agent, &second("a two")), "Confirmed");
    drop(agent);
    for name in ["memory", "memory.before", "journal"] {
        world.disk.damage(&format!("{OWN}/{name}"), Vec::clear);
    }
    let mut agent = world.start();
    world.disk.log.borrow_mut().clear();
    assert_eq!(reason(&mut agent, &second("a two")), "Confirmed");
    assert!(
        world
            .disk
            .log
            .borrow()
            .iter()
            .all(|operation| !operation.starts_with("rename /etc"))
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_without_a_panic(noise in proptest::collection::vec(any::<u8>(), 0..3 * SLOT), framed: bool, format in 0_u32..4) {
        let bytes = if framed { journal::frame(format, &noise[..noise.len().min(2000)]) } else { noise };
        // Trailing zeroes are not part of the body.
        prop_assume!(bytes.last() != Some(&0));
        let reading = journal::read(&bytes);
        prop_assert!(!matches!(reading, Reading::Record(_)), "a record out of noise");
        prop_assert_eq!(matches!(reading, Reading::Newer), framed && format != journal::FORMAT);
    }

    #[test]
    fn any_flipped_bit_falls_back_or_is_noticed(at in 0_usize..2 * SLOT, bit in 0_u8..8) {
        let world = interrupted();
        let bytes = world.disk.bytes(&journal()).unwrap();
        let records = steps(&bytes);
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << bit;
        match journal::read(&flipped) {
            Reading::Record(record) => prop_assert!(records.contains(&record.step)),
            other => prop_assert!(false, "{other:?}"),
        }
    }
}
