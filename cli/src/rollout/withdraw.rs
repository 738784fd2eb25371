//! `muster rollout withdraw`: shows or acknowledges a withdrawal that the brake holds.

use clap::Args;
use kube::Client;
use muster_dashboard::{Choice, HeldWithdrawal};
use muster_fleet::{
    name::{ModuleName, with_content},
    stage_control::{self, Withdrawal},
};

use crate::{
    exit::{DONE, FAILED},
    explain,
    flags::WordFlags,
    output::{self, Out},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster rollout withdraw module/podinfo                      which clusters would lose it
  muster rollout withdraw module/podinfo --acknowledge --reason 'it moved to another team'";

/// Show a withdrawal that waits because it affects many clusters, and acknowledge it
///
/// A module that is deleted, or stops selecting many clusters at once, is withdrawn only after an acknowledgement.
/// Without --acknowledge this prints which clusters would lose it, and changes nothing. With it, it writes the
/// annotation fleet.muster.dev/acknowledge-withdrawal for exactly these clusters, with your name, reason and time.
///
/// Exit codes: 0 shown or acknowledged, 1 no withdrawal is waiting, 2 could not be done.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct WithdrawFlags {
    /// module/NAME, bootstrapmodule/NAME or nodemodule/NAME
    #[arg(value_parser = with_content)]
    pub module: ModuleName,
    /// Remove the module from these clusters; without it, they are only shown
    #[arg(long)]
    pub acknowledge: bool,
    #[command(flatten)]
    pub word: WordFlags,
}

/// Shows or acknowledges the withdrawal that the brake holds.
pub(crate) async fn run(
    client: &Client,
    namespace: &str,
    flags: &WithdrawFlags,
    out: &Out,
) -> anyhow::Result<u8> {
    let WithdrawFlags {
        module,
        acknowledge,
        word,
    } = flags;
    match stage_control::withdraw(client, namespace, module, *acknowledge, &word.word()).await? {
        Withdrawal::None { words, within } if *acknowledge => {
            complain!(out, "error: {words}; next: muster why {module}{within}");
            return Ok(FAILED);
        }
        Withdrawal::None { words, .. } => say!(out, "{words}")?,
        Withdrawal::Held(held) => out.lines(&withdrawal_lines(&held, out.width()))?,
        Withdrawal::Acknowledged(text) => say!(out, "{text}")?,
    }
    Ok(DONE)
}

/// What would be lost, and the two ways to proceed.
fn withdrawal_lines(held: &HeldWithdrawal, width: usize) -> Vec<String> {
    let HeldWithdrawal {
        clusters: _,
        sentence,
        remove,
        keep: Choice { what, command },
    } = held;
    let mut lines = output::wrapped(
        &format!("{sentence}; nothing is withdrawn until you acknowledge it"),
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
