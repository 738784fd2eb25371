//! Manual controls of plan runs (`muster plan-run`): which rows carry them, their results, and which steps of a
//! revision were skipped. Pure.
//!
//! A control is set in the module's annotation `fleet.muster.dev/plan-run`, written into the row of its cluster, and
//! applied there once.

use std::collections::BTreeMap;

use jiff::Timestamp;
use json_patch::Patch;
use muster_api::{
    control_status::{ControlStatus, Effect},
    labels::annotation,
    plan::{PlanAction, PlanControl},
};

use super::{
    control_effects,
    controls::Controls,
    facts::ObservedCluster,
    intent::{self, Write},
    rows::{Asks, ObservedRow},
};

/// The controls that rows do not carry yet, by cluster.
pub(crate) fn writes(
    controls: &Controls,
    clusters: &[ObservedCluster],
    now: Timestamp,
) -> Vec<(String, Patch)> {
    let write = |(cluster, control): &(String, PlanControl)| {
        let row = carrying(clusters, cluster)?;
        let is_written = row.control.as_ref() == Some(&control.id) || is_taken(row, control);
        let write = (!is_written).then(|| intent::control(row, control))?;
        match write {
            Write::Patch(patch) => Some((cluster.clone(), patch)),
            Write::Append { .. } | Write::Remove(..) => None,
        }
    };
    controls.plan_runs(now).filter_map(write).collect()
}

/// The result of each control.
pub(crate) fn effects(
    controls: &Controls,
    clusters: &[ObservedCluster],
    now: Timestamp,
) -> Vec<ControlStatus> {
    let status_of = |(cluster, control): &(String, PlanControl)| {
        let (effect, message) = match carrying(clusters, cluster) {
            None => (
                Effect::WithoutEffect,
                "the cluster has no row of this module with a plan".to_owned(),
            ),
            Some(row) => match refused(row, control) {
                Some(why) => (Effect::WithoutEffect, format!("{}: {why}", describe(control))),
                None => (Effect::Applied, describe(control)),
            },
        };
        control_effects::entry(annotation::PLAN_RUN, Some(cluster), effect, &message)
    };
    controls.plan_runs(now).map(status_of).collect()
}

/// The skipped steps, by the revision in whose rollout they were skipped.
pub(crate) fn skipped(
    controls: &Controls,
    clusters: &[ObservedCluster],
    now: Timestamp,
) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (cluster, control) in controls.plan_runs(now) {
        let row = carrying(clusters, cluster).filter(|row| refused(row, control).is_none());
        let revision = row.and_then(|row| row.revision.clone());
        if let (PlanAction::Skip, Some(revision)) = (control.action, revision) {
            let entry = format!("{cluster}: {}", describe(control));
            all.entry(revision).or_default().push(entry);
        }
    }
    all
}

/// The row of a cluster, if its sync has a plan.
fn carrying<'a>(clusters: &'a [ObservedCluster], cluster: &str) -> Option<&'a ObservedRow> {
    let observed = clusters.iter().find(|observed| observed.name == cluster)?;
    let row = observed.row.as_deref()?;
    // For a sync that is being withdrawn, the cluster's report says whether it has a plan.
    let has_plan = row.plan || row.report.as_ref().is_some_and(|report| report.plan.is_some());
    (row.asks != Asks::Bare && has_plan).then_some(row)
}

fn is_taken(row: &ObservedRow, control: &PlanControl) -> bool {
    let taken = row.report.as_ref().and_then(|report| report.taken.as_ref());
    taken.is_some_and(|taken| taken.id == control.id)
}

/// Why the cluster rejected the control, if it did.
fn refused<'a>(row: &'a ObservedRow, control: &PlanControl) -> Option<&'a str> {
    let taken = row.report.as_ref()?.taken.as_ref()?;
    (taken.id == control.id).then_some(taken.refused.as_deref())?
}

/// A control in a message: `skip of step schema/migrate in run 1a2b by ann (reason)`.
fn describe(control: &PlanControl) -> String {
    let action = control.action.as_str();
    let plan = control.plan.iter().map(|plan| format!(" of plan {plan}"));
    let step = control.step.iter().map(|step| format!(" of step {step}"));
    let run = control.run.iter().map(|run| format!(" in run {run}"));
    let parts: String = plan.chain(step).chain(run).collect();
    format!("{action}{parts}{}", control.reason.as_deref().unwrap_or_default())
}
