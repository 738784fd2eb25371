//! `muster plan-run`: starts a plan by hand in a cluster, ends its run, and retries or skips a step. The control goes with the row of the module
//! into the cluster, which answers in the row's state.

use std::{pin::pin, time::Duration};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use futures::TryStreamExt as _;
use kube::runtime::watcher;
use muster_api::{
    ProxyAssemblage,
    assemblage::SyncState,
    control::Control,
    labels::annotation::PLAN_RUN,
    plan::{ControlTaken, PlanControl},
};
use muster_controllers::runtime::Api;
use muster_dashboard::Kind;
use muster_fleet::{
    Address,
    connect::{self, Target},
    control::{self, DryRun},
    name::{ModuleName, over_clusters},
};
use serde_json::json;
use thiserror::Error;

use crate::{
    exit::{DONE, FAILED},
    flags::{DryRunFlag, duration},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster plan-run start backup module/db --cluster eu-1 --reason 'before the audit'
  muster plan-run retry module/db --cluster eu-1 --step schema/migrate --reason 'the disk was full'";
pub(crate) const START_EXAMPLES: &str = "\
Examples:
  muster plan-run start backup module/db --cluster eu-1 --reason 'before the audit'";
pub(crate) const ABORT_EXAMPLES: &str = "\
Examples:
  muster plan-run abort module/db --cluster eu-1 --reason 'it locks the table'";
pub(crate) const RETRY_EXAMPLES: &str = "\
Examples:
  muster plan-run retry module/db --cluster eu-1 --step schema/migrate --reason 'the disk was full'";
pub(crate) const SKIP_EXAMPLES: &str = "\
Examples:
  muster plan-run skip module/db --cluster eu-1 --step schema/migrate --reason 'done by hand'";

#[derive(Args, Debug)]
pub(crate) struct PlanRunFlags {
    #[command(subcommand)]
    pub verb: PlanRunVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlanRunVerb {
    /// Start a plan that no version runs by itself
    ///
    /// It begins when the version that is assigned is complete in the cluster. However it ends, the version stays as healthy as it is.
    ///
    /// Exit codes: 0 taken by the cluster, 1 refused there or not taken in time, 2 could not be done.
    #[command(before_help = START_EXAMPLES)]
    Start(StartFlags),
    /// Abort the run that is under way: it has failed, and its Jobs are deleted
    ///
    /// Exit codes: 0 taken by the cluster, 1 refused there or not taken in time, 2 could not be done.
    #[command(before_help = ABORT_EXAMPLES)]
    Abort(OnRunFlags),
    /// Retry a step that failed: it begins anew with Jobs of other names, and the run goes on
    ///
    /// A revision that was found bad stays bad until muster rollout retry.
    ///
    /// Exit codes: 0 taken by the cluster, 1 refused there or not taken in time, 2 could not be done.
    #[command(before_help = RETRY_EXAMPLES)]
    Retry(StepFlags),
    /// Skip a step: it counts as complete, without evidence
    ///
    /// The row and the ModuleRevision name it as skipped, with your name and reason.
    ///
    /// Exit codes: 0 taken by the cluster, 1 refused there or not taken in time, 2 could not be done.
    #[command(before_help = SKIP_EXAMPLES)]
    Skip(StepFlags),
}

#[derive(Args, Debug)]
pub(crate) struct StartFlags {
    /// The plan, as the plan file names it
    pub plan: String,
    #[command(flatten)]
    pub on: OnRunFlags,
}

#[derive(Args, Debug)]
pub(crate) struct StepFlags {
    #[command(flatten)]
    pub on: OnRunFlags,
    /// The step, as PHASE/STEP
    #[arg(long)]
    pub step: String,
}

#[derive(Args, Debug)]
pub(crate) struct OnRunFlags {
    /// The module: NAME or module/NAME
    #[arg(value_parser = over_clusters)]
    pub module: ModuleName,
    /// The cluster
    #[arg(long)]
    pub cluster: String,
    /// Reason, recorded in the module's status and events
    #[arg(long)]
    pub reason: String,
    /// How long the cluster is waited for
    #[arg(long, value_parser = duration, value_name = "DURATION", default_value = "1m")]
    pub timeout: Duration,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

/// Why there is no run to be changed.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum PlanRunError {
    /// Plans are of Modules alone.
    #[error("{0} has no plans: they are carried out for Modules")]
    NotModule(ModuleName),
    /// It is applied without one.
    #[error("{0} has no plan: spec.sync.package.plan names none; next: muster why {0}")]
    NoPlan(ModuleName),
    /// The cluster has no row of it.
    #[error("cluster {cluster} has no row of {module}; next: muster why {module} --cluster {cluster}")]
    NoRow {
        /// The cluster.
        cluster: String,
        /// The module.
        module: ModuleName,
    },
    /// No run is reported.
    #[error(
        "cluster {cluster} reports no run of a plan of {module}; next: muster why {module} --cluster {cluster}"
    )]
    NoRun {
        /// The cluster.
        cluster: String,
        /// The module.
        module: ModuleName,
    },
    /// A name that no plan or step can have.
    #[error("{0:?} is not of the form PHASE/STEP")]
    NotStep(String),
    /// A name that no plan can have.
    #[error("{0:?} cannot be the name of a plan")]
    NotPlan(String),
}

/// Runs a verb about runs of plans.
pub(crate) async fn run(cluster: &Target, flags: &PlanRunFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    let (on, done) = match &flags.verb {
        PlanRunVerb::Start(flags) => (&flags.on, format!("start of plan {}", flags.plan)),
        PlanRunVerb::Abort(on) => (on, "abort".to_owned()),
        PlanRunVerb::Retry(flags) => (&flags.on, format!("retry of step {}", flags.step)),
        PlanRunVerb::Skip(flags) => (&flags.on, format!("skip of step {}", flags.step)),
    };
    if on.module.kind != Kind::Module {
        bail!(PlanRunError::NotModule(on.module.clone()));
    }
    let address = Address::of(&client, &namespace, &on.module);
    let object = address.get().await?;
    if object.data.pointer("/spec/sync/package/plan").is_none() {
        bail!(PlanRunError::NoPlan(on.module.clone()));
    }
    let assemblages: Api<ProxyAssemblage> = Api::namespaced(client.clone(), &namespace);
    let state = state(&assemblages, on).await?;
    let what = words(&flags.verb, &state, on)?;
    let control = Control {
        what: format!("{}@{what}", on.cluster),
        by: Some(control::me(&client).await),
        reason: Some(on.reason.clone()),
        at: Some(control::now()),
        until: None,
    };
    control::annotate(&address, PLAN_RUN, &json!(control.to_text()), on.dry_run.by).await?;
    if on.dry_run.by != DryRun::None {
        say!(
            "{}",
            control::done(&address, &format!("{}: {done}", on.cluster), on.dry_run.by)
        );
        return Ok(DONE);
    }
    let id = id(&what, &control);
    let answer = tokio::time::timeout(on.timeout, answered(&assemblages, on, &id)).await;
    Ok(told(on, &done, answer.ok().transpose()?))
}

/// What came of it, for people.
fn told(on: &OnRunFlags, done: &str, answer: Option<(ControlTaken, Option<String>)>) -> u8 {
    let OnRunFlags { module, cluster, .. } = on;
    let next = format!("next: muster why {module} --cluster {cluster}");
    match answer {
        Some((ControlTaken { refused: None, .. }, line)) => {
            let stands = line.map(|line| format!(": {line}")).unwrap_or_default();
            say!("{module}: {cluster}: {done} taken{stands}");
            say!("{next}");
            DONE
        }
        Some((
            ControlTaken {
                refused: Some(why), ..
            },
            _,
        )) => {
            say!("{module}: {cluster}: {done} refused: {why}");
            FAILED
        }
        None => {
            say!(
                "{module}: {cluster}: {done} is written, and the cluster has not taken it within {}s; it is taken when the cluster is reached",
                on.timeout.as_secs()
            );
            say!("{next}");
            FAILED
        }
    }
}

/// What tells the control from others, as its reader makes it.
fn id(what: &str, control: &Control) -> String {
    let said = control.at.map(|at| at.to_string()).unwrap_or_default();
    PlanControl::parse(what, &said, None).map_or_else(String::new, |control| control.id)
}

/// What follows `CLUSTER@` in the annotation.
fn words(verb: &PlanRunVerb, state: &SyncState, on: &OnRunFlags) -> Result<String, PlanRunError> {
    let run = || {
        let run = state.plan_run.as_ref().map(|run| run.uid.as_str());
        run.ok_or_else(|| PlanRunError::NoRun {
            cluster: on.cluster.clone(),
            module: on.module.clone(),
        })
    };
    let words = match verb {
        PlanRunVerb::Start(flags) => format!("start/{}", flags.plan),
        PlanRunVerb::Abort(_) => format!("abort/{}", run()?),
        PlanRunVerb::Retry(flags) => format!("retry/{}/{}", run()?, flags.step),
        PlanRunVerb::Skip(flags) => format!("skip/{}/{}", run()?, flags.step),
    };
    match (PlanControl::parse(&words, "", None), verb) {
        (Some(_), _) => Ok(words),
        (None, PlanRunVerb::Start(flags)) => Err(PlanRunError::NotPlan(flags.plan.clone())),
        (None, PlanRunVerb::Retry(flags) | PlanRunVerb::Skip(flags)) => {
            Err(PlanRunError::NotStep(flags.step.clone()))
        }
        (None, PlanRunVerb::Abort(_)) => Err(PlanRunError::NoRun {
            cluster: on.cluster.clone(),
            module: on.module.clone(),
        }),
    }
}

/// What the cluster reports of the module.
async fn state(assemblages: &Api<ProxyAssemblage>, on: &OnRunFlags) -> anyhow::Result<SyncState> {
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

/// Waits until the cluster says what came of the control; with where the plan stands then.
async fn answered(
    assemblages: &Api<ProxyAssemblage>,
    on: &OnRunFlags,
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
    use clap::Parser as _;
    use muster_api::plan::PlanRunReport;

    use super::*;
    use crate::args::{Arguments, Verb};

    fn check(words: &[&str], run: Option<&str>, expect: Result<&str, &str>) {
        let all = ["muster", "plan-run"].iter().chain(words);
        let all = all.chain(&["--cluster", "eu-1", "--reason", "a test"]);
        let Verb::PlanRun(flags) = Arguments::try_parse_from(all).unwrap().verb else {
            panic!("{words:?} is another verb");
        };
        let state = SyncState {
            plan_run: run.map(|uid| PlanRunReport {
                uid: uid.to_owned(),
                control: None,
            }),
            ..SyncState::default()
        };
        let on = match &flags.verb {
            PlanRunVerb::Start(flags) => &flags.on,
            PlanRunVerb::Abort(on) => on,
            PlanRunVerb::Retry(flags) | PlanRunVerb::Skip(flags) => &flags.on,
        };
        let found = super::words(&flags.verb, &state, on).map_err(|error| error.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expect, "{words:?}");
    }

    #[test]
    fn a_control_names_the_run_that_the_cluster_reports() {
        check(&["start", "backup", "module/db"], None, Ok("start/backup"));
        check(&["abort", "db"], Some("1a2b"), Ok("abort/1a2b"));
        check(
            &["retry", "db", "--step", "schema/migrate"],
            Some("1a2b"),
            Ok("retry/1a2b/schema/migrate"),
        );
        check(
            &["skip", "db", "--step", "schema/migrate"],
            Some("1a2b"),
            Ok("skip/1a2b/schema/migrate"),
        );
    }

    #[test]
    fn bad_input_writes_nothing() {
        check(
            &["start", "Back/up", "db"],
            None,
            Err("\"Back/up\" cannot be the name of a plan"),
        );
        check(
            &["skip", "db", "--step", "migrate"],
            Some("1a2b"),
            Err("\"migrate\" is not of the form PHASE/STEP"),
        );
        let none =
            "cluster eu-1 reports no run of a plan of module/db; next: muster why module/db --cluster eu-1";
        check(&["abort", "db"], None, Err(none));
    }
}
