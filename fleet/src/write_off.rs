//! Nodes that the rollout of a NodeModule no longer waits for: `release` those that vanished during their update,
//! `abandon` those from which it is being withdrawn.

use kube::{Client, ResourceExt as _};
use muster_api::{
    labels::annotation::{ABANDON, RELEASE},
    reasons::Reason,
};
use muster_dashboard::{Cell, Fleet, shell_word};
use serde_json::json;

use crate::{
    ObjectAddress, Reporter,
    control::{self, ControlWrite},
    hold_pin,
    name::ModuleName,
    nodes::{self, NodeError},
    stage_control::ControlOptions,
};

/// Releases nodes that vanished during their update; false if one of them did not.
pub async fn release_lost_nodes(
    client: &Client,
    (module, named): (&ModuleName, &[String]),
    word: &ControlOptions,
    reporter: &dyn Reporter,
) -> anyhow::Result<bool> {
    check_kind(module)?;
    let fleet = nodes::read(client).await?;
    let lost = |cell: &Cell| cell.reason == Reason::LostInChange.as_str();
    if !all_stand(
        &fleet,
        (module, named),
        lost,
        "did not vanish during its update",
        reporter,
    )? {
        return Ok(false);
    }
    write(client, (module, named), (RELEASE, "released"), word, reporter).await?;
    let ObjectAddress { name, resource, .. } = ObjectAddress::of(client, "", module);
    reporter.line(&format!(
        "The rollout continues without waiting for them. To undo it: kubectl annotate --field-manager=muster-cli {resource}/{name} {RELEASE}-"
    ))?;
    Ok(true)
}

/// Abandons nodes from which a NodeModule is being withdrawn; false if it is not withdrawn from one of them.
pub async fn abandon(
    client: &Client,
    (module, named): (&ModuleName, &[String]),
    word: &ControlOptions,
    reporter: &dyn Reporter,
) -> anyhow::Result<bool> {
    let fleet = nodes::read(client).await?;
    check_kind(module)?;
    let is_deleting = nodes::find_node_module(&fleet, &module.name).is_ok_and(|view| view.deleting);
    let leaves = |cell: &Cell| {
        let withdrawn = [Reason::Withdrawing, Reason::WithdrawalHeld, Reason::LostInChange];
        is_deleting || withdrawn.iter().any(|reason| reason.as_str() == cell.reason)
    };
    if !all_stand(
        &fleet,
        (module, named),
        leaves,
        "is not being withdrawn from",
        reporter,
    )? {
        return Ok(false);
    }
    write(client, (module, named), (ABANDON, "abandoned"), word, reporter).await?;
    Ok(true)
}

/// Whether all these nodes meet the condition; the first that does not is reported. An unknown node is an error.
fn all_stand(
    fleet: &Fleet,
    (module, named): (&ModuleName, &[String]),
    qualifies: impl Fn(&Cell) -> bool,
    refused: &str,
    reporter: &dyn Reporter,
) -> anyhow::Result<bool> {
    for node in named {
        nodes::check_selected(fleet, &module.name, node)?;
        let view = nodes::find_node_module(fleet, &module.name)?;
        let cell = view.cells.iter().find(|cell| cell.cluster == *node);
        if let Some(cell) = cell.filter(|cell| !qualifies(cell)) {
            reporter.warn(&format!(
                "error: {node} {refused} ({}): nothing was written, it would have no effect; next: muster why {module} --node {}",
                cell.reason,
                shell_word(node)
            ));
            return Ok(false);
        }
    }
    Ok(true)
}

fn check_kind(module: &ModuleName) -> Result<(), NodeError> {
    if module.is_of_nodes() {
        return Ok(());
    }
    let module = module.clone();
    Err(NodeError::NotANodeModule { module })
}

/// Adds these nodes to the annotation.
async fn write(
    client: &Client,
    (module, named): (&ModuleName, &[String]),
    (key, verb): (&str, &str),
    word: &ControlOptions,
    reporter: &dyn Reporter,
) -> anyhow::Result<()> {
    let address = ObjectAddress::of(client, "", module);
    let object = address.get().await?;
    let wanted = word.control(client, &named.join(",")).await;
    let before = object.annotations().get(key).map(String::as_str);
    let verb = match hold_pin::joined(before, wanted, module)? {
        ControlWrite::Stands(control) => {
            format!("has {} {verb} already{}", control.what, control.provenance())
        }
        ControlWrite::Write(control) => {
            let text = json!(control.to_text());
            control::replace(&address, &object, key, &text, word.dry_run).await?;
            format!("{} {verb}{}", named.join(","), control.provenance())
        }
    };
    reporter.line(&control::done(&address, &verb, word.dry_run))
}
