//! `muster rollout approve`, `promote`, `abort`, `retry` and `withdraw`: what a person says once about a stage, a revision, or a withdrawal.

use anyhow::bail;
use clap::Args;
use kube::Client;
use muster_dashboard::{Choice, HeldWithdrawal};
use muster_fleet::{
    name::{ModuleName, RolloutName, with_content},
    once::{self, Withdrawal},
};

use crate::{
    exit::{DONE, FAILED, code},
    explain,
    flags::WordFlags,
    machines::MachineError,
    output::{self, Terminal},
    zonerollout,
};

pub(crate) const APPROVE_EXAMPLES: &str = "\
Examples:
  muster rollout approve module/podinfo                       the only stage that asks for it
  muster rollout approve module/podinfo --stage canary --reason 'dashboards are green'";

pub(crate) const PROMOTE_EXAMPLES: &str = "\
Examples:
  muster rollout promote module/podinfo --stage canary --reason 'the fix is urgent'";

pub(crate) const ABORT_EXAMPLES: &str = "\
Examples:
  muster rollout abort module/podinfo --reason 'wrong branch'";

pub(crate) const RETRY_EXAMPLES: &str = "\
Examples:
  muster rollout retry module/podinfo --reason 'the registry was down'
  muster rollout retry zonerollout/ingester -n mimir";

pub(crate) const WITHDRAW_EXAMPLES: &str = "\
Examples:
  muster rollout withdraw module/podinfo                      which clusters would lose it
  muster rollout withdraw module/podinfo --acknowledge --reason 'it moved to another team'";

#[derive(Args, Debug)]
pub(crate) struct StageFlags {
    /// module/NAME, bootstrapmodule/NAME, nodemodule/NAME or clusterupgrade/NAME
    pub module: ModuleName,
    /// The stage; may be left out where only one asks for approval
    #[arg(long)]
    pub stage: Option<String>,
    #[command(flatten)]
    pub word: WordFlags,
}

#[derive(Args, Debug)]
pub(crate) struct RevisionFlags {
    /// module/NAME, bootstrapmodule/NAME, nodemodule/NAME or clusterupgrade/NAME
    pub module: ModuleName,
    /// The revision, or at least 8 digits of it; otherwise what the module asks for now
    #[arg(long)]
    pub revision: Option<String>,
    #[command(flatten)]
    pub word: WordFlags,
}

#[derive(Args, Debug)]
pub(crate) struct RetryFlags {
    /// module/NAME, bootstrapmodule/NAME, nodemodule/NAME, clusterupgrade/NAME or zonerollout/NAME
    pub rollout: RolloutName,
    /// The revision, or at least 8 digits of it; otherwise what is asked for now
    #[arg(long)]
    pub revision: Option<String>,
    #[command(flatten)]
    pub word: WordFlags,
}

#[derive(Args, Debug)]
pub(crate) struct WithdrawFlags {
    /// module/NAME, bootstrapmodule/NAME or nodemodule/NAME
    #[arg(value_parser = with_content)]
    pub module: ModuleName,
    /// Remove the module from these clusters; otherwise they are only shown
    #[arg(long)]
    pub acknowledge: bool,
    #[command(flatten)]
    pub word: WordFlags,
}

/// A stage may be passed, or is.
pub(crate) async fn approve(
    client: &Client,
    namespace: &str,
    flags: &StageFlags,
    promote: bool,
) -> anyhow::Result<u8> {
    let what = (&flags.module, flags.stage.as_deref());
    once::approve((client, namespace), what, &flags.word.word(), promote, &Terminal)
        .await
        .map(code)
}

/// What is being rolled out goes no further.
pub(crate) async fn abort(client: &Client, namespace: &str, flags: &RevisionFlags) -> anyhow::Result<u8> {
    let what = (&flags.module, flags.revision.as_deref());
    once::abort((client, namespace), what, &flags.word.word(), &Terminal)
        .await
        .map(code)
}

/// What was condemned, or aborted, is tried again.
pub(crate) async fn retry(client: &Client, namespace: &str, flags: &RetryFlags) -> anyhow::Result<u8> {
    let module = match &flags.rollout {
        RolloutName::Module(module) => module,
        RolloutName::Zones(name) => {
            return zonerollout::retry(client, namespace, name, flags.revision.as_deref(), &flags.word).await;
        }
        RolloutName::Machine(name) => bail!(MachineError::NotARollout {
            machine: name.clone(),
            verb: "retry"
        }),
    };
    let what = (module, flags.revision.as_deref());
    once::retry((client, namespace), what, &flags.word.word(), &Terminal)
        .await
        .map(code)
}

/// What the brake holds is shown, or is withdrawn.
pub(crate) async fn withdraw(client: &Client, namespace: &str, flags: &WithdrawFlags) -> anyhow::Result<u8> {
    let WithdrawFlags {
        module,
        acknowledge,
        word,
    } = flags;
    match once::withdraw(client, namespace, module, *acknowledge, &word.word()).await? {
        Withdrawal::None { words, within } if *acknowledge => {
            complain!("error: {words}; next: muster why {module}{within}");
            return Ok(FAILED);
        }
        Withdrawal::None { words, .. } => say!("{words}"),
        Withdrawal::Held(held) => output::print(&shown(&held, output::width())),
        Withdrawal::Acknowledged(text) => say!("{text}"),
    }
    Ok(DONE)
}

/// What would be lost, and both ways on.
fn shown(held: &HeldWithdrawal, width: usize) -> Vec<String> {
    let HeldWithdrawal {
        clusters: _,
        sentence,
        remove,
        keep: Choice { what, command },
    } = held;
    let mut lines = output::wrapped(
        &format!("{sentence}; nothing is withdrawn until you say so"),
        width,
    );
    lines.extend(explain::advice(
        "Next: to remove it from these clusters",
        Some(remove),
        width,
    ));
    lines.extend(explain::advice(&format!("Or: {what}"), command.as_deref(), width));
    lines
}
