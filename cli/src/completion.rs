//! `muster completion`: prints the completion script of a shell. The script asks this command for candidates.

use clap::Args;
use clap_complete::{Shell, env::Shells};

use crate::{exit::DONE, output::Out};

/// The variable by which a shell's script asks this command.
pub(crate) const ASKED_BY: &str = "_MUSTER_COMPLETE";

pub(crate) const EXAMPLES: &str = "\
Examples:
  source <(muster completion bash)                                   this shell
  muster completion bash > /etc/bash_completion.d/muster             every bash session
  muster completion zsh > \"${fpath[1]}/_muster\"                      every zsh session
  muster completion fish > ~/.config/fish/completions/muster.fish    every fish session";

/// Print the completion script of a shell
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct CompletionFlags {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Prints the script of a shell.
pub(crate) fn run(flags: &CompletionFlags, out: &Out) -> anyhow::Result<u8> {
    let name = flags.shell.to_string();
    let shells = Shells::builtins();
    let shell = shells
        .completer(&name)
        .ok_or_else(|| anyhow::anyhow!("there is no completion for {name}"))?;
    let mut script = Vec::new();
    shell.write_registration(ASKED_BY, "muster", "muster", "muster", &mut script)?;
    out.text(&String::from_utf8_lossy(&script))?;
    Ok(DONE)
}
