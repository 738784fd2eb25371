//! Parses a ZoneAwarePodDisruptionBudget; validation errors have the texts of rollout-operator.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use super::message;
use crate::{duration, model::Set};

/// The kind of the object.
const KIND: &str = "ZoneAwarePodDisruptionBudget";
/// Maximum size of a compiled regular expression, in bytes: pod names need far less.
const REGEX_LIMIT: usize = 1 << 20;

/// A valid budget.
#[derive(Clone, Debug)]
pub struct Budget {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`; empty if absent.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `spec.selector.matchLabels`; an empty one selects everything.
    pub selector: BTreeMap<String, String>,
    /// Maximum number of unavailable pods.
    pub limit: Limit,
    /// Determines the partition of a pod; without it, budgets count by zone.
    pub partition: Option<Partition>,
    /// How long a pod in another zone must be ready before it counts as ready; the time must be strictly longer.
    pub delay: SignedDuration,
}

/// Maximum number of unavailable pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// An absolute number; 0 forbids all evictions.
    Count(u32),
    /// A percentage of the pods of the set, 0 to 100.
    Percentage(u32),
}

/// The regular expression that extracts the partition from a pod's name.
#[derive(Clone, Debug)]
pub struct Partition {
    regex: Regex,
    group: usize,
}

/// A pod name that the regular expression does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to extract partition from pod Name regular expression")]
pub struct NoPartition;

/// Why a budget is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// An object of another kind.
    #[error("unexpected object kind - expecting {KIND}")]
    Kind,
    /// An object without a kind.
    #[error("Object 'Kind' is missing in '{0}'")]
    NoKind(String),
    /// The object has no `spec`.
    #[error("no spec found in unstructured object")]
    NoSpec,
    /// A field of the wrong type.
    #[error("failed to extract value from config field {0}")]
    Field(&'static str),
    /// A value that should be a map.
    #[error("{0} accessor error: {1} is of another type, expected an object")]
    NoMap(&'static str, String),
    /// Both limits are set.
    #[error("invalid value: only one of maxUnavailable or maxUnavailablePercentage may be set")]
    TwoLimits,
    /// A count below 0.
    #[error("invalid value: max unavailable must be 0 <= val, got {0}")]
    Count(i64),
    /// Not a valid percentage.
    #[error("invalid value: max unavailable percentage must be 0 <= val <= 100, got {0}")]
    Percentage(i64),
    /// A percentage refers to zones and cannot be combined with partitions.
    #[error("invalid value: max unavailable percentage can not be used with partition awareness")]
    PercentageOfPartition,
    /// The regular expression or its group is invalid.
    #[error("invalid value: regex is not valid, got {0}")]
    Regex(String),
    /// The selector is missing.
    #[error("invalid value: selector is not found")]
    NoSelector,
    /// A selector with values other than strings.
    #[error("invalid value: selector is not valid, got {0}")]
    Selector(String),
    /// Not a valid duration.
    #[error("invalid value: crossZoneEvictionDelay is not a valid duration, got {0}")]
    Delay(#[from] duration::Invalid),
    /// A negative duration.
    #[error("invalid value: crossZoneEvictionDelay must be >= 0, got {0}")]
    NegativeDelay(String),
    /// A delay requires partitions.
    #[error("invalid value: crossZoneEvictionDelay requires podNamePartitionRegex to be set")]
    DelayWithoutPartition,
}

/// The answer of the webhook `/admission/zpdb-validation`: an invalid object is denied with code 400 and the text of
/// the error.
pub fn validate(object: &Value) -> Result<(), Invalid> {
    if object["kind"].as_str().is_none_or(str::is_empty) {
        return Err(Invalid::NoKind(object.to_string()));
    }
    Budget::parse(object).map(drop)
}

impl Budget {
    /// Parses an object as the API server returns it.
    pub fn parse(object: &Value) -> Result<Self, Invalid> {
        let spec = match &object["spec"] {
            Value::Null => return Err(Invalid::NoSpec),
            Value::Object(spec) => spec,
            other => return Err(Invalid::NoMap(".spec", other.to_string())),
        };
        if object["kind"] != KIND {
            return Err(Invalid::Kind);
        }
        let limit = limit(spec)?;
        let partition = partition(spec).map_err(Invalid::Regex)?;
        let selector = selector(spec)?;
        if partition.is_some() && matches!(limit, Limit::Percentage(1..)) {
            return Err(Invalid::PercentageOfPartition);
        }
        let delay = delay(spec)?;
        if partition.is_none() && !delay.is_zero() {
            return Err(Invalid::DelayWithoutPartition);
        }
        let metadata = &object["metadata"];
        let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
        Ok(Self {
            name: text("name"),
            uid: text("uid"),
            generation: metadata["generation"].as_i64().unwrap_or_default(),
            selector,
            limit,
            partition,
            delay,
        })
    }

    /// Whether the budget selects the labels of a pod or a StatefulSet.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selector
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
    }

    /// The selector in string form: `a=1,b=2`.
    pub fn selector_text(&self) -> String {
        let pairs: Vec<String> = self
            .selector
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        pairs.join(",")
    }
}

impl Limit {
    /// Maximum number of unavailable pods of a set. A percentage is relative to the smaller of desired and reported
    /// pods, rounded down, and at least 1; without pods it is 0.
    pub fn pods(self, set: &Set) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percentage(percentage) => {
                let pods = set.replicas.unwrap_or_default().min(set.status.replicas);
                if percentage == 0 || pods == 0 {
                    return 0;
                }
                let share = u64::from(pods) * u64::from(percentage) / 100;
                u32::try_from(share).unwrap_or(u32::MAX).max(1)
            }
        }
    }
}

impl Partition {
    /// Compiles an anchored expression; the number is that of the group with the partition, 0 for the whole match.
    pub fn new(regex: &str, group: usize) -> Result<Self, String> {
        let compiled = RegexBuilder::new(regex).size_limit(REGEX_LIMIT).build();
        compiled
            .map(|regex| Self { regex, group })
            .map_err(|error| message::of_regex(regex).unwrap_or_else(|| error.to_string()))
    }

    /// The partition of a pod, from its name; `None` without an expression.
    pub fn of(expression: Option<&Self>, pod: &str) -> Result<Option<String>, NoPartition> {
        let Some(expression) = expression else {
            return Ok(None);
        };
        let captures = expression.regex.captures(pod).ok_or(NoPartition)?;
        let partition = captures.get(expression.group).ok_or(NoPartition)?.as_str();
        if partition.is_empty() {
            return Err(NoPartition);
        }
        Ok(Some(partition.to_owned()))
    }

    /// The expression including its anchors.
    pub fn regex(&self) -> &str {
        self.regex.as_str()
    }

    /// The number of the capturing group.
    pub fn group(&self) -> usize {
        self.group
    }
}

fn limit(spec: &Map<String, Value>) -> Result<Limit, Invalid> {
    let number = |field: &'static str| -> Result<Option<i64>, Invalid> {
        let value = spec.get(field);
        value
            .map(|value| value.as_i64().ok_or(Invalid::Field(field)))
            .transpose()
    };
    if spec.contains_key("maxUnavailable") && spec.contains_key("maxUnavailablePercentage") {
        return Err(Invalid::TwoLimits);
    }
    if let Some(count) = number("maxUnavailable")? {
        return match u32::try_from(count) {
            Ok(count) => Ok(Limit::Count(count)),
            // A number that exceeds any possible number of pods.
            Err(_) if count > 0 => Ok(Limit::Count(u32::MAX)),
            Err(_) => Err(Invalid::Count(count)),
        };
    }
    match number("maxUnavailablePercentage")? {
        None => Ok(Limit::Count(1)),
        Some(percentage) => match u32::try_from(percentage) {
            Ok(percentage @ 0..=100) => Ok(Limit::Percentage(percentage)),
            _ => Err(Invalid::Percentage(percentage)),
        },
    }
}

fn partition(spec: &Map<String, Value>) -> Result<Option<Partition>, String> {
    let regex = match spec.get("podNamePartitionRegex") {
        None => return Ok(None),
        Some(Value::String(regex)) if regex.is_empty() => return Ok(None),
        Some(Value::String(regex)) => regex,
        Some(_) => {
            return Err("failed to extract regex value from config field podNamePartitionRegex".to_owned());
        }
    };
    let group = match spec.get("podNameRegexGroup") {
        None => None,
        Some(group) => {
            let group = group.as_i64();
            Some(group.ok_or("failed to extract group value from config field podNameRegexGroup")?)
        }
    };
    let compiled = Partition::new(&format!("^{regex}$"), 1)?;
    let groups = compiled.regex.captures_len() - 1;
    if groups == 0 {
        return Err("regular expression requires at least one subexpression".to_owned());
    }
    if groups > 1 && group.is_none() {
        return Err(
            "regular expression has multiple subexpressions and requires podNameRegexGroup to be set"
                .to_owned(),
        );
    }
    // The schema requires at least 1; rollout-operator accepts less, and fails at the first eviction.
    let group = usize::try_from(group.unwrap_or(1)).unwrap_or_default();
    if !(1..=groups).contains(&group) {
        return Err("regular expression subexpression index out of range".to_owned());
    }
    Ok(Some(Partition { group, ..compiled }))
}

fn selector(spec: &Map<String, Value>) -> Result<BTreeMap<String, String>, Invalid> {
    let labels = match spec.get("selector") {
        None => return Err(Invalid::NoSelector),
        Some(Value::Object(selector)) => selector.get("matchLabels"),
        Some(other) => return Err(no_labels(other)),
    };
    let labels = match labels {
        None => return Err(Invalid::NoSelector),
        Some(Value::Object(labels)) => labels,
        Some(other) => return Err(no_labels(other)),
    };
    let text = |(key, value): (&String, &Value)| match value {
        Value::String(value) => Ok((key.clone(), value.clone())),
        other => Err(Invalid::Selector(format!(
            ".spec.selector.matchLabels accessor error: the value under key {key:?} is {other}, expected a string"
        ))),
    };
    labels.iter().map(text).collect()
}

fn no_labels(instead: &Value) -> Invalid {
    let error = Invalid::NoMap(".spec.selector.matchLabels", instead.to_string());
    Invalid::Selector(error.to_string())
}

fn delay(spec: &Map<String, Value>) -> Result<SignedDuration, Invalid> {
    let text = match spec.get("crossZoneEvictionDelay") {
        None => return Ok(SignedDuration::ZERO),
        Some(Value::String(text)) if text.is_empty() => return Ok(SignedDuration::ZERO),
        Some(Value::String(text)) => text,
        Some(_) => return Err(Invalid::Field("crossZoneEvictionDelay")),
    };
    let delay = duration::go(text)?;
    if delay.is_negative() {
        return Err(Invalid::NegativeDelay(text.clone()));
    }
    Ok(delay)
}
