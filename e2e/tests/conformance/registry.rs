//! Which product function implements which table: one line per table.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{cluster_api, das_schiff, grafana, kudo, matcher::Rules, reader::Case};

/// Every system of the corpus.
pub(crate) const SYSTEMS: &[System] = &[
    System {
        directory: "grafana-rollout-operator",
        tables: Some(grafana::TABLES),
    },
    System {
        directory: "das-schiff",
        tables: Some(das_schiff::TABLES),
    },
    System {
        directory: "kudo",
        tables: Some(kudo::TABLES),
    },
    System {
        directory: "cluster-api-in-place",
        tables: Some(cluster_api::TABLES),
    },
];

/// A system that muster replaces.
#[derive(Clone, Copy)]
pub(crate) struct System {
    /// Its directory in the corpus.
    pub directory: &'static str,
    /// Its tables, by module; empty if muster does not replace it yet.
    pub tables: Option<&'static [&'static [Table]]>,
}

/// A table of cases, and the product function for it.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    /// The file in the directory of the system.
    pub file: &'static str,
    pub answer: Answer,
    pub rules: Rules,
}

/// How a table is answered.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// By a function of the product, given as its path, through an adapter.
    Product(&'static str, Adapter),
    /// Not by the product, with the reason.
    NotApplicable(&'static str),
    /// By another test, because it needs a real control plane.
    Elsewhere(&'static str),
}

/// Translates the input of a case into arguments, and the result into the vocabulary of `expect`.
pub(crate) type Adapter = fn(&Input<'_>) -> anyhow::Result<Value>;

/// What an adapter gets from a case: no name and no expectation.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    /// The current time of the case, RFC 3339.
    pub now: Option<&'a str>,
    /// Templates of the file.
    #[allow(dead_code, reason = "not every system has tables whose cases name templates")]
    pub templates: &'a Map<String, Value>,
    /// Objects of the file, with unresolved references.
    pub objects: &'a Map<String, Value>,
    /// The `input`, with resolved references.
    pub value: &'a Value,
}

#[allow(dead_code, reason = "which of these are used is up to the adapters")]
impl<'a> Input<'a> {
    pub(crate) fn of(case: &'a Case) -> Self {
        Self {
            now: case.now.as_deref(),
            templates: &case.templates,
            objects: &case.objects,
            value: &case.input,
        }
    }

    /// Parses the input; use `deny_unknown_fields`, so that a key that the adapter does not know fails the case.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        Ok(T::deserialize(self.value)?)
    }
}

/// A table that `function` of the product implements.
pub(crate) const fn product(file: &'static str, function: &'static str, adapter: Adapter) -> Table {
    Table {
        file,
        answer: Answer::Product(function, adapter),
        rules: Rules::EXACT,
    }
}

/// A table about a decision without a counterpart in the product.
pub(crate) const fn not_applicable(file: &'static str, reason: &'static str) -> Table {
    Table {
        file,
        answer: Answer::NotApplicable(reason),
        rules: Rules::EXACT,
    }
}

/// A table that this runner does not run.
pub(crate) const fn elsewhere(file: &'static str, by: &'static str) -> Table {
    Table {
        file,
        answer: Answer::Elsewhere(by),
        rules: Rules::EXACT,
    }
}

#[allow(dead_code, reason = "which of these are used is up to the tables")]
impl Table {
    /// Keys of lists whose order is irrelevant.
    pub(crate) const fn unordered(mut self, keys: &'static [&'static str]) -> Self {
        self.rules.unordered = keys;
        self
    }

    /// Keys of messages whose wording is not promised.
    pub(crate) const fn wording(mut self, keys: &'static [&'static str]) -> Self {
        self.rules.wording = keys;
        self
    }

    /// Where a case has a `safer`, only what it lists is compared.
    pub(crate) const fn safer_alone(mut self) -> Self {
        self.rules.safer_alone = true;
        self
    }

    /// A key that a step lacks has the value of the previous step.
    pub(crate) const fn carried(mut self) -> Self {
        self.rules.carried = true;
        self
    }

    /// Keys of `expect` for which the product has no counterpart.
    pub(crate) const fn without(mut self, keys: &'static [&'static str]) -> Self {
        self.rules.without = keys;
        self
    }

    /// Keys that are compared only if `expect` has them.
    pub(crate) const fn optional(mut self, keys: &'static [&'static str]) -> Self {
        self.rules.optional = keys;
        self
    }

    /// Keys of messages of which only the beginning is promised.
    pub(crate) const fn beginning(mut self, keys: &'static [&'static str]) -> Self {
        self.rules.beginning = keys;
        self
    }

    /// Keys that depend on a decision: not compared where `safer` changes it.
    pub(crate) const fn follows(mut self, keys: &'static [(&'static str, &'static [&'static str])]) -> Self {
        self.rules.follows = keys;
        self
    }
}
