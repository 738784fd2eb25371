//! `muster completion`: what a shell is told, so that it asks this command what may be typed next.

use std::ffi::OsString;

use clap_complete::{CompleteEnv, env::Shells};

use crate::{exit::DONE, flags::shell::CompletionFlags, names, output};

/// How the script of a shell asks this command.
const ASKED_BY: &str = "_MUSTER_COMPLETE";

/// Prints a script for a shell.
pub(crate) fn run(flags: &CompletionFlags) -> anyhow::Result<u8> {
    let name = flags.shell.to_string();
    let shells = Shells::builtins();
    let shell = shells
        .completer(&name)
        .ok_or_else(|| anyhow::anyhow!("there is no completion for {name}"))?;
    let mut script = Vec::new();
    shell.write_registration(ASKED_BY, "muster", "muster", "muster", &mut script)?;
    output::text(&String::from_utf8_lossy(&script))?;
    Ok(DONE)
}

/// Answers a shell that asks what may be typed next, and ends the process; otherwise nothing happens.
pub(crate) fn answer(words: &[OsString]) {
    // The words that were typed stand behind `--`.
    let typed = words
        .iter()
        .position(|word| word == "--")
        .map_or(words, |place| &words[place + 1..]);
    CompleteEnv::with_factory(|| names::command(typed))
        .var(ASKED_BY)
        .complete();
}
