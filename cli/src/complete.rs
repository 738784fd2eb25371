//! Shell completion: answers the scripts of `muster completion`, and kubectl.

use std::{env, ffi::OsString};

use clap_complete::{CompleteEnv, engine};

use crate::{
    completion::ASKED_BY,
    exit::{DONE, READER_GONE, UNKNOWN},
    names,
    output::{Out, Unwritten},
};

/// Cobra's directive that files are not offered in addition to the printed candidates (`ShellCompDirectiveNoFileComp`).
const NO_FILES: &str = ":4\n";

/// Answers the completion request of a shell and returns the exit code; `None` if this is not such a request.
pub(crate) fn answer(words: &[OsString]) -> Option<u8> {
    // The words typed so far follow `--`.
    let typed = words
        .iter()
        .position(|word| word == "--")
        .map_or(words, |place| &words[place + 1..]);
    let here = std::env::current_dir().ok(); // without it files are not offered
    let answered = CompleteEnv::with_factory(|| names::command(typed))
        .var(ASKED_BY)
        .try_complete(std::env::args_os(), here.as_deref());
    match answered {
        Ok(true) => Some(DONE),
        Ok(false) => None,
        Err(error) => {
            // If standard error is closed, the text is dropped.
            let _ = error.print();
            Some(UNKNOWN)
        }
    }
}

/// Prints the candidates for the last word, one per line, with their help after a tab.
pub(crate) fn complete(mut words: Vec<OsString>, out: &Out) -> u8 {
    if words.len() < 2 {
        words.push(OsString::new());
    }
    let last = words.len() - 1;
    let here = env::current_dir().ok(); // without it files are not offered
    let Ok(candidates) = engine::complete(&mut names::command(&words), words, last, here.as_deref()) else {
        return UNKNOWN;
    };
    let mut answer = String::new();
    for candidate in candidates.iter().filter(|candidate| !candidate.is_hide_set()) {
        answer.push_str(&candidate.get_value().to_string_lossy());
        if let Some(help) = candidate.get_help() {
            let help = help.to_string();
            answer.push('\t');
            answer.push_str(help.lines().next().unwrap_or_default());
        }
        answer.push('\n');
    }
    answer.push_str(NO_FILES);
    match out.text(&answer) {
        Ok(()) => DONE,
        Err(Unwritten::ReaderGone) => READER_GONE,
        Err(Unwritten::Failed(_)) => UNKNOWN,
    }
}
