//! How the steps of a verb that changes something are printed, and how it asks for confirmation.

use std::io::IsTerminal as _;

use muster_fleet::Reporter;
use muster_operate::steps::{Cause, Step, StepRefusal, Steps};

use crate::{
    exit::{FAILED, UNKNOWN},
    output::Out,
};

/// Where steps are printed: as the output itself, or on standard error beside other output.
///
/// A verb goes on if its reader closes the pipe: half a change is worse than none.
#[derive(Clone, Debug)]
pub(crate) struct StepPrinter {
    out: Out,
    is_beside: bool,
}

impl StepPrinter {
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

impl Reporter for StepPrinter {
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

/// Prints why the verb stops here; returns the exit code.
pub(crate) fn refuse(steps: Steps<'_>, refusal: &StepRefusal) -> u8 {
    steps.refuse(refusal);
    match refusal.cause {
        Cause::Failed => FAILED,
        Cause::Unknown => UNKNOWN,
    }
}

/// Asks for confirmation, unless `yes`. A thread of its own reads the terminal, so that waiting can be interrupted; it
/// ends with the process.
pub(crate) async fn consent(yes: bool) -> Step<()> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(StepRefusal::unknown(
            "nothing was done: cannot ask for confirmation because standard input is not a terminal",
        )
        .remedy("pass --yes to confirm"));
    }
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        anstream::eprint!("Continue? [y/N] ");
        let mut answer = String::new();
        // An answer that cannot be read is a no; if the caller has stopped waiting, it is dropped.
        let is_read = std::io::stdin().read_line(&mut answer).is_ok();
        let _ = sender.send(is_read && matches!(answer.trim(), "y" | "Y" | "yes"));
    });
    match receiver.await {
        Ok(true) => Ok(()),
        Ok(false) | Err(_) => Err(StepRefusal::unknown("nothing was done")),
    }
}
