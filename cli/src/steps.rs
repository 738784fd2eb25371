//! Where the steps of a verb that changes something are told, and what a person says to them.

use std::io::IsTerminal as _;

use muster_fleet::Tell;
use muster_operate::steps::{Cause, Refusal, Step, Steps};

use crate::{
    exit::{FAILED, UNKNOWN},
    output,
};

/// Where steps are told: beside what is printed for a pipe, or as the output itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The steps are the output.
    Output,
    /// Something else is the output: steps go to standard error.
    Beside,
}

impl Tell for Told {
    /// Whoever reads, what was begun is ended: half of what a verb makes is worse than none.
    fn line(&self, text: &str) {
        output::outlive_readers();
        match self {
            Self::Output => say!("{text}"),
            Self::Beside => complain!("{text}"),
        }
    }

    fn text(&self, text: &str) -> anyhow::Result<()> {
        output::text(text)
    }

    fn warn(&self, text: &str) {
        complain!("{text}");
    }
}

/// Says why it ends here; the exit code that follows.
pub(crate) fn refuse(steps: Steps<'_>, refusal: &Refusal) -> u8 {
    steps.refuse(refusal);
    match refusal.cause {
        Cause::Failed => FAILED,
        Cause::Unknown => UNKNOWN,
    }
}

/// A person's word: by the flag, or by the terminal. Whoever waits for it can be interrupted: it is read by a thread of its own, which ends
/// with the process.
pub(crate) async fn consent(yes: bool) -> Step<()> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Refusal::unknown(
            "nothing was done: cannot ask for confirmation, standard input is not a terminal",
        )
        .remedy("pass --yes to confirm"));
    }
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        anstream::eprint!("Go on? [y/N] ");
        let mut answer = String::new();
        // What cannot be read is no consent; who does not wait any more needs no answer.
        let is_read = std::io::stdin().read_line(&mut answer).is_ok();
        let _ = tell.send(is_read && matches!(answer.trim(), "y" | "Y" | "yes"));
    });
    match told.await {
        Ok(true) => Ok(()),
        Ok(false) | Err(_) => Err(Refusal::unknown("nothing was done")),
    }
}
