//! `muster man`: the manual, generated from the definition of the command.

use std::{fmt::Write as _, path::PathBuf};

use anyhow::Context as _;
use clap::{Args, Command};

use crate::{exit::DONE, output::Out};

/// Line width of the reference.
const WIDTH: usize = 120;

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster man | man -l -                                  this page
  muster man --out ~/.local/share/man/man1               a page for each verb, for: man muster-rollout-status
  muster man --markdown > docs/cli.md                    the reference";

/// Print the manual pages
///
/// Exit codes: 0 printed or written, 2 could not be written.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct ManFlags {
    /// Write a page per verb into this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "markdown")]
    pub out: Option<PathBuf>,
    /// Print all verbs as one page of Markdown
    #[arg(long)]
    pub markdown: bool,
}

/// Prints the manual, or writes it.
pub(crate) fn run(command: Command, flags: &ManFlags, out: &Out) -> anyhow::Result<u8> {
    let command = without_surroundings(command);
    if flags.markdown {
        out.text(&reference(command))?;
    } else if let Some(folder) = &flags.out {
        let what = || format!("writing pages into {}", folder.display());
        std::fs::create_dir_all(folder).with_context(what)?;
        clap_mangen::generate_to(command, folder).with_context(what)?;
    } else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        out.text(&String::from_utf8_lossy(&page))?;
    }
    Ok(DONE)
}

/// The command without the values of environment variables, so that the manual does not depend on the environment.
fn without_surroundings(command: Command) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|verb| verb.get_name().to_owned())
        .collect();
    let command = command
        .mut_args(|flag| flag.hide_env_values(true))
        .term_width(WIDTH);
    names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, without_surroundings)
    })
}

/// Each verb with its `--help`, as Markdown.
fn reference(command: Command) -> String {
    let mut page = String::from(
        "# The command\n\nMade by `muster man --markdown` from the definition of the command; the flags of the first section go with every verb.\n",
    );
    chapters(command, "", &mut page);
    page
}

fn chapters(command: Command, above: &str, page: &mut String) {
    let name = format!("{above}{}", command.get_name());
    let mut verbs: Vec<Command> = command.get_subcommands().cloned().collect();
    verbs.retain(|verb| !verb.is_hide_set());
    let help = command.bin_name(&name).render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    // Writing to a string cannot fail.
    let _ = write!(page, "\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim());
    for verb in verbs {
        chapters(verb, &format!("{name} "), page);
    }
}
