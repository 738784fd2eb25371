//! Connects gates in the spec, the engine and their readings: what is read, which readings count, and how they are
//! shown. Pure.

use std::collections::BTreeMap;

use muster_api::{
    module::ModuleObject,
    rollout::{self as api, OnNoData},
};
use muster_rollout::{self as engine, Decision, GateId, GateResult, Memory, Millis, Step};
use reqwest::Url;

use super::instants::{instant, millis};
use crate::gates::{self, Question, Reading, Subject};

/// The last reading of each gate that is being read now.
pub(crate) type Answers = BTreeMap<GateId, (Subject, Reading)>;

/// A gate in the engine's form.
pub(crate) fn engine(gate: &api::Gate) -> engine::Gate {
    engine::Gate {
        definition: gates::definition(gate),
        interval: Millis(gate.interval.as_millis()),
        passes: gate.passes,
        no_data_fails: gate.on_no_data == OnNoData::Fail,
    }
}

/// The readings that were made for the memory's present run and the spec's present gates.
pub(crate) fn current<K: ModuleObject>(module: &K, memory: &Memory, mut read: Answers) -> Answers {
    let counts = |place: &GateId, about: &Subject| subject(module, memory, *place).as_ref() == Some(about);
    read.retain(|place, (about, _)| counts(place, about));
    read
}

/// The readings in the engine's form.
pub(crate) fn readings(answers: &Answers) -> Vec<engine::Reading> {
    let readings = answers.iter().map(|(gate, (_, reading))| engine::Reading {
        gate: *gate,
        at: millis(reading.at),
        outcome: reading.outcome,
    });
    readings.collect()
}

/// The gates that the engine wants read.
pub(crate) fn questions<K: ModuleObject>(module: &K, decision: &Decision) -> Vec<Question> {
    let wanted = decision.steps.iter().filter_map(|step| match step {
        Step::Evaluate { gate } => Some(*gate),
        Step::Assign { .. }
        | Step::Withdraw { .. }
        | Step::Fence { .. }
        | Step::Abandon { .. }
        | Step::Conclude { .. } => None,
    });
    let question = |place: GateId| {
        Some(Question {
            place,
            about: subject(module, &decision.memory, place)?,
            gate: gate(&module.spec().rollout.stages, place)?.clone(),
        })
    };
    wanted.filter_map(question).collect()
}

/// What a gate is read for, given this memory.
fn subject<K: ModuleObject>(module: &K, memory: &Memory, place: GateId) -> Option<Subject> {
    let stages = &module.spec().rollout.stages;
    let run = memory.run?;
    Some(Subject {
        module: module.meta().uid.clone().unwrap_or_default(),
        run: run.id,
        revision: run.target,
        stage: stages.get(usize::from(place.stage))?.name.clone(),
        definition: gates::definition(gate(stages, place)?),
    })
}

fn gate(stages: &[api::Stage], place: GateId) -> Option<&api::Gate> {
    let stage = stages.get(usize::from(place.stage))?;
    stage.gates.get(usize::from(place.gate))
}

pub(crate) const fn failing(outcome: GateResult) -> &'static str {
    match outcome {
        GateResult::Pass => "passes",
        GateResult::Fail => "does not pass",
        GateResult::NoData => "is inconclusive",
    }
}

/// How gates are described in messages.
#[derive(Clone, Copy, Debug)]
pub struct Gates<'a> {
    /// The stages with their gates.
    pub stages: &'a [api::Stage],
    /// The readings.
    pub answers: &'a Answers,
}

impl Gates<'_> {
    /// Describes a gate: its last reading, how many times in a row it passed, when it is read next, and its query.
    pub fn describe(
        &self,
        stage: &str,
        place: GateId,
        last: Option<(GateResult, Millis)>,
        (passes, needed): (u32, u32),
    ) -> String {
        let number = u32::from(place.gate) + 1;
        let gate = gate(self.stages, place);
        let query = gate.map_or_else(String::new, |gate| format!(" [{}]", asks(gate)));
        let Some((outcome, at)) = last else {
            return format!("gate {number} of stage {stage}, which is being read{query}");
        };
        // After a restart only the result is known.
        let answer = self.answers.get(&place).map(|(_, reading)| reading);
        let detail = answer
            .filter(|reading| millis(reading.at) == at)
            .map_or_else(String::new, |reading| format!(": {}", reading.message));
        let next = gate.map_or_else(String::new, |gate| {
            let at = at.plus(Millis(gate.interval.as_millis()));
            format!("; it is read again at {}", instant(at))
        });
        format!(
            "gate {number} of stage {stage}, which passed {passes} of {needed} times in a row; at {} it {}{detail}{next}{query}",
            instant(at),
            past(outcome)
        )
    }
}

const fn past(outcome: GateResult) -> &'static str {
    match outcome {
        GateResult::Pass => "passed",
        GateResult::Fail => "did not pass",
        GateResult::NoData => "was inconclusive",
    }
}

/// The query of a gate in short: for a URL host and path, as queries are long.
fn asks(gate: &api::Gate) -> String {
    match (&gate.http, &gate.condition) {
        (Some(http), _) => {
            let url = Url::parse(&http.url);
            let place = url.as_ref().map_or("", Url::path);
            let host = url.as_ref().ok().and_then(Url::host_str).unwrap_or_default();
            format!("{host}{place} {} {} {}", http.json_path, http.op, http.value)
        }
        (None, Some(condition)) => format!(
            "{} {} {} {:?}",
            condition.kind, condition.name, condition.type_, condition.status
        ),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use muster_api::Module;
    use muster_rollout::{Revision, Run, RunState};
    use serde_json::{Value, json};

    use super::*;

    const PLACE: GateId = GateId { stage: 0, gate: 0 };

    fn module(edit: impl FnOnce(&mut Value)) -> Module {
        let http = json!({"url": "https://a.test/x?q=1", "jsonPath": "$.v", "op": "<", "value": "1"});
        let gate = json!({"http": http, "interval": "1m", "passes": 2});
        let mut module = json!({
            "metadata": {"name": "web", "namespace": "fleet", "uid": "uid-1"},
            "spec": {
                "sync": {"source": {"git": {"url": "https://git.test/r", "version": {"tag": "v1"}}}},
                "rollout": {"stages": [{"name": "canary", "selector": {}, "gates": [gate]}]},
            },
        });
        edit(&mut module);
        serde_json::from_value(module).unwrap()
    }

    fn memory(id: u64, revision: u8) -> Memory {
        let run = Run {
            id,
            target: Revision::new([revision; 16]),
            from: None,
            started: Millis(0),
            state: RunState::Open,
        };
        Memory {
            run: Some(run),
            ..Memory::default()
        }
    }

    /// Checks how many readings count, of one made for an edited module in run 1 of revision 1.
    fn check(edit: impl FnOnce(&mut Value), memory_now: &Memory, expect: usize) {
        let about = subject(&module(|_| {}), &memory(1, 1), PLACE).unwrap();
        let reading = Reading {
            at: "2026-01-01T00:00:00Z".parse().unwrap(),
            outcome: GateResult::Pass,
            message: "it read 0".to_owned(),
        };
        let read = Answers::from([(PLACE, (about, reading))]);
        let current = current(&module(edit), memory_now, read);
        assert_eq!(readings(&current).len(), expect);
    }

    #[test]
    fn a_reading_counts_for_what_was_asked_and_for_nothing_else() {
        let same = memory(1, 1);
        let gate = |module: &mut Value| module["spec"]["rollout"]["stages"][0]["gates"][0].take();
        check(|_| {}, &same, 1);
        let often = |module: &mut Value| {
            let gate = &mut module["spec"]["rollout"]["stages"][0]["gates"][0];
            gate["interval"] = json!("5m");
            gate["passes"] = json!(9);
        };
        check(often, &same, 1);
        check(|_| {}, &memory(2, 1), 0);
        check(|_| {}, &memory(1, 2), 0);
        check(|_| {}, &Memory::default(), 0);
        check(|module| module["metadata"]["uid"] = json!("uid-2"), &same, 0);
        let stage = |module: &mut Value| module["spec"]["rollout"]["stages"][0]["name"] = json!("other");
        check(stage, &same, 0);
        let value = |module: &mut Value| {
            let gate = &mut module["spec"]["rollout"]["stages"][0]["gates"][0];
            gate["http"]["value"] = json!("2");
        };
        check(value, &same, 0);
        let before = |module: &mut Value| {
            let gate = gate(module);
            let other =
                json!({"condition": {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "type": "Ready"}});
            module["spec"]["rollout"]["stages"][0]["gates"] = json!([other, gate]);
        };
        check(before, &same, 0);
        let without = |module: &mut Value| module["spec"]["rollout"]["stages"] = json!([]);
        check(without, &same, 0);
    }

    #[test]
    fn the_gate_message_describes_the_last_reading() {
        let module = module(|_| {});
        let stages = &module.spec.rollout.stages;
        let at = Millis(1_767_225_600_781);
        let about = subject(&module, &memory(1, 1), PLACE).unwrap();
        let reading = Reading {
            at: "2026-01-01T00:00:00.781Z".parse().unwrap(),
            outcome: GateResult::Fail,
            message: "it read 3, which is not < 1".to_owned(),
        };
        let answers = Answers::from([(PLACE, (about, reading))]);
        let describe =
            |answers: &Answers, last| Gates { stages, answers }.describe("canary", PLACE, last, (0, 2));
        let unread = "gate 1 of stage canary, which is being read [a.test/x $.v < 1]";
        assert_eq!(describe(&answers, None), unread);
        let failed = Some((GateResult::Fail, at));
        assert_eq!(
            describe(&answers, failed),
            "gate 1 of stage canary, which passed 0 of 2 times in a row; at 2026-01-01T00:00:00Z it did not pass: \
             it read 3, which is not < 1; it is read again at 2026-01-01T00:01:00Z [a.test/x $.v < 1]"
        );
        assert_eq!(
            describe(&Answers::new(), failed),
            "gate 1 of stage canary, which passed 0 of 2 times in a row; at 2026-01-01T00:00:00Z it did not pass; \
             it is read again at 2026-01-01T00:01:00Z [a.test/x $.v < 1]"
        );
    }
}
