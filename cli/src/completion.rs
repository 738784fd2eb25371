//! `muster completion`: completion of a shell.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::{DONE, args::Arguments, output};

pub const EXAMPLES: &str = "\
Examples:
  source <(muster completion bash)                                   this shell
  muster completion bash > /etc/bash_completion.d/muster             every bash
  muster completion zsh > \"${fpath[1]}/_muster\"                      every zsh
  muster completion fish > ~/.config/fish/completions/muster.fish    every fish";

#[derive(Args, Debug)]
pub struct CompletionFlags {
    /// Which shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Prints a script for a shell.
pub fn run(flags: &CompletionFlags) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Arguments::command(), "muster", &mut script);
    output::text(&String::from_utf8_lossy(&script))?;
    Ok(DONE)
}
