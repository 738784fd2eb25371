//! Where the steps of a verb that changes something are told, and what a person says to them.

use std::io::IsTerminal as _;

use muster_fleet::Tell;
use muster_operate::steps::{Cause, Refusal, Step, Steps};

use crate::{
    exit::{FAILED, UNKNOWN},
    output::Out,
};

/// Where steps go: beside what is printed for a pipe, or as the output itself.
///
/// Whoever reads, what was begun is ended: half of what a verb makes is worse than none.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    out: Out,
    is_beside: bool,
}

impl Told {
    /// The steps are the output.
    pub(crate) fn output(out: &Out) -> Self {
        Self {
            out: out.outliving_readers(),
            is_beside: false,
        }
    }

    /// Something else is the output: steps go to standard error.
    pub(crate) fn beside(out: &Out) -> Self {
        Self {
            out: out.outliving_readers(),
            is_beside: true,
        }
    }
}

impl Tell for Told {
    fn line(&self, text: &str) -> anyhow::Result<()> {
        if self.is_beside {
            self.warn(text);
            return Ok(());
        }
        Ok(self.out.line(text)?)
    }

    fn text(&self, text: &str) -> anyhow::Result<()> {
        Ok(self.out.text(text)?)
    }

    fn warn(&self, text: &str) {
        self.out.complaint(text);
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
