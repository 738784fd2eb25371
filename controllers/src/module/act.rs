//! The step that writes: first the memory, then rows, events and histories.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, future, stream};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use muster_api::{
    control::Control,
    labels::{annotation, finalizer, manager},
    module::ModuleStatus,
    reasons::EventReason,
};
use muster_driver::{AssignmentWrite, NewContent, Planned};
use serde_json::json;
use tokio::time::timeout;
use tracing::{debug, info, warn};

use super::{
    Error, Modules,
    command::{ModuleAddress, command},
    controls,
    decide::Plan,
    dependencies::Name,
    history,
    intent::{Rows, Write},
    kind::Rolled,
    observation::Observation,
    rows::{AssemblageRow, ObservedRow},
    status,
};
use crate::runtime::{Api, Event, Key, call, status::patch_if_changed};

/// How many assemblages are written concurrently: one API server handles about eight well.
const WRITERS: usize = 8;
/// How long to wait for the watch to show our writes: normally it shows them at once; if not, it is not reliable.
const SHOWN: Duration = Duration::from_secs(1);

/// Applies a plan. What fails is repeated by the next plan: the memory names every intent until its row is written.
/// Returns when to decide again because of refused rows.
pub(crate) async fn act<K: Rolled>(
    module: &K,
    observed: &Observation,
    plan: Plan,
    modules: &Modules<K>,
) -> Result<Option<Timestamp>, Error> {
    let Plan {
        record,
        status,
        decided,
        planned,
        refused,
        events,
        applied,
        stories,
        forget,
        introduce,
        by_hand,
        questions,
        release,
        standing: _,
        wake_at: _,
        engine_call: _,
        reports,
    } = plan;
    let moves = record.is_some() || !planned.is_empty();
    let module = &if moves && !observed.deleting {
        guarded(module, modules).await?
    } else {
        module.clone()
    };
    if let Some(record) = record {
        history::record_revision(&record, &modules.context).await?;
    }
    let written = remember(module, &status, modules).await;
    let writes = match decided {
        None => written.map(|()| Vec::new())?,
        Some(decided) => {
            let mut writes = decided.written(written)?.writes(&Rows {
                module: &module.name_any(),
                observed,
            });
            writes.retain(|write| planned.contains(write.planned()));
            writes
        }
    };
    if reports {
        modules
            .reports
            .record(Key::of(module), modules.context.clock.now());
    }
    modules.refusals.keep(&Key::of(module), refused);
    for question in questions {
        modules.gates.request_reading(&Key::of(module), &question);
    }
    // Row writes do not wait for events.
    let (published, written) = future::join(
        publish_events(module, events, applied, modules),
        rows_written(module, writes, observed, modules),
    )
    .await;
    let namespace = module.namespace().unwrap_or_default();
    for (name, story) in stories {
        if let Some(row) = observed.revisions.get(&name) {
            history::write_history(&namespace, &name, row, &story, &modules.context).await?;
        }
    }
    for name in forget {
        if let Some(row) = observed.revisions.get(&name) {
            history::delete_revision(&namespace, &name, row, &modules.context).await?;
        }
    }
    for cluster in &introduce {
        let assemblage = Key::new(&namespace, cluster);
        modules.introduce(&assemblage).await?;
    }
    if release {
        self::release(module, modules).await?;
    }
    let by_hand = by_hand_written(module, by_hand, modules).await;
    published.and(by_hand).and(written)
}

/// Writes the controls of plan runs into rows. All are tried and the first failure is returned, so that one cluster
/// does not block another.
async fn by_hand_written<K: Rolled>(
    module: &K,
    writes: Vec<(String, json_patch::Patch)>,
    modules: &Modules<K>,
) -> Result<(), Error> {
    let namespace = module.namespace().unwrap_or_default();
    let mut outcome = Ok(());
    for (cluster, patch) in writes {
        let assemblage = Key::new(&namespace, &cluster);
        outcome = outcome.and(modules.control(&assemblage, &module.name_any(), patch).await);
    }
    outcome
}

/// Publishes the events, and those of controls that took effect.
async fn publish_events<K: Rolled>(
    module: &K,
    events: Vec<Event>,
    applied: Vec<(&'static str, Event)>,
    modules: &Modules<K>,
) -> Result<(), Error> {
    for event in events {
        info!(
            kind = K::KIND.as_str(),
            module = module.name_any(),
            reason = event.reason,
            "{}",
            event.note
        );
        modules.context.events.publish(module, event).await;
    }
    for (control, event) in applied {
        info!(
            kind = K::KIND.as_str(),
            module = module.name_any(),
            control,
            "{}",
            event.note
        );
        modules.context.events.publish(module, event).await;
        warn_of_flux(module, control, modules).await?;
    }
    Ok(())
}

/// W2: writes status and memory by compare-and-swap, before any row is touched.
async fn remember<K: Rolled>(module: &K, status: &ModuleStatus, modules: &Modules<K>) -> Result<(), Error> {
    let api = api::<K, K>(module, modules);
    patch_if_changed(&api, module, module.status(), status, manager::CONTROLLER).await?;
    Ok(())
}

/// Writes rows, a few at a time. All are tried, and the first failure is returned.
async fn rows_written<K: Rolled>(
    module: &K,
    writes: Vec<AssignmentWrite<Write>>,
    observed: &Observation,
    modules: &Modules<K>,
) -> Result<Option<Timestamp>, Error> {
    let writes: Vec<_> = writes
        .into_iter()
        .map(|write| row_written(module, write, observed, modules))
        .collect();
    let results: Vec<_> = stream::iter(writes).buffer_unordered(WRITERS).collect().await;
    let done = || results.iter().flatten();
    let written: Vec<&Planned> = done().filter_map(Row::written).collect();
    let again = done().filter_map(Row::again).min();
    // A decision that does not see its own writes would decide on stale rows and write them again.
    let shown = wait_until_shown(module, &written, modules);
    if timeout(SHOWN, shown).await.is_err() {
        debug!(
            module = module.name_any(),
            "the watch does not show the write yet"
        );
    }
    results
        .into_iter()
        .try_for_each(|result| result.map(|_| ()))
        .map(|()| again)
}

/// The result of writing one row.
enum Row {
    /// The row was written.
    Written(Planned),
    /// The API server rejects the row permanently; the time of the next decision.
    Refused(Timestamp),
}

impl Row {
    const fn written(&self) -> Option<&Planned> {
        match self {
            Self::Written(planned) => Some(planned),
            Self::Refused(_) => None,
        }
    }

    const fn again(&self) -> Option<Timestamp> {
        match self {
            Self::Refused(at) => Some(*at),
            Self::Written(_) => None,
        }
    }
}

async fn row_written<K: Rolled>(
    module: &K,
    write: AssignmentWrite<Write>,
    observed: &Observation,
    modules: &Modules<K>,
) -> Result<Row, Error> {
    let planned = write.planned().clone();
    let cluster = planned.unit.as_str();
    let assemblage = Key::new(module.namespace().unwrap_or_default(), cluster);
    match modules.write(&assemblage, &module.name_any(), write).await {
        Ok(()) => {}
        Err(error) => match error.refusal() {
            Some(words) => return Ok(Row::Refused(refused(module, &planned, words, modules).await)),
            None => return Err(error),
        },
    }
    let row = observed
        .cluster(cluster)
        .and_then(|cluster| cluster.row.as_deref());
    let is_given_up = planned
        .change
        .is_some_and(|change| change.then == NewContent::Abandoned);
    if let (true, Some(row)) = (is_given_up, row) {
        given_up(module, cluster, row, observed, modules).await?;
    }
    Ok(Row::Written(planned))
}

/// Keeps a refusal for the next decision, and publishes an event if it is new. Returns when that decision is due.
async fn refused<K: Rolled>(module: &K, planned: &Planned, words: &str, modules: &Modules<K>) -> Timestamp {
    let now = modules.context.clock.now();
    let noted = modules.refusals.record(&Key::of(module), planned, words, now);
    if !noted.is_new {
        return noted.again;
    }
    let (assemblage, cluster) = (K::Assemblage::kind(&()), planned.unit.as_str());
    let note = format!("{cluster}: the row cannot be written into {assemblage} {cluster}: {words}");
    let event = Event::warning(EventReason::WriteFailed, "Assign", note);
    warn_of(module, cluster, event, modules).await;
    now
}

/// Publishes a warning about a cluster, in the log and as an event.
async fn warn_of<K: Rolled>(module: &K, cluster: &str, event: Event, modules: &Modules<K>) {
    warn!(
        kind = K::KIND.as_str(),
        module = module.name_any(),
        cluster,
        "{}",
        event.note
    );
    modules.context.events.publish(module, event).await;
}

/// Waits until the watch shows what was written, one row after the other: most are already visible when checked.
async fn wait_until_shown<K: Rolled>(module: &K, written: &[&Planned], modules: &Modules<K>) {
    let (namespace, name) = (module.namespace().unwrap_or_default(), module.name_any());
    for planned in written {
        let is_shown = |own: Option<&Arc<AssemblageRow>>| {
            let row = own.and_then(|own| own.of(&name));
            planned.is_written(row.map(|row| row.engine_token()))
        };
        let assemblage = Key::new(&namespace, planned.unit.as_str());
        modules.rows.until(&assemblage, is_shown).await;
    }
}

/// Records what remains in an abandoned cluster, and who requested that.
async fn given_up<K: Rolled>(
    module: &K,
    cluster: &str,
    row: &ObservedRow,
    observed: &Observation,
    modules: &Modules<K>,
) -> Result<(), Error> {
    let by = observed
        .controls
        .abandoned(modules.context.clock.now())
        .map(Control::provenance);
    let revision = row.revision.as_deref().unwrap_or("unknown");
    let revision = revision.get(..8).unwrap_or(revision);
    let note = format!(
        "{}: {cluster} is abandoned{}: sync {} at revision {revision} stays there with all that it installed, and is not removed",
        annotation::ABANDON,
        by.unwrap_or_default(),
        row.name
    );
    let event = Event::warning(EventReason::ControlApplied, "Withdraw", note);
    warn_of(module, cluster, event, modules).await;
    warn_of_flux(module, annotation::ABANDON, modules).await
}

/// Warns if Flux will revert a control, with the command that writes the control so that it stays.
async fn warn_of_flux<K: Rolled>(module: &K, control: &str, modules: &Modules<K>) -> Result<(), Error> {
    let name = module.name_any();
    let what = format!("reading who wrote the annotations of {} {name}", K::KIND);
    let Some(live) = call(what, api::<K, K>(module, modules).get_opt(&name)).await? else {
        return Ok(());
    };
    let (Some(manager), Some(value)) = (
        controls::at_risk(live.managed_fields(), control),
        live.annotations().get(control),
    ) else {
        return Ok(());
    };
    let (namespace, address) = (
        live.namespace().unwrap_or_default(),
        status::object_reference(&live),
    );
    let address = ModuleAddress {
        namespace: &namespace,
        module: &address,
    };
    let note = format!(
        "{control} was written by {manager}, and Flux reverts what that manager writes: write it as {}: {} && {}",
        manager::CLI,
        command(&address, control, None),
        command(&address, control, Some(value))
    );
    let event = Event::warning(EventReason::ControlAtRisk, "Control", note);
    modules.context.events.publish(module, event).await;
    Ok(())
}

/// Adds our finalizer to the module before anything of it is rolled out, so that a deletion withdraws it.
async fn guarded<K: Rolled>(module: &K, modules: &Modules<K>) -> Result<K, Error> {
    if module
        .finalizers()
        .iter()
        .any(|finalizer| finalizer == finalizer::MODULE)
    {
        return Ok(module.clone());
    }
    let mut finalizers = module.finalizers().to_vec();
    finalizers.push(finalizer::MODULE.to_owned());
    with_finalizers(module, &finalizers, modules).await
}

/// Removes our finalizer from the module, and drops everything kept in memory for it.
pub(crate) async fn release<K: Rolled>(module: &K, modules: &Modules<K>) -> Result<(), Error> {
    let left: Vec<String> = module
        .finalizers()
        .iter()
        .filter(|finalizer| *finalizer != finalizer::MODULE)
        .cloned()
        .collect();
    let key = Key::of(module);
    modules.tags.drop_module(&key);
    modules.gates.remove(&key);
    modules.gaps.drop_module(&key);
    modules.refusals.drop_module(&key);
    modules.reports.drop_module(&key);
    modules.history.drop_module(&key);
    modules.decisions.drop_module(K::KIND, &key);
    modules.dependencies.record_state(&Name::of(module), None);
    if left.len() == module.finalizers().len() {
        return Ok(());
    }
    with_finalizers(module, &left, modules).await.map(|_| ())
}

async fn with_finalizers<K: Rolled>(
    module: &K,
    finalizers: &[String],
    modules: &Modules<K>,
) -> Result<K, Error> {
    let name = module.name_any();
    let body = json!({"metadata": {"resourceVersion": module.resource_version(), "finalizers": finalizers}});
    let what = format!("writing the finalizers of {} {name}", K::KIND);
    Ok(call(
        what,
        api::<K, K>(module, modules).patch(&name, &parameters(), &Patch::Merge(body)),
    )
    .await?)
}

/// Whether the module is deleted because its kind or its namespace is deleted: then nothing is withdrawn. An error
/// means: wait.
pub(crate) async fn is_swept_away<K: Rolled>(module: &K, modules: &Modules<K>) -> Result<bool, Error> {
    let client = &modules.context.client;
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crd = format!("{}.{}", K::plural(&()), K::group(&()));
    let kind = call(
        format!("reading CustomResourceDefinition {crd}"),
        crds.get_opt(&crd),
    )
    .await?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = module.namespace().unwrap_or_default();
    let namespace = call(
        format!("reading Namespace {namespace}"),
        namespaces.get_opt(&namespace),
    )
    .await?;
    let going =
        |meta: Option<&kube::core::ObjectMeta>| meta.is_none_or(|meta| meta.deletion_timestamp.is_some());
    Ok(going(kind.as_ref().map(Resource::meta)) || going(namespace.as_ref().map(Resource::meta)))
}

fn api<T, K: Rolled>(module: &K, modules: &Modules<K>) -> Api<T>
where
    T: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    Api::namespaced(
        modules.context.client.clone(),
        &module.namespace().unwrap_or_default(),
    )
}

pub(super) fn parameters() -> PatchParams {
    PatchParams {
        field_manager: Some(manager::CONTROLLER.to_owned()),
        ..PatchParams::default()
    }
}
