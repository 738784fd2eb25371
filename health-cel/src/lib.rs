//! Health of an object by expressions in CEL, with the semantics of Flux's `healthCheckExprs`.
//!
//! ```text
//!   texts ─► Expressions::parse: length, syntax, depth, comprehensions, names of functions
//!   object ─► Expressions::judge (a worker with a deadline) ─► inProgress, failed, current ─► Verdict
//! ```
//!
//! The `cel` crate parses. Evaluation is ours: it must end when it is stopped, must not panic, and must read absent fields and optionals
//! as cel-go does, by which Flux evaluates. Flux's own package makes the fixtures of the tests.
//!
//! Not as Flux: time zones but UTC are refused, and so are messages (`google.protobuf.Struct{}`). A function that does not exist is an
//! error when it is parsed; Flux's is one when it is reached.
//!
//! [`table`] has such expressions for kinds of others.
//!
//! Invariant: no value of an object is in an error: it may be a Secret.

mod budget;
mod eval;
mod fault;
mod format;
mod functions;
mod parse;
pub mod table;
mod time;
mod value;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use cel::IdedExpr;
use serde_json::Value as Json;

use fault::Fault;

/// The longest expression, in bytes.
pub const MAX_LENGTH: usize = 1024;

/// How deep an expression may nest.
pub const MAX_DEPTH: usize = 32;

/// How many comprehensions (`all`, `exists`, `map`, `filter`) may stand within one another.
pub const MAX_COMPREHENSIONS: usize = 2;

/// How long the expressions of one object may be evaluated: some thousand times what those of a usual object take.
pub const DEADLINE: Duration = Duration::from_secs(2);

/// An expression of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// Its controller has not finished.
    InProgress,
    /// Its controller gave up.
    Failed,
    /// It is as its specification says.
    Current,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InProgress => "inProgress",
            Self::Failed => "failed",
            Self::Current => "current",
        })
    }
}

/// Why an expression cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {expression:?}: {problem}")]
pub struct ParseError {
    /// Which one.
    pub field: Field,
    /// Its text, as far as it is not too long.
    pub expression: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// There is none.
    #[error("write an expression")]
    Empty,
    /// It is too long.
    #[error("has {0} bytes: write at most {MAX_LENGTH}")]
    TooLong(usize),
    /// It is no CEL.
    #[error("does not parse: {0}")]
    Syntax(String),
    /// It nests too deep.
    #[error("nests deeper than {MAX_DEPTH}")]
    TooDeep,
    /// It has loops in loops in loops.
    #[error(
        "has more than {MAX_COMPREHENSIONS} comprehensions (all, exists, map, filter) within one another"
    )]
    TooManyComprehensions,
    /// It calls a function that does not exist.
    #[error("calls {0}, which is no function")]
    UnknownFunction(String),
    /// It makes a message of protobuf.
    #[error("makes a message: only lists and maps can be written")]
    Message,
}

/// Where an object stands by its expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its controller has not observed its generation.
    NotObserved,
    /// `inProgress` is true.
    InProgress,
    /// `failed` is true.
    Failed,
    /// `current` is true.
    Current,
    /// None of them is true.
    NotCurrent,
}

/// Why expressions say nothing of an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// It is something else than true or false.
    #[error("{field} {expression:?} is of type {kind}, not bool")]
    NotBoolean {
        /// Which one.
        field: Field,
        /// Its text.
        expression: String,
        /// The type of its value.
        kind: &'static str,
    },
    /// It has no value.
    #[error("{field} {expression:?}: {message}")]
    NoValue {
        /// Which one.
        field: Field,
        /// Its text.
        expression: String,
        /// Why.
        message: String,
    },
    /// It makes texts or lists without end.
    #[error("{field} {expression:?} makes more than {} MiB", budget::MAX_MADE / 1024 / 1024)]
    TooLarge {
        /// Which one.
        field: Field,
        /// Its text.
        expression: String,
    },
    /// They take too long.
    #[error("the expressions were not evaluated within {}ms", .0.as_millis())]
    TooSlow(Duration),
    /// Their worker failed.
    #[error("the expressions could not be evaluated: {0}")]
    Worker(String),
}

/// Ends an evaluation.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Ends it.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Ends an evaluation that is no longer waited for.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The expressions of a kind; they are the same if their texts are.
#[derive(Clone, Debug)]
pub struct Expressions {
    /// In the order in which they are asked.
    each: Vec<Expression>,
}

#[derive(Clone, Debug)]
struct Expression {
    field: Field,
    text: String,
    parsed: Arc<IdedExpr>,
}

impl PartialEq for Expressions {
    fn eq(&self, other: &Self) -> bool {
        let texts = |each: &Self| -> Vec<_> {
            let each = each.each.iter();
            each.map(|expression| (expression.field, expression.text.clone()))
                .collect()
        };
        texts(self) == texts(other)
    }
}

impl Eq for Expressions {}

impl Expressions {
    /// Parses the expressions of a kind. An empty optional one is none, as with Flux.
    pub fn parse(current: &str, in_progress: Option<&str>, failed: Option<&str>) -> Result<Self, ParseError> {
        let optional = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        // Flux's order: what is in progress may still carry the failure of before.
        let texts = [
            (Field::InProgress, optional(in_progress)),
            (Field::Failed, optional(failed)),
            (Field::Current, Some(current.to_owned())),
        ];
        let mut each = Vec::with_capacity(texts.len());
        for (field, text) in texts {
            let Some(text) = text else { continue };
            match parse::parse(&text) {
                Ok(parsed) => each.push(Expression { field, text, parsed }),
                Err(problem) => {
                    return Err(ParseError {
                        field,
                        expression: match problem {
                            Problem::TooLong(_) => text.chars().take(60).chain(['…']).collect(),
                            _ => text,
                        },
                        problem,
                    });
                }
            }
        }
        Ok(Self { each })
    }

    /// Where an object stands. It ends soon after `stop`.
    pub fn evaluate(&self, object: &Json, stop: &Stop) -> Result<Verdict, EvaluationError> {
        let number = |pointer: &str| object.pointer(pointer).and_then(Json::as_i64);
        let generations = (
            number("/metadata/generation"),
            number("/status/observedGeneration"),
        );
        if let (Some(generation), Some(observed)) = generations
            && generation != observed
        {
            return Ok(Verdict::NotObserved);
        }
        let variables = value::variables(object);
        for expression in &self.each {
            let is_true = match eval::evaluate(&expression.parsed, &variables, stop) {
                Ok(value::Value::Bool(is_true)) => is_true,
                Ok(other) => {
                    return Err(EvaluationError::NotBoolean {
                        field: expression.field,
                        expression: expression.text.clone(),
                        kind: other.kind(),
                    });
                }
                Err(fault) => return Err(expression.failed(fault)),
            };
            if is_true {
                return Ok(match expression.field {
                    Field::InProgress => Verdict::InProgress,
                    Field::Failed => Verdict::Failed,
                    Field::Current => Verdict::Current,
                });
            }
        }
        Ok(Verdict::NotCurrent)
    }

    /// Where an object stands, found out by a worker that has until `deadline`. An evaluation that is too slow, or that is no longer waited
    /// for, ends by itself.
    pub async fn judge(
        self: Arc<Self>,
        object: Json,
        deadline: Duration,
    ) -> Result<Verdict, EvaluationError> {
        let stop = StopOnDrop(Stop::default());
        let theirs = stop.0.clone();
        let worker = tokio::task::spawn_blocking(move || self.evaluate(&object, &theirs));
        match tokio::time::timeout(deadline, worker).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(error)) => Err(EvaluationError::Worker(error.to_string())),
            Err(_) => Err(EvaluationError::TooSlow(deadline)),
        }
    }
}

impl Expression {
    fn failed(&self, fault: Fault) -> EvaluationError {
        let (field, expression) = (self.field, self.text.clone());
        match fault {
            Fault::NoValue(message) => EvaluationError::NoValue {
                field,
                expression,
                message,
            },
            Fault::TooLarge => EvaluationError::TooLarge { field, expression },
            Fault::Stopped => EvaluationError::TooSlow(DEADLINE),
        }
    }
}
