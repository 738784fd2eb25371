//! Label selectors as matchers.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::name_syntax::{self as names, NameError};

/// Why a selector is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// An unknown operator.
    #[error("operator {operator:?} of key {key:?} does not exist: use In, NotIn, Exists or DoesNotExist")]
    Operator {
        /// Label key of the requirement.
        key: String,
        /// The rejected operator.
        operator: String,
    },
    /// In or NotIn without values.
    #[error(
        "operator {operator} of key {key:?} needs values: list at least one, or use Exists or DoesNotExist"
    )]
    ValuesMissing {
        /// Label key of the requirement.
        key: String,
        /// In or NotIn.
        operator: String,
    },
    /// Exists or DoesNotExist with values.
    #[error("operator {operator} of key {key:?} takes no values: remove them, or use In or NotIn")]
    ValuesGiven {
        /// Label key of the requirement.
        key: String,
        /// Exists or DoesNotExist.
        operator: String,
    },
    /// Not a valid label key.
    #[error("key {key:?} is not a valid label key: {error}")]
    Key {
        /// The rejected key.
        key: String,
        /// What is wrong with the key.
        error: NameError,
    },
    /// Not a valid label value.
    #[error("value {value:?} of key {key:?} is not a valid label value: {error}")]
    Value {
        /// Label key of the requirement.
        key: String,
        /// The rejected value.
        value: String,
        /// What is wrong with the value.
        error: NameError,
    },
}

/// A parsed and validated label selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matcher {
    /// `None` matches nothing, an empty list matches everything.
    requirements: Option<Vec<Requirement>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
}

impl Matcher {
    /// Parses an optional selector: an absent one matches nothing, an empty one matches everything.
    pub fn new(selector: Option<&LabelSelector>) -> Result<Self, SelectorError> {
        selector
            .map(requirements)
            .transpose()
            .map(|requirements| Self { requirements })
    }

    /// Whether the selector matches these labels.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements
            .as_ref()
            .is_some_and(|all| all.iter().all(|requirement| requirement.matches(labels)))
    }

    /// Whether the selector matches every object, regardless of labels.
    pub fn selects_all(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether the selector is absent and therefore matches nothing.
    pub const fn selects_none(&self) -> bool {
        self.requirements.is_none()
    }
}

impl Requirement {
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        match (&self.test, labels.get(&self.key)) {
            (Test::In(values), Some(value)) => values.contains(value),
            (Test::NotIn(values), Some(value)) => !values.contains(value),
            (Test::Exists, found) => found.is_some(),
            (Test::DoesNotExist, found) => found.is_none(),
            (Test::In(_), None) => false,
            // As in Kubernetes, an object without the label matches NotIn.
            (Test::NotIn(_), None) => true,
        }
    }
}

fn requirements(selector: &LabelSelector) -> Result<Vec<Requirement>, SelectorError> {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| {
        check_key(key)?;
        check_value(key, value)?;
        Ok(Requirement {
            key: key.clone(),
            test: Test::In(BTreeSet::from([value.clone()])),
        })
    });
    let expressions = selector.match_expressions.iter().flatten().map(expression);
    labels.chain(expressions).collect()
}

fn expression(expression: &LabelSelectorRequirement) -> Result<Requirement, SelectorError> {
    let LabelSelectorRequirement {
        key,
        operator,
        values,
    } = expression;
    check_key(key)?;
    let values: BTreeSet<String> = values.iter().flatten().cloned().collect();
    for value in &values {
        check_value(key, value)?;
    }
    let (key, operator) = (key.clone(), operator.clone());
    let test = match (operator.as_str(), values.is_empty()) {
        ("In", false) => Test::In(values),
        ("NotIn", false) => Test::NotIn(values),
        ("Exists", true) => Test::Exists,
        ("DoesNotExist", true) => Test::DoesNotExist,
        ("In" | "NotIn", true) => return Err(SelectorError::ValuesMissing { key, operator }),
        ("Exists" | "DoesNotExist", false) => return Err(SelectorError::ValuesGiven { key, operator }),
        _ => return Err(SelectorError::Operator { key, operator }),
    };
    Ok(Requirement { key, test })
}

fn check_key(key: &str) -> Result<(), SelectorError> {
    names::label_key(key).map_err(|error| SelectorError::Key {
        key: key.to_owned(),
        error,
    })
}

fn check_value(key: &str, value: &str) -> Result<(), SelectorError> {
    names::label_value(value).map_err(|error| SelectorError::Value {
        key: key.to_owned(),
        value: value.to_owned(),
        error,
    })
}
