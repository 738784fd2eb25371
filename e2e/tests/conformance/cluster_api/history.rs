//! Histories of one machine.

use jiff::{SignedDuration, Timestamp};
use muster_machines::{
    Acknowledgement, Covered, Difference, Fallback, Polled, Progress, Reply, Step, Task, Unanswered, Verdict,
    verdict,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::registry::{Input, Table, product};

pub(super) const TABLES: &[Table] =
    &[
        product("safer-update-history.json", "muster_machines::Progress", history)
            .without(&["known"])
            .safer_alone(),
    ];

/// How long a history is simulated if a response repeats.
const DAY: i64 = 86_400;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryInput {
    #[serde(rename = "requirement")]
    _requirement: String,
    current: String,
    policy: Policy,
    events: Vec<Event>,
}

/// Failures are followed by the deadline; health is reported by Cluster API.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Policy {
    fallback: String,
    #[serde(rename = "onFailure")]
    _on_failure: String,
    update_deadline_seconds: Option<i64>,
    #[serde(rename = "healthDeadlineSeconds")]
    _health: Option<i64>,
    #[serde(rename = "healthDeadlineWhileUpdatingSeconds")]
    _health_while_updating: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Event {
    at: i64,
    #[serde(rename = "event")]
    what: String,
    digest: Option<String>,
    from: Option<String>,
    to: Option<String>,
    answer: Option<Value>,
    message: Option<String>,
    retry_after_seconds: Option<u32>,
    #[serde(default)]
    for_ever: bool,
    /// Absent: acknowledged as sent. Null: not acknowledged.
    #[serde(default = "absent")]
    acknowledged: Value,
    #[serde(rename = "failurePolicy")]
    _failure_policy: Option<String>,
}

/// The default for histories without `acknowledged`.
fn absent() -> Value {
    Value::Bool(true)
}

/// The state of the machine.
struct Machine {
    current: String,
    desired: String,
    fallback: Fallback,
    steps: [Step; 1],
    /// The digest of the plan, once there is one.
    planned: Option<String>,
    marked: bool,
    progress: Progress,
    asked: Vec<[String; 2]>,
    updated: Vec<String>,
    ended: Option<Value>,
}

fn history(input: &Input<'_>) -> anyhow::Result<Value> {
    let given: HistoryInput = input.parse()?;
    let deadline = given.policy.update_deadline_seconds.unwrap_or(1_000 * DAY);
    let mut machine = Machine {
        desired: given.current.clone(),
        current: given.current,
        fallback: match given.policy.fallback.as_str() {
            "halt" => Fallback::Hold,
            _ => Fallback::Replace,
        },
        steps: [Step {
            task: Task::Update {
                updater: "updater".to_owned(),
                acknowledgement: Acknowledgement::Digest,
            },
            deadline: SignedDuration::from_secs(deadline),
        }],
        planned: None,
        marked: false,
        progress: Progress::default(),
        asked: Vec::new(),
        updated: Vec::new(),
        ended: None,
    };
    let mut last = 0;
    for event in &given.events {
        last = event.at;
        machine.event(event)?;
    }
    Ok(machine.result_json(last))
}

impl Machine {
    fn event(&mut self, event: &Event) -> anyhow::Result<()> {
        match event.what.as_str() {
            "desired" => self.desired = event.digest.clone().unwrap_or_default(),
            "marked" => self.marked = true,
            // Cluster API no longer asks whether to update once a machine is marked.
            "canUpdateAnswer" if !self.marked => {
                let (from, to) = (event.from.clone(), event.to.clone());
                self.asked
                    .push([from.unwrap_or_default(), to.unwrap_or_default()]);
                let covered = if event.answer == Some(json!(true)) {
                    Covered::InPlace {
                        steps: vec!["updater".to_owned()],
                        digest: self.desired.clone(),
                        patches: Vec::new(),
                    }
                } else {
                    Covered::NotCovered(vec![Difference {
                        kind: "Machine".to_owned(),
                        fields: Vec::new(),
                    }])
                };
                self.decided(Ok(covered));
            }
            "canUpdateError" => {
                self.asked.push([self.current.clone(), self.desired.clone()]);
                self.decided(Err(Unanswered::Updater {
                    updater: "updater".to_owned(),
                    problem: "no answer".to_owned(),
                }));
            }
            "noHandlers" => self.decided(Err(Unanswered::NoUpdaters)),
            "updateMachineAnswer" => self.polled(event),
            "canUpdateAnswer" | "healthy" | "unhealthy" => {}
            other => anyhow::bail!("an event {other:?} is not known"),
        }
        Ok(())
    }

    fn decided(&mut self, outcome: Result<Covered, Unanswered>) {
        match verdict(outcome, self.fallback) {
            Verdict::InPlace { digest, .. } => self.planned = Some(digest),
            Verdict::Replace(_) => self.ended = Some(json!(format!("replaced:{}", self.desired))),
            Verdict::Hold(_) => self.ended = Some(json!(format!("halted:{}", self.current))),
            Verdict::Again(_) => {}
        }
    }

    fn polled(&mut self, event: &Event) {
        let Some(digest) = self.planned.clone().filter(|_| self.marked) else {
            return;
        };
        let mut now = event.at;
        while now <= DAY {
            let at = instant(now);
            if self.progress.call(&self.steps, at).is_some() {
                if self.updated.last() != Some(&digest) {
                    self.updated.push(digest.clone());
                }
                let polled = answered(event, &digest);
                self.progress.take(&self.steps, &digest, polled, at);
            }
            match self.progress.reply(&self.steps, at) {
                Reply::InProgress { after, .. } if event.for_ever => now += i64::from(after),
                _ => break,
            }
        }
    }

    fn result_json(mut self, last: i64) -> Value {
        let mut result = json!({"asked": self.asked, "updated": self.updated});
        let Some(digest) = self.planned else {
            result["result"] = self
                .ended
                .unwrap_or_else(|| json!(format!("current:{}", self.current)));
            return result;
        };
        match self.progress.reply(&self.steps, instant(last)) {
            Reply::Done => result["result"] = json!(format!("updated:{digest}")),
            Reply::InProgress { .. } => result["result"] = json!(format!("updating:{digest}")),
            Reply::Failed(failed) => {
                result["result"] = json!(format!("failed:{digest}"));
                result["atSeconds"] = json!(failed.at.as_second());
                result["message"] = json!(failed.message);
            }
        }
        result
    }
}

fn answered(event: &Event, digest: &str) -> Polled {
    let message = event.message.clone().unwrap_or_default();
    match event.answer.as_ref().and_then(Value::as_str) {
        Some("done") => {
            let message = match &event.acknowledged {
                Value::Bool(_) => format!("digest={digest}"),
                Value::String(other) => format!("digest={other}"),
                _ => String::new(),
            };
            Polled::Done { message }
        }
        Some("inProgress") => Polled::InProgress {
            after: event.retry_after_seconds.unwrap_or(1),
            message,
        },
        _ => Polled::Failed { message },
    }
}

fn instant(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or_default()
}
