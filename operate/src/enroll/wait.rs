//! Waits until the controller reports that it reached a cluster: from where it runs, with the given credential.
//!
//! The controller reports success by its record of the cluster's identity, and failure by events about the Cluster; the
//! status of modules and assemblages about the cluster lags behind.

use std::time::Duration;

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Event},
};
use kube::{ResourceExt, api::ListParams};
use muster_api::{
    ProxyAssemblage,
    cluster::NotReady,
    conditions::{REACHABLE, find},
    labels::manager,
    names,
};
use muster_controllers::runtime::{Api, CallError, Clock, call_within};
use muster_fleet::apply::DEADLINE;
use muster_kit::age;

use super::{address::ServerAddress, management::Plane};
use crate::steps::StepRefusal;

/// How often it is checked.
const EVERY: Duration = Duration::from_secs(1);
/// How long the controller needs to notice a changed Secret and to fail with it.
const SETTLE: Duration = Duration::from_secs(10);

/// What the controller reported about a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReachReport {
    /// It reached the cluster.
    Reached,
    /// It reached the cluster with an earlier credential, and has not reported about the current one.
    Before,
    /// It could not reach the cluster: the reason and message.
    NotReached(String, String),
    /// No report yet.
    Nothing,
}

/// Waits until the controller has reached the cluster, at most `limit`; returns the last report.
pub(crate) async fn reached(
    plane: &Plane,
    name: &str,
    uid: &str,
    limit: Duration,
) -> Result<ReachReport, CallError> {
    let mut last = ReachReport::Nothing;
    let looking = async {
        let mut ticks = tokio::time::interval(EVERY);
        loop {
            ticks.tick().await;
            match controller_report(plane, name, uid).await? {
                ReachReport::Reached => return Ok(()),
                ReachReport::Nothing | ReachReport::Before => {}
                not_reached @ ReachReport::NotReached(..) => last = not_reached,
            }
        }
    };
    match tokio::time::timeout(limit, looking).await {
        Ok(Ok(())) => Ok(ReachReport::Reached),
        Ok(Err(error)) => Err(error),
        Err(_elapsed) => Ok(last),
    }
}

/// For a known cluster with changed access: its record is from the previous access, so only reports of the assemblage
/// count, after the controller had time to try.
pub(crate) async fn reached_with_new_access(
    plane: &Plane,
    name: &str,
    limit: Duration,
) -> Result<ReachReport, CallError> {
    tokio::time::sleep(SETTLE.min(limit)).await;
    let mut last = ReachReport::Before;
    let looking = async {
        let mut ticks = tokio::time::interval(EVERY);
        loop {
            ticks.tick().await;
            match assemblage_report(plane, name).await? {
                not_reached @ ReachReport::NotReached(..) => last = not_reached,
                report => return Ok(report),
            }
        }
    };
    match tokio::time::timeout(limit.saturating_sub(SETTLE), looking).await {
        Ok(result) => result,
        Err(_elapsed) => Ok(last),
    }
}

/// The assemblage's report about the reachability of a cluster.
async fn assemblage_report(plane: &Plane, name: &str) -> Result<ReachReport, CallError> {
    let proxies: Api<ProxyAssemblage> = Api::namespaced(plane.client.clone(), &plane.namespace);
    let reading = proxies.get_opt(name);
    let proxy = call_within(DEADLINE, format!("reading ProxyAssemblage {name}"), reading).await?;
    let conditions = proxy
        .and_then(|proxy| proxy.status)
        .map(|status| status.conditions)
        .unwrap_or_default();
    Ok(match find(&conditions, REACHABLE) {
        Some(reachable) if reachable.status == "True" => ReachReport::Reached,
        Some(reachable) => ReachReport::NotReached(reachable.reason.clone(), reachable.message.clone()),
        None => ReachReport::Before,
    })
}

/// Whether the controller has a record of the cluster.
pub(crate) async fn is_recorded(plane: &Plane, name: &str, uid: &str) -> Result<bool, CallError> {
    let record = names::cluster_identity(&plane.namespace, name, uid);
    let records: Api<ConfigMap> = Api::namespaced(plane.client.clone(), &plane.namespace);
    let reading = records.get_metadata_opt(&record);
    let recorded = call_within(DEADLINE, format!("reading ConfigMap {record}"), reading).await?;
    Ok(recorded.is_some())
}

async fn controller_report(plane: &Plane, name: &str, uid: &str) -> Result<ReachReport, CallError> {
    if is_recorded(plane, name, uid).await? {
        return Ok(ReachReport::Reached);
    }
    let events: Api<Event> = Api::namespaced(plane.client.clone(), &plane.namespace);
    let about = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
    let listed = call_within(
        DEADLINE,
        format!("listing events about Cluster {name}"),
        events.list(&about),
    )
    .await?;
    let mut warnings: Vec<&Event> = listed
        .items
        .iter()
        .filter(|event| is_of_controller(event))
        .collect();
    warnings.sort_by_key(|event| (event.event_time.as_ref().map(|time| time.0), event.name_any()));
    let last = warnings.last().map(|event| {
        let (reason, message) = (event.reason.clone(), event.message.clone());
        ReachReport::NotReached(reason.unwrap_or_default(), message.unwrap_or_default())
    });
    Ok(last.unwrap_or(ReachReport::Nothing))
}

fn is_of_controller(event: &Event) -> bool {
    let component = event
        .source
        .as_ref()
        .and_then(|source| source.component.as_deref());
    event.type_.as_deref() == Some("Warning")
        && [event.reporting_component.as_deref(), component].contains(&Some(manager::CONTROLLER))
}

/// Why the cluster was not reached in time, and what to do.
pub(crate) async fn refusal(
    plane: &Plane,
    name: &str,
    address: &ServerAddress,
    report: &ReachReport,
    limit: Duration,
) -> StepRefusal {
    let waited = limit.as_secs();
    let ReachReport::NotReached(reason, message) = report else {
        return no_controller_refusal(plane, name, waited).await;
    };
    let refusal = StepRefusal::failed(format!(
        "the management cluster did not reach {name} within {waited} s: {reason}: {message}"
    ));
    let is = |not_ready: NotReady| reason == not_ready.as_str();
    if is(NotReady::Unreachable) {
        let reach = address.reach().note_text();
        let reach = reach.map_or_else(String::new, |words| format!(" {} {words}.", address.server));
        refusal.remedy(format!(
            "It tried {} from where the controller runs.{reach} Run this again with --server https://HOST:PORT, an address that can be reached from there",
            address.server
        ))
    } else if is(NotReady::CredentialsRejected) {
        refusal.remedy(
            "the token is not accepted: delete Secret muster-system/muster-management in the cluster, and run this again",
        )
    } else {
        refusal.remedy(format!("muster tree cluster/{name} shows more as it changes"))
    }
}

/// Without any report: checks that a controller runs.
async fn no_controller_refusal(plane: &Plane, name: &str, waited: u64) -> StepRefusal {
    let namespace = &plane.namespace;
    let leases: Api<Lease> = Api::namespaced(plane.client.clone(), namespace);
    let reading = leases.get_opt(manager::CONTROLLER);
    let lease = call_within(DEADLINE, "reading the Lease of the controller", reading).await;
    let spec = lease.ok().flatten().and_then(|lease| lease.spec);
    let since = spec
        .as_ref()
        .and_then(|spec| spec.renew_time.as_ref())
        .map(|time| {
            let now = Clock::system().now();
            now.duration_since(time.0).as_secs().max(0)
        });
    match since {
        Some(since) if since < 60 => StepRefusal::failed(format!("the controller reported nothing about {name} within {waited} s"))
            .remedy("see its log: kubectl logs -n muster-system deployment/muster-controller"),
        Some(since) => StepRefusal::failed(format!(
            "no controller tried to reach {name} within {waited} s: the controller for namespace {namespace} was last seen {} ago", age::human(since)
        ))
        .remedy("why: muster check"),
        None => StepRefusal::failed(format!(
            "no controller tried to reach {name} within {waited} s: no controller runs for namespace {namespace} (there is no Lease)"
        ))
        .remedy("install it: muster install --export --management --crds | kubectl apply --server-side -f -"),
    }
}
