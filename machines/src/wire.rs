//! What updaters answer, as it is read.

use std::fmt;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    objects::{Level, Part},
    patch::Patch,
};

/// Bytes of a body that are read: three objects of at most 1.5 MiB each, which is etcd's limit for one, rarely come near it.
pub const MAX_BODY: usize = 4 << 20;
/// The setting in which an updater is sent the digest that it is to acknowledge.
pub const DIGEST_SETTING: &str = "muster.dev/digest";

/// What came back from a call: the code and the body, or why there is neither.
pub type Received<'a> = Result<(u16, &'a [u8]), &'a str>;

/// Why an answer is not a success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The updater cannot be reached, or not in time.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// Another code than 200; redirects are not followed.
    #[error("HTTP {0}")]
    Code(u16),
    /// The body is longer than what is read.
    #[error("the answer is longer than {MAX_BODY} bytes")]
    TooLong,
    /// The body is not of the form.
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
    /// Its status is none of the two.
    #[error("the answer's status is {0:?}, which is neither Success nor Failure")]
    Status(String),
    /// The updater says that it failed.
    #[error("{0}")]
    Failure(String),
    /// A success that does not say whether it is the end.
    #[error("the answer says Success without retryAfterSeconds, which would have to be 0 at the end")]
    NoEnd,
    /// A negative time.
    #[error("the answer's retryAfterSeconds is {0}")]
    Negative(i32),
}

/// Which changes an updater can make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanAnswer {
    own: Patch,
    bootstrap: Patch,
    infrastructure: Patch,
}

impl CanAnswer {
    /// Its patch of an object.
    pub(crate) const fn patch(&self, part: Part) -> &Patch {
        match part {
            Part::Own => &self.own,
            Part::Bootstrap => &self.bootstrap,
            Part::Infrastructure => &self.infrastructure,
        }
    }
}

/// How far an updater is with a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polled {
    /// It is to be asked again.
    InProgress {
        /// After so many seconds.
        after: u32,
        /// Its words.
        message: String,
    },
    /// It says that it is done.
    Done {
        /// Its words, with the digest that it acknowledges.
        message: String,
    },
    /// It failed, or there is no answer that can be read.
    Failed {
        /// Why.
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

/// The answer of an updater to a question whether it can make a change.
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

/// The answer of an updater to `UpdateMachine`.
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

/// Reads a map. A list of the values of its fields is not taken for one, as serde would.
fn object<T: DeserializeOwned>(value: &Value) -> Result<T, Refused> {
    if value.is_object() {
        T::deserialize(value).map_err(unreadable)
    } else {
        Err(unreadable(format!("{value} is not an object")))
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn unreadable(error: impl fmt::Display) -> Refused {
    Refused::Unreadable(error.to_string())
}
