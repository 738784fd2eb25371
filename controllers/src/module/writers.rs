//! One writer for each assemblage, which merges the rows of several modules.
//!
//! ```text
//!   module a ─┐
//!   module b ─┼─► waiting ─► the holder of the turn takes all waiting writes ─► one patch
//!   module c ─┘              (all or none; if refused: one by one)
//! ```
//!
//! A single write is made at once; those that arrive meanwhile wait and are merged into the next patch.
//! Invariant: a row is written only if the memory is stored (`AssignmentWrite`, W2).
//! Invariant: a row is written only by a patch that tests what was observed; merging does not change that (W3).

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use kube::{
    Resource, ResourceExt,
    api::{Patch, PostParams},
    core::{object::HasSpec, response::StatusCause},
};
use muster_api::{
    assemblage::{self, SyncRow, TargetedAssemblageSpec},
    labels::{self, label, manager},
    schema::MAX_LABEL,
    sync::LocalReference,
};
use muster_driver::AssignmentWrite;
use parking_lot::Mutex;
use tokio::{
    sync::{Mutex as Turn, oneshot},
    time::{Instant, sleep_until},
};

use super::{
    Error, Modules,
    act::parameters,
    intent::{self, AppendTarget, Write},
    kind::{Carrier, Rolled},
    rows,
};
use crate::runtime::Api;
use crate::{
    registry::{self, ClusterRow},
    runtime::{CallError, Key, Pace, call},
};

/// Rows in one patch: at most 32 KiB each, and an API server accepts requests of 3 MiB at most.
const MERGED: usize = 64;
/// How often an append is tried in a row: an assemblage's status is written a few times while its first rows arrive.
const TRIES: usize = 4;

/// A queue for each assemblage. Bounded by the assemblages that are being written now.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    queues: Mutex<BTreeMap<Key, Weak<Queue>>>,
    /// Until when rows are collected for the next write: [`Pace`].
    gathering: Mutex<BTreeMap<Key, Instant>>,
}

/// The pending writes of one assemblage.
#[derive(Debug, Default)]
struct Queue {
    turn: Turn<()>,
    /// Bounded by the modules that are reconciled at once.
    waiting: Mutex<Vec<Job>>,
}

#[derive(Debug)]
struct Job {
    what: String,
    write: AssignmentWrite<Write>,
    done: oneshot::Sender<Result<(), Error>>,
}

impl Queue {
    /// Takes the first pending writes, as many as fit in one patch.
    fn next(&self) -> Vec<Job> {
        let mut waiting = self.waiting.lock();
        let many = waiting.len().min(MERGED);
        waiting.drain(..many).collect()
    }
}

impl Writers {
    fn queue(&self, assemblage: &Key) -> Arc<Queue> {
        let mut queues = self.queues.lock();
        queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = queues.get(assemblage).and_then(Weak::upgrade).unwrap_or_default();
        queues.insert(assemblage.clone(), Arc::downgrade(&queue));
        queue
    }

    /// Waits until the next write of an assemblage may start.
    async fn gathered(&self, assemblage: &Key) {
        let until = self.gathering.lock().get(assemblage).copied();
        if let Some(until) = until {
            sleep_until(until).await;
        }
    }

    /// Records that an assemblage was written.
    fn written(&self, assemblage: &Key, pace: Pace) {
        let (now, mut gathering) = (Instant::now(), self.gathering.lock());
        gathering.retain(|_, until| *until > now);
        gathering.insert(assemblage.clone(), pace.end());
    }
}

impl<K: Rolled> Modules<K> {
    /// Writes the row of a module, together with rows of other modules that wait for the same assemblage.
    pub(super) async fn write(
        &self,
        assemblage: &Key,
        module: &str,
        write: AssignmentWrite<Write>,
    ) -> Result<(), Error> {
        let what = format!(
            "writing the row of {module} into {} {assemblage}",
            K::Assemblage::kind(&())
        );
        let queue = self.writers.queue(assemblage);
        let (done, mut outcome) = oneshot::channel();
        let job = Job {
            what: what.clone(),
            write,
            done,
        };
        queue.waiting.lock().push(job);
        let _turn = queue.turn.lock().await;
        // The former holder of the turn may have written ours, too.
        while outcome.is_empty() {
            self.writers.gathered(assemblage).await;
            let jobs = queue.next();
            if jobs.is_empty() {
                break;
            }
            let rows = self
                .rows
                .get(assemblage)
                .map_or(0, |assemblage| assemblage.syncs.len());
            let pace = Pace::begin(rows);
            self.write_all(assemblage, jobs).await;
            self.writers.written(assemblage, pace);
        }
        // There is no result if the task that had taken the job was cancelled.
        outcome.try_recv().unwrap_or(Err(Error::Overtaken { what }))
    }

    /// Writes a control of a plan into a module's row. The assignment stays the same, so the memory need not be written
    /// first.
    pub(super) async fn control(
        &self,
        assemblage: &Key,
        module: &str,
        patch: json_patch::Patch,
    ) -> Result<(), Error> {
        let kind = K::Assemblage::kind(&());
        let what = format!("writing a control of the plan of {module} into {kind} {assemblage}");
        self.patched(assemblage, &what, patch).await
    }

    /// Creates the assemblage of a cluster without rows, unless it exists.
    pub(super) async fn introduce(&self, assemblage: &Key) -> Result<(), Error> {
        let Some(cluster) = self.context.registry.get(&assemblage.name) else {
            return Ok(());
        };
        let what = format!("creating {} {assemblage}", K::Assemblage::kind(&()));
        match self.created(assemblage, &cluster, &what, &[]).await {
            Err(Error::Overtaken { .. }) => Ok(()),
            outcome => outcome,
        }
    }

    /// Tries one merged write; if that is refused, writes one by one, so that a stale view of one row does not affect
    /// others.
    async fn write_all(&self, assemblage: &Key, jobs: Vec<Job>) {
        let writes: Vec<&Write> = jobs.iter().map(|job| job.write.write()).collect();
        let what = format!(
            "writing {} rows into {} {assemblage}",
            jobs.len(),
            K::Assemblage::kind(&())
        );
        let together = jobs.len() > 1 && self.tried(assemblage, &what, &writes).await.is_ok();
        for job in jobs {
            let result = if together {
                Ok(())
            } else {
                self.tried(assemblage, &job.what, &[job.write.write()]).await
            };
            // The waiting task may have been cancelled: then the result is not needed.
            let _ = job.done.send(result);
        }
    }

    /// Any other write of the assemblage, even of its status, invalidates an append: it is retried on the present
    /// version.
    async fn tried(&self, assemblage: &Key, what: &str, writes: &[&Write]) -> Result<(), Error> {
        if writes.iter().any(|write| matches!(write, Write::Append { .. })) {
            for _ in 1..TRIES {
                match self.write_rows(assemblage, what, writes).await {
                    Err(Error::Overtaken { .. }) => {}
                    outcome => return outcome,
                }
            }
        }
        self.write_rows(assemblage, what, writes).await
    }

    async fn write_rows(&self, assemblage: &Key, what: &str, writes: &[&Write]) -> Result<(), Error> {
        let (appended, decided_for): (Vec<&SyncRow>, Vec<&str>) = writes
            .iter()
            .filter_map(|write| match write {
                Write::Append { row, cluster } => Some((&**row, cluster.as_str())),
                Write::Patch(_) | Write::Remove(..) => None,
            })
            .unzip();
        if appended.is_empty() {
            return self.patched(assemblage, what, intent::merged(writes, None)).await;
        }
        let overtaken = || Error::Overtaken {
            what: what.to_owned(),
        };
        let there = call(what, self.assemblages(assemblage).get_opt(&assemblage.name)).await?;
        // A decision for one Cluster must not apply to another that has its name now: where there is no row, none can
        // be tested.
        let registered = self.context.registry.get(&assemblage.name);
        let cluster = registered.filter(|row| decided_for.iter().all(|uid| *uid == row.uid));
        let cluster = cluster.ok_or_else(overtaken)?;
        let Some(there) = there else {
            if appended.len() < writes.len() {
                return Err(overtaken());
            }
            return self.created(assemblage, &cluster, what, &appended).await;
        };
        let syncs = &there.spec().syncs;
        let taken = |row: &&SyncRow| syncs.iter().any(|sync| sync.name == row.name);
        if !rows::is_own_assemblage(&there)
            || cluster.disowns(registry::owner(there.meta())).is_some()
            || there.meta().deletion_timestamp.is_some()
            || appended.iter().any(taken)
        {
            return Err(overtaken());
        }
        let version = there.resource_version().unwrap_or_default();
        let append_target = AppendTarget {
            version: &version,
            has_rows: !syncs.is_empty(),
        };
        self.patched(assemblage, what, intent::merged(writes, Some(append_target)))
            .await
    }

    async fn patched(&self, assemblage: &Key, what: &str, patch: json_patch::Patch) -> Result<(), Error> {
        let patch = Patch::Json::<()>(patch);
        let assemblages = self.assemblages(assemblage);
        let parameters = parameters();
        // The watch delivers the new object.
        let answer = assemblages.patch_metadata(&assemblage.name, &parameters, &patch);
        match call(what, answer).await {
            Ok(_) => Ok(()),
            // A failed test, or the assemblage is gone: another writer was faster.
            Err(error) if is_overtaken(&error) => Err(Error::Overtaken {
                what: what.to_owned(),
            }),
            Err(error) => Err(error.into()),
        }
    }

    async fn created(
        &self,
        assemblage: &Key,
        cluster: &ClusterRow,
        what: &str,
        rows: &[&SyncRow],
    ) -> Result<(), Error> {
        let made = made::<K>(assemblage, cluster, rows);
        let parameters = PostParams {
            field_manager: Some(manager::CONTROLLER.to_owned()),
            ..PostParams::default()
        };
        match call(what, self.assemblages(assemblage).create(&parameters, &made)).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_conflict() => Err(Error::Overtaken {
                what: what.to_owned(),
            }),
            Err(error) => Err(error.into()),
        }
    }

    fn assemblages(&self, assemblage: &Key) -> Api<K::Assemblage> {
        Api::namespaced(self.context.client.clone(), &assemblage.namespace)
    }
}

/// muster's own assemblage of a cluster, owned only by that Cluster.
fn made<K: Rolled>(assemblage: &Key, cluster: &ClusterRow, rows: &[&SyncRow]) -> K::Assemblage {
    let name = cluster.name.as_str();
    let spec = TargetedAssemblageSpec {
        cluster_ref: Some(LocalReference {
            name: name.to_owned(),
        }),
        kubeconfig_ref: None,
        syncs: rows.iter().map(|&row| row.clone().into()).collect(),
    };
    let mut made = K::Assemblage::make(name, spec);
    let words = [
        (label::CLUSTER, name),
        (label::MANAGED_BY, labels::MUSTER),
        (label::APP_MANAGED_BY, labels::MUSTER),
    ];
    // A name may be too long for a label value.
    let words = words.into_iter().filter(|(_, value)| value.len() <= MAX_LABEL);
    let meta = made.meta_mut();
    meta.namespace = Some(assemblage.namespace.clone());
    meta.labels = Some(
        words
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
    );
    meta.owner_references = Some(vec![cluster.owner_reference()]);
    made
}

/// Part of the API server's response when an admission webhook denies a request, with any code.
const DENIED: &str = "denied the request";

/// Whether a patch was refused because the row is not as observed: a failed `test` is a 422 without causes, a name that
/// another writer appended meanwhile is a duplicate, and a token that another writer increased must not decrease. Any
/// other cause is about the content, and observing again does not help.
fn is_overtaken(error: &CallError) -> bool {
    if error.is_conflict() || error.is_not_found() {
        return true;
    }
    let CallError::Api { source, .. } = error else {
        return false;
    };
    let kube::Error::Api(status) = &**source else {
        return false;
    };
    let causes = status.details.as_ref().map_or(&[][..], |details| &details.causes);
    let is_race = |cause: &StatusCause| {
        cause.reason == "FieldValueDuplicate" || cause.message.contains(assemblage::TOKEN_NEVER_FALLS)
    };
    error.is_invalid() && !status.message.contains(DENIED) && causes.iter().all(is_race)
}
