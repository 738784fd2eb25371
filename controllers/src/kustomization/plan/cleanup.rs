//! The plan `cleanup`: what runs before the objects of a withdrawn sync are removed.
//!
//! It is the plan of the version that completed here last: a version that failed or never completed has no say in the
//! cleanup.

use std::time::Duration;

use kube::ResourceExt;
use muster_api::labels::annotation;
use muster_sync::{apply::Cluster, apply::Owner, plan::CLEANUP};

use super::{Applying, Held, Record, Trouble, Want, Writer, begin_with};
use crate::{
    kustomization::{
        Error, Kustomizations,
        declarers::Others,
        manifests,
        outcome::ReconcileOutcome,
        settings, source,
        work::{Aim, Work},
    },
    runtime::Key,
};

/// The wait before a cleanup that is blocked is retried.
const RETRY: Duration = Duration::from_secs(15);

/// Advances the plan as far as possible now. `None`: it is finished, or there is none.
pub(in crate::kustomization) async fn cleanup(
    writer: &mut Writer,
    owner: &Owner,
    cluster: &Cluster,
    others: &Others<'_>,
    kustomizations: &Kustomizations,
) -> Result<Option<ReconcileOutcome>, Error> {
    if !writer.object().annotations().contains_key(annotation::PLAN) {
        return Ok(None);
    }
    let key = Key::of(writer.object());
    let held = kustomizations
        .runs
        .take_plan(&key)
        .filter(|held| held.aim.requested == Some(requested(writer)));
    let (mut held, work) = match prepare(held, writer, kustomizations).await? {
        Ok(Some(prepared)) => prepared,
        Ok(None) => return Ok(None),
        Err(why) => return Ok(Some(waits(writer, true, &why, RETRY))),
    };
    let mark = match others.mark().await {
        Ok(mark) => mark,
        Err(why) => return Ok(Some(waits(writer, true, &why, RETRY))),
    };
    let applying = Applying {
        work: &work,
        owner,
        cluster,
        others,
        mark: mark.as_deref(),
        kustomizations,
    };
    let went = held.go(&applying, writer, Want::Plan(CLEANUP)).await;
    if !matches!(went, Err(Trouble::Error(_))) {
        kustomizations.runs.put_plan(key.clone(), held);
    }
    Ok(match went {
        Ok(_) => None,
        Err(Trouble::Error(error)) => return Err(error),
        Err(Trouble::Failure(failure)) => {
            let way_out = format!(
                "{}; nothing is removed; next: muster plan-run retry or skip; or here: kubectl -n {} annotate kustomization {} {}- removes without it",
                failure.message,
                key.namespace,
                key.name,
                annotation::PLAN,
            );
            Some(waits(writer, true, &way_out, RETRY))
        }
        Err(Trouble::Plan(outcome)) => Some(match *outcome {
            ReconcileOutcome::Stepping { message, after, .. } => waits(writer, false, &message, after),
            ReconcileOutcome::Waiting { message, after, .. } => {
                waits(writer, false, &message, after.unwrap_or(RETRY))
            }
            outcome => outcome,
        }),
    })
}

fn waits(writer: &Writer, failed: bool, message: &str, after: Duration) -> ReconcileOutcome {
    ReconcileOutcome::Finalizing {
        failed,
        message: format!("cleanup: {message}"),
        inventory: writer.inventory().to_status(),
        after,
    }
}

/// The plan of the version that completed last. `None` if there is no such version, or it has no cleanup.
async fn prepare(
    held: Option<Held>,
    writer: &Writer,
    kustomizations: &Kustomizations,
) -> Result<Result<Option<(Held, Work)>, String>, Error> {
    if let Some(held) = held {
        let work = work(&held.aim.revision, writer, kustomizations);
        return Ok(work.map(|work| Some((held, work))));
    }
    let Some(record) = Record::find(writer).await? else {
        return Ok(Ok(None));
    };
    let Some(completed) = record.status().completed.first().cloned() else {
        return Ok(Ok(None));
    };
    let work = match work(&completed.revision, writer, kustomizations) {
        Ok(work) => work,
        Err(why) => return Ok(Err(why)),
    };
    let files = match manifests::read(&work, &kustomizations.context).await {
        Ok(files) => files,
        Err(failure) => return Ok(Err(failure.message)),
    };
    let namespace = writer.object().namespace().unwrap_or_default();
    match begin_with(record, &work, &files, &namespace, kustomizations).await {
        Ok(held) if held.planned.plan(CLEANUP).is_some() => Ok(Ok(Some((held, work)))),
        Ok(_) | Err(Trouble::Plan(_)) => Ok(Ok(None)),
        Err(Trouble::Failure(failure)) => Ok(Err(failure.message)),
        Err(Trouble::Error(error)) => Err(error),
    }
}

/// What is specific to a cleanup. A new reconcile request means that the PlanRun must be read again: it has a new
/// manual control.
fn requested(writer: &Writer) -> String {
    let annotations = writer.object().annotations();
    let request = annotations.get(annotation::RECONCILE_REQUESTED_AT);
    format!("{CLEANUP} {}", request.map_or("", String::as_str))
}

/// The desired run: the cleanup of a revision.
fn work(revision: &str, writer: &Writer, kustomizations: &Kustomizations) -> Result<Work, String> {
    let object = writer.object();
    let namespace = object.namespace().unwrap_or_default();
    let settings = settings::parse_settings(&object.spec, object.annotations(), &namespace);
    let settings = settings.map_err(|refusal| refusal.message)?;
    let name = source::key_of(object);
    let source = kustomizations.sources.get(&name);
    let source = source.ok_or_else(|| {
        format!("GitRepository/{name} does not exist, and its repository has the plan of {revision}")
    })?;
    Ok(Work {
        aim: Aim {
            uid: object.uid().unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
            revision: revision.to_owned(),
            requested: Some(requested(writer)),
            allow_empty: false,
            settle: settings.settle,
            assumes: settings.assumes,
            plan: settings.plan.clone(),
        },
        settings,
        source,
        is_new: false,
    })
}
