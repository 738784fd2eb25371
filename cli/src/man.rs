//! `muster man`: the manual, made from the definition of the command and from nothing else.

use std::fmt::Write as _;

use anyhow::Context as _;
use clap::{Command, CommandFactory as _};

use crate::{args::Arguments, exit::DONE, flags::shell::ManFlags, output};

/// Characters of a line of the reference.
const WIDTH: usize = 120;

/// Prints the manual, or writes it.
pub(crate) fn run(flags: &ManFlags) -> anyhow::Result<u8> {
    let command = without_surroundings(Arguments::command());
    if flags.markdown {
        output::text(&reference(command))?;
    } else if let Some(folder) = &flags.out {
        let what = || format!("writing pages into {}", folder.display());
        std::fs::create_dir_all(folder).with_context(what)?;
        clap_mangen::generate_to(command, folder).with_context(what)?;
    } else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        output::text(&String::from_utf8_lossy(&page))?;
    }
    Ok(DONE)
}

/// The same command, which does not tell the environment that it happens to be looked at in.
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

/// Every verb with what `--help` says of it, as Markdown.
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
