//! What is told while something is changed: a line for each step, and where it cannot go on, what is wrong and what to do.
//!
//! ✔ is done or found so, ✗ is not, ► is to know.

use std::fmt::Display;

use muster_controllers::runtime::{CallError, call::explain};
use muster_fleet::Tell;

/// Tells steps, a line each.
#[derive(Clone, Copy)]
pub struct Steps<'a>(pub &'a dyn Tell);

impl Steps<'_> {
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

    /// A text as it is, which programs read.
    pub fn text(self, text: &str) -> anyhow::Result<()> {
        self.0.text(text)
    }

    /// Why it ends here.
    pub fn refuse(self, refusal: &Refusal) {
        self.line(&format!("✗ {}", refusal.what));
        for line in &refusal.remedy {
            self.more(line);
        }
    }

    /// What was begun is ended, whether or not its steps can be written: half of it is worse than none.
    fn line(self, text: &str) {
        let _ = self.0.line(text);
    }
}

/// Whether it is known that something cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It cannot be done.
    Failed,
    /// It could not be found out, or was not asked for rightly.
    Unknown,
}

/// Why a verb ends before its end: what, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong, and where.
    pub what: String,
    /// What to do, a line each.
    pub remedy: Vec<String>,
    /// Whether that is known.
    pub cause: Cause,
}

/// A step's outcome.
pub type Step<T> = Result<T, Refusal>;

impl Refusal {
    /// It cannot be done.
    pub fn failed(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            remedy: Vec::new(),
            cause: Cause::Failed,
        }
    }

    /// It could not be found out, or was not asked for rightly.
    pub fn unknown(what: impl Into<String>) -> Self {
        Self {
            cause: Cause::Unknown,
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
