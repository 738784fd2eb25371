//! `muster rollout`: follow and control a rollout.

mod abandon;
mod abort;
mod approve;
mod histories;
mod history;
mod pause;
mod promote;
mod release;
mod resume;
mod retry;
mod status;
mod undo;
mod withdraw;

use clap::{Args, Subcommand};
use muster_fleet::connect::{self, Target};

use self::{
    abandon::AbandonFlags, abort::AbortFlags, approve::ApproveFlags, history::HistoryFlags,
    pause::PauseFlags, promote::PromoteFlags, release::ReleaseFlags, resume::ResumeFlags, retry::RetryFlags,
    status::StatusFlags, undo::UndoFlags, withdraw::WithdrawFlags,
};
use crate::output::Out;

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster rollout status module/podinfo
  muster rollout history module/podinfo
  muster rollout pause module/podinfo --for 2h --reason 'freeze until the release'
  muster rollout undo module/podinfo
  muster rollout status nodemodule/fabric --context eu-1      nodes of that cluster";

/// Follow and control the rollout of a module, of a NodeModule, or of the zones of a ZoneRollout
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct RolloutFlags {
    #[command(subcommand)]
    pub verb: RolloutVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RolloutVerb {
    Status(StatusFlags),
    Pause(PauseFlags),
    Resume(ResumeFlags),
    Approve(ApproveFlags),
    Promote(PromoteFlags),
    Abort(AbortFlags),
    Retry(RetryFlags),
    Withdraw(WithdrawFlags),
    Release(ReleaseFlags),
    Abandon(AbandonFlags),
    History(HistoryFlags),
    Undo(UndoFlags),
}

/// Runs a verb of `muster rollout`.
pub(crate) async fn run(cluster: &Target, flags: &RolloutFlags, out: &Out) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    match &flags.verb {
        RolloutVerb::Status(flags) => status::run(&client, &namespace, flags, out).await,
        RolloutVerb::Pause(flags) => pause::run(&client, &namespace, flags, out).await,
        RolloutVerb::Resume(flags) => resume::run(&client, &namespace, flags, out).await,
        RolloutVerb::Approve(flags) => approve::run(&client, &namespace, flags, out).await,
        RolloutVerb::Promote(flags) => promote::run(&client, &namespace, flags, out).await,
        RolloutVerb::Abort(flags) => abort::run(&client, &namespace, flags, out).await,
        RolloutVerb::Retry(flags) => retry::run(&client, &namespace, flags, out).await,
        RolloutVerb::Withdraw(flags) => withdraw::run(&client, &namespace, flags, out).await,
        RolloutVerb::Release(flags) => release::run(&client, flags, out).await,
        RolloutVerb::Abandon(flags) => abandon::run(&client, flags, out).await,
        RolloutVerb::History(flags) => history::run(&client, &namespace, flags, out).await,
        RolloutVerb::Undo(flags) => undo::run(&client, &namespace, flags, out).await,
    }
}
