//! Jobs that are deleted after they finish (`spec.ttlSecondsAfterFinished`): which of them are done and must not run
//! again.
//!
//! Such a Job is done if this process observed it Complete with the content to apply, or if its Kustomization is Ready
//! at the revision to apply: then it has been waited for already. Any other Job that does not exist is created, and
//! runs.
//!
//! The record is in memory only. After a restart of the process, the Ready condition replaces it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use muster_api::digest::sha256_hex;
use parking_lot::Mutex;
use serde_json::Value;

use crate::{inventory::ObjectId, prepared::Prepared};

/// The shortest interval between two reads of a Job. A Job that is deleted at once still exists while its pods
/// terminate.
pub(crate) const PACE_MIN: Duration = Duration::from_millis(250);

/// The record of the Jobs of one Kustomization in one cluster. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Jobs(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Whether there are Jobs among the objects to apply.
    planned: bool,
    known: BTreeMap<ObjectId, Job>,
}

#[derive(Clone, Debug)]
struct Job {
    version: String,
    /// Digest of the applied body.
    digest: String,
    /// How long the Job is kept after it finishes; `None` if it is not deleted automatically.
    ttl: Option<Duration>,
    progress: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Running,
    /// The Job failed, or is gone and was not observed to complete.
    Ended,
    /// The Job completed, and is deleted after its TTL.
    Done,
}

impl Jobs {
    /// Drops the record of Jobs that are not among these objects. If their Kustomization is `ready` at this revision,
    /// Jobs without a record are done.
    pub(crate) fn enter(&self, objects: &[Prepared], ready: bool) {
        let mut jobs = self.0.lock();
        let planned: BTreeSet<&ObjectId> = objects.iter().map(|object| &object.id).collect();
        jobs.planned = planned.iter().any(|id| id.is_job());
        jobs.known.retain(|id, _| planned.contains(id));
        let unknown = objects.iter().filter(|object| ready && object.id.is_job());
        for job in unknown.filter(|object| ttl(&object.body).is_some()) {
            jobs.known
                .entry(job.id.clone())
                .or_insert_with(|| Job::of(job, Progress::Done));
        }
    }

    /// Whether a Job with exactly this content is done: if it does not exist, it is not created again.
    pub(crate) fn is_done(&self, object: &Prepared) -> bool {
        object.id.is_job()
            && self
                .0
                .lock()
                .known
                .get(&object.id)
                .is_some_and(|job| job.progress == Progress::Done && job.digest == digest(object))
    }

    /// Records that an object was applied; `live` is its previous state, if it was not re-created.
    pub(crate) fn applied(&self, object: &Prepared, live: Option<&Value>) {
        if !object.id.is_job() {
            return;
        }
        let job = Job::of(object, Progress::Running);
        self.0.lock().known.insert(object.id.clone(), job);
        if live.is_some() {
            self.observed(&object.id, live);
        }
    }

    /// Records that an object was read, or does not exist.
    pub(crate) fn observed(&self, id: &ObjectId, live: Option<&Value>) {
        let mut jobs = self.0.lock();
        let Some(job) = jobs.known.get_mut(id) else {
            return;
        };
        if let Some(live) = live {
            job.ttl = ttl(live);
        }
        let ends = live.is_none() || has(live, "Failed") || has(live, "Complete");
        if has(live, "Complete") && job.ttl.is_some() {
            job.progress = Progress::Done;
        } else if ends && job.progress == Progress::Running {
            job.progress = Progress::Ended;
        }
    }

    /// Whether the Job with this id, as last applied, is done.
    pub(crate) fn has_completed(&self, id: &ObjectId) -> bool {
        let known = &self.0.lock().known;
        known.get(id).is_some_and(|job| job.progress == Progress::Done)
    }

    /// Whether there are Jobs among the objects to apply.
    pub(crate) fn are_planned(&self) -> bool {
        self.0.lock().planned
    }

    /// The running Jobs that are deleted after they finish, each with the API version that it is read in.
    pub(crate) fn running(&self) -> Vec<(ObjectId, String)> {
        let jobs = self.0.lock();
        let running = jobs.known.iter().filter(|(_, job)| job.runs());
        running
            .map(|(id, job)| (id.clone(), job.version.clone()))
            .collect()
    }

    /// How often running Jobs must be read so that none finishes and is gone unobserved; `None` if there are none.
    pub fn pace(&self) -> Option<Duration> {
        let jobs = self.0.lock();
        let shortest = jobs
            .known
            .values()
            .filter(|job| job.runs())
            .filter_map(|job| job.ttl)
            .min()?;
        Some((shortest / 2).max(PACE_MIN))
    }
}

impl Job {
    fn of(object: &Prepared, progress: Progress) -> Self {
        Self {
            version: object.version.clone(),
            digest: digest(object),
            ttl: ttl(&object.body),
            progress,
        }
    }

    fn runs(&self) -> bool {
        self.progress == Progress::Running && self.ttl.is_some()
    }
}

fn ttl(job: &Value) -> Option<Duration> {
    let seconds = job.pointer("/spec/ttlSecondsAfterFinished")?.as_u64()?;
    Some(Duration::from_secs(seconds))
}

fn digest(object: &Prepared) -> String {
    sha256_hex(&[&object.body.to_string()])
}

/// Whether a Job has this condition.
fn has(job: Option<&Value>, kind: &str) -> bool {
    let conditions = job.and_then(|job| job.pointer("/status/conditions")?.as_array());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use std::slice;

    use serde_json::json;

    use super::*;
    use crate::prepared::ObjectPolicy;

    fn job(ttl: Option<u64>, image: &str) -> Prepared {
        Prepared {
            id: "default_migrate_batch_Job".parse().unwrap(),
            version: "v1".into(),
            body: json!({"spec": {"ttlSecondsAfterFinished": ttl, "image": image}}),
            wishes: ObjectPolicy::default(),
        }
    }

    fn live(ttl: Option<u64>, condition: &str) -> Value {
        json!({"spec": {"ttlSecondsAfterFinished": ttl}, "status": {"conditions": [{"type": condition, "status": "True"}]}})
    }

    /// Applies a Job, then observes `live`; returns whether it is done.
    fn done(ttl: Option<u64>, live: Option<&Value>) -> bool {
        let (jobs, job) = (Jobs::default(), job(ttl, "a"));
        jobs.applied(&job, None);
        assert!(!jobs.is_done(&job));
        jobs.observed(&job.id, live);
        assert_eq!(jobs.is_done(&job), jobs.has_completed(&job.id));
        jobs.is_done(&job)
    }

    #[test]
    fn only_what_completed_and_is_deleted_in_time_is_done() {
        assert!(done(Some(60), Some(&live(Some(60), "Complete"))));
        // Set by an admission webhook.
        assert!(done(None, Some(&live(Some(60), "Complete"))));
        assert!(!done(None, Some(&live(None, "Complete"))));
        assert!(!done(Some(60), Some(&live(Some(60), "Failed"))));
        assert!(!done(Some(60), Some(&live(Some(60), "Suspended"))));
        assert!(!done(Some(60), None));
    }

    #[test]
    fn another_content_is_another_job() {
        let jobs = Jobs::default();
        jobs.applied(&job(Some(60), "a"), Some(&live(Some(60), "Complete")));
        assert!(jobs.is_done(&job(Some(60), "a")));
        assert!(!jobs.is_done(&job(Some(60), "b")));
        jobs.applied(&job(Some(60), "b"), None);
        assert!(!jobs.has_completed(&job(Some(60), "b").id));
    }

    #[test]
    fn ready_speaks_for_jobs_of_which_nothing_is_known() {
        let jobs = Jobs::default();
        let migrate = job(Some(60), "a");
        jobs.enter(slice::from_ref(&migrate), false);
        assert!(!jobs.is_done(&migrate));
        jobs.enter(slice::from_ref(&migrate), true);
        assert!(jobs.is_done(&migrate));
        // The Job exists and is running.
        jobs.applied(&migrate, Some(&live(Some(60), "Suspended")));
        jobs.enter(slice::from_ref(&migrate), true);
        assert!(!jobs.is_done(&migrate));
        let stays = job(None, "a");
        jobs.enter(&[], true);
        jobs.enter(slice::from_ref(&stays), true);
        assert!(!jobs.is_done(&stays));
    }

    #[test]
    fn jobs_are_read_often_enough_while_they_run() {
        let jobs = Jobs::default();
        let pace_of = |ttl| {
            jobs.applied(&job(ttl, "a"), None);
            jobs.pace()
        };
        assert_eq!(pace_of(Some(60)), Some(Duration::from_secs(30)));
        assert_eq!(pace_of(Some(0)), Some(PACE_MIN));
        assert_eq!(pace_of(None), None);
        jobs.applied(&job(Some(60), "a"), Some(&live(Some(60), "Failed")));
        assert_eq!((jobs.pace(), jobs.running()), (None, Vec::new()));
    }
}
