//! The end of a run that a client waits for.

use muster_api::plan::{RunProgress, RunState};

/// How a run ended, for the client that requested it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// All steps are done.
    Complete,
    /// The run failed permanently.
    FatalError,
    /// Another run of the plan ran instead.
    Superseded,
}

/// How run `uid` of a plan has ended; `None` if it has not. `before` are the runs that existed when the client made the
/// request: a run of the plan that is neither among them nor the requested one has replaced it.
pub fn waited(shown: &[RunProgress], before: &[RunProgress], plan: &str, uid: &str) -> Option<Waited> {
    if let Some(own) = shown.iter().find(|run| run.uid == uid) {
        return match own.status {
            RunState::Complete => Some(Waited::Complete),
            RunState::FatalError => Some(Waited::FatalError),
            RunState::NeverRun | RunState::Pending | RunState::InProgress | RunState::Error => None,
        };
    }
    let newer = |run: &RunProgress| {
        run.plan == plan && !run.uid.is_empty() && before.iter().all(|before| before.uid != run.uid)
    };
    shown.iter().any(newer).then_some(Waited::Superseded)
}
