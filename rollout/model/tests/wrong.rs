//! Deliberately wrong worlds: each breaks the law that it is about, on a shortest path. Without that the model proves
//! nothing.
#![allow(clippy::panic, reason = "a test ends at the first failed assertion")]

use muster_model::check::shortest;
use muster_model::scope::Feature::{
    Away, Budget, Crash, Domains, Failing, Held, Joins, Late, Leaders, Loss, Order, Pause, Relapse, Revert,
    Stages, Stale, Targets, Time, Windows, Withdraw, Words,
};
use muster_model::scope::{Beats, PLAIN, Scope};
use muster_model::set::Set;
use muster_model::wrong::Wrong;
use muster_rollout::OnFailure;

const B_FAILS: Set = Set::bits(0b10);
const ABSENCE: Beats = Beats {
    absence: Some(1),
    ..PLAIN.beats
};
/// Three revisions, there and back.
const THREE: Scope = Scope {
    revisions: 3,
    events: 2,
    ..PLAIN
};

fn check(wrong: Wrong, law: &str, steps: usize, scope: &Scope) {
    let way = shortest(scope, wrong, law).unwrap_or_else(|| panic!("{wrong:?}: {law} holds"));
    println!(
        "{wrong:?} breaks {law} in {} steps:\n  {}",
        way.len(),
        way.join("\n  ")
    );
    assert_eq!(way.len(), steps, "{wrong:?}: {law}\n  {}", way.join("\n  "));
}

#[test]
fn w1_an_in_flight_cluster_that_is_not_observed_is_assumed_gone() {
    check(
        Wrong::BelievesGone,
        "E1",
        9,
        &Scope {
            features: &[Leaders, Stale, Late, Joins],
            leaders: 2,
            events: 1,
            ..PLAIN
        },
    );
}

#[test]
fn w2_no_compare_and_swap() {
    check(
        Wrong::NoCompareAndSwap,
        "E1",
        9,
        &Scope {
            features: &[Leaders, Stale, Late, Targets],
            leaders: 2,
            clusters: 2,
            events: 1,
            ..THREE
        },
    );
}

#[test]
fn w2_a_token_of_before() {
    check(
        Wrong::SameToken,
        "E10",
        4,
        &Scope {
            features: &[Late, Crash, Targets],
            ..THREE
        },
    );
}

#[test]
fn w3_a_token_falls() {
    check(
        Wrong::TokenFalls,
        "E1",
        7,
        &Scope {
            features: &[Late, Targets, Withdraw],
            ..THREE
        },
    );
}

#[test]
fn w4_no_token_in_the_report() {
    check(
        Wrong::NoTokenInReport,
        "E1",
        9,
        &Scope {
            features: &[Late, Crash, Targets],
            ..THREE
        },
    );
}

#[test]
fn w5_no_fence() {
    check(
        Wrong::NoFence,
        "E1",
        8,
        &Scope {
            features: &[Late, Withdraw, Targets],
            events: 2,
            ..PLAIN
        },
    );
}

#[test]
fn w5_a_fence_of_the_same_token() {
    check(
        Wrong::FenceOfSameToken,
        "E1",
        13,
        &Scope {
            features: &[Late, Withdraw],
            events: 2,
            ..PLAIN
        },
    );
}

#[test]
fn w6_a_fence_frees_the_slot() {
    check(
        Wrong::FenceFrees,
        "E1",
        8,
        &Scope {
            features: &[Late, Withdraw, Words],
            events: 2,
            ..PLAIN
        },
    );
}

#[test]
fn w7_a_partial_list() {
    check(
        Wrong::PartialList,
        "E1",
        9,
        &Scope {
            features: &[Late, Loss, Targets],
            ..THREE
        },
    );
}

#[test]
fn w7_a_list_of_rows_without_their_clusters() {
    check(
        Wrong::OldRegistry,
        "E1",
        9,
        &Scope {
            features: &[Leaders, Stale, Late, Joins, Loss],
            leaders: 2,
            events: 2,
            ..PLAIN
        },
    );
}

#[test]
fn w7_writes_of_before_the_loss() {
    check(
        Wrong::LateOverLoss,
        "E1",
        9,
        &Scope {
            features: &[Late, Loss, Targets],
            ..THREE
        },
    );
}

#[test]
fn e1_the_limit_and_one() {
    check(
        Wrong::LimitAndOne,
        "E1",
        3,
        &Scope {
            features: &[Late],
            ..PLAIN
        },
    );
}

#[test]
fn e2_no_domains() {
    check(
        Wrong::NoDomains,
        "E2",
        1,
        &Scope {
            features: &[Late, Domains],
            limit: 2,
            ..PLAIN
        },
    );
}

#[test]
fn e3_nothing_is_bad() {
    check(
        Wrong::NothingBad,
        "E3",
        8,
        &Scope {
            features: &[Late, Failing, Targets],
            failing: B_FAILS,
            ..THREE
        },
    );
}

#[test]
fn e4_one_failure_condemns() {
    check(
        Wrong::OneFailureCondemns,
        "E4",
        4,
        &Scope {
            features: &[Late, Failing],
            failing: B_FAILS,
            max_failed: 1,
            ..PLAIN
        },
    );
}

#[test]
fn e4_all_are_blamed() {
    check(
        Wrong::BlamesAll,
        "E4",
        6,
        &Scope {
            features: &[Late, Failing, Relapse],
            failing: B_FAILS,
            events: 2,
            ..PLAIN
        },
    );
}

#[test]
fn e5_back_to_what_was_never_good() {
    check(
        Wrong::NeverGood,
        "E5",
        4,
        &Scope {
            features: &[Late, Failing, Revert],
            failing: B_FAILS,
            on_failure: OnFailure::Revert,
            ..PLAIN
        },
    );
}

#[test]
fn e6_all_are_eligible() {
    check(
        Wrong::AllEligible,
        "E6",
        2,
        &Scope {
            features: &[Late, Held],
            events: 1,
            ..PLAIN
        },
    );
}

#[test]
fn e6_a_pause_is_none() {
    check(
        Wrong::NotPaused,
        "E6",
        2,
        &Scope {
            features: &[Late, Pause],
            events: 1,
            ..PLAIN
        },
    );
}

#[test]
fn e7_no_stages() {
    check(
        Wrong::NoStages,
        "E7",
        1,
        &Scope {
            features: &[Late, Stages],
            limit: 2,
            ..PLAIN
        },
    );
}

#[test]
fn e8_no_brake() {
    check(
        Wrong::NoBrake,
        "E8",
        3,
        &Scope {
            features: &[Late, Withdraw],
            brake: Some(1),
            events: 2,
            ..PLAIN
        },
    );
}

#[test]
fn e9_the_first_is_left_out() {
    check(
        Wrong::OrderMatters,
        "E9",
        1,
        &Scope {
            features: &[Late],
            ..PLAIN
        },
    );
}

#[test]
fn e10_new_tokens_each_time() {
    check(
        Wrong::NewTokens,
        "E10",
        1,
        &Scope {
            features: &[Late],
            ..PLAIN
        },
    );
}

#[test]
fn e11_a_step_is_given_once() {
    check(
        Wrong::OnlyOnce,
        "EL1",
        1,
        &Scope {
            features: &[Late, Crash],
            fair: true,
            ..PLAIN
        },
    );
}

#[test]
fn e12_a_wrong_reason() {
    check(
        Wrong::WrongReason,
        "E12",
        1,
        &Scope {
            features: &[Late],
            ..PLAIN
        },
    );
}

#[test]
fn e13_a_long_message() {
    check(
        Wrong::LongMessage,
        "E13",
        4,
        &Scope {
            features: &[Late, Failing],
            failing: B_FAILS,
            ..PLAIN
        },
    );
}

#[test]
fn el1_no_unit_is_confirmed() {
    check(
        Wrong::NeverConfirmed,
        "EL1",
        0,
        &Scope {
            features: &[Late],
            fair: true,
            ..PLAIN
        },
    );
}

#[test]
fn el2_nothing_is_condemned() {
    check(
        Wrong::NeverCondemns,
        "EL2",
        0,
        &Scope {
            features: &[Late],
            fair: true,
            ..PLAIN
        },
    );
}

#[test]
fn el3_no_wake_up_is_requested() {
    check(
        Wrong::NoWake,
        "EL4",
        1,
        &Scope {
            features: &[Late, Away, Time],
            events: 1,
            fair: true,
            beats: ABSENCE,
            ..PLAIN
        },
    );
}

#[test]
fn el4_an_absent_unit_keeps_its_slot() {
    check(
        Wrong::AwayKeepsSlot,
        "EL4",
        1,
        &Scope {
            features: &[Late, Away, Time],
            events: 1,
            fair: true,
            beats: ABSENCE,
            ..PLAIN
        },
    );
}

#[test]
fn el5_no_unit_is_confirmed_after_a_loss() {
    check(
        Wrong::NeverConfirmed,
        "EL5",
        0,
        &Scope {
            features: &[Late, Crash],
            fair: true,
            ..PLAIN
        },
    );
}

#[test]
fn e1_the_budget_is_forgotten() {
    check(
        Wrong::NoBudget,
        "E1",
        2,
        &Scope {
            features: &[Late, Budget],
            events: 1,
            ..PLAIN
        },
    );
}

#[test]
fn e2_the_order_of_domains_is_forgotten() {
    check(
        Wrong::NoOrder,
        "E2",
        2,
        &Scope {
            features: &[Late, Order, Windows],
            events: 1,
            ..PLAIN
        },
    );
}

#[test]
fn e6_windows_are_forgotten() {
    check(
        Wrong::AlwaysOpen,
        "E6",
        2,
        &Scope {
            features: &[Late, Windows],
            events: 1,
            ..PLAIN
        },
    );
}
