//! The same binary as a kubectl plugin: `kubectl-muster` is run by `kubectl muster`, and `kubectl_complete-muster` by
//! kubectl's shell completion.
//!
//! The two names and the output format are from kubectl's documentation of plugins and their completion.

use std::{ffi::OsString, path::Path};

use clap::{Command, CommandFactory as _};

use crate::args::Arguments;

/// The name by which this process was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CalledAs {
    /// `muster`.
    Muster,
    /// `kubectl-muster`: help says `kubectl muster`.
    Plugin,
    /// `kubectl_complete-muster`: its arguments are the words typed so far.
    Completer,
}

impl CalledAs {
    /// Determines it from the first word of the command line.
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
