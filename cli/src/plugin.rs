//! The same binary as a plugin of kubectl: `kubectl-muster` is `kubectl muster`, and `kubectl_complete-muster` is what kubectl asks when
//! its user presses the tab key.
//!
//! Source of the two names, and of what is answered: kubectl's documentation of plugins and of their completion.

use std::{env, ffi::OsString, path::Path};

use clap::{Command, CommandFactory as _};
use clap_complete::engine;

use crate::{
    args::Arguments,
    exit::{DONE, UNKNOWN},
    names, output,
};

/// How cobra's shell scripts are told that files are not offered beside what is printed (`ShellCompDirectiveNoFileComp`).
const NO_FILES: &str = ":4\n";

/// What this process is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CalledAs {
    /// `muster`.
    Muster,
    /// `kubectl-muster`: help says `kubectl muster`.
    Plugin,
    /// `kubectl_complete-muster`: its arguments are what was typed so far.
    Completer,
}

impl CalledAs {
    /// By the first word of a command line.
    pub(crate) fn by(word: Option<&OsString>) -> Self {
        let name = word.and_then(|word| Path::new(word).file_stem()?.to_str());
        match name {
            Some("kubectl-muster") => Self::Plugin,
            Some("kubectl_complete-muster") => Self::Completer,
            _ => Self::Muster,
        }
    }

    /// The definition of the command under this name.
    pub(crate) fn command(self) -> Command {
        match self {
            Self::Muster | Self::Completer => Arguments::command(),
            Self::Plugin => Arguments::command().bin_name("kubectl muster"),
        }
    }
}

/// Prints what may stand in place of the last of the words, one to a line, with what it means after a tab.
pub(crate) fn complete(mut words: Vec<OsString>) -> u8 {
    if words.len() < 2 {
        words.push(OsString::new());
    }
    let last = words.len() - 1;
    let here = env::current_dir().ok(); // without one files are not offered
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
    output::text(&answer).map_or(UNKNOWN, |()| DONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(word: &str, expect: CalledAs) {
        assert_eq!(CalledAs::by(Some(&OsString::from(word))), expect, "{word}");
    }

    #[test]
    fn the_name_of_the_file_decides() {
        check("muster", CalledAs::Muster);
        check("/usr/local/bin/kubectl-muster", CalledAs::Plugin);
        check("kubectl_complete-muster", CalledAs::Completer);
        check("./something-else", CalledAs::Muster);
        assert_eq!(CalledAs::by(None), CalledAs::Muster);
    }
}
