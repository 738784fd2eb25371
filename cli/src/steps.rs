//! What a verb that changes something tells: a line for each step, and where it cannot go on, what is wrong and what to do.
//!
//! ✔ is done or found so, ✗ is not, ► is to know.

use std::{fmt::Display, io::IsTerminal as _};

use muster_controllers::runtime::{CallError, call::explain};

use crate::{
    exit::{FAILED, UNKNOWN},
    output,
};

/// Where steps are told: beside what is printed for a pipe, or as the output itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// The steps are the output.
    Output,
    /// Something else is the output: steps go to standard error.
    Beside,
}

impl Steps {
    /// A step is done, or something is as it must be.
    pub fn done(self, text: impl Display) {
        self.line(&format!("✔ {text}"));
    }

    /// Something to know.
    pub fn note(self, text: impl Display) {
        self.line(&format!("► {text}"));
    }

    /// A line that belongs to the one above: a reason, a command.
    pub fn more(self, text: impl Display) {
        self.line(&format!("    {text}"));
    }

    /// A line of its own.
    pub fn say(self, text: impl Display) {
        self.line(&text.to_string());
    }

    /// Why it ends here; the exit code that follows.
    pub fn refuse(self, refusal: &Refusal) -> u8 {
        self.line(&format!("✗ {}", refusal.what));
        for line in &refusal.remedy {
            self.more(line);
        }
        refusal.code
    }

    /// Whoever reads, what was begun is ended: half of what a verb makes is worse than none.
    fn line(self, text: &str) {
        output::outlive_readers();
        match self {
            Self::Output => say!("{text}"),
            Self::Beside => complain!("{text}"),
        }
    }
}

/// Why a verb ends before its end: what, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong, and where.
    pub what: String,
    /// What to do, a line each.
    pub remedy: Vec<String>,
    /// The exit code.
    pub code: u8,
}

/// A step's outcome.
pub type Step<T> = Result<T, Refusal>;

impl Refusal {
    /// It cannot be done.
    pub fn failed(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            remedy: Vec::new(),
            code: FAILED,
        }
    }

    /// It could not be found out, or was not asked for rightly.
    pub fn unknown(what: impl Into<String>) -> Self {
        Self {
            code: UNKNOWN,
            ..Self::failed(what)
        }
    }

    /// What to do, as one more line.
    #[must_use]
    pub fn remedy(mut self, line: impl Into<String>) -> Self {
        self.remedy.push(line.into());
        self
    }

    /// A call to the API server of `place` did not succeed.
    pub fn of_call(place: &str, error: &CallError) -> Self {
        let said = explain(error);
        match error.code() {
            None => Self::unknown(format!("{place} does not answer: {said}")).remedy(
                "is the address in the kubeconfig right, and is there a way to it from here (VPN, proxy)?",
            ),
            Some(401) => Self::unknown(format!("{place} does not accept your credential: {said}"))
                .remedy("sign in anew, or name another kubeconfig"),
            Some(403) => Self::failed(format!("you may not do that in {place}: {said}"))
                .remedy("ask an administrator of that cluster for the right, or let them run this command"),
            Some(_) => Self::failed(format!("{place}: {said}")),
        }
    }
}

/// A person's word: by the flag, or by the terminal. Whoever waits for it can be interrupted: it is read by a thread of its own, which ends
/// with the process.
pub async fn consent(yes: bool) -> Step<()> {
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
