//! How the run that a client waits for has ended.

use muster_api::plan::{RunProgress, RunState};

/// How a run ended, for the client that asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// All its steps are done.
    Complete,
    /// It failed for good.
    FatalError,
    /// Another run of its plan took its turn.
    Superseded,
}

/// How run `uid` of a plan has ended; `None`: it has not. `before` are the runs that stood there when the client asked: a run
/// of the plan that is neither among them nor its own has come instead of its own.
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
