//! The known budgets, as observed by the watch.

use std::collections::BTreeMap;

use serde_json::Value;

use super::config::Budget;

/// The valid budgets of a namespace, by name.
#[derive(Clone, Debug, Default)]
pub struct KnownBudgets {
    budgets: BTreeMap<String, Budget>,
}

/// The result of an observed object; the label `result` of `rollout_operator_zpdb_configurations_observed_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// The budget was added or updated.
    Updated,
    /// The generation is not newer than the known one.
    Ignored,
    /// The budget is invalid; the known one with this name is kept.
    Invalid,
    /// The budget was removed.
    Deleted,
    /// The budget was not known, or a newer generation is known.
    DeleteIgnored,
}

/// Two budgets select the same pod, which is ambiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("multiple zoned pod disruption budgets found for pod")]
pub struct ManyBudgets;

impl Observed {
    /// Value of the label `result`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Updated => "updated",
            Self::Ignored => "ignored",
            Self::Invalid => "invalid",
            Self::Deleted => "deleted",
            Self::DeleteIgnored => "delete-ignored",
        }
    }
}

impl KnownBudgets {
    /// Handles an object that was added or changed.
    pub fn put(&mut self, object: &Value) -> Observed {
        let Ok(budget) = Budget::parse(object) else {
            return Observed::Invalid;
        };
        // Generations restart if the object was re-created, even if its deletion was missed.
        let newer = self.budgets.get(&budget.name).is_none_or(|known| {
            (!budget.uid.is_empty() && budget.uid != known.uid) || budget.generation > known.generation
        });
        if !newer {
            return Observed::Ignored;
        }
        self.budgets.insert(budget.name.clone(), budget);
        Observed::Updated
    }

    /// Copies a budget from `other` for an object that still exists when all objects are listed again.
    pub fn keep(&mut self, other: &Self, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if let Some(budget) = other.budgets.get(name) {
            self.budgets.insert(name.to_owned(), budget.clone());
        }
    }

    /// Handles an object that was deleted.
    pub fn delete(&mut self, object: &Value) -> Observed {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let uid = metadata["uid"].as_str().unwrap_or_default();
        let generation = metadata["generation"].as_i64().unwrap_or_default();
        let stale = self.budgets.get(name).is_none_or(|known| {
            let same = uid.is_empty() || known.uid.is_empty() || uid == known.uid;
            !same || generation < known.generation
        });
        if stale {
            return Observed::DeleteIgnored;
        }
        self.budgets.remove(name);
        Observed::Deleted
    }

    /// The budget that selects these pod labels.
    pub fn find(&self, labels: &BTreeMap<String, String>) -> Result<Option<&Budget>, ManyBudgets> {
        let mut selecting = self.budgets.values().filter(|budget| budget.selects(labels));
        let first = selecting.next();
        if selecting.next().is_some() {
            return Err(ManyBudgets);
        }
        Ok(first)
    }

    /// All budgets, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Budget> {
        self.budgets.values()
    }
}
