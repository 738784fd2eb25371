//! Parses the answers of updaters.

use std::fmt;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    objects::{Level, Part},
    patch::Patch,
};

/// Maximum size of a body, in bytes: three objects of at most 1.5 MiB each, etcd's limit for one object, rarely reach
/// it.
pub const MAX_BODY: usize = 4 << 20;
/// The key of the setting that sends an updater the digest it must acknowledge.
pub const DIGEST_SETTING: &str = "muster.dev/digest";

/// The result of a call: status code and body, or an error message.
pub type Received<'a> = Result<(u16, &'a [u8]), &'a str>;

/// Why an answer is not a success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The updater is unreachable or timed out.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// A status code other than 200; redirects are not followed.
    #[error("HTTP {0}")]
    Code(u16),
    /// The body is longer than [`MAX_BODY`].
    #[error("the response is longer than {MAX_BODY} bytes")]
    TooLong,
    /// The body does not have the expected form.
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
    /// The status is neither `Success` nor `Failure`.
    #[error("the answer's status is {0:?}, which is neither Success nor Failure")]
    Status(String),
    /// The updater reports a failure.
    #[error("{0}")]
    Failure(String),
    /// A success without `retryAfterSeconds`, so it is unknown whether it is final.
    #[error("the answer says Success without retryAfterSeconds, which would have to be 0 at the end")]
    NoEnd,
    /// `retryAfterSeconds` is negative.
    #[error("the answer's retryAfterSeconds is {0}")]
    Negative(i32),
}

/// The answer to whether an updater can make a change: its patches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanAnswer {
    own: Patch,
    bootstrap: Patch,
    infrastructure: Patch,
}

impl CanAnswer {
    /// The updater's patch of an object.
    pub(crate) const fn patch(&self, part: Part) -> &Patch {
        match part {
            Part::Own => &self.own,
            Part::Bootstrap => &self.bootstrap,
            Part::Infrastructure => &self.infrastructure,
        }
    }
}

/// The progress of an updater with a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polled {
    /// The updater must be called again.
    InProgress {
        /// Seconds until the next call.
        after: u32,
        /// The updater's message.
        message: String,
    },
    /// The updater reports success.
    Done {
        /// The updater's message, with the digest that it acknowledges.
        message: String,
    },
    /// It failed, or its answer is missing or unreadable.
    Failed {
        /// The error message.
        message: String,
    },
}

#[derive(Deserialize)]
struct Common {
    #[serde(default)]
    status: String,
    #[serde(default)]
    message: String,
    #[serde(default, rename = "retryAfterSeconds")]
    after: Option<i32>,
}

/// Parses the answer to `CanUpdateMachine` or `CanUpdateMachineSet`.
pub fn can_answer(level: Level, received: Received<'_>) -> Result<CanAnswer, Refused> {
    let (answer, _) = success(received)?;
    let patch = |part: Part| match answer.get(level.patch_key(part)) {
        None | Some(Value::Null) => Ok(Patch::default()),
        Some(given) => object(given),
    };
    Ok(CanAnswer {
        own: patch(Part::Own)?,
        bootstrap: patch(Part::Bootstrap)?,
        infrastructure: patch(Part::Infrastructure)?,
    })
}

/// Parses the answer to `UpdateMachine`.
pub fn polled(received: Received<'_>) -> Polled {
    let read = success(received).and_then(|(_, common)| match common.after {
        None => Err(Refused::NoEnd),
        Some(after) => match u32::try_from(after) {
            Ok(0) => Ok(Polled::Done {
                message: common.message,
            }),
            Ok(after) => Ok(Polled::InProgress {
                after,
                message: common.message,
            }),
            Err(_) => Err(Refused::Negative(after)),
        },
    });
    read.unwrap_or_else(|refused| Polled::Failed {
        message: refused.to_string(),
    })
}

fn success(received: Received<'_>) -> Result<(Value, Common), Refused> {
    let (code, body) = received.map_err(|problem| Refused::NoAnswer(problem.to_owned()))?;
    if code != 200 {
        return Err(Refused::Code(code));
    }
    if body.len() > MAX_BODY {
        return Err(Refused::TooLong);
    }
    let answer: Value = serde_json::from_slice(body).map_err(unreadable)?;
    let common: Common = object(&answer)?;
    match common.status.as_str() {
        "Success" => Ok((answer, common)),
        "Failure" => Err(Refused::Failure(common.message)),
        _ => Err(Refused::Status(common.status)),
    }
}

/// Parses a JSON object. A list of its field values is rejected, although serde would accept it.
fn object<T: DeserializeOwned>(value: &Value) -> Result<T, Refused> {
    if value.is_object() {
        T::deserialize(value).map_err(unreadable)
    } else {
        Err(unreadable(format!("{value} is not an object")))
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it is passed to map_err")]
fn unreadable(error: impl fmt::Display) -> Refused {
    Refused::Unreadable(error.to_string())
}
