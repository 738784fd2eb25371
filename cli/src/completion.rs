//! `muster completion`: what a shell is told, so that it asks this command what may be typed next.

use std::ffi::OsString;

use clap_complete::{CompleteEnv, env::Shells};

use crate::{
    exit::{DONE, UNKNOWN},
    flags::shell::CompletionFlags,
    names,
    output::Out,
};

/// How the script of a shell asks this command.
const ASKED_BY: &str = "_MUSTER_COMPLETE";

/// Prints a script for a shell.
pub fn run(flags: &CompletionFlags, out: &Out) -> anyhow::Result<u8> {
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

/// Answers a shell that asks what may be typed next, and gives the exit code; otherwise none.
pub fn answer(words: &[OsString]) -> Option<u8> {
    // The words that were typed stand behind `--`.
    let typed = words
        .iter()
        .position(|word| word == "--")
        .map_or(words, |place| &words[place + 1..]);
    let here = std::env::current_dir().ok(); // without one files are not offered
    let answered = CompleteEnv::with_factory(|| names::command(typed))
        .var(ASKED_BY)
        .try_complete(std::env::args_os(), here.as_deref());
    match answered {
        Ok(true) => Some(DONE),
        Ok(false) => None,
        Err(error) => {
            // If standard error is closed, there is no one to read it.
            let _ = error.print();
            Some(UNKNOWN)
        }
    }
}
