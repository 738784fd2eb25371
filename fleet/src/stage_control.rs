//! Controls that take effect once, about a stage, a revision, or a withdrawal, as annotations of the module.

use anyhow::{Context as _, bail};
use kube::{Client, core::DynamicObject};
use muster_api::{
    control::Control,
    labels::annotation::{ABORT, ACKNOWLEDGE_WITHDRAWAL, APPROVE, PROMOTE, RETRY},
    module::ModuleStatus,
};
use muster_dashboard::{Fleet, HeldWithdrawal, Objects, listed, withdrawal_name};
use muster_rollout::{ControlCommand, Memory, Revision};
use serde_json::{Value, json};

use crate::{
    ObjectAddress, Reporter,
    control::{self, DryRun},
    history,
    name::ModuleName,
    nodes, read,
};

/// The most names of clusters on one line; more are counted.
const LISTED: usize = 5;

/// The error while the status is about an older spec.
const NOT_OBSERVED: &str =
    "the controller has not observed this change of the module yet: try again in a moment";

/// What is written with the control.
#[derive(Clone, Debug, Default)]
pub struct ControlOptions {
    /// The reason; recorded in an event of the module.
    pub reason: Option<String>,
    /// Whether the write is a dry run.
    pub dry_run: DryRun,
}

/// Approves a stage, or with `promote` passes it; false if it would have no effect.
pub async fn approve(
    (client, namespace): (&Client, &str),
    (module, stage): (&ModuleName, Option<&str>),
    word: &ControlOptions,
    promote: bool,
    reporter: &dyn Reporter,
) -> anyhow::Result<bool> {
    let address = ObjectAddress::of(client, namespace, module);
    let object = address.get().await?;
    let stage = stage_of(&object, stage)?;
    let revision = target(&object)?;
    let approve = |revision| ControlCommand::Approve(revision, stage.as_str().into());
    if !heeded(&object, &revision, approve) {
        let why = format!("revision {revision} is not being rolled out, or has passed stage {stage}");
        refuse(module, &why, reporter);
        return Ok(false);
    }
    let (key, verb) = if promote {
        (PROMOTE, "promoted")
    } else {
        (APPROVE, "approved")
    };
    say(client, &address, key, &format!("{stage}@{revision}"), word).await?;
    let verb = format!("stage {stage} of revision {revision} {verb}");
    reporter.line(&control::done(&address, &verb, word.dry_run))?;
    Ok(true)
}

/// Aborts a rollout; false if it would have no effect. Without a revision, that of the revision that the module asks
/// for.
pub async fn abort_rollout(
    at: (&Client, &str),
    of: (&ModuleName, Option<&str>),
    word: &ControlOptions,
    reporter: &dyn Reporter,
) -> anyhow::Result<bool> {
    about_revision(
        at,
        of,
        word,
        reporter,
        (ABORT, ControlCommand::Abort),
        |revision| {
            (
                format!("revision {revision} aborted"),
                format!("revision {revision} is not being rolled out"),
            )
        },
    )
    .await
}

/// Retries a revision that is bad or was aborted; false if it would have no effect.
pub async fn retry_rollout(
    at: (&Client, &str),
    of: (&ModuleName, Option<&str>),
    word: &ControlOptions,
    reporter: &dyn Reporter,
) -> anyhow::Result<bool> {
    about_revision(
        at,
        of,
        word,
        reporter,
        (RETRY, ControlCommand::Retry),
        |revision| {
            (
                format!("revision {revision} is retried"),
                format!("revision {revision} is neither bad nor aborted"),
            )
        },
    )
    .await
}

/// The result of `withdraw`.
#[derive(Debug)]
pub enum Withdrawal {
    /// No withdrawal is held.
    None {
        /// The message for the user.
        words: String,
        /// Further arguments of a command that explains the module.
        within: String,
    },
    /// This withdrawal is held, and nothing was written.
    Held(Box<HeldWithdrawal>),
    /// The withdrawal is acknowledged; with the message for the user.
    Acknowledged(String),
}

/// Shows or acknowledges the withdrawal that the brake holds.
pub async fn withdraw(
    client: &Client,
    namespace: &str,
    module: &ModuleName,
    acknowledge: bool,
    word: &ControlOptions,
) -> anyhow::Result<Withdrawal> {
    let (fleet, status) = withdrawing(client, namespace, module).await?;
    let view = fleet
        .module(module.kind, &module.name)
        .with_context(|| read::missing(&fleet, module, namespace))?;
    if !view.observed {
        bail!(NOT_OBSERVED);
    }
    let Some(held) = HeldWithdrawal::of(view) else {
        let words = format!("no withdrawal of {module} is held: nothing was written");
        let within = view.within();
        return Ok(Withdrawal::None { words, within });
    };
    if !acknowledge {
        return Ok(Withdrawal::Held(Box::new(held)));
    }
    let name = status.as_ref().and_then(withdrawal_name).with_context(|| {
        format!(
            "the status does not name the withdrawal: see kubectl get {module}{} -o yaml",
            view.within()
        )
    })?;
    let address = ObjectAddress::of(client, namespace, module);
    say(client, &address, ACKNOWLEDGE_WITHDRAWAL, name, word).await?;
    let clusters = listed(held.clusters.iter().map(String::as_str), LISTED);
    let verb = format!("withdrawal from {clusters} acknowledged");
    Ok(Withdrawal::Acknowledged(control::done(
        &address,
        &verb,
        word.dry_run,
    )))
}

/// The fleet that a module is withdrawn from, and its status.
async fn withdrawing(
    client: &Client,
    namespace: &str,
    module: &ModuleName,
) -> anyhow::Result<(Fleet, Option<ModuleStatus>)> {
    let (objects, fleet) = if module.is_of_nodes() {
        let nodes = nodes::read_node_objects(client).await?;
        let fleet = Fleet::of_nodes(&nodes);
        (
            Objects {
                nodes,
                ..Objects::default()
            },
            fleet,
        )
    } else {
        let objects = read::read_objects(client, namespace).await?;
        let fleet = Fleet::of(&objects);
        (objects, fleet)
    };
    let rolling = objects.module(&module.reference());
    let status = rolling.map(|rolling| rolling.status.into_owned());
    Ok((fleet, status))
}

/// Writes a control about a revision and prints the result, or why it has no effect; `texts` are the two messages.
async fn about_revision(
    (client, namespace): (&Client, &str),
    (module, revision): (&ModuleName, Option<&str>),
    word: &ControlOptions,
    reporter: &dyn Reporter,
    (key, to_command): (&str, fn(Revision) -> ControlCommand),
    texts: impl FnOnce(&str) -> (String, String),
) -> anyhow::Result<bool> {
    let address = ObjectAddress::of(client, namespace, module);
    let object = address.get().await?;
    let revision = match revision {
        Some(given) => {
            let history = history::read_history(client, namespace, module).await?;
            control::digits(&history.find(given)?.revision).to_owned()
        }
        None => target(&object)?,
    };
    let (message, why) = texts(&revision);
    if !heeded(&object, &revision, to_command) {
        refuse(module, &why, reporter);
        return Ok(false);
    }
    say(client, &address, key, &revision, word).await?;
    reporter.line(&control::done(&address, &message, word.dry_run))?;
    Ok(true)
}

/// Whether the control would have an effect, according to the rollout's memory. If that cannot be read, the controller
/// reports it in an event.
fn heeded(object: &DynamicObject, revision: &str, to_command: impl Fn(Revision) -> ControlCommand) -> bool {
    let pointer = |pointer: &str| object.data.pointer(pointer).and_then(Value::as_str);
    let own = pointer("/status/rollout/uid") == object.metadata.uid.as_deref();
    let memory = pointer("/status/rollout/memory").filter(|_| own);
    // A controller of another version may read what this one cannot.
    let Some(memory) = memory.and_then(|text| serde_json::from_str::<Memory>(text).ok()) else {
        return true;
    };
    let known = memory.bad.keys().copied().chain(memory.run.map(|run| run.target));
    // The memory keeps the first 32 digits of a hash.
    let revision = revision.get(..32).unwrap_or(revision).to_ascii_lowercase();
    let mut meant = known.filter(|known| known.to_string().starts_with(&revision));
    meant.any(|meant| memory.heeds(&to_command(meant)))
}

/// Reports that nothing was written because it would have no effect.
fn refuse(module: &ModuleName, why: &str, reporter: &dyn Reporter) {
    reporter.warn(&format!(
        "error: {module}: {why}: nothing was written, it would have no effect; next: muster rollout history {module}"
    ));
}

impl ControlOptions {
    /// The control with this value, for `what`.
    pub async fn control(&self, client: &Client, what: &str) -> Control {
        Control {
            what: what.to_owned(),
            by: Some(control::me(client).await),
            reason: self.reason.clone(),
            at: Some(control::now()),
            until: None,
        }
    }
}

async fn say(
    client: &Client,
    address: &ObjectAddress,
    key: &str,
    what: &str,
    word: &ControlOptions,
) -> anyhow::Result<()> {
    let control = word.control(client, what).await;
    control::annotate(address, key, &json!(control.to_text()), word.dry_run).await
}

/// The revision that the module asks for, as the controller resolved it.
fn target(object: &DynamicObject) -> anyhow::Result<String> {
    let pointer = |pointer: &str| object.data.pointer(pointer);
    let observed = pointer("/status/observedGeneration").and_then(Value::as_i64);
    if observed != object.metadata.generation {
        bail!(NOT_OBSERVED);
    }
    let revision = pointer("/status/revision").and_then(Value::as_str);
    let revision = revision.context("the module's version is not resolved yet (muster why)")?;
    Ok(control::digits(revision).to_owned())
}

/// The stage to approve.
fn stage_of(object: &DynamicObject, given: Option<&str>) -> anyhow::Result<String> {
    let stages = object
        .data
        .pointer("/spec/rollout/stages")
        .and_then(Value::as_array);
    let stages: Vec<&Value> = stages.into_iter().flatten().collect();
    let name = |stage: &&&Value| stage["name"].as_str().unwrap_or_default().to_owned();
    let names: Vec<String> = stages.iter().map(|stage| name(&stage)).collect();
    let asking = stages.iter().filter(|stage| stage["approval"] == "Required");
    let asking: Vec<String> = asking.map(|stage| name(&stage)).collect();
    match (given, &asking[..]) {
        (Some(given), _) if names.iter().any(|name| name == given) => Ok(given.to_owned()),
        (Some(given), _) if names.is_empty() => bail!("there is no stage {given}: the module has no stages"),
        (Some(given), _) => bail!("there is no stage {given}, there are {}", names.join(", ")),
        (None, [only]) => Ok(only.clone()),
        (None, []) if names.is_empty() => bail!("the module has no stages: there is nothing to approve"),
        (None, []) => bail!("no stage requires approval: name one with --stage"),
        (None, several) => bail!("{} require approval: name one with --stage", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use muster_rollout::{Evidence, Millis, Run, RunState, StageId};

    use super::*;

    fn module(stages: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "fleet.muster.dev/v1alpha1", "kind": "Module",
            "metadata": {"name": "web", "generation": 2},
            "spec": {"rollout": {"stages": stages}},
            "status": {"observedGeneration": 2, "revision": "0123456789abcdef0123"},
        }))
        .unwrap()
    }

    #[test]
    fn the_stage_that_is_meant() {
        let canary = json!({"name": "canary", "approval": "Required"});
        let check = |stages: Value, given: Option<&str>, expect: Result<&str, &str>| {
            let found = stage_of(&module(&stages), given).map_err(|error| error.to_string());
            assert_eq!(
                found.as_deref().map_err(String::as_str),
                expect,
                "{stages} {given:?}"
            );
        };
        check(json!([canary, {"name": "all"}]), None, Ok("canary"));
        check(json!([canary, {"name": "all"}]), Some("all"), Ok("all"));
        check(
            json!([canary]),
            Some("al"),
            Err("there is no stage al, there are canary"),
        );
        check(
            json!([]),
            Some("al"),
            Err("there is no stage al: the module has no stages"),
        );
        check(
            json!([{"name": "all"}]),
            None,
            Err("no stage requires approval: name one with --stage"),
        );
        check(
            json!([]),
            None,
            Err("the module has no stages: there is nothing to approve"),
        );
        let two = json!([canary, {"name": "eu", "approval": "Required"}]);
        check(
            two,
            None,
            Err("canary, eu require approval: name one with --stage"),
        );
    }

    #[test]
    fn what_would_have_no_effect_is_known_by_the_memory() {
        let mut memory = Memory::default();
        let (running, bad) = (Revision::new([1; 16]), Revision::new([2; 16]));
        memory.run = Some(Run {
            id: 1,
            target: running,
            from: None,
            started: Millis(0),
            state: RunState::Open,
        });
        memory.course.passed.insert(StageId::of("canary"));
        let evidence = Evidence {
            unit: "eu-1".into(),
            message: "no".into(),
            at: Millis(0),
        };
        memory.bad.insert(bad, evidence);
        let mut module = module(&json!([]));
        module.data["status"]["rollout"] = json!({"memory": serde_json::to_string(&memory).unwrap()});
        let stage = |name: &'static str| move |revision| ControlCommand::Approve(revision, name.into());
        let (running, bad) = ("01010101", "02020202");
        assert!(heeded(&module, running, stage("all")));
        assert!(!heeded(&module, running, stage("canary")), "it was passed");
        assert!(!heeded(&module, bad, stage("all")));
        assert!(heeded(&module, running, ControlCommand::Abort));
        assert!(!heeded(&module, bad, ControlCommand::Abort));
        assert!(heeded(&module, bad, ControlCommand::Retry));
        assert!(!heeded(&module, running, ControlCommand::Retry));
        assert!(!heeded(&module, "03030303", ControlCommand::Retry));
        module.data["status"]["rollout"] = json!({"memory": "of a newer version"});
        assert!(heeded(&module, running, ControlCommand::Retry));
    }

    #[test]
    fn a_spec_not_yet_observed_is_not_approved() {
        let mut module = module(&json!([]));
        assert_eq!(target(&module).unwrap(), "0123456789abcdef");
        module.metadata.generation = Some(3);
        assert!(
            target(&module)
                .unwrap_err()
                .to_string()
                .contains("has not observed")
        );
    }
}
