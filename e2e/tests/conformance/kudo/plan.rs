//! Tables of what one pass over a plan does.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, bail};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_api::{
    assemblage::FailureClass,
    plan::{PhaseProgress, RunProgress, RunState, StepProgress},
};
use muster_sync::{
    plan::{
        Observed, Phase, Plan, Step, StepId, StepOutcome, Strategy, Waited, began, execute, reshape, waited,
    },
    yaml,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::registry::{Input, Table, product};

pub(super) const TABLES: &[Table] = &[
    product("ensure-plan-status.json", "muster_sync::plan::reshape", ensured).unordered(&["steps"]),
    product("execute-plan.json", "muster_sync::plan::execute", tree).wording(WORDS),
    product("execute-plan-probes.json", "muster_sync::plan::execute", executed).wording(WORDS),
    product("requeue.json", "muster_sync::plan::execute", requeued),
    product("requeue-probes.json", "muster_sync::plan::execute", requeued),
    product("wait-done.json", "muster_sync::plan::waited", done).safer_alone(),
];

/// An event names the step that ended, not the kind of the error.
const WORDS: &[&str] = &["message", "event"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPlan {
    strategy: Option<String>,
    #[serde(default)]
    phases: Vec<WrittenPhase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPhase {
    name: String,
    strategy: Option<String>,
    #[serde(default)]
    steps: Vec<WrittenStep>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenStep {
    name: String,
    #[serde(default)]
    tasks: Vec<String>,
    #[serde(default, rename = "delete")]
    _delete: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    name: String,
    kind: String,
    #[serde(default)]
    spec: Map<String, Value>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenProgress {
    #[serde(default)]
    name: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    uid: String,
    #[serde(default, rename = "message")]
    _message: String,
    #[serde(default)]
    phases: Vec<WrittenPhaseProgress>,
    last_updated_timestamp: Option<Timestamp>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPhaseProgress {
    name: String,
    status: String,
    #[serde(default, rename = "message")]
    _message: String,
    #[serde(default)]
    steps: Vec<WrittenStepProgress>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenStepProgress {
    name: String,
    status: String,
    #[serde(default)]
    message: String,
}

const STATES: &[(&str, RunState)] = &[
    ("NEVER_RUN", RunState::NeverRun),
    ("PENDING", RunState::Pending),
    ("IN_PROGRESS", RunState::InProgress),
    ("ERROR", RunState::Error),
    ("COMPLETE", RunState::Complete),
    ("FATAL_ERROR", RunState::FatalError),
];

fn state(word: &str) -> anyhow::Result<RunState> {
    let found = STATES.iter().find(|(name, _)| *name == word);
    Ok(found.with_context(|| format!("no state {word:?}"))?.1)
}

fn word(state: RunState) -> &'static str {
    STATES
        .iter()
        .find(|(_, known)| *known == state)
        .map_or("", |(word, _)| word)
}

impl WrittenProgress {
    fn read(self) -> anyhow::Result<RunProgress> {
        let phases = self.phases.into_iter().map(|phase| {
            let steps = phase.steps.into_iter().map(|step| {
                Ok(StepProgress {
                    name: step.name,
                    status: state(&step.status)?,
                    message: (!step.message.is_empty()).then_some(step.message),
                    ..StepProgress::default()
                })
            });
            Ok(PhaseProgress {
                name: phase.name,
                status: state(&phase.status)?,
                steps: steps.collect::<anyhow::Result<_>>()?,
            })
        });
        Ok(RunProgress {
            plan: self.name,
            uid: self.uid,
            status: if self.status.is_empty() {
                RunState::NeverRun
            } else {
                state(&self.status)?
            },
            since: self.last_updated_timestamp.map(Time),
            phases: phases.collect::<anyhow::Result<_>>()?,
        })
    }
}

fn strategy(word: Option<&str>) -> anyhow::Result<Strategy> {
    Ok(match word {
        Some("serial") => Strategy::Serial,
        // The original continues past unfinished steps unless the strategy is "serial"; a plan file without a strategy
        // is serial.
        Some("parallel") | None => Strategy::Parallel,
        Some(other) => bail!("refused: strategy {other}"),
    })
}

impl WrittenPlan {
    fn read(&self, name: &str) -> anyhow::Result<Plan> {
        let phases = self.phases.iter().map(|phase| {
            let steps = phase.steps.iter().map(|step| Step {
                name: step.name.clone(),
                timeout: Duration::MAX,
                ..Step::default()
            });
            Ok(Phase {
                name: phase.name.clone(),
                strategy: strategy(phase.strategy.as_deref())?,
                steps: steps.collect(),
            })
        });
        Ok(Plan {
            name: name.to_owned(),
            strategy: strategy(self.strategy.as_deref())?,
            phases: phases.collect::<anyhow::Result<_>>()?,
            deadline: None,
        })
    }
}

fn printed(progress: &RunProgress) -> Value {
    let phases = progress.phases.iter().map(|phase| {
        let steps = phase
            .steps
            .iter()
            .map(|step| json!({"name": step.name, "status": word(step.status), "message": step.message}));
        json!({"name": phase.name, "status": word(phase.status), "steps": steps.collect::<Vec<_>>()})
    });
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "name": text(&progress.plan),
        "status": word(progress.status),
        "uid": text(&progress.uid),
        "phases": phases.collect::<Vec<_>>(),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExecuteInput {
    #[serde(rename = "instance")]
    _instance: Value,
    plan: String,
    spec: Option<WrittenPlan>,
    #[serde(default)]
    tasks: Vec<Task>,
    #[serde(default)]
    templates: BTreeMap<String, String>,
    status: WrittenProgress,
}

/// The original's fields, as far as the result of a step has them.
fn outcome(input: &ExecuteInput, step: &WrittenStep) -> StepOutcome {
    let mut found = StepOutcome::Done;
    for name in &step.tasks {
        let Some(task) = input.tasks.iter().find(|task| task.name == *name) else {
            return StepOutcome::Fatal {
                message: format!("there is no task {name}"),
            };
        };
        let flag = |name| task.spec.get(name).and_then(Value::as_bool).unwrap_or_default();
        let one = match task.kind.as_str() {
            "Dummy" if flag("wantErr") && flag("fatal") => StepOutcome::Fatal {
                message: format!("task {name}"),
            },
            "Dummy" if flag("wantErr") => StepOutcome::Transient {
                message: format!("task {name}"),
                class: FailureClass::Infra,
            },
            "Dummy" if flag("done") => StepOutcome::Done,
            "Dummy" => StepOutcome::Waiting {
                message: String::new(),
            },
            "Apply" => applied(input, task),
            kind => StepOutcome::Fatal {
                message: format!("task {name} is {kind}: a step has files and deletions"),
            },
        };
        match one {
            StepOutcome::Fatal { .. } => return one,
            StepOutcome::Done => {}
            _ if matches!(found, StepOutcome::Transient { .. }) => {}
            one => found = one,
        }
    }
    found
}

fn applied(input: &ExecuteInput, task: &Task) -> StepOutcome {
    let resources = task.spec.get("resources").and_then(Value::as_array);
    for resource in resources.into_iter().flatten().filter_map(Value::as_str) {
        let Some(text) = input.templates.get(resource) else {
            return StepOutcome::Fatal {
                message: format!("no file {resource:?} below the directory"),
            };
        };
        // A template action is not YAML; muster reads the text between actions.
        let closed = text.matches("{{").count() == text.matches("}}").count();
        if let Err(error) = yaml::documents(resource, if closed { b"" } else { text.as_bytes() }) {
            return StepOutcome::Fatal {
                message: error.to_string(),
            };
        }
    }
    StepOutcome::Done
}

fn failure(message: &str) -> Value {
    json!({"message": message, "event": "StepFailed", "fatal": true})
}

fn executed(input: &Input<'_>) -> anyhow::Result<Value> {
    let given: ExecuteInput = input.parse()?;
    let before = given.status.clone().read()?;
    let plan = match given
        .spec
        .as_ref()
        .map_or(Ok(Plan::default()), |spec| spec.read(&given.plan))
    {
        Ok(plan) => plan,
        Err(refused) => return Ok(json!({"error": failure(&refused.to_string())})),
    };
    let now = Timestamp::UNIX_EPOCH;
    let mut observed = Observed::new();
    let mut pass = execute(&plan, before.clone(), &observed, now);
    while let Some(task) = pass.task.take() {
        let written = given
            .spec
            .iter()
            .flat_map(|spec| &spec.phases)
            .find(|phase| phase.name == task.step.phase);
        let written = written
            .into_iter()
            .flat_map(|phase| &phase.steps)
            .find(|step| step.name == task.step.step);
        let written = written.context("a step that the plan does not have")?;
        observed.insert(task.step, outcome(&given, written));
        pass = execute(&plan, pass.progress, &observed, now);
    }
    let after = pass.progress;
    let failed = after.phases.iter().flat_map(|phase| &phase.steps);
    let failed =
        failed.filter(|step| step.status == RunState::FatalError && before.status != RunState::FatalError);
    let fresh = failed
        .filter(|step| step.since.is_some())
        .find_map(|step| step.message.clone());
    let error = fresh.map(|message| failure(&message));
    Ok(json!({
        "status": printed(&after),
        "error": error,
        "planStatusChanged": before.status != after.status,
    }))
}

/// This table does not say whether the plan's own status has changed.
fn tree(input: &Input<'_>) -> anyhow::Result<Value> {
    let mut answer = executed(input)?;
    answer
        .as_object_mut()
        .context("an answer")?
        .remove("planStatusChanged");
    Ok(answer)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EnsureInput {
    instance: Value,
    operator_version: Value,
}

fn ensured(input: &Input<'_>) -> anyhow::Result<Value> {
    let given: EnsureInput = input.parse()?;
    let plans = BTreeMap::<String, WrittenPlan>::deserialize(&given.operator_version["spec"]["plans"])?;
    let known = &given.instance["status"]["planStatus"];
    let mut status = known.as_object().cloned().unwrap_or_default();
    for (name, plan) in plans {
        let before = match status.remove(&name) {
            Some(known) => WrittenProgress::deserialize(known)?.read()?,
            None => RunProgress {
                plan: name.clone(),
                ..RunProgress::default()
            },
        };
        status.insert(name.clone(), printed(&reshape(&plan.read(&name)?, before)));
    }
    Ok(json!({"status": {"planStatus": status}}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequeueInput {
    instance: Value,
    now: Timestamp,
}

/// A run as old as the plan's timestamp, with a step that nothing watches.
fn requeued(input: &Input<'_>) -> anyhow::Result<Value> {
    let given: RequeueInput = input.parse()?;
    let execution = &given.instance["spec"]["planExecution"];
    let name = execution["planName"].as_str().unwrap_or_default();
    let stamp = &given.instance["status"]["planStatus"][name]["lastUpdatedTimestamp"];
    let stamp = stamp.as_str().map_or(Ok(given.now), str::parse)?;
    let step = Step {
        name: "step".to_owned(),
        timeout: Duration::MAX,
        ..Step::default()
    };
    let phase = Phase {
        name: "phase".to_owned(),
        steps: vec![step],
        ..Phase::default()
    };
    let plan = Plan {
        name: name.to_owned(),
        phases: vec![phase],
        ..Plan::default()
    };
    let mut progress = began(&plan, "run", stamp);
    progress.status = state(execution["status"].as_str().unwrap_or_default())?;
    let waits = StepOutcome::Waiting {
        message: String::new(),
    };
    let observed = Observed::from([(StepId::new("phase", "step"), waits)]);
    let wake = execute(&plan, progress, &observed, given.now).wake;
    let seconds = wake.map(|wake| wake.duration_since(given.now).as_secs());
    Ok(json!({"requeueAfterSeconds": seconds}))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WaitInput {
    instance: Value,
    old_instance: Option<Value>,
    wait_for: WaitFor,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitFor {
    plan: String,
    uid: String,
}

fn runs(instance: &Value) -> anyhow::Result<Vec<RunProgress>> {
    let status = BTreeMap::<String, WrittenProgress>::deserialize(&instance["status"]["planStatus"])
        .unwrap_or_default();
    status.into_values().map(WrittenProgress::read).collect()
}

fn done(input: &Input<'_>) -> anyhow::Result<Value> {
    let given: WaitInput = input.parse()?;
    let before = given.old_instance.as_ref().map_or(Ok(Vec::new()), runs)?;
    let how = waited(
        &runs(&given.instance)?,
        &before,
        &given.wait_for.plan,
        &given.wait_for.uid,
    );
    let outcome = how.map(|how| match how {
        Waited::Complete => "COMPLETE",
        Waited::FatalError => "FATAL_ERROR",
        Waited::Superseded => "SUPERSEDED",
    });
    Ok(json!({"done": how.is_some(), "~safer": {"done": how.is_some(), "outcome": outcome}}))
}
