//! The same binary as a plugin of kubectl: `kubectl-muster` is `kubectl muster`, and `kubectl_complete-muster` is what kubectl asks when
//! its user presses the tab key.
//!
//! Source of the two names, and of what is answered: kubectl's documentation of plugins and of their completion.

use std::{ffi::OsString, path::Path};

use clap::{Command, CommandFactory as _};

use crate::args::Arguments;

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
