//! The last run of each Kustomization and its Jobs, in memory.

use std::{collections::BTreeMap, time::Duration};

use kube::{ResourceExt, runtime::reflector::Store};
use muster_api::flux::Kustomization;
use muster_sync::apply::Jobs;
use parking_lot::Mutex;

use super::{
    plan::Held,
    settings::{self, RemoteTarget},
    work::Run,
};
use crate::runtime::Key;

/// When there are this many more entries than objects, the entries of deleted objects are dropped.
const SLACK: usize = 64;

/// The last runs by Kustomization.
pub(super) struct Runs {
    store: Store<Kustomization>,
    last: Mutex<BTreeMap<Key, Run>>,
    jobs: Mutex<BTreeMap<Key, OwnJobs>>,
    plans: Mutex<BTreeMap<Key, Held>>,
}

/// The Jobs of a Kustomization in the cluster that it is applied to.
struct OwnJobs {
    uid: Option<String>,
    remote: Option<RemoteTarget>,
    jobs: Jobs,
}

impl Runs {
    pub(super) fn new(store: Store<Kustomization>) -> Self {
        Self {
            store,
            last: Mutex::default(),
            jobs: Mutex::default(),
            plans: Mutex::default(),
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<Run> {
        self.last.lock().get(key).cloned()
    }

    pub(super) fn put(&self, key: Key, run: Run) {
        let mut last = self.last.lock();
        last.insert(key, run);
        if last.len() > self.store.len() + SLACK {
            last.retain(|key, _| self.store.get(&key.object_ref()).is_some());
            self.jobs.lock().retain(|key, _| last.contains_key(key));
            self.plans.lock().retain(|key, _| last.contains_key(key));
        }
    }

    /// The cached Jobs of a Kustomization.
    pub(super) fn jobs(&self, object: &Kustomization) -> Jobs {
        let (uid, remote) = (object.uid(), settings::remote(&object.spec));
        let mut all = self.jobs.lock();
        let key = Key::of(object);
        if let Some(own) = all.get(&key)
            && (&own.uid, &own.remote) == (&uid, &remote)
        {
            return own.jobs.clone();
        }
        let jobs = Jobs::default();
        let own = OwnJobs {
            uid,
            remote,
            jobs: jobs.clone(),
        };
        all.insert(key, own);
        jobs
    }

    /// When to read the running Jobs of a Kustomization again, if it has any.
    pub(super) fn pace(&self, key: &Key) -> Option<Duration> {
        self.jobs.lock().get(key)?.jobs.pace()
    }

    pub(super) fn remove(&self, key: &Key) {
        self.last.lock().remove(key);
        self.jobs.lock().remove(key);
        self.plans.lock().remove(key);
    }

    /// Makes the run due again at once, whatever its result.
    pub(super) fn unrest(&self, key: &Key) {
        self.last.lock().remove(key);
    }

    /// Takes the plan of a Kustomization out, for one pass over it.
    pub(super) fn take_plan(&self, key: &Key) -> Option<Held> {
        self.plans.lock().remove(key)
    }

    /// When to advance a run of its plan that was started by hand.
    pub(super) fn plan_due(&self, key: &Key) -> Option<Duration> {
        self.plans.lock().get(key)?.due
    }

    pub(super) fn put_plan(&self, key: Key, plan: Held) {
        self.plans.lock().insert(key, plan);
    }
}
