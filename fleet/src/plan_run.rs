//! Controls of a plan's run in a cluster: starts one by hand, aborts it, and retries or skips a step. The control is
//! sent to the cluster with the assignment of the module, and the cluster answers in its status.

use std::{pin::pin, time::Duration};

use anyhow::{Context as _, bail};
use futures::TryStreamExt as _;
use kube::{Client, runtime::watcher};
use muster_api::{
    ProxyAssemblage,
    assemblage::SyncState,
    control::Control,
    labels::annotation::PLAN_RUN,
    plan::{ControlTaken, PlanControl},
};
use muster_controllers::runtime::Api;
use muster_dashboard::Kind;
use serde_json::json;
use thiserror::Error;

use crate::{
    ObjectAddress, Reporter,
    control::{self, DryRun},
    name::ModuleName,
    stage_control::ControlOptions,
};

/// A control of a plan's run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Starts a plan that no version runs automatically.
    Start {
        /// The plan, by its name in the plan file.
        plan: String,
    },
    /// Aborts the run in progress: it fails.
    Abort,
    /// Restarts a step that failed.
    Retry {
        /// The step, as PHASE/STEP.
        step: String,
    },
    /// Skips a step: it counts as complete.
    Skip {
        /// The step, as PHASE/STEP.
        step: String,
    },
}

impl Deed {
    fn description(&self) -> String {
        match self {
            Self::Start { plan } => format!("start of plan {plan}"),
            Self::Abort => "abort".to_owned(),
            Self::Retry { step } => format!("retry of step {step}"),
            Self::Skip { step } => format!("skip of step {step}"),
        }
    }
}

/// The run to control.
#[derive(Clone, Debug)]
pub struct OnRun {
    /// Module of the plan.
    pub module: ModuleName,
    /// Name of the cluster.
    pub cluster: String,
    /// The reason, and whether the write is a dry run.
    pub word: ControlOptions,
    /// How long to wait for the cluster.
    pub timeout: Duration,
}

/// Why a run cannot be controlled.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum PlanRunError {
    /// Only Modules have plans.
    #[error("{0} has no plans: only Modules have them")]
    NotModule(ModuleName),
    /// The module has no plan.
    #[error("{0} has no plan: spec.sync.package.plan is not set; next: muster why {0}")]
    NoPlan(ModuleName),
    /// The cluster has no assignment of the module.
    #[error("cluster {cluster} has no assignment of {module}; next: muster why {module} --cluster {cluster}")]
    NoRow {
        /// Name of the cluster.
        cluster: String,
        /// The module.
        module: ModuleName,
    },
    /// The cluster reports no run.
    #[error(
        "cluster {cluster} reports no run of a plan of {module}; next: muster why {module} --cluster {cluster}"
    )]
    NoRun {
        /// Name of the cluster.
        cluster: String,
        /// The module.
        module: ModuleName,
    },
    /// A text that is not PHASE/STEP.
    #[error("{0:?} is not of the form PHASE/STEP")]
    NotStep(String),
    /// An invalid name of a plan.
    #[error("{0:?} cannot be the name of a plan")]
    NotPlan(String),
}

/// Writes the control to the module, and waits until the cluster answers; false if the cluster refuses, or does not
/// answer in time.
pub async fn write(
    (client, namespace): (&Client, &str),
    deed: &Deed,
    on: &OnRun,
    reporter: &dyn Reporter,
) -> anyhow::Result<bool> {
    if on.module.kind != Kind::Module {
        bail!(PlanRunError::NotModule(on.module.clone()));
    }
    let (done, dry_run) = (deed.description(), on.word.dry_run);
    let address = ObjectAddress::of(client, namespace, &on.module);
    let object = address.get().await?;
    if object.data.pointer("/spec/sync/package/plan").is_none() {
        bail!(PlanRunError::NoPlan(on.module.clone()));
    }
    let assemblages: Api<ProxyAssemblage> = Api::namespaced(client.clone(), namespace);
    let state = state(&assemblages, on).await?;
    let what = control_text(deed, &state, on)?;
    let control = on.word.control(client, &format!("{}@{what}", on.cluster)).await;
    control::annotate(&address, PLAN_RUN, &json!(control.to_text()), dry_run).await?;
    if dry_run != DryRun::None {
        let verb = format!("{}: {done}", on.cluster);
        reporter.line(&control::done(&address, &verb, dry_run))?;
        return Ok(true);
    }
    let id = id(&what, &control);
    let answer = tokio::time::timeout(on.timeout, answered(&assemblages, on, &id)).await;
    report_answer(on, &done, answer.ok().transpose()?, reporter)
}

/// Prints the answer of the cluster; returns whether the control was accepted.
fn report_answer(
    on: &OnRun,
    done: &str,
    answer: Option<(ControlTaken, Option<String>)>,
    reporter: &dyn Reporter,
) -> anyhow::Result<bool> {
    let OnRun { module, cluster, .. } = on;
    let next = format!("next: muster why {module} --cluster {cluster}");
    match answer {
        Some((ControlTaken { refused: None, .. }, line)) => {
            let suffix = line.map(|line| format!(": {line}")).unwrap_or_default();
            reporter.line(&format!("{module}: {cluster}: {done} accepted{suffix}"))?;
            reporter.line(&next)?;
            Ok(true)
        }
        Some((
            ControlTaken {
                refused: Some(why), ..
            },
            _,
        )) => {
            reporter.line(&format!("{module}: {cluster}: {done} refused: {why}"))?;
            Ok(false)
        }
        None => {
            reporter.line(&format!(
                "{module}: {cluster}: {done} is written, but the cluster did not accept it within {}s; it is accepted once the cluster is reachable",
                on.timeout.as_secs()
            ))?;
            reporter.line(&next)?;
            Ok(false)
        }
    }
}

/// The ID of the control, as its reader computes it.
fn id(what: &str, control: &Control) -> String {
    let written_at = control.at.map(|at| at.to_string()).unwrap_or_default();
    PlanControl::parse(what, &written_at, None).map_or_else(String::new, |control| control.id)
}

/// The text after `CLUSTER@` in the annotation.
fn control_text(deed: &Deed, state: &SyncState, on: &OnRun) -> Result<String, PlanRunError> {
    let run = || {
        let run = state.plan_run.as_ref().map(|run| run.uid.as_str());
        run.ok_or_else(|| PlanRunError::NoRun {
            cluster: on.cluster.clone(),
            module: on.module.clone(),
        })
    };
    let words = match deed {
        Deed::Start { plan } => format!("start/{plan}"),
        Deed::Abort => format!("abort/{}", run()?),
        Deed::Retry { step } => format!("retry/{}/{step}", run()?),
        Deed::Skip { step } => format!("skip/{}/{step}", run()?),
    };
    match (PlanControl::parse(&words, "", None), deed) {
        (Some(_), _) => Ok(words),
        (None, Deed::Start { plan }) => Err(PlanRunError::NotPlan(plan.clone())),
        (None, Deed::Retry { step } | Deed::Skip { step }) => Err(PlanRunError::NotStep(step.clone())),
        (None, Deed::Abort) => Err(PlanRunError::NoRun {
            cluster: on.cluster.clone(),
            module: on.module.clone(),
        }),
    }
}

/// The cluster's report about the module.
async fn state(assemblages: &Api<ProxyAssemblage>, on: &OnRun) -> anyhow::Result<SyncState> {
    let read = assemblages.get_opt(&on.cluster).await;
    let read = read.with_context(|| format!("reading proxyassemblage/{}", on.cluster))?;
    let state = read.as_ref().and_then(|read| of(read, &on.module.name));
    Ok(state.cloned().ok_or_else(|| PlanRunError::NoRow {
        cluster: on.cluster.clone(),
        module: on.module.clone(),
    })?)
}

fn of<'a>(assemblage: &'a ProxyAssemblage, module: &str) -> Option<&'a SyncState> {
    let status = assemblage.status.as_ref()?;
    let state = status.syncs.iter().find(|state| state.name == module)?;
    Some(state)
}

/// Waits until the cluster answers the control; returns the answer and the current status of the plan.
async fn answered(
    assemblages: &Api<ProxyAssemblage>,
    on: &OnRun,
    id: &str,
) -> anyhow::Result<(ControlTaken, Option<String>)> {
    let watched = watcher::watch_object(assemblages.clone().for_watching()?, &on.cluster);
    let mut objects = pin!(watched);
    while let Some(object) = objects.try_next().await? {
        let object = object.with_context(|| format!("proxyassemblage/{} is gone", on.cluster))?;
        let state = of(&object, &on.module.name);
        let run = state.and_then(|state| state.plan_run.as_ref());
        let taken = run
            .and_then(|run| run.control.clone())
            .filter(|taken| taken.id == id);
        if let Some(taken) = taken {
            return Ok((taken, state.and_then(|state| state.plan.clone())));
        }
    }
    bail!("the watch on proxyassemblage/{} ended", on.cluster)
}

#[cfg(test)]
mod tests {
    use muster_api::plan::PlanRunReport;

    use super::*;

    fn check(deed: &Deed, run: Option<&str>, expect: Result<&str, &str>) {
        let on = OnRun {
            module: "module/db".parse().unwrap(),
            cluster: "eu-1".to_owned(),
            word: ControlOptions::default(),
            timeout: Duration::ZERO,
        };
        let state = SyncState {
            plan_run: run.map(|uid| PlanRunReport {
                uid: uid.to_owned(),
                control: None,
            }),
            ..SyncState::default()
        };
        let found = control_text(deed, &state, &on).map_err(|error| error.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expect, "{deed:?}");
    }

    fn start(plan: &str) -> Deed {
        let plan = plan.to_owned();
        Deed::Start { plan }
    }

    fn skip(step: &str) -> Deed {
        let step = step.to_owned();
        Deed::Skip { step }
    }

    #[test]
    fn a_control_names_the_run_that_the_cluster_reports() {
        check(&start("backup"), None, Ok("start/backup"));
        check(&Deed::Abort, Some("1a2b"), Ok("abort/1a2b"));
        let step = "schema/migrate".to_owned();
        check(
            &Deed::Retry { step },
            Some("1a2b"),
            Ok("retry/1a2b/schema/migrate"),
        );
        check(
            &skip("schema/migrate"),
            Some("1a2b"),
            Ok("skip/1a2b/schema/migrate"),
        );
    }

    #[test]
    fn bad_input_writes_nothing() {
        let not_plan = "\"Back/up\" cannot be the name of a plan";
        check(&start("Back/up"), None, Err(not_plan));
        let not_step = "\"migrate\" is not of the form PHASE/STEP";
        check(&skip("migrate"), Some("1a2b"), Err(not_step));
        let none =
            "cluster eu-1 reports no run of a plan of module/db; next: muster why module/db --cluster eu-1";
        check(&Deed::Abort, None, Err(none));
    }
}
