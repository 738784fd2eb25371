//! Promise: of several reasons the same one wins in the engine (`Why::rank`) and in the public table (`Reason`), for
//! every variant.

use std::collections::BTreeSet;

use muster_api::reasons::Reason;
use muster_rollout::{Absence, Class, Evidence, GateId, Ineligible, Millis, Revision, Why};

use super::{precedence, word};

/// One `Why` for each variant: a variant that is missing here does not compile.
macro_rules! each_variant {
    ($($variant:ident $fields:tt)+) => {
        fn each_variant() -> Vec<Why> {
            let all = vec![$(Why::$variant $fields),+];
            for why in &all {
                match why {
                    $(Why::$variant { .. } => {})+
                }
            }
            all
        }
    };
}

const AT: Millis = Millis(1);

each_variant! {
    Ineligible { reason: carried(Reason::ClusterPaused), since: None }
    WithdrawalHeld { acknowledge: "x1".into(), units: 4 }
    Withdrawing { since: AT, message: None }
    WriteFailed { since: AT, overdue: false, message: "quota".into() }
    Failed { class: Class::Unit, message: "quota".into(), since: None, until: None }
    Overdue { since: AT }
    NotPickedUp { since: AT }
    AlreadyUnready { message: None, since: None }
    Relapsed { since: AT, until: None }
    Updating { since: AT, until: None, picked_up: false, message: None }
    Soaking { since: AT, until: AT }
    Pinned { message: None }
    Reverting { since: AT, until: None, message: None }
    KnownBad { revision: revision(), evidence: evidence() }
    Halted { revision: revision(), evidence: evidence() }
    Aborted { revision: revision() }
    Paused {}
    NotYet { reason: carried(Reason::DependencyBehind) }
    Closed { reason: carried(Reason::WindowClosed) }
    Unresolved {}
    WaitingApproval { stage: "canary".into() }
    WaitingGate { stage: "canary".into(), gate: GateId { stage: 0, gate: 0 }, last: None, passes: (0, 1) }
    WaitingStage { stage: "canary".into(), units: [].into(), until: None }
    WaitingDomain { holders: [].into() }
    WaitingBatch { holders: [].into(), size: 1 }
    WaitingBudget { holders: [].into(), limit: 1 }
    WaitingTurn { holders: [].into(), limit: 1 }
    WaitingRead {}
    UpToDate {}
    Excluded {}
}

/// A public reason in the form that the controller passes to the engine.
fn carried(reason: Reason) -> Ineligible {
    Ineligible {
        code: reason.code(),
        rank: precedence(reason),
        absence: Absence::Skip,
    }
}

fn revision() -> Revision {
    Revision::new([7; 16])
}

fn evidence() -> Evidence {
    Evidence::new("dev-1".into(), "no image", AT)
}

/// Every variant, and for a variant that carries a public reason one for each possible reason.
fn all() -> Vec<Why> {
    let obstacles = Reason::ALL.iter().filter(|reason| reason.is_ineligible());
    let obstacles = obstacles.map(|reason| Why::Ineligible {
        reason: carried(*reason),
        since: None,
    });
    let unread = Why::Closed {
        reason: carried(Reason::WindowInvalid),
    };
    let behind = [
        Reason::BusyWith,
        Reason::BudgetFull,
        Reason::Remediating,
        Reason::RollingOut,
        Reason::PreflightUnknown,
        Reason::DisruptionsBlocked,
        Reason::WebhookUnavailable,
    ];
    let behind = behind.map(|reason| Why::NotYet {
        reason: carried(reason),
    });
    each_variant()
        .into_iter()
        .chain(obstacles)
        .chain([unread])
        .chain(behind)
        .collect()
}

#[test]
fn the_engine_and_the_public_table_order_every_reason_alike() {
    let mut ranks: Vec<(Reason, u8)> = all().iter().map(|why| (word(why).0, why.rank())).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let reasons: Vec<Reason> = ranks.iter().map(|(reason, _)| *reason).collect();
    // For the engine, a Cluster with a newer version has the target, and an unverified version is unknown.
    let ours = [Reason::AlreadyNewer, Reason::VerificationFailed];
    let known = Reason::ALL.iter().copied();
    let known: Vec<Reason> = known.filter(|reason| !ours.contains(reason)).collect();
    assert_eq!(reasons, known, "every public reason has one rank in the engine");
    // No unit has two of these at once, or the caller passes only the first, so their order does not matter.
    let shared = BTreeSet::from([
        (Reason::KindMissing, Reason::SyncUnsupported),
        (Reason::SyncUnsupported, Reason::VersionSkew),
        (Reason::VersionSkew, Reason::ManagedElsewhere),
        (Reason::ManagedElsewhere, Reason::Conflict),
        (Reason::Conflict, Reason::LostInChange),
        (Reason::LostInChange, Reason::NodeNotReady),
        (Reason::NodeNotReady, Reason::NodeUnsupported),
        (Reason::NodeUnsupported, Reason::AgentMissing),
        (Reason::AgentMissing, Reason::AgentTooOld),
        (Reason::HeldLocally, Reason::Held),
        (Reason::DependencyBehind, Reason::BusyWith),
        (Reason::BusyWith, Reason::BudgetFull),
        (Reason::BudgetFull, Reason::Remediating),
        (Reason::Remediating, Reason::RollingOut),
        (Reason::RollingOut, Reason::PreflightUnknown),
        (Reason::PreflightUnknown, Reason::DisruptionsBlocked),
        (Reason::DisruptionsBlocked, Reason::WebhookUnavailable),
        (Reason::WriteFailed, Reason::Failed),
        (Reason::WindowInvalid, Reason::WindowClosed),
        (Reason::WindowClosed, Reason::DependencyBehind),
    ]);
    for pair in ranks.windows(2) {
        let [(first, before), (second, after)] = pair else {
            unreachable!()
        };
        if shared.contains(&(*first, *second)) {
            assert_eq!(before, after, "{first} and {second} share a rank");
        } else {
            assert!(
                before < after,
                "{first} ({before}) comes before {second} ({after})"
            );
        }
    }
}
