//! Which notification is next: from what was sent and the state of a rollout. Pure.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{phase::Phase, rollout_state::RolloutState};

/// A rollout that finished longer ago than this when it is first observed is not notified: otherwise a new receiver
/// would get the whole history.
const RECENT: SignedDuration = SignedDuration::from_hours(1);

/// What was sent to a receiver about a rollout. Stored in an annotation of the ModuleRevision, so that the next process
/// knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NotificationRecord {
    /// When the rollout started: another run is notified again.
    pub run: Timestamp,
    /// The phase that was sent.
    pub phase: Phase,
    /// How many tenths of its clusters were done.
    #[serde(default)]
    pub tenths: u8,
    /// The number of messages sent.
    pub sequence: u32,
    /// The message to edit, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post: Option<Post>,
    /// The last message was not delivered, and is not retried any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
}

/// A message that can be edited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Post {
    /// The channel of the message.
    pub channel: String,
    /// The id of the message in the channel.
    pub ts: String,
}

/// The changes that a type of receiver is notified about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Each change of the phase.
    Phases,
    /// Each change of the phase, and each tenth of the clusters: an edited message disturbs no one.
    Progress,
    /// The first and the last phase: nothing can be edited there.
    FirstAndLast,
    /// Each change of the commit status state: repeating a state is an error there.
    States,
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Telling {
    /// The number of this message about the rollout, from 1.
    pub sequence: u32,
    /// The message to edit; `None`: a new one.
    pub edits: Option<Post>,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send a message.
    Tell(Telling),
    /// Record a phase without a message.
    Note(NotificationRecord),
    /// Nothing to do.
    Rest,
}

/// The next notification, if any.
pub(crate) fn decide(
    sent: Option<&NotificationRecord>,
    standing: &RolloutState,
    manner: Manner,
    phases: &BTreeSet<Phase>,
    now: Timestamp,
) -> Next {
    let sent = sent.filter(|sent| sent.run == standing.rollout.started);
    if !phases.contains(&standing.phase) {
        return left(sent, standing, manner, phases).map_or(Next::Rest, Next::Note);
    }
    let Some(sent) = sent else {
        let is_old = standing
            .finished
            .is_some_and(|finished| now.duration_since(finished) > RECENT);
        if is_old {
            return Next::Rest;
        }
        return Next::Tell(Telling {
            sequence: 1,
            edits: None,
        });
    };
    let turned = sent.phase != standing.phase;
    let news = match manner {
        Manner::Phases => turned,
        Manner::Progress => turned || standing.phase == Phase::Rolling && tenths(standing) > sent.tenths,
        Manner::FirstAndLast => turned && standing.phase.is_over(),
        Manner::States => sent.phase.state() != standing.phase.state(),
    };
    if !news {
        return Next::Rest;
    }
    Next::Tell(Telling {
        sequence: sent.sequence.saturating_add(1),
        edits: sent.post.clone(),
    })
}

/// A notified phase changed to one that is not notified: recorded, so that the same phase is notified again when it
/// returns. Not needed for receivers of the first and the last phase, or of commit states.
fn left(
    sent: Option<&NotificationRecord>,
    standing: &RolloutState,
    manner: Manner,
    phases: &BTreeSet<Phase>,
) -> Option<NotificationRecord> {
    let sent = sent.filter(|sent| phases.contains(&sent.phase))?;
    match manner {
        Manner::Phases | Manner::Progress => Some(NotificationRecord {
            phase: standing.phase,
            ..sent.clone()
        }),
        Manner::FirstAndLast | Manner::States => None,
    }
}

/// The record after a message, whether it was delivered or given up.
pub(crate) fn after(
    telling: &Telling,
    standing: &RolloutState,
    post: Option<Post>,
    given_up: bool,
) -> NotificationRecord {
    NotificationRecord {
        run: standing.rollout.started,
        phase: standing.phase,
        tenths: tenths(standing),
        sequence: telling.sequence,
        post: post.or_else(|| telling.edits.clone()),
        given_up,
    }
}

/// How many tenths of the clusters are done.
fn tenths(standing: &RolloutState) -> u8 {
    let clusters = &standing.clusters;
    let tenths = u64::from(clusters.updated) * 10 / u64::from(clusters.total.max(1));
    u8::try_from(tenths.min(10)).unwrap_or(10)
}

#[cfg(test)]
mod tests {
    use muster_api::module::{ModuleKind, Summary};
    use proptest::prelude::*;

    use super::*;
    use crate::notify::rollout_state::Rollout;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn standing(run: i64, phase: Phase, updated: u32) -> RolloutState {
        RolloutState {
            rollout: Rollout {
                namespace: "fleet".to_owned(),
                kind: ModuleKind::Module,
                module: "web".to_owned(),
                revision: "ab".repeat(32),
                version: "v1".to_owned(),
                commit: "cd".repeat(20),
                repository: "https://git.test/fleet".to_owned(),
                started: at(run),
            },
            phase,
            finished: phase.is_over().then(|| at(run + 60)),
            clusters: Summary {
                total: 20,
                updated,
                ..Summary::default()
            },
            evidence: Vec::new(),
            why: None,
        }
    }

    fn all() -> BTreeSet<Phase> {
        Phase::ALL.iter().copied().collect()
    }

    fn telling(next: Next) -> Option<Telling> {
        match next {
            Next::Tell(telling) => Some(telling),
            Next::Note(_) | Next::Rest => None,
        }
    }

    fn phases() -> impl Strategy<Value = BTreeSet<Phase>> {
        prop::sample::subsequence(Phase::ALL.to_vec(), 1..=Phase::ALL.len())
            .prop_map(|phases| phases.into_iter().collect())
    }

    fn manner() -> impl Strategy<Value = Manner> {
        prop_oneof![
            Just(Manner::Phases),
            Just(Manner::Progress),
            Just(Manner::FirstAndLast),
            Just(Manner::States)
        ]
    }

    /// A rollout in progress, of one run or two, with some crashes between a message and its record.
    fn lives() -> impl Strategy<Value = Vec<(RolloutState, bool)>> {
        let step = (
            0..2_i64,
            0..Phase::ALL.len(),
            0..=20_u32,
            prop::bool::weighted(0.2),
        );
        prop::collection::vec(step, 1..30).prop_map(|mut steps| {
            steps.sort_by_key(|(run, ..)| *run);
            let step = |(run, phase, updated, crash): (i64, usize, u32, bool)| {
                (standing(run * 1000, Phase::ALL[phase], updated), crash)
            };
            steps.into_iter().map(step).collect()
        })
    }

    proptest! {
        #[test]
        fn messages_are_not_repeated_and_a_lost_record_repeats_only_one(manner in manner(), phases in phases(), lives in lives()) {
            let mut told: Option<NotificationRecord> = None;
            let mut messages = Vec::new();
            let mut lost = 0;
            for (standing, crash) in lives {
                match decide(told.as_ref(), &standing, manner, &phases, at(2_000)) {
                    Next::Tell(telling) => {
                        prop_assert!(phases.contains(&standing.phase));
                        messages.push((standing.rollout.started, telling.sequence));
                        if crash {
                            lost += 1;
                            continue;
                        }
                        told = Some(after(&telling, &standing, None, false));
                    }
                    // Only its write can be lost, and then it is written again.
                    Next::Note(_) if crash => continue,
                    Next::Note(left) => told = Some(left),
                    Next::Rest => {}
                }
                // As after a restart: only the record is known.
                let again = decide(told.as_ref(), &standing, manner, &phases, at(2_000));
                prop_assert_eq!(again, Next::Rest);
            }
            let distinct: BTreeSet<_> = messages.iter().collect();
            prop_assert!(messages.len() - distinct.len() <= lost);
        }

        #[test]
        fn a_phase_that_returns_is_notified_again(phases in phases(), lives in lives()) {
            let mut told: Option<NotificationRecord> = None;
            let mut before = None;
            for (standing, _) in lives {
                let here = (standing.rollout.started, standing.phase);
                let came = before != Some(here) && phases.contains(&standing.phase);
                let next = decide(told.as_ref(), &standing, Manner::Phases, &phases, at(1_000));
                prop_assert_eq!(matches!(next, Next::Tell(_)), came, "{:?}", standing.phase);
                told = match next {
                    Next::Tell(telling) => Some(after(&telling, &standing, None, false)),
                    Next::Note(left) => Some(left),
                    Next::Rest => told,
                };
                before = Some(here);
            }
        }

        #[test]
        fn the_final_phase_is_always_notified(manner in manner(), mut phases in phases(), lives in lives(), end in 3..Phase::ALL.len()) {
            phases.insert(Phase::ALL[end]);
            let mut told: Option<NotificationRecord> = None;
            for (standing, crash) in lives.into_iter().filter(|(standing, _)| !standing.phase.is_over()) {
                match decide(told.as_ref(), &standing, manner, &phases, at(0)) {
                    Next::Tell(telling) if !crash => told = Some(after(&telling, &standing, None, false)),
                    Next::Note(left) if !crash => told = Some(left),
                    Next::Tell(_) | Next::Note(_) | Next::Rest => {}
                }
            }
            let run = told.as_ref().map_or_else(|| at(0), |told| told.run);
            let mut standing = standing(0, Phase::ALL[end], 20);
            standing.rollout.started = run;
            prop_assert!(telling(decide(told.as_ref(), &standing, manner, &phases, at(120))).is_some());
        }

        #[test]
        fn a_rollout_is_one_message_that_is_edited(lives in lives()) {
            let post = Post { channel: "C1".to_owned(), ts: "1.2".to_owned() };
            let mut told: Option<NotificationRecord> = None;
            let mut posts = BTreeSet::new();
            for (standing, _) in lives {
                if let Some(telling) = telling(decide(told.as_ref(), &standing, Manner::Progress, &all(), at(2_000))) {
                    if telling.edits.is_none() {
                        prop_assert!(posts.insert(standing.rollout.started), "posted twice");
                    }
                    let new = telling.edits.is_none().then(|| post.clone());
                    told = Some(after(&telling, &standing, new, false));
                }
            }
        }
    }

    #[test]
    fn the_notified_phases_depend_on_the_manner() {
        let check = |told: Option<&RolloutState>, now: &RolloutState, manner: Manner, expect: bool| {
            let first = Telling {
                sequence: 1,
                edits: None,
            };
            let told = told.map(|told| after(&first, told, None, false));
            let next = decide(told.as_ref(), now, manner, &all(), at(300));
            assert_eq!(telling(next).is_some(), expect, "{manner:?} {:?}", now.phase);
        };
        let rolling = standing(0, Phase::Rolling, 1);
        check(None, &rolling, Manner::FirstAndLast, true);
        check(
            Some(&rolling),
            &standing(0, Phase::Paused, 1),
            Manner::Phases,
            true,
        );
        check(
            Some(&rolling),
            &standing(0, Phase::Paused, 1),
            Manner::FirstAndLast,
            false,
        );
        check(
            Some(&rolling),
            &standing(0, Phase::Paused, 1),
            Manner::States,
            false,
        );
        check(
            Some(&rolling),
            &standing(0, Phase::Good, 20),
            Manner::States,
            true,
        );
        check(
            Some(&rolling),
            &standing(0, Phase::Good, 20),
            Manner::FirstAndLast,
            true,
        );
        // A tenth of twenty is two.
        check(
            Some(&rolling),
            &standing(0, Phase::Rolling, 2),
            Manner::Progress,
            true,
        );
        check(
            Some(&standing(0, Phase::Rolling, 2)),
            &standing(0, Phase::Rolling, 3),
            Manner::Progress,
            false,
        );
        check(
            Some(&rolling),
            &standing(0, Phase::Rolling, 20),
            Manner::Phases,
            false,
        );
        check(
            Some(&standing(0, Phase::Bad, 1)),
            &standing(100, Phase::Rolling, 1),
            Manner::FirstAndLast,
            true,
        );
    }

    #[test]
    fn old_rollouts_are_not_notified() {
        let over = standing(0, Phase::Good, 20);
        let notified_at = |now: i64| telling(decide(None, &over, Manner::Phases, &all(), at(now))).is_some();
        assert!(notified_at(120), "it ended while no process could notify");
        assert!(!notified_at(2 * 3600));
        let only_bad = BTreeSet::from([Phase::Bad]);
        let next = decide(None, &over, Manner::Phases, &only_bad, at(120));
        assert_eq!(next, Next::Rest);
    }
}
