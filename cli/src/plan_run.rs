//! `muster plan-run`: starts a plan by hand in a cluster, aborts its run, and retries or skips a step. The control is
//! sent to the cluster with the assignment of the module, and the cluster answers in its status.

use std::time::Duration;

use clap::{Args, Subcommand};
use muster_fleet::{
    connect::{self, Target},
    name::{ModuleName, over_clusters},
    plan_run::{self, Deed, OnRun},
    stage_control::ControlOptions,
};

use crate::{
    exit::code,
    flags::{ClusterName, DryRunFlag, duration},
    output::Out,
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

/// Control runs of a module's plans (kind: Plan) in a cluster: start or abort a run, retry or skip a step
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct PlanRunFlags {
    #[command(subcommand)]
    pub verb: PlanRunVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlanRunVerb {
    Start(StartFlags),
    /// Abort the run in progress: it fails, and its Jobs are deleted
    ///
    /// Exit codes: 0 accepted by the cluster, 1 refused there or not accepted in time, 2 could not be done.
    #[command(before_help = ABORT_EXAMPLES)]
    Abort(OnRunFlags),
    /// Retry a step that failed: it starts again with Jobs under new names, and the run continues
    ///
    /// A revision that was marked bad stays bad until muster rollout retry.
    ///
    /// Exit codes: 0 accepted by the cluster, 1 refused there or not accepted in time, 2 could not be done.
    #[command(before_help = RETRY_EXAMPLES)]
    Retry(StepFlags),
    /// Skip a step: it counts as complete, though nothing verified it
    ///
    /// The cluster's status and the ModuleRevision record it as skipped, with your name and reason.
    ///
    /// Exit codes: 0 accepted by the cluster, 1 refused there or not accepted in time, 2 could not be done.
    #[command(before_help = SKIP_EXAMPLES)]
    Skip(StepFlags),
}

/// Start a plan that does not run automatically with any version
///
/// It starts when the assigned version is complete in the cluster. Its result does not change the health of the
/// version.
///
/// Exit codes: 0 accepted by the cluster, 1 refused there or not accepted in time, 2 could not be done.
#[derive(Args, Debug)]
#[command(before_help = START_EXAMPLES)]
pub(crate) struct StartFlags {
    /// The plan, by its name in the plan file
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
    pub cluster: ClusterName,
    /// Reason, recorded in the module's status and events
    #[arg(long)]
    pub reason: String,
    /// How long to wait for the cluster
    #[arg(long, value_parser = duration, value_name = "DURATION", default_value = "1m")]
    pub timeout: Duration,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

/// Runs a verb of `muster plan-run`.
pub(crate) async fn run(cluster: &Target, flags: PlanRunFlags, out: &Out) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    let (deed, on) = match flags.verb {
        PlanRunVerb::Start(StartFlags { plan, on }) => (Deed::Start { plan }, on),
        PlanRunVerb::Abort(on) => (Deed::Abort, on),
        PlanRunVerb::Retry(StepFlags { step, on }) => (Deed::Retry { step }, on),
        PlanRunVerb::Skip(StepFlags { step, on }) => (Deed::Skip { step }, on),
    };
    plan_run::write((&client, &namespace), &deed, &on.on_run(), out)
        .await
        .map(code)
}

impl OnRunFlags {
    fn on_run(self) -> OnRun {
        OnRun {
            module: self.module,
            cluster: self.cluster.into(),
            word: ControlOptions {
                reason: Some(self.reason),
                dry_run: self.dry_run.by,
            },
            timeout: self.timeout,
        }
    }
}
