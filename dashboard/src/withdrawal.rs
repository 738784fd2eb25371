//! A withdrawal that is held as a safeguard: which clusters would lose the module, and what a person can do.

use muster_api::{
    labels::{annotation::ACKNOWLEDGE_WITHDRAWAL, manager},
    module::ModuleStatus,
    reasons::Reason,
};
use serde::Serialize;

use crate::{Cell, ModuleView, listed, words::counted, words::shell_word};

/// Cluster names in the sentence; more are counted.
const LISTED: usize = 5;

/// A withdrawal that is held until a person acknowledges it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldWithdrawal {
    /// The clusters that would lose the module.
    pub clusters: Vec<String>,
    /// What would be removed, and where.
    pub sentence: String,
    /// The command that acknowledges the withdrawal.
    pub remove: String,
    /// How to keep the objects on these clusters.
    pub keep: Choice,
}

/// An alternative.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    /// What the alternative does.
    pub what: String,
    /// The command for it, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl HeldWithdrawal {
    /// Reads the held withdrawal of a module; `None` if there is none.
    pub fn of(module: &ModuleView) -> Option<Self> {
        let held = module.cells.iter().filter(|cell| is_held(cell));
        let clusters: Vec<String> = held.map(|cell| cell.cluster.clone()).collect();
        if clusters.is_empty() {
            return None;
        }
        let all = module.cells.iter().filter(|cell| cell.version.is_some()).count();
        let names = listed(clusters.iter().map(String::as_str), LISTED);
        let address = module.address();
        let why = if module.deleting {
            "is being deleted".to_owned()
        } else {
            format!("no longer selects all of its {}s", module.kind.unit())
        };
        let sentence = format!(
            "{address} {why}; {} of {} would lose it ({names})",
            clusters.len(),
            counted(all.max(clusters.len()), module.kind.unit())
        );
        Some(Self {
            clusters,
            sentence,
            remove: acknowledgement(module),
            keep: keep(module),
        })
    }
}

fn is_held(cell: &Cell) -> bool {
    cell.reason == Reason::WithdrawalHeld.as_str()
}

/// The command that acknowledges the held withdrawal of a module.
pub(crate) fn acknowledgement(module: &ModuleView) -> String {
    format!(
        "muster rollout withdraw {} --acknowledge{}",
        module.address(),
        module.within()
    )
}

/// A deletion cannot be undone, but the objects can be left in place; a selector or labels can be changed back.
fn keep(module: &ModuleView) -> Choice {
    if !module.deleting {
        return Choice {
            what: "to keep it, revert the change of the selector or labels".to_owned(),
            command: None,
        };
    }
    Choice {
        what: "to keep it, leave its objects in place, and put the module back in git, which takes them over"
            .to_owned(),
        command: Some(format!(
            r#"kubectl patch -n {} {} --field-manager={} --type=merge -p '{{"spec":{{"onDelete":"Orphan"}}}}'"#,
            shell_word(&module.namespace),
            module.address(),
            manager::CLI
        )),
    }
}

/// The name by which the held withdrawal is acknowledged; `None` if nothing is held, or the status does not tell.
pub fn name(status: &ModuleStatus) -> Option<&str> {
    let held = |reason: &str| reason == Reason::WithdrawalHeld.as_str();
    let attention = status
        .attention
        .iter()
        .find(|attention| held(&attention.reason))?;
    let (_, value) = attention
        .message
        .split_once(&format!("{ACKNOWLEDGE_WITHDRAWAL}="))?;
    value.split_whitespace().next()
}
