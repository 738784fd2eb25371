//! One application: files, cluster, manifests, plan, ids recorded, apply in stages, prune; then health.

use kube::ResourceExt;
use muster_api::{
    conditions::{HEALTHY, READY, find},
    evidence::{ASSUMED, Assumed},
    flux::Kustomization,
};
use muster_sync::{
    apply::{self, ApplyError, ApplyOutcome as Of, Cluster, Options, Owner, Plan, Pruned},
    health::{
        check::while_observing,
        evidence::{Need, Target, Watch},
    },
    inventory::Inventory,
    source::Files,
};

use super::{
    Error, Kustomizations,
    declarers::Others,
    health::{self, Leaving},
    manifests,
    outcome::{Applied, Failure, ReconcileOutcome, Trouble},
    plan::{self, Applying, Settled},
    prune::{self, Pruning},
    recorder::{Recorder, admit},
    settings::Settings,
    status::Writer,
    work::{Aim, Work},
};
use crate::runtime::Key;

/// Applies; then starts to check health.
pub(super) async fn apply(
    writer: &mut Writer,
    work: Work,
    kustomizations: &Kustomizations,
) -> Result<ReconcileOutcome, Error> {
    let context = &kustomizations.context;
    let done = match Box::pin(attempt(writer, &work, kustomizations)).await {
        Ok(done) => done,
        Err(Trouble::Failure(failure)) => {
            return Ok(ReconcileOutcome::Failed {
                aim: work.aim,
                settings: work.settings,
                failure,
            });
        }
        Err(Trouble::Plan(outcome)) => return Ok(*outcome),
        Err(Trouble::Error(error)) => return Err(error),
    };
    let Done {
        cluster,
        watch,
        report,
        leaving,
    } = done;
    if watch.targets.is_empty() && leaving.is_none() {
        return Ok(ReconcileOutcome::Succeeded {
            aim: work.aim,
            settings: work.settings,
            report,
        });
    }
    let check = health::Check {
        aim: work.aim,
        settings: work.settings,
        since: context.clock.now(),
        report: Applied {
            checked: !watch.targets.is_empty(),
            ..report
        },
        watch,
        leaving,
    };
    let jobs = kustomizations.runs.jobs(writer.object());
    Ok(health::check(&cluster, check, &jobs, context).await)
}

/// After an application: prunes what is not gone yet, then checks health.
pub(super) async fn check_again(
    writer: &Writer,
    mut check: health::Check,
    wanted: Option<Inventory>,
    kustomizations: &Kustomizations,
) -> Result<ReconcileOutcome, Error> {
    let context = &kustomizations.context;
    let owner = owner(writer);
    let remote = check.settings.remote.as_ref();
    let cluster = match kustomizations.targets.cluster(&owner.namespace, remote).await {
        Ok(cluster) => cluster,
        Err(error) => {
            let words = format!("failed to build kube client: {error}");
            return Ok(health::unknown(check, wanted, words, context));
        }
    };
    if let Some(wanted) = wanted {
        let key = Key::new(&owner.namespace, &owner.name);
        let others = match Others::new(key, remote, &cluster, kustomizations).await {
            Ok(others) => others,
            Err(why) => return Ok(health::unknown(check, Some(wanted), why, context)),
        };
        let pruning = Pruning {
            cluster: &cluster,
            owner: &owner,
            others: &others,
            kustomizations,
        };
        let inventories = (&writer.inventory(), &wanted);
        match pruning.prune(writer, &check.settings, inventories).await {
            Ok((inventory, pruned)) => {
                check.report.inventory = Some(inventory.to_status());
                check.leaving = leaving(&pruned, &wanted);
            }
            Err(Trouble::Failure(failure)) => return Ok(check.failed(failure)),
            Err(Trouble::Plan(outcome)) => return Ok(*outcome),
            Err(Trouble::Error(error)) => return Err(error),
        }
    }
    let jobs = kustomizations.runs.jobs(writer.object());
    Ok(health::check(&cluster, check, &jobs, context).await)
}

/// The objects that pruning still waits for, if any.
fn leaving(pruned: &Pruned, wanted: &Inventory) -> Option<Leaving> {
    prune::prune_wait(pruned, true).map(|awaited| Leaving {
        wanted: wanted.clone(),
        awaited,
    })
}

fn owner(writer: &Writer) -> Owner {
    Owner {
        name: writer.object().name_any(),
        namespace: writer.object().namespace().unwrap_or_default(),
    }
}

/// The result of an application: everything is applied, and pruned as far as possible.
struct Done {
    cluster: Cluster,
    /// The objects whose health must be waited for.
    watch: Watch,
    report: Applied,
    leaving: Option<Leaving>,
}

async fn attempt(writer: &mut Writer, work: &Work, kustomizations: &Kustomizations) -> Result<Done, Trouble> {
    let context = &kustomizations.context;
    let owner = owner(writer);
    let settings = &work.settings;
    // The path first: after this the revision counts as attempted, whatever the result.
    let files = manifests::read(work, context).await?;
    let cluster = cluster(&owner.namespace, settings, kustomizations).await?;
    let others = Others::new(
        Key::new(&owner.namespace, &owner.name),
        settings.remote.as_ref(),
        &cluster,
        kustomizations,
    );
    let others = others.await.map_err(|why| Failure::reconciliation(why).soon())?;
    let mark = others
        .mark()
        .await
        .map_err(|why| Failure::reconciliation(why).soon())?;
    let applying = Applying {
        work,
        owner: &owner,
        cluster: &cluster,
        others: &others,
        mark: mark.as_deref(),
        kustomizations,
    };
    let Settled { manifests, kept } = contents(&applying, &files, writer).await?;
    drop(files);
    let options = Options {
        owner: owner.clone(),
        target_namespace: settings.target_namespace.clone(),
        force: settings.force,
        timeout: settings.timeout,
    };
    let plan = apply::plan(&cluster, manifests, options)
        .await
        .map_err(|error| Failure::reconciliation(error.to_string()).soon())?;
    // Objects that no run of its plan has applied belong to plans of other names.
    let plan = match settings.plan {
        Some(_) => plan.only(&writer.inventory()),
        None => plan,
    };
    let plan = match &mark {
        Some(mark) => plan.applied_from(mark),
        None => plan,
    };
    let jobs = kustomizations.runs.jobs(writer.object());
    let plan = plan.knowing(jobs.clone(), is_ready_at(writer.object(), &work.aim));
    let known = PreviousHealth::of(writer.object());
    let before = writer.inventory();
    let wanted = plan.inventory().merged(&kept);
    if plan.is_empty() && kept.is_empty() && !before.is_empty() && !work.aim.allow_empty {
        return Err(Failure::empty().into());
    }
    admit(&before, &wanted)?;
    let changing = async {
        let recorder = Recorder::new(writer, work, kustomizations, others.identity());
        let applied = apply_within_timeout(&cluster, &plan, &recorder, settings, &others).await?;
        let applied_at = context.clock.now();
        let pruning = Pruning {
            cluster: &cluster,
            owner: &owner,
            others: &others,
            kustomizations,
        };
        let pruned = pruning.prune(writer, settings, (&before, &wanted)).await?;
        Ok::<_, Trouble>((applied, applied_at, pruned))
    };
    let (applied, applied_at, (inventory, pruned)) = while_observing(&cluster, &jobs, changing).await?;
    let report = Applied {
        inventory: Some(inventory.to_status()),
        checked: false,
        assumed: None,
        progress: None,
        shared: others.shared_objects_message(),
        changes: changes(&applied, &pruned, work.is_new),
    };
    let targets = match health::targets(&cluster, settings, &plan, &applied, writer.object()).await {
        Ok(targets) => targets,
        Err(error) => {
            let failure = Failure::reconciliation(error.to_string()).soon();
            return Err(failure.with(report.inventory).into());
        }
    };
    let targets = targets.into_iter().map(|(id, version)| {
        let ours = wanted.contains(&id);
        let change = applied.changes.get(&id);
        let need = Need::after(change, &id, ours && !known.confirmed);
        let expressions = settings
            .expressions
            .get(&(id.group.clone(), id.kind.clone()))
            .cloned();
        Target::new(id, version, need, change.map(|_| applied_at)).judged_by(expressions)
    });
    Ok(Done {
        cluster,
        watch: Watch::new(targets.collect(), known.assumed),
        report,
        leaving: leaving(&pruned, &wanted),
    })
}

/// The objects to apply: all of the directory or, once the run of its plan is complete, those that remain.
async fn contents(applying: &Applying<'_>, files: &Files, writer: &mut Writer) -> Result<Settled, Trouble> {
    let Applying {
        work,
        owner,
        kustomizations,
        ..
    } = applying;
    if let Some(digest) = &work.settings.plan {
        return plan::advance(applying, files, digest, writer).await;
    }
    let manifests = manifests::manifests(files, work, &owner.namespace, &kustomizations.context).await?;
    Ok(Settled {
        manifests,
        kept: Inventory::default(),
    })
}

/// What the status reports about the previous application.
struct PreviousHealth {
    /// Whether all of it was confirmed.
    confirmed: bool,
    /// The objects of it that were assumed healthy without evidence.
    assumed: Option<Assumed>,
}

impl PreviousHealth {
    /// Before the first object of an attempt is applied, Healthy becomes Unknown (`status::begun`), and it is True
    /// again only once the attempt is confirmed. Another reason of Ready meanwhile, such as an unavailable source, is
    /// not about the applied objects. Earlier releases only set Ready to Unknown. Without a status nothing is known,
    /// for example after the Kustomization was deleted and re-created.
    fn of(object: &Kustomization) -> Self {
        let status = object.status.as_ref();
        let condition = |kind| find(&status?.conditions, kind);
        let healthy = condition(HEALTHY).filter(|healthy| healthy.status == "True");
        let doubted = condition(READY).is_some_and(|ready| ready.status == "Unknown");
        let confirmed = healthy.is_some() && !doubted;
        let assumed = healthy.filter(|healthy| confirmed && healthy.reason == ASSUMED);
        Self {
            confirmed,
            assumed: assumed.and_then(|healthy| Assumed::parse(&healthy.message)),
        }
    }
}

/// Whether Ready is True at this generation and revision.
fn is_ready_at(object: &Kustomization, aim: &Aim) -> bool {
    object.status.as_ref().is_some_and(|status| {
        status.last_applied_revision.as_ref() == Some(&aim.revision)
            && find(&status.conditions, READY).is_some_and(|ready| {
                ready.status == "True" && ready.observed_generation == Some(aim.generation)
            })
    })
}

async fn cluster(
    namespace: &str,
    settings: &Settings,
    kustomizations: &Kustomizations,
) -> Result<Cluster, Failure> {
    let cluster = kustomizations
        .targets
        .cluster(namespace, settings.remote.as_ref())
        .await;
    cluster.map_err(|error| Failure::reconciliation(format!("failed to build kube client: {error}")).soon())
}

async fn apply_within_timeout(
    cluster: &Cluster,
    plan: &Plan,
    recorder: &Recorder<'_>,
    settings: &Settings,
    others: &Others<'_>,
) -> Result<apply::Applied, Trouble> {
    match tokio::time::timeout(settings.timeout, apply::run(cluster, plan, recorder, others)).await {
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

/// The failure of rejected objects. It is likely to be transient if the cluster is the cause.
fn refused(error: &ApplyError) -> Failure {
    let failure = Failure::reconciliation(error.to_string());
    match error {
        ApplyError::Objects { failures, .. } if failures.iter().all(apply::ObjectFailure::is_shared) => {
            Failure::shared(error.to_string())
        }
        ApplyError::Objects { failures, .. } if failures.iter().any(apply::ObjectFailure::is_transient) => {
            failure.soon()
        }
        ApplyError::Objects { .. } | ApplyError::Ledger(_) => failure,
    }
}

/// The changes, as text. An object that is not gone yet was deleted once, and is not counted again each time its
/// revision is retried.
fn changes(applied: &apply::Applied, pruned: &Pruned, is_new: bool) -> String {
    let deleted = pruned.gone.len() + if is_new { pruned.waiting.len() } else { 0 };
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
