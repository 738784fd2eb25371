//! Which product function answers which table: one line for each.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{cluster_api, das_schiff, grafana, kudo, matcher::Rules, reader::Case};

/// Every system of the corpus.
pub(crate) const SYSTEMS: &[System] = &[
    System {
        folder: "grafana-rollout-operator",
        tables: Some(grafana::TABLES),
    },
    System {
        folder: "das-schiff",
        tables: Some(das_schiff::TABLES),
    },
    System {
        folder: "kudo",
        tables: Some(kudo::TABLES),
    },
    System {
        folder: "cluster-api-in-place",
        tables: Some(cluster_api::TABLES),
    },
];

/// A system that muster replaces.
#[derive(Clone, Copy)]
pub(crate) struct System {
    /// Its folder in the corpus.
    pub folder: &'static str,
    /// Its tables, by room; nothing where muster does not replace it yet.
    pub tables: Option<&'static [&'static [Table]]>,
}

/// A table of cases, and what answers it.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    /// File in the folder of the system.
    pub file: &'static str,
    pub answer: Answer,
    pub rules: Rules,
}

/// What answers a table.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// A function of the product, by its path, through an adapter.
    Product(&'static str, Adapter),
    /// Nothing of the product, with the reason.
    NotApplicable(&'static str),
    /// Needs a real control plane, so it is run by another test.
    Elsewhere(&'static str),
}

/// Translates the input of a case into arguments, and the result into the words of `expect`.
pub(crate) type Adapter = fn(&Input<'_>) -> anyhow::Result<Value>;

/// What an adapter gets of a case: no name and no expectation.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    /// The instant of the case, RFC 3339.
    pub now: Option<&'a str>,
    /// Templates of the file.
    #[allow(dead_code, reason = "not every system has tables whose cases name templates")]
    pub templates: &'a Map<String, Value>,
    /// Objects of the file, references in them as they stand.
    pub objects: &'a Map<String, Value>,
    /// `input`, references resolved.
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

    /// The input as a type; give it `deny_unknown_fields`, so that a key that the adapter does not know fails the case.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        Ok(T::deserialize(self.value)?)
    }
}

/// The table is answered by `function` of the product.
pub(crate) const fn product(file: &'static str, function: &'static str, adapter: Adapter) -> Table {
    Table {
        file,
        answer: Answer::Product(function, adapter),
        rules: Rules::EXACT,
    }
}

/// The product has no counterpart of what the table decides.
pub(crate) const fn not_applicable(file: &'static str, reason: &'static str) -> Table {
    Table {
        file,
        answer: Answer::NotApplicable(reason),
        rules: Rules::EXACT,
    }
}

/// The table is not run by this runner.
pub(crate) const fn elsewhere(file: &'static str, by: &'static str) -> Table {
    Table {
        file,
        answer: Answer::Elsewhere(by),
        rules: Rules::EXACT,
    }
}

#[allow(dead_code, reason = "which of these are used is up to the tables")]
impl Table {
    /// Keys of lists whose order means nothing.
    pub(crate) const fn unordered(mut self, keys: &'static [&'static str]) -> Self {
        self.rules.unordered = keys;
        self
    }

    /// Keys of texts whose words are not promised.
    pub(crate) const fn wording(mut self, keys: &'static [&'static str]) -> Self {
        self.rules.wording = keys;
        self
    }

    /// Where a case has a `safer`, only what it names is compared.
    pub(crate) const fn safer_alone(mut self) -> Self {
        self.rules.safer_alone = true;
        self
    }

    /// A key that a step lacks is as in the step before.
    pub(crate) const fn carried(mut self) -> Self {
        self.rules.carried = true;
        self
    }

    /// Keys of `expect` for which the product has no counterpart.
    pub(crate) const fn without(mut self, keys: &'static [&'static str]) -> Self {
        self.rules.without = keys;
        self
    }

    /// Keys that are compared only where `expect` has them.
    pub(crate) const fn optional(mut self, keys: &'static [&'static str]) -> Self {
        self.rules.optional = keys;
        self
    }

    /// Keys of texts of which the beginning alone is promised.
    pub(crate) const fn beginning(mut self, keys: &'static [&'static str]) -> Self {
        self.rules.beginning = keys;
        self
    }

    /// Keys that follow from a decision: free where `safer` decides otherwise.
    pub(crate) const fn follows(mut self, keys: &'static [(&'static str, &'static [&'static str])]) -> Self {
        self.rules.follows = keys;
        self
    }
}
