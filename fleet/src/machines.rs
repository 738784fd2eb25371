//! Controls for the in-place update of a Machine, as annotations of its UpdatePlans; and explanations of its state.

use std::time::Duration;

use anyhow::{Context as _, bail};
use kube::{Client, ResourceExt as _, api::ListParams};
use muster_api::{
    UpdatePlan,
    labels::annotation,
    update_plan::{MachineUpdate, MachineUpdateState},
};
use muster_controllers::runtime::Api;
use muster_dashboard::{Why, why_machine};
use serde_json::{Value, json};
use thiserror::Error;

use crate::{
    ObjectAddress, Reporter,
    control::{self, DryRun},
    near,
    stage_control::ControlOptions,
};

/// How often a followed Machine is read.
const AGAIN: Duration = Duration::from_secs(2);

/// Why an update cannot be controlled or explained.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum MachineError {
    /// The definition of UpdatePlan is not installed.
    #[error(
        "this cluster has no UpdatePlans: muster machines is not installed here (docs/machines.md); next: muster install --export --machines --updaters FILE --crds"
    )]
    NotServed,
    /// No plan contains the Machine.
    #[error(
        "no UpdatePlan in namespace {namespace} names Machine {machine}{near}; next: kubectl get updateplans -n {namespace}"
    )]
    NoPlan {
        /// Namespace of the lookup.
        namespace: String,
        /// Name of the Machine.
        machine: String,
        /// Text that suggests similar names; may be empty.
        near: String,
    },
    /// The update has not failed, so it cannot be retried.
    #[error(
        "the update of Machine {machine} has not failed: it is {state}; next: kubectl describe updateplan {plan} -n {namespace}"
    )]
    NotFailed {
        /// Name of the Machine.
        machine: String,
        /// State of the update.
        state: String,
        /// Name of the UpdatePlan.
        plan: String,
        /// Namespace of the UpdatePlan.
        namespace: String,
    },
    /// The verb is for rollouts, and a Machine is not one.
    #[error("machine/{machine} is not a rollout; next: muster machines {verb} {machine} --reason REASON")]
    NotARollout {
        /// Name of the Machine.
        machine: String,
        /// The verb of `muster machines` to use instead.
        verb: &'static str,
    },
    /// The update is complete, so it cannot be aborted.
    #[error("the update of Machine {machine} is complete: there is nothing to abort")]
    Complete {
        /// Name of the Machine.
        machine: String,
    },
}

/// Retries the failed update of a Machine.
pub async fn retry_machine(
    client: &Client,
    (namespace, machine): (&str, &str),
    word: &ControlOptions,
    reporter: &dyn Reporter,
) -> anyhow::Result<()> {
    write(client, (namespace, machine), annotation::RETRY, word, reporter).await
}

/// Aborts the update of a Machine.
pub async fn abort_machine(
    client: &Client,
    (namespace, machine): (&str, &str),
    word: &ControlOptions,
    reporter: &dyn Reporter,
) -> anyhow::Result<()> {
    write(client, (namespace, machine), annotation::ABORT, word, reporter).await
}

/// Writes a control to the plans that contain a Machine.
async fn write(
    client: &Client,
    (namespace, machine): (&str, &str),
    key: &'static str,
    word: &ControlOptions,
    reporter: &dyn Reporter,
) -> anyhow::Result<()> {
    let api: Api<UpdatePlan> = Api::namespaced(client.clone(), namespace);
    let plans = listed(&api).await?;
    let named = meant(&plans, namespace, machine, key)?;
    let control = word.control(client, machine).await;
    let (other, verb) = if key == annotation::RETRY {
        (annotation::ABORT, "retried")
    } else {
        (annotation::RETRY, "aborted")
    };
    for plan in named {
        let address = ObjectAddress::of_update_plan(client, namespace, &plan);
        // The opposite control is removed.
        let body = json!({"metadata": {"annotations": {key: control.to_text(), other: Value::Null}}});
        control::write(&address, body, word.dry_run).await?;
        let done = format!("Machine {machine} {verb}");
        reporter.line(&control::done(&address, &done, word.dry_run))?;
        if word.dry_run == DryRun::None {
            reporter.line(&format!(
                "next: kubectl describe updateplan {plan} -n {namespace}"
            ))?;
        }
    }
    Ok(())
}

/// Explains the state of the update of a Machine.
pub async fn why(client: &Client, namespace: &str, machine: &str) -> anyhow::Result<Why> {
    let api: Api<UpdatePlan> = Api::namespaced(client.clone(), namespace);
    Ok(explained(&api, namespace, machine).await?.1)
}

/// Calls `show` with the explanation at each change, until `show` fails.
pub async fn watch_machines(
    client: &Client,
    namespace: &str,
    machine: &str,
    mut show: impl FnMut(&Why) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let api: Api<UpdatePlan> = Api::namespaced(client.clone(), namespace);
    let (mut plan, mut found) = explained(&api, namespace, machine).await?;
    let mut shown = None;
    loop {
        if shown.as_ref() != Some(&found) {
            show(&found)?;
            shown = Some(found);
        }
        tokio::time::sleep(AGAIN).await;
        // Only the one plan while it is in progress: each plan of the namespace may have up to 1 MiB.
        let same = api
            .get_opt(&plan.name_any())
            .await
            .context("reading its UpdatePlan")?;
        let same = same.filter(|plan| entries(plan).any(|entry| entry.name == machine && entry.is_open()));
        (plan, found) = match same {
            Some(plan) => {
                let why = explanation(&plan, machine)?;
                (plan, why)
            }
            None => explained(&api, namespace, machine).await?,
        };
    }
}

async fn explained(
    api: &Api<UpdatePlan>,
    namespace: &str,
    machine: &str,
) -> anyhow::Result<(UpdatePlan, Why)> {
    let plans = listed(api).await?;
    let plan = present(&plans, namespace, machine)?;
    Ok((plan.clone(), explanation(plan, machine)?))
}

fn explanation(plan: &UpdatePlan, machine: &str) -> anyhow::Result<Why> {
    why_machine(plan, machine).context("its plan no longer contains it")
}

/// The plan that updates a Machine: one in progress, else a pending one, else a finished one.
fn present<'a>(
    plans: &'a [UpdatePlan],
    namespace: &str,
    machine: &str,
) -> Result<&'a UpdatePlan, MachineError> {
    let order = |plan: &UpdatePlan| {
        let mut entries = entries(plan).filter(|entry| entry.name == machine);
        Some(match entries.next()?.state {
            MachineUpdateState::Updating | MachineUpdateState::Failed => 0,
            MachineUpdateState::Pending => 1,
            MachineUpdateState::Updated => 2,
        })
    };
    let made = |plan: &UpdatePlan| std::cmp::Reverse(plan.creation_timestamp());
    let naming = plans.iter().filter_map(|plan| Some((order(plan)?, plan)));
    let first = naming.min_by_key(|(order, plan)| (*order, made(plan)));
    first
        .map(|(_, plan)| plan)
        .ok_or_else(|| no_plan(plans, namespace, machine))
}

fn entries(plan: &UpdatePlan) -> impl Iterator<Item = &MachineUpdate> {
    plan.status.iter().flat_map(|status| &status.machines)
}

fn no_plan(plans: &[UpdatePlan], namespace: &str, machine: &str) -> MachineError {
    let known = plans.iter().flat_map(entries).map(|entry| entry.name.as_str());
    MachineError::NoPlan {
        namespace: namespace.to_owned(),
        machine: machine.to_owned(),
        near: near::offer(machine, known),
    }
}

async fn listed(api: &Api<UpdatePlan>) -> anyhow::Result<Vec<UpdatePlan>> {
    match api.list(&ListParams::default()).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if status.code == 404 => bail!(MachineError::NotServed),
        Err(error) => Err(error).context("listing UpdatePlans"),
    }
}

/// The plans in which the update of the Machine can be retried or aborted.
fn meant(
    plans: &[UpdatePlan],
    namespace: &str,
    machine: &str,
    key: &str,
) -> Result<Vec<String>, MachineError> {
    let named: Vec<(String, MachineUpdateState)> = plans
        .iter()
        .flat_map(|plan| entries(plan).map(|entry| (plan.name_any(), entry)))
        .filter(|(_, entry)| entry.name == machine)
        .map(|(plan, entry)| (plan, entry.state))
        .collect();
    let Some((plan, state)) = named.first() else {
        return Err(no_plan(plans, namespace, machine));
    };
    let fits = |state: MachineUpdateState| match key {
        annotation::RETRY => state == MachineUpdateState::Failed,
        _ => state != MachineUpdateState::Updated,
    };
    let fitting: Vec<String> = named
        .iter()
        .filter(|(_, state)| fits(*state))
        .map(|(plan, _)| plan.clone())
        .collect();
    if !fitting.is_empty() {
        return Ok(fitting);
    }
    let machine = machine.to_owned();
    Err(match key {
        annotation::RETRY => MachineError::NotFailed {
            machine,
            state: format!("{state:?}"),
            plan: plan.clone(),
            namespace: namespace.to_owned(),
        },
        _ => MachineError::Complete { machine },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(name: &str, machine: &str, state: &str) -> UpdatePlan {
        let spec = json!({"level": "MachineSet", "source": "old", "from": "a", "to": "b", "steps": [], "current": "{}", "desired": "{}"});
        let status = json!({"machines": [{"name": machine, "uid": "u", "state": state}]});
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec, "status": status})).unwrap()
    }

    fn said(plans: &[UpdatePlan], machine: &str, key: &str) -> Result<Vec<String>, String> {
        meant(plans, "fleet", machine, key).map_err(|error| error.to_string())
    }

    #[test]
    fn a_retry_is_of_what_failed_and_an_abort_of_what_is_not_complete() {
        let plans = [
            plan("p1", "m1", "Updated"),
            plan("p2", "m1", "Failed"),
            plan("p3", "m2", "Updating"),
            plan("p4", "m3", "Updated"),
        ];
        assert_eq!(said(&plans, "m1", annotation::RETRY), Ok(vec!["p2".to_owned()]));
        assert_eq!(said(&plans, "m2", annotation::ABORT), Ok(vec!["p3".to_owned()]));
        let refused = said(&plans, "m2", annotation::RETRY).unwrap_err();
        assert!(
            refused.starts_with("the update of Machine m2 has not failed: it is Updating"),
            "{refused}"
        );
        let refused = said(&plans, "m3", annotation::ABORT).unwrap_err();
        assert_eq!(
            refused,
            "the update of Machine m3 is complete: there is nothing to abort"
        );
        let refused = said(&plans, "m4", annotation::RETRY).unwrap_err();
        assert!(
            refused.starts_with("no UpdatePlan in namespace fleet names Machine m4"),
            "{refused}"
        );
    }

    #[test]
    fn explained_is_the_plan_that_is_under_way() {
        let plans = [
            plan("p1", "m1", "Updated"),
            plan("p2", "m1", "Pending"),
            plan("p3", "m1", "Updating"),
            plan("p4", "m2", "Updated"),
        ];
        let name = |machine: &str| {
            let found = present(&plans, "fleet", machine).map(kube::ResourceExt::name_any);
            found.map_err(|error| error.to_string())
        };
        assert_eq!(name("m1"), Ok("p3".to_owned()));
        assert_eq!(name("m2"), Ok("p4".to_owned()));
        let refused = name("m3").unwrap_err();
        assert!(
            refused.starts_with("no UpdatePlan in namespace fleet names Machine m3"),
            "{refused}"
        );
    }
}
