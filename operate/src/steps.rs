//! Reports the steps of a change: a line each, and if it cannot continue, what is wrong and what to do.
//!
//! ✔ is done or already so, ✗ is an error, ► is a note.

use std::fmt::Display;

use muster_controllers::runtime::{CallError, call::error_chain};
use muster_fleet::Reporter;

/// Reports steps, a line each.
#[derive(Clone, Copy)]
pub struct Steps<'a>(pub &'a dyn Reporter);

impl Steps<'_> {
    /// A step is done, or was not needed.
    pub fn done(self, text: impl Display) {
        self.line(&format!("✔ {text}"));
    }

    /// A note.
    pub fn note(self, text: impl Display) {
        self.line(&format!("► {text}"));
    }

    /// A line that belongs to the one above: a reason, a command.
    pub fn more(self, text: impl Display) {
        self.line(&format!("    {text}"));
    }

    /// A plain line.
    pub fn say(self, text: impl Display) {
        self.line(&text.to_string());
    }

    /// Text unchanged, for programs.
    pub fn text(self, text: &str) -> anyhow::Result<()> {
        self.0.text(text)
    }

    /// Reports why it stops.
    pub fn refuse(self, refusal: &StepRefusal) {
        self.line(&format!("✗ {}", refusal.what));
        for line in &refusal.remedy {
            self.more(line);
        }
    }

    /// A change goes on even if its steps cannot be printed: half a change is worse than none.
    fn line(self, text: &str) {
        let _ = self.0.line(text);
    }
}

/// Whether a step failed, or its outcome could not be found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It cannot be done.
    Failed,
    /// It could not be found out, or the request was invalid.
    Unknown,
}

/// Why a verb stops: what, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepRefusal {
    /// What is wrong, and where.
    pub what: String,
    /// What to do, a line each.
    pub remedy: Vec<String>,
    /// Whether it failed or could not be found out.
    pub cause: Cause,
}

/// The result of a step.
pub type Step<T> = Result<T, StepRefusal>;

impl StepRefusal {
    /// It cannot be done.
    pub fn failed(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            remedy: Vec::new(),
            cause: Cause::Failed,
        }
    }

    /// It could not be found out, or the request was invalid.
    pub fn unknown(what: impl Into<String>) -> Self {
        Self {
            cause: Cause::Unknown,
            ..Self::failed(what)
        }
    }

    /// Adds a line about what to do.
    #[must_use]
    pub fn remedy(mut self, line: impl Into<String>) -> Self {
        self.remedy.push(line.into());
        self
    }

    /// A request to the API server of `place` failed.
    pub fn of_call(place: &str, error: &CallError) -> Self {
        let message = error_chain(error);
        match error.code() {
            None => Self::unknown(format!("{place} does not answer: {message}")).remedy(
                "is the address in the kubeconfig right, and is it reachable from here (VPN, proxy)?",
            ),
            Some(401) => Self::unknown(format!("{place} does not accept your credential: {message}"))
                .remedy("sign in again, or choose another kubeconfig"),
            Some(403) => Self::failed(format!("you are not allowed to do that in {place}: {message}"))
                .remedy("ask an administrator of that cluster for the permission, or to run this command"),
            Some(_) => Self::failed(format!("{place}: {message}")),
        }
    }
}
