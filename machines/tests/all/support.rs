//! A machine, and an updater that covers one field of it.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::{SignedDuration, Timestamp};
use muster_machines::{Acknowledgement, CanAnswer, Level, Objects, Step, Task, can_answer};
use serde_json::{Value, json};

/// A side of a request about one machine.
pub(crate) fn side(version: &str, hello: &str) -> Value {
    json!({
        "machine": {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                    "metadata": {"name": "m1", "namespace": "default", "uid": "u1"},
                    "spec": {"clusterName": "c1", "version": version, "providerID": "p://1"},
                    "status": {"phase": "Running"}},
        "infrastructureMachine": {"kind": "TestMachine", "metadata": {"name": "m1"}, "spec": {"hello": hello}},
    })
}

pub(crate) fn request(from: (&str, &str), to: (&str, &str)) -> Value {
    json!({"current": side(from.0, from.1), "desired": side(to.0, to.1)})
}

/// The answer of an updater that sets one field of the machine or of its infrastructure.
pub(crate) fn sets(object: &str, path: &str, value: &str) -> CanAnswer {
    let document = json!([{"op": "replace", "path": path, "value": value}]).to_string();
    let body = json!({"status": "Success", object: {"patchType": "JSONPatch", "patch": BASE64_STANDARD.encode(document)}});
    can_answer(Level::Machine, Ok((200, body.to_string().as_bytes()))).unwrap()
}

pub(crate) fn objects(side: &Value) -> Objects {
    Objects::read(Level::Machine, side).unwrap()
}

pub(crate) fn step(updater: &str, acknowledgement: Acknowledgement) -> Step {
    Step {
        task: Task::Update {
            updater: updater.to_owned(),
            acknowledgement,
        },
        deadline: SignedDuration::from_mins(10),
    }
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}
