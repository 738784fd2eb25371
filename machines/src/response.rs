//! The bodies of responses to Cluster API.

use serde_json::{Value, json};

use crate::{
    objects::Level,
    progress::Reply,
    registration::{GROUP_VERSION, Hook},
    verdict::Verdict,
};

/// The response to `CanUpdateMachine` and `CanUpdateMachineSet`.
pub fn verdict_response(level: Level, verdict: &Verdict) -> Value {
    let hook = match level {
        Level::Machine => Hook::CanUpdateMachine,
        Level::MachineSet => Hook::CanUpdateMachineSet,
    };
    match verdict {
        Verdict::InPlace { patches, .. } => {
            let mut response = response(hook, "Success", "");
            for (part, patch) in patches {
                response[level.patch_key(*part)] = json!(patch);
            }
            response
        }
        Verdict::Replace(message) => response(hook, "Success", message),
        Verdict::Hold(message) | Verdict::Again(message) => response(hook, "Failure", message),
    }
}

/// The response to `UpdateMachine`. Cluster API treats a success without `retryAfterSeconds` as the end, so the field
/// is always set.
pub fn reply(reply: &Reply) -> Value {
    let hook = Hook::UpdateMachine;
    let (mut response, after) = match reply {
        Reply::InProgress { after, message } => (response(hook, "Success", message), (*after).max(1)),
        Reply::Done => (response(hook, "Success", ""), 0),
        Reply::Failed(failed) => (failure(hook, &failed.message), 0),
    };
    response["retryAfterSeconds"] = json!(after);
    response
}

/// A failure response, which cannot be taken for a success.
pub fn failure(hook: Hook, message: &str) -> Value {
    response(hook, "Failure", message)
}

fn response(hook: Hook, status: &str, message: &str) -> Value {
    json!({
        "apiVersion": GROUP_VERSION,
        "kind": format!("{}Response", hook.as_str()),
        "status": status,
        "message": message,
    })
}
