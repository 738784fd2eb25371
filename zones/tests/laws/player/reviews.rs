//! Reviews of downscales, step by step: by users, an autoscaler, and the controller itself.

use std::rc::Rc;

use jiff::{SignedDuration, Timestamp};
use muster_api::zonerollout::ZoneRolloutStatus;
use muster_zones::{
    admit::{Fact, Read, Record, Request, Step, Webhook, WriteError, Zones, prepare::Prepare},
    model::Set,
};

use super::{
    sets::name,
    world::{Sent, SentWrite, World},
};

/// How long the API server waits for an answer, and how long it may then take to apply the change.
const TIMEOUT: SignedDuration = SignedDuration::from_secs(30);

/// A review between two of its steps.
pub(crate) struct Reviewing {
    set: usize,
    to: usize,
    /// The resourceVersion of the set under review.
    version: u64,
    /// The leader that requested the change.
    by: Option<usize>,
    began: Timestamp,
    webhook: Prepare,
    step: Step,
    /// What has been read of the group so far.
    record: Option<(u64, ZoneRolloutStatus)>,
    sets: Option<Rc<[Set]>>,
    /// The pods that were running when pods were first read: others may be Pending, and need no preparation.
    started: Option<Vec<u32>>,
}

impl Reviewing {
    pub(crate) fn new(world: &mut World, set: usize, to: usize, by: Option<usize>) -> Self {
        let before = &world.sets[set];
        let request = Request {
            uid: format!("review-{}", world.chance.next()),
            resource: "statefulsets".to_owned(),
            name: name(set),
            namespace: "test".to_owned(),
            operation: "UPDATE".to_owned(),
            object: Some(before.object(to)),
            old_object: Some(before.object(before.replicas)),
            ..Request::default()
        };
        let mut webhook = Prepare::new(request, World::settings(), false);
        let step = webhook.advance(Fact::Begin, world.now);
        Self {
            set,
            to,
            version: world.sets[set].version,
            by,
            began: world.now,
            webhook,
            step,
            record: None,
            sets: None,
            started: None,
        }
    }
}

impl World {
    /// One step of a review.
    pub(crate) fn review(&mut self) {
        let at = self.chance.below(self.reviews.len());
        let mut review = self.reviews.swap_remove(at);
        // A review whose client has been gone for a while ends with its connection.
        if self.chance.is(20) || self.now >= Self::latest(review.began) {
            self.tally.kills += 1;
            self.log_event(format!("the review of {} is killed", name(review.set)));
            return self.refuse(&review);
        }
        let fact = match review.step.clone() {
            Step::Answer(response) => {
                let in_time = self.now.duration_since(review.began) < TIMEOUT;
                if !response.allowed || !in_time || self.chance.is(100) {
                    return self.refuse(&review);
                }
                let left = TIMEOUT.as_secs();
                let due = self.now + self.chance.seconds(usize::try_from(left).unwrap() / 2);
                let what = SentWrite::Replicas {
                    set: review.set,
                    to: review.to,
                    version: review.version,
                    started: review.started.unwrap_or_default(),
                    by: review.by,
                };
                let latest = Self::latest(review.began);
                return self.sent.push(Sent { due, latest, what });
            }
            Step::Read(Read::Zones { .. }) => self.read_step(&mut review),
            Step::Read(read) => panic!("a StatefulSet has no parent: {read:?}"),
            Step::Ask(asks) => Some(Fact::Answers(asks.iter().map(|ask| self.call_pod(ask)).collect())),
            Step::Write(write) => {
                let version = write.version.as_deref().unwrap().parse().unwrap();
                let mut written = if self.write(version, &write.status) {
                    Ok(self.version.to_string())
                } else {
                    Err(WriteError::Conflict)
                };
                if self.chance.is(30) {
                    written = Err(WriteError::Failed("the answer was lost".to_owned()));
                }
                Some(Fact::Written(written))
            }
        };
        if let Some(fact) = fact {
            review.step = review.webhook.advance(fact, self.now);
        }
        self.reviews.push(review);
    }

    /// Reads one list after the other; returns the result once all are read.
    fn read_step(&mut self, review: &mut Reviewing) -> Option<Fact> {
        let Some((version, status)) = review.record.take() else {
            review.record = Some((self.version, self.record.clone()));
            return None;
        };
        let Some(sets) = review.sets.take() else {
            review.record = Some((version, status));
            review.sets = Some(self.set_rows());
            return None;
        };
        if review.started.is_none() {
            let started = self.sets[review.set].pods.iter().flatten();
            review.started = Some(started.filter(|pod| pod.started).map(|pod| pod.uid).collect());
        }
        let record = Record {
            version: version.to_string(),
            status,
        };
        Some(Fact::Zones(Box::new(Zones {
            sets: Ok(sets.to_vec()),
            pods: Ok(self.pod_rows().to_vec()),
            tracker: Ok(None),
            record: Ok(Some(record)),
        })))
    }

    /// The change is discarded.
    fn refuse(&mut self, review: &Reviewing) {
        if let Some(leader) = review.by {
            self.leaders[leader].answered(false);
        }
    }
}
