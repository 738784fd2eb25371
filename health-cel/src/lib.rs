//! Health of an object by expressions in CEL, with the semantics of Flux's `healthCheckExprs`.
//!
//! ```text
//!   texts ─► Expressions::parse: length, syntax, depth, comprehensions, names of functions
//!   object ─► Expressions::judge (a worker with a deadline) ─► inProgress, failed, current ─► Verdict
//! ```
//!
//! The `cel` crate parses. Evaluation is implemented here: it must end when it is stopped, must not panic, and must
//! read absent fields and optionals as cel-go does, which Flux uses. The fixtures of the tests are generated with
//! Flux's own package.
//!
//! Differences from Flux: time zones other than UTC and messages (`google.protobuf.Struct{}`) are rejected. An unknown
//! function is an error when the expression is parsed; in Flux it is one when it is reached.
//!
//! [`table`] contains such expressions for kinds of other projects.
//!
//! Invariant: errors contain no value of an object, because it may be a Secret.

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

/// Maximum length of an expression, in bytes.
pub const MAX_LENGTH: usize = 1024;

/// Maximum nesting depth of an expression.
pub const MAX_DEPTH: usize = 32;

/// Maximum nesting depth of comprehensions (`all`, `exists`, `map`, `filter`).
pub const MAX_COMPREHENSIONS: usize = 2;

/// Time limit for the evaluation of the expressions of one object: some thousand times what a typical object takes.
pub const DEADLINE: Duration = Duration::from_secs(2);

/// The field that an expression is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// The controller has not finished.
    InProgress,
    /// The controller gave up.
    Failed,
    /// The object matches its spec.
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

/// An expression is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {expression:?}: {problem}")]
pub struct ParseError {
    /// The field of the expression.
    pub field: Field,
    /// The expression, truncated if it is too long.
    pub expression: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// Why an expression is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The expression is empty.
    #[error("must not be empty")]
    Empty,
    /// It is longer than [`MAX_LENGTH`]; with its length in bytes.
    #[error("has {0} bytes: write at most {MAX_LENGTH}")]
    TooLong(usize),
    /// It is not valid CEL; with the parser's message.
    #[error("does not parse: {0}")]
    Syntax(String),
    /// It nests deeper than [`MAX_DEPTH`].
    #[error("nests deeper than {MAX_DEPTH}")]
    TooDeep,
    /// It nests more than [`MAX_COMPREHENSIONS`] comprehensions.
    #[error(
        "has more than {MAX_COMPREHENSIONS} comprehensions (all, exists, map, filter) within one another"
    )]
    TooManyComprehensions,
    /// It calls an unknown function; with its name.
    #[error("calls {0}, which is not a function")]
    UnknownFunction(String),
    /// It constructs a protobuf message.
    #[error("constructs a message: only lists and maps are supported")]
    Message,
}

/// The health of an object according to its expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The controller has not observed the current generation.
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

/// Why the expressions give no verdict.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// The result is not a boolean.
    #[error("{field} {expression:?} is of type {kind}, not bool")]
    NotBoolean {
        /// The field of the expression.
        field: Field,
        /// The expression.
        expression: String,
        /// The type of the result.
        kind: &'static str,
    },
    /// The evaluation failed, and the expression has no value.
    #[error("{field} {expression:?}: {message}")]
    NoValue {
        /// The field of the expression.
        field: Field,
        /// The expression.
        expression: String,
        /// The error message.
        message: String,
    },
    /// It creates too many or too large values.
    #[error("{field} {expression:?} makes more than {} MiB", budget::MAX_MADE / 1024 / 1024)]
    TooLarge {
        /// The field of the expression.
        field: Field,
        /// The expression.
        expression: String,
    },
    /// The evaluation takes longer than this limit.
    #[error("the expressions were not evaluated within {}ms", .0.as_millis())]
    TooSlow(Duration),
    /// The worker task failed; with its error.
    #[error("the expressions could not be evaluated: {0}")]
    Worker(String),
}

/// Stops an evaluation.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Stops the evaluation soon after the call.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Stops an evaluation when its caller is dropped.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The expressions of a kind; equal if their texts are equal.
#[derive(Clone, Debug)]
pub struct Expressions {
    /// In the order of evaluation.
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
    /// Parses the expressions of a kind. An empty optional expression counts as absent, as with Flux.
    pub fn parse(current: &str, in_progress: Option<&str>, failed: Option<&str>) -> Result<Self, ParseError> {
        let optional = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        // Flux's order: an object in progress may still carry a previous failure.
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

    /// The health of an object. The evaluation ends soon after `stop` is set.
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

    /// The health of an object, evaluated on a worker thread until `deadline`. An evaluation that is too slow, or whose
    /// caller is dropped, stops automatically.
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
