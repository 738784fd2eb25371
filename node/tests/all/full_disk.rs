//! Promise: a full disk stops a change before its first write to a target, and never a restore.

use muster_node::{State, Verdict};

use crate::{
    interruptions::{files_of, is_whole, node, second},
    power_cuts::choices,
    support::{
        disk::Fault,
        world::{World, assign, until_quiet},
    },
};

fn is_restored(world: &World, context: &str) {
    assert_eq!(world.files(), files_of(true, ""), "{context}");
    assert_eq!(world.leftovers(), Vec::<String>::new(), "{context}");
}

#[test]
fn full_from_any_operation_on() {
    let mut refused = 0;
    for at in 0.. {
        let world = node();
        let mut agent = world.start();
        let row = second("a link-down");
        let answer = world
            .with_fault(Fault::Full(at), || assign(&mut agent, std::slice::from_ref(&row)))
            .unwrap();
        let context = format!("full from {at} on");
        match &answer.reports[0].state {
            State::Ended(outcome) => assert_eq!(outcome.verdict, Verdict::Failed, "{context}: {outcome:?}"),
            state => {
                assert!(
                    matches!(state.reason(), "DiskFailed" | "CannotRemember"),
                    "{context}: {state:?}"
                );
                refused += 1;
            }
        }
        is_restored(&world, &context);
        if world.disk.operations.get() <= at {
            break;
        }
        // The verdict survives the process, although nothing could be written after the restore.
        if matches!(answer.reports[0].state, State::Ended(_)) {
            drop(agent);
            let mut agent = world.start();
            let states = until_quiet(&world, &mut agent, &[row]);
            assert!(
                matches!(&states[..], [State::Ended(outcome)] if outcome.verdict == Verdict::Failed),
                "{context}: {states:?}"
            );
        }
    }
    assert!(refused > 5, "only {refused} operations needed space");
}

#[test]
fn a_change_that_was_cut_off_is_restored_at_boot_with_a_full_disk() {
    for at in 0..120 {
        for seed in [1, 99 << 33] {
            let mut world = node();
            let mut agent = world.start();
            world.with_fault(Fault::Tear(at), || assign(&mut agent, &[second("a link-down")]));
            drop(agent);
            let mut choose = choices(seed);
            world.disk.cut_power(&mut choose);
            world.disk.full.set(true);
            world.reboot();
            world.disk.full.set(false);
            drop(world.start());
            is_whole(&world, "a link-down", &format!("cut at {at} with seed {seed}"));
        }
    }
}

#[test]
fn nor_does_a_second_cut_in_the_middle_of_that_restore() {
    // After the swaps, and before the reload.
    let swapped = {
        let probe = node();
        let mut agent = probe.start();
        probe.with_fault(Fault::Full(usize::MAX), || {
            assign(&mut agent, &[second("a link-down")])
        });
        probe
            .disk
            .log
            .borrow()
            .iter()
            .position(|operation| operation.starts_with("run /bin/reload"))
            .unwrap()
    };
    for again in 0..25 {
        for seed in (0..20).map(|seed| seed << 35) {
            let mut world = node();
            let mut agent = world.start();
            world.with_fault(Fault::Tear(swapped), || {
                assign(&mut agent, &[second("a link-down")])
            });
            drop(agent);
            let mut choose = choices(seed);
            world.disk.cut_power(&mut choose);
            world.disk.full.set(true);
            world.with_fault(Fault::Tear(again), || drop(world.start()));
            world.disk.cut_power(&mut choose);
            world.reboot();
            world.disk.full.set(false);
            drop(world.start());
            is_whole(
                &world,
                "a link-down",
                &format!("cut again at {again} with seed {seed}"),
            );
            assert_eq!(
                world.files(),
                files_of(true, ""),
                "cut again at {again} with seed {seed}"
            );
        }
    }
}

#[test]
fn any_operation_that_fails_alone_leaves_no_mixture() {
    for at in 0.. {
        let world = node();
        let mut agent = world.start();
        let row = second("a two");
        let answer = world
            .with_fault(Fault::Fail(at), || assign(&mut agent, std::slice::from_ref(&row)))
            .unwrap();
        let context = format!("failed at {at}: {:?}", world.disk.log.borrow().get(at));
        let files = world.files();
        let new = files == files_of(false, "a two");
        assert!(new || files == files_of(true, ""), "{context}: {files:#?}");
        assert_eq!(
            answer.reports[0].state == State::Confirmed,
            new,
            "{context}: {:?}",
            answer.reports[0].state
        );
        drop(agent);
        drop(world.start());
        is_whole(&world, "a two", &context);
        if world.disk.operations.get() <= at {
            break;
        }
    }
}
