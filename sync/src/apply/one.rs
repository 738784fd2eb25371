//! One object: observe, decide, act.

use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use super::{
    ApplyOutcome, CallError, Cluster, Declarers, Heir, Jobs, Kind, LOOKS, ObjectFailure, Options, Plan,
    Prepared,
    drift::drifted,
    error::immutable_fields,
    handover,
    prepare::{ObjectPolicy, text_at},
    shared, takeover,
};
use crate::health::evidence::{self, Before, Change};

/// How often an object that is being re-created is polled until the old one is gone.
const GONE_POLL: Duration = Duration::from_millis(200);

/// What was done to an object, and the evidence of it.
pub(super) struct Done {
    pub outcome: ApplyOutcome,
    pub change: Change,
}

impl Done {
    const fn nothing(outcome: ApplyOutcome) -> Self {
        Self {
            outcome,
            change: Change::Nothing,
        }
    }
}

/// Brings one object to its desired state, without a write if it is there already.
pub(super) async fn apply_one(
    cluster: &Cluster,
    object: &Prepared,
    plan: &Plan,
    declarers: &dyn Declarers,
) -> Result<Done, ObjectFailure> {
    if object.wishes.ignore {
        return Ok(Done::nothing(ApplyOutcome::Skipped));
    }
    let api_version = object.api_version();
    let kind = cluster
        .kind(&api_version, &object.id.kind)
        .await
        .map_err(|error| ObjectFailure::call(object.id.clone(), "discovery", &error))?
        .ok_or_else(|| ObjectFailure::unknown_kind(object.id.clone(), &api_version))?;
    let one = One {
        cluster,
        kind,
        object,
        options: &plan.options,
        declarers,
        jobs: &plan.jobs,
    };
    let mut before = None;
    for _ in 0..LOOKS {
        if let Some(done) = one.attempt(&mut before).await? {
            return Ok(done);
        }
    }
    Err(ObjectFailure::overtaken(object.id.clone()))
}

/// An object to apply, and its context.
struct One<'a> {
    cluster: &'a Cluster,
    kind: Kind,
    object: &'a Prepared,
    options: &'a Options,
    declarers: &'a dyn Declarers,
    jobs: &'a Jobs,
}

impl One<'_> {
    /// One attempt: reads the object and acts on it. `None` if the object changed before our write. `before` keeps its
    /// state at the first attempt.
    async fn attempt(&self, before: &mut Option<Before>) -> Result<Option<Done>, ObjectFailure> {
        let live = self.cluster.get(&self.kind, &self.object.id).await;
        let Some(live) = live.map_err(|error| self.failed("reading it", &error))? else {
            if self.jobs.is_done(self.object) {
                return Ok(Some(Done::nothing(ApplyOutcome::Unchanged)));
            }
            let created = self.apply().await?;
            self.jobs.applied(self.object, None);
            return Ok(Some(Done {
                outcome: ApplyOutcome::Created,
                change: evidence::change(before.as_ref(), &created),
            }));
        };
        let before = before.get_or_insert_with(|| Before::of(&live));
        let wishes = ObjectPolicy::of(&live);
        if self.object.wishes.if_not_present || wishes.ignore {
            return Ok(Some(Done::nothing(ApplyOutcome::Skipped)));
        }
        if live.pointer("/metadata/deletionTimestamp").is_some() {
            self.jobs.observed(&self.object.id, Some(&live));
            if self.jobs.is_done(self.object) {
                return Ok(Some(Done::nothing(ApplyOutcome::Unchanged)));
            }
            return Err(ObjectFailure::terminating(self.object.id.clone()));
        }
        if let Some(holder) = self.holder(&live).await? {
            shared::compare(self.cluster, &self.kind, self.object, &live, &holder).await?;
            self.jobs.applied(self.object, Some(&live));
            return Ok(Some(Done::nothing(ApplyOutcome::Shared)));
        }
        let Some((live, taken_over)) = self.take_over(live, &wishes).await? else {
            return Ok(None);
        };
        match self
            .cluster
            .apply(&self.kind, &self.object.id, &self.object.body, true)
            .await
        {
            Ok(dry_run) => {
                let written = self.configure(&live, &dry_run).await?;
                self.jobs.applied(self.object, Some(&live));
                let outcome = match written {
                    Some(_) => ApplyOutcome::Configured,
                    None => ApplyOutcome::Unchanged,
                };
                Ok(Some(Done {
                    outcome: outcome.after(taken_over),
                    change: evidence::change(Some(before), written.as_ref().unwrap_or(&live)),
                }))
            }
            Err(error) => self.around_immutable(&live, &wishes, error).await,
        }
    }

    /// The other Kustomization that holds the object, if any.
    async fn holder(&self, live: &Value) -> Result<Option<String>, ObjectFailure> {
        let id = &self.object.id;
        let holder = self.declarers.holder(id, live).await;
        holder.map_err(|why| ObjectFailure::unknown_declarers(id.clone(), "was not applied", &why))
    }

    /// Takes over what Flux applied for the same Kustomization.
    async fn inherit(&self, live: Value) -> Result<Option<(Value, bool)>, ObjectFailure> {
        let Some(patch) = handover::handover_patch(&live, &self.options.owner, Heir::Builtin) else {
            return Ok(Some((live, false)));
        };
        let written = handover::send_patch(self.cluster, &self.kind, &self.object.id, &patch).await;
        let written = written.map_err(|error| self.failed("taking it over from Flux", &error))?;
        Ok(written.map(|live| (live, true)))
    }

    /// Takes over what Flux applied for the same Kustomization, fields set with kubectl, and defaults that conflict
    /// with the manifest. All of it happens before the dry run, which the server would refuse while both are set.
    /// Returns the resulting object, and whether there was a write; `None` if the object changed before our write.
    async fn take_over(
        &self,
        live: Value,
        wishes: &ObjectPolicy,
    ) -> Result<Option<(Value, bool)>, ObjectFailure> {
        let Some((live, inherited)) = self.inherit(live).await? else {
            return Ok(None);
        };
        let live = handover::accounted(self.cluster, &self.kind, &self.object.id, live).await;
        let live = live.map_err(|error| self.failed("dry-run", &error))?;
        let merges = self.object.wishes.merge || wishes.merge;
        let Some(patch) = takeover::takeover_patch(&live, &self.object.body, merges) else {
            return Ok(Some((live, inherited)));
        };
        let written = handover::send_patch(self.cluster, &self.kind, &self.object.id, &patch).await;
        let written = written.map_err(|error| self.failed("taking it over from kubectl", &error))?;
        Ok(written.map(|live| (live, true)))
    }

    /// Applies if the dry run shows a difference; returns the resulting object if it was written.
    async fn configure(&self, live: &Value, dry_run: &Value) -> Result<Option<Value>, ObjectFailure> {
        if !drifted(live, dry_run) {
            return Ok(None);
        }
        self.apply().await.map(Some)
    }

    /// After a refused dry run: re-creates the object if an immutable field is the cause and force is set. `None` if
    /// the object changed before our write.
    async fn around_immutable(
        &self,
        live: &Value,
        wishes: &ObjectPolicy,
        error: CallError,
    ) -> Result<Option<Done>, ObjectFailure> {
        let id = &self.object.id;
        let Some(fields) = immutable_fields(&error) else {
            let advice = takeover::advice(id, live, &self.object.body);
            return Err(ObjectFailure::refused(id.clone(), &error, advice));
        };
        if !self.options.force && !self.object.wishes.force && !wishes.force {
            return Err(ObjectFailure::immutable(id.clone(), &error, &fields));
        }
        let uid = text_at(live, "/metadata/uid");
        match self.cluster.delete(&self.kind, id, live).await {
            Err(error) if error.is_conflict() => return Ok(None),
            Err(error) if !error.is_not_found() => return Err(self.failed("delete", &error)),
            Ok(()) | Err(_) => {}
        }
        match tokio::time::timeout(self.options.timeout, self.await_gone(uid)).await {
            Ok(gone) => gone?,
            Err(_elapsed) => return Err(ObjectFailure::not_gone(id.clone())),
        }
        let created = self.apply().await?;
        self.jobs.applied(self.object, None);
        Ok(Some(Done {
            outcome: ApplyOutcome::Recreated,
            change: evidence::change(None, &created),
        }))
    }

    /// Waits until the object with that uid is gone.
    async fn await_gone(&self, uid: &str) -> Result<(), ObjectFailure> {
        loop {
            let there = self.cluster.get(&self.kind, &self.object.id).await;
            match there.map_err(|error| self.failed("reading it", &error))? {
                None => return Ok(()),
                Some(found) if text_at(&found, "/metadata/uid") == uid => sleep(GONE_POLL).await,
                // Another client created a new object: leave it alone until the next run reads it.
                Some(_) => return Err(ObjectFailure::terminating(self.object.id.clone())),
            }
        }
    }

    /// Applies the object; returns the result.
    async fn apply(&self) -> Result<Value, ObjectFailure> {
        let applied = self
            .cluster
            .apply(&self.kind, &self.object.id, &self.object.body, false)
            .await;
        applied.map_err(|error| self.failed("apply", &error))
    }

    fn failed(&self, action: &str, error: &CallError) -> ObjectFailure {
        ObjectFailure::call(self.object.id.clone(), action, error)
    }
}
