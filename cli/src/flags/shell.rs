//! Flags of what is made from the definition of the command: `completion` and `man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

pub(crate) const COMPLETION_EXAMPLES: &str = "\
Examples:
  source <(muster completion bash)                                   this shell
  muster completion bash > /etc/bash_completion.d/muster             every bash
  muster completion zsh > \"${fpath[1]}/_muster\"                      every zsh
  muster completion fish > ~/.config/fish/completions/muster.fish    every fish";

#[derive(Args, Debug)]
pub(crate) struct CompletionFlags {
    /// Which shell
    #[arg(value_enum)]
    pub shell: Shell,
}

pub(crate) const MAN_EXAMPLES: &str = "\
Examples:
  muster man | man -l -                                  this page
  muster man --out ~/.local/share/man/man1               a page for each verb, for: man muster-rollout-status
  muster man --markdown > docs/cli.md                    the reference";

#[derive(Args, Debug)]
pub(crate) struct ManFlags {
    /// Write a page for each verb into this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "markdown")]
    pub out: Option<PathBuf>,
    /// Print all verbs as one page of Markdown
    #[arg(long)]
    pub markdown: bool,
}
