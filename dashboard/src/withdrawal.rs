//! A withdrawal that the brake holds: which clusters would lose the module, and what a person can do about it.

use muster_api::{
    labels::{annotation::ACKNOWLEDGE_WITHDRAWAL, manager},
    module::ModuleStatus,
    reasons::Reason,
};
use serde::Serialize;

use crate::{Cell, ModuleView, listed, words::counted, words::shell_word};

/// Names of clusters in the sentence; more are counted.
const LISTED: usize = 5;

/// A withdrawal that the brake holds until a person acknowledges it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldWithdrawal {
    /// The clusters that would lose the module.
    pub clusters: Vec<String>,
    /// What would be lost, and where.
    pub sentence: String,
    /// The command that acknowledges it.
    pub remove: String,
    /// How these clusters keep what they have.
    pub keep: Choice,
}

/// Something else that can be done, where there is a choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Choice {
    /// What it is for.
    pub what: String,
    /// The command that does it, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl HeldWithdrawal {
    /// Of a module; none if nothing of it is held.
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

/// The command that acknowledges what is held of a module.
pub(crate) fn acknowledgement(module: &ModuleView) -> String {
    format!(
        "muster rollout withdraw {} --acknowledge{}",
        module.address(),
        module.within()
    )
}

/// A deletion cannot be taken back, but the objects can be left where they are; the selector or the labels can be changed back.
fn keep(module: &ModuleView) -> Choice {
    if !module.deleting {
        return Choice {
            what: "to keep it, take back the change of the selector or of the labels".to_owned(),
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

/// The name of the withdrawal that the brake holds, by which it is acknowledged; none if nothing is held, or the status does not say it.
pub fn name(status: &ModuleStatus) -> Option<&str> {
    let held = |reason: &str| reason == Reason::WithdrawalHeld.as_str();
    let told = status.attention.iter().find(|told| held(&told.reason))?;
    let (_, value) = told.message.split_once(&format!("{ACKNOWLEDGE_WITHDRAWAL}="))?;
    value.split_whitespace().next()
}
