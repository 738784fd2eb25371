//! One application: manifests, plan, ids on record, apply in stages, prune; then health.

use async_trait::async_trait;
use kube::ResourceExt;
use muster_sync::{
    apply::{
        self, ApplyError, Cluster, Ledger, LedgerError, Options, Outcome as Of, Owner, Plan, Pruned,
        error::summary,
    },
    inventory::{Inventory, ObjectId},
};
use tokio::sync::Mutex;

use super::{
    Error, Kustomizations,
    act::{Applied, Failure, Outcome},
    decide::Work,
    health,
    manifests::manifests,
    settings::Settings,
    status::{self, Writer},
};

/// How an application ended other than well.
enum Trouble {
    /// With something to say in the status.
    Failure(Failure),
    /// Our own API server did not take a write; nothing can be said.
    Error(Error),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// Applies; then begins to look at health.
pub(super) async fn apply(
    writer: &mut Writer,
    work: Work,
    kustomizations: &Kustomizations,
) -> Result<Outcome, Error> {
    let context = &kustomizations.context;
    let namespace = writer.object().namespace().unwrap_or_default();
    let target = kustomizations
        .targets
        .cluster(&namespace, work.settings.remote.as_ref())
        .await;
    let applied = match target {
        Ok(cluster) => attempt(writer, &work, &cluster, kustomizations)
            .await
            .map(|done| (cluster, done)),
        Err(error) => Err(
            Failure::reconciliation(format!("failed to build kube client: {error}"))
                .soon()
                .into(),
        ),
    };
    let failed = |work: Work, failure| {
        Ok(Outcome::Failed {
            aim: work.aim,
            settings: work.settings,
            failure,
        })
    };
    let (cluster, (plan, report)) = match applied {
        Ok(applied) => applied,
        Err(Trouble::Failure(failure)) => return failed(work, failure),
        Err(Trouble::Error(error)) => return Err(error),
    };
    match health::targets(&cluster, &work.settings, &plan, writer.object()).await {
        Ok(targets) if targets.is_empty() => Ok(Outcome::Succeeded {
            aim: work.aim,
            settings: work.settings,
            report,
        }),
        Ok(targets) => {
            let since = context.clock.now();
            let report = Applied {
                checked: true,
                ..report
            };
            let check = health::Check {
                aim: work.aim,
                settings: work.settings,
                since,
                targets,
                report,
            };
            Ok(health::check(&cluster, check, context).await)
        }
        Err(error) => {
            let failure = Failure::reconciliation(error.to_string()).soon();
            failed(
                work,
                Failure {
                    inventory: report.inventory,
                    ..failure
                },
            )
        }
    }
}

async fn attempt(
    writer: &mut Writer,
    work: &Work,
    cluster: &Cluster,
    kustomizations: &Kustomizations,
) -> Result<(Plan, Applied), Trouble> {
    let (name, namespace) = (
        writer.object().name_any(),
        writer.object().namespace().unwrap_or_default(),
    );
    let manifests = manifests(work, &namespace, &kustomizations.context).await?;
    let owner = Owner { name, namespace };
    let settings = &work.settings;
    let options = Options {
        owner: owner.clone(),
        target_namespace: settings.target_namespace.clone(),
        force: settings.force,
        timeout: settings.timeout,
    };
    let plan = apply::plan(cluster, manifests, options)
        .await
        .map_err(|error| Failure::reconciliation(error.to_string()).soon())?;
    let before = writer.inventory();
    if plan.is_empty() && !before.is_empty() && !work.allow_empty {
        return Err(Failure::empty().into());
    }
    let recorder = Recorder {
        writer: Mutex::new(writer),
        work,
    };
    let applied = carry_out(cluster, &plan, &recorder, settings).await?;
    let wanted = plan.inventory();
    let unwanted = before.pruned_by(&wanted);
    let mut inventory = before.merged(&wanted);
    let pruned = prune(cluster, &owner, settings, unwanted, &inventory).await?;
    for id in pruned.settled() {
        inventory.remove(id);
    }
    if !pruned.failures.is_empty() {
        return Err(Failure::prune(
            summary(&pruned.failures, pruned.blocked.len()),
            inventory.to_status(),
        )
        .into());
    }
    let report = Applied {
        inventory: Some(inventory.to_status()),
        checked: false,
        leftovers: !pruned.is_complete(),
        changes: changes(&applied, &pruned),
    };
    Ok((plan, report))
}

async fn carry_out(
    cluster: &Cluster,
    plan: &Plan,
    recorder: &Recorder<'_>,
    settings: &Settings,
) -> Result<apply::Applied, Trouble> {
    match tokio::time::timeout(settings.timeout, apply::run(cluster, plan, recorder)).await {
        Ok(Ok(applied)) => Ok(applied),
        Ok(Err(ApplyError::Ledger(error))) => Err(Trouble::Error(Error::Ledger(error))),
        Ok(Err(error @ ApplyError::Objects { .. })) => Err(refused(&error).into()),
        Err(_elapsed) => {
            let message = format!(
                "applying took longer than {:?}: context deadline exceeded",
                settings.timeout
            );
            Err(Failure::reconciliation(message).soon().into())
        }
    }
}

/// Deletes what is no longer wanted.
async fn prune(
    cluster: &Cluster,
    owner: &Owner,
    settings: &Settings,
    unwanted: Vec<(ObjectId, String)>,
    inventory: &Inventory,
) -> Result<Pruned, Failure> {
    if !settings.prune {
        // As with Flux, what is not to be pruned is let go.
        let released = unwanted.into_iter().map(|(id, _)| id).collect();
        return Ok(Pruned {
            released,
            ..Pruned::default()
        });
    }
    let pruned = tokio::time::timeout(settings.timeout, apply::prune(cluster, owner, &unwanted)).await;
    pruned.map_err(|_elapsed| {
        let message = format!(
            "pruning took longer than {:?}: context deadline exceeded",
            settings.timeout
        );
        Failure::prune(message, inventory.to_status()).soon()
    })
}

/// Objects that were refused. If the cluster is the trouble it is likely to pass.
fn refused(error: &ApplyError) -> Failure {
    let failure = Failure::reconciliation(error.to_string());
    match error {
        ApplyError::Objects { failures, .. }
            if failures.iter().any(|f| f.of_cluster || f.reason == "Terminating") =>
        {
            failure.soon()
        }
        ApplyError::Objects { .. } | ApplyError::Ledger(_) => failure,
    }
}

/// What was changed, in words.
fn changes(applied: &apply::Applied, pruned: &Pruned) -> String {
    let deleted = pruned.gone.len() + pruned.waiting.len();
    [
        (applied.count(Of::Created), "created"),
        (applied.count(Of::Configured), "configured"),
        (applied.count(Of::Recreated), "recreated"),
        (deleted, "deleted"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, word)| format!("{count} {word}"))
    .collect::<Vec<_>>()
    .join(", ")
}

/// Writes ids to the status before their objects are created.
struct Recorder<'a> {
    writer: Mutex<&'a mut Writer>,
    work: &'a Work,
}

#[async_trait]
impl Ledger for Recorder<'_> {
    async fn record(&self, planned: &Inventory) -> Result<(), LedgerError> {
        let mut writer = self.writer.lock().await;
        let recorded = writer.inventory().merged(planned).to_status();
        let status = status::begun(&writer, self.work, recorded);
        writer
            .write(status)
            .await
            .map_err(|error| LedgerError(Box::new(error)))
    }
}
