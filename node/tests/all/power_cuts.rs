//! Promise: a power cut may happen at any operation, and lose any unsynced data. After the boot all files are old or
//! all are new, and which is known.

use muster_node::{State, Verdict};
use proptest::prelude::*;

use crate::{
    interruptions::{files_of, is_whole, node, second},
    support::{
        disk::Fault,
        world::{World, assign, until_quiet},
    },
};

/// Choices generated from a seed, so that each case can be reproduced.
pub(crate) fn choices(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap() % below
    }
}

/// A change with a power cut at an operation, the boot after it, and, if requested, another cut during the restore.
fn cut(a: &str, at: usize, seed: u64, again: Option<usize>) -> (World, bool) {
    let mut world = node();
    let mut agent = world.start();
    let through = world.with_fault(Fault::Tear(at), || assign(&mut agent, &[second(a)]));
    drop(agent);
    let mut choose = choices(seed);
    world.disk.cut_power(&mut choose);
    if let Some(again) = again {
        world.with_fault(Fault::Tear(again), || drop(world.start()));
        world.disk.cut_power(&mut choose);
    }
    world.reboot();
    (world, through.is_some())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_part_of_what_was_not_synced_is_lost(at in 0_usize..160, seed: u64, good: bool, again in proptest::option::of(0_usize..12)) {
        let a = if good { "a two" } else { "a link-down" };
        let (world, _) = cut(a, at, seed, again);
        is_whole(&world, a, &format!("cut at {at} with seed {seed}, again at {again:?}"));
    }
}

#[test]
fn after_each_cut_the_change_gets_through() {
    for at in 0.. {
        for seed in [0, 1, u64::MAX, 7 << 40] {
            let (world, through) = cut("a two", at, seed, None);
            let mut agent = world.start();
            assert_eq!(
                until_quiet(&world, &mut agent, &[second("a two")]),
                [State::Confirmed],
                "cut at {at} with seed {seed}"
            );
            assert_eq!(
                world.files(),
                files_of(false, "a two"),
                "cut at {at} with seed {seed}"
            );
            if through {
                return;
            }
        }
    }
}

#[test]
fn a_cut_condemns_nothing() {
    for at in [50, 60, 70] {
        let (world, _) = cut("a link-down", at, 3, None);
        let status = muster_node::status(&world.agent_environment()).unwrap();
        assert_eq!(status.known_bad, [], "cut at {at}");
        let verdict = status.rows[0].outcome.as_ref().map(|outcome| outcome.verdict);
        assert!(
            matches!(verdict, Some(Verdict::Interrupted | Verdict::Confirmed)),
            "cut at {at}: {verdict:?}"
        );
    }
}
