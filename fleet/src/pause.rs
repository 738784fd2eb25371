//! Pauses of a rollout, as an annotation that git does not own.

use kube::{Client, ResourceExt, core::DynamicObject};
use muster_api::labels::annotation::PAUSED;
use muster_dashboard::{ModuleView, Shape, fold_names};
use serde_json::{Value, json};

use crate::{
    ObjectAddress, Reporter,
    control::{self, ControlWrite, DryRun, Term, control_write},
    name::ModuleName,
    read,
};

/// Pauses a module: no further cluster starts.
pub async fn pause(
    client: &Client,
    namespace: &str,
    module: &ModuleName,
    term: &Term,
    dry_run: DryRun,
    reporter: &dyn Reporter,
) -> anyhow::Result<()> {
    let address = ObjectAddress::of(client, namespace, module);
    let object = address.get().await?;
    let wanted = term.control(client, "true").await?;
    let before = object.annotations().get(PAUSED).map(String::as_str);
    let verb = match control_write(before, wanted, control::now(), |_| true) {
        ControlWrite::Stands(control) => format!("is already paused{}", control.provenance()),
        ControlWrite::Write(control) => {
            control::annotate(&address, PAUSED, &json!(control.to_text()), dry_run).await?;
            format!("paused{}", control.provenance())
        }
    };
    reporter.line(&control::done(&address, &verb, dry_run))?;
    // The pause is written, so errors from here on are not reported.
    match read::read_fleet(client, namespace, module).await {
        Ok(fleet) => {
            if let Some(view) = fleet.module(module.kind, &module.name) {
                reporter.line(&goes_on(view))?;
            }
        }
        Err(error) => reporter.warn(&format!(
            "warning: which {}s wait for it is not known: {error:#}",
            module.kind.unit()
        )),
    }
    if set_in_spec(&object) {
        reporter.line(&format!("spec.rollout.paused is also true ({}).", owner(&object)))?;
    }
    reporter.line(&format!("To resume: muster rollout resume {module}"))
}

/// Removes a pause; false if the spec still pauses the module.
pub async fn resume(
    client: &Client,
    namespace: &str,
    module: &ModuleName,
    dry_run: DryRun,
    reporter: &dyn Reporter,
) -> anyhow::Result<bool> {
    let address = ObjectAddress::of(client, namespace, module);
    let object = address.get().await?;
    let is_annotated = object.annotations().contains_key(PAUSED);
    if is_annotated {
        control::annotate(&address, PAUSED, &Value::Null, dry_run).await?;
    }
    let verb = match (is_annotated, set_in_spec(&object)) {
        (true, true) => "is no longer paused by a user",
        (true, false) => "resumed",
        (false, true) => "is not paused by a user",
        (false, false) => "is not paused",
    };
    reporter.line(&control::done(&address, verb, dry_run))?;
    if set_in_spec(&object) {
        reporter.line(&format!(
            "It stays paused: spec.rollout.paused is true ({}); change it where it is set: usually in git.",
            owner(&object)
        ))?;
        return Ok(false);
    }
    Ok(true)
}

fn set_in_spec(object: &DynamicObject) -> bool {
    object
        .data
        .pointer("/spec/rollout/paused")
        .and_then(Value::as_bool)
        == Some(true)
}

/// The field managers of `spec.rollout.paused`, for a message.
fn owner(object: &DynamicObject) -> String {
    let owners = object.managed_fields().iter().filter(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| fields.pointer("/f:spec/f:rollout/f:paused").is_some())
    });
    let names: Vec<&str> = owners.filter_map(|entry| entry.manager.as_deref()).collect();
    match &names[..] {
        [] => "by an unknown manager".to_owned(),
        names => format!("by {}", names.join(", ")),
    }
}

/// What a pause means for the clusters in their current state.
fn goes_on(view: &ModuleView) -> String {
    let names = |shape: Shape| {
        let cells = view.cells.iter().filter(|cell| cell.shape == shape);
        fold_names(cells.map(|cell| cell.cluster.as_str()))
    };
    let (changing, waiting) = (names(Shape::Updating), names(Shape::Waiting));
    let changing = match &changing[..] {
        [] => "nothing is updating now".to_owned(),
        [one] => format!("{one} is updating and may finish"),
        several => format!("{} are updating and may finish", several.join(", ")),
    };
    let waiting = match &waiting[..] {
        [] => String::new(),
        [one] => format!(" {one} waits."),
        several => format!(" {} wait.", several.join(", ")),
    };
    format!("No further {} starts; {changing}.{waiting}", view.kind.unit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_manager_that_paused_the_spec_is_named() {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module",
            "metadata": {"name": "web", "managedFields": [
                {"manager": "muster-controller", "operation": "Update", "fieldsV1": {"f:status": {}}},
                {"manager": "kustomize-controller", "operation": "Apply", "fieldsV1": {"f:spec": {"f:rollout": {"f:paused": {}}}}},
            ]},
            "spec": {"rollout": {"paused": true}},
        }))
        .unwrap();
        assert!(set_in_spec(&object));
        assert_eq!(owner(&object), "by kustomize-controller");
    }
}
