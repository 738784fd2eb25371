//! Which part of a fleet a page shows, as given in its URL query.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::{Cell, Fleet, Shape};

/// Which part of the fleet to show. The default is all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Filter {
    /// Part of the name of a module or cluster.
    pub text: String,
    /// Label selector for clusters: `env=prod`, `env!=prod`, `env`, `!env`, separated by commas.
    pub labels: String,
    /// Only modules and clusters with something that is neither ready nor left out.
    pub only_problems: bool,
}

/// Invalid label selector.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a label selector: write env=prod, env!=prod, env or !env, separated by commas")]
pub struct LabelsError(pub String);

/// One requirement of a label selector.
enum Term<'a> {
    Is(&'a str, &'a str),
    IsNot(&'a str, &'a str),
    Has(&'a str),
    HasNot(&'a str),
}

impl Filter {
    /// Whether nothing is filtered out.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Applies the filter to a fleet. Text that matches module names keeps those modules; text that matches cluster
    /// names keeps those clusters; text that matches both keeps their combinations.
    pub fn apply(&self, fleet: &Fleet) -> Result<Fleet, LabelsError> {
        let terms = terms(&self.labels)?;
        let text = self.text.trim().to_lowercase();
        let is_named = |name: &str| text.is_empty() || name.to_lowercase().contains(&text);
        let any_module = fleet.modules.iter().any(|module| is_named(&module.name));
        let any_cluster = fleet.clusters.iter().any(|cluster| is_named(&cluster.name));
        let nowhere = !any_module && !any_cluster;
        let is_open = |cell: &Cell| cell.shape.is_open();
        let columns: Vec<usize> = fleet
            .clusters
            .iter()
            .enumerate()
            .filter(|(place, cluster)| {
                (!any_cluster || is_named(&cluster.name))
                    && terms.iter().all(|term| term.holds(&cluster.labels))
                    && (!self.only_problems
                        || fleet
                            .modules
                            .iter()
                            .filter_map(|module| module.cells.get(*place))
                            .any(is_open))
            })
            .map(|(place, _)| place)
            .collect();
        let modules = fleet
            .modules
            .iter()
            .filter(|module| !nowhere && (!any_module || is_named(&module.name)))
            .filter(|module| {
                !self.only_problems
                    || module.shape() != Shape::Ready
                    || columns
                        .iter()
                        .filter_map(|place| module.cells.get(*place))
                        .any(is_open)
            })
            .map(|module| {
                let mut module = module.clone();
                module.cells = columns
                    .iter()
                    .filter_map(|place| module.cells.get(*place).cloned())
                    .collect();
                module
            })
            .collect();
        let clusters = columns.iter().filter_map(|place| fleet.clusters.get(*place));
        Ok(Fleet {
            kind: fleet.kind,
            clusters: clusters.filter(|_| !nowhere).cloned().collect(),
            modules,
        })
    }
}

impl Term<'_> {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::Is(key, value) => labels.get(*key).is_some_and(|found| found == value),
            Self::IsNot(key, value) => labels.get(*key).is_none_or(|found| found != value),
            Self::Has(key) => labels.contains_key(*key),
            Self::HasNot(key) => !labels.contains_key(*key),
        }
    }
}

fn terms(text: &str) -> Result<Vec<Term<'_>>, LabelsError> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| term(part).ok_or_else(|| LabelsError(part.to_owned())))
        .collect()
}

fn term(part: &str) -> Option<Term<'_>> {
    let is_plain = |text: &str| {
        let mut bytes = text.bytes();
        bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/'))
    };
    let key = |text: &str| !text.is_empty() && is_plain(text);
    if let Some((left, right)) = part.split_once("!=") {
        let (left, right) = (left.trim(), right.trim());
        return (key(left) && is_plain(right)).then_some(Term::IsNot(left, right));
    }
    if let Some((left, right)) = part.split_once('=') {
        let (left, right) = (left.trim(), right.trim_start_matches('=').trim());
        return (key(left) && is_plain(right)).then_some(Term::Is(left, right));
    }
    if let Some(left) = part.strip_prefix('!') {
        return key(left).then_some(Term::HasNot(left));
    }
    key(part).then_some(Term::Has(part))
}
