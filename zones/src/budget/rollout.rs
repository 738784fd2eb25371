//! Asks the budgets about pods that the rollout wants to delete.

use jiff::Timestamp;
use muster_api::zonerollout::{InFlight, Operation};

use super::{
    known::KnownBudgets,
    review::{EvictionOrigin, Facts, Request, judge},
};
use crate::{
    model::{Pod, Set},
    roll,
};

/// The budgets of a namespace, for the rollout in the same process. Each allowed deletion is taken into account by the
/// next check.
#[derive(Clone, Debug)]
pub struct OfRollout<'a> {
    budgets: &'a KnownBudgets,
    namespace: &'a str,
    sets: &'a [Set],
    pods: &'a [Pod],
    in_flight: Vec<InFlight>,
    operations: Vec<Operation>,
    now: Timestamp,
}

impl<'a> OfRollout<'a> {
    /// `sets` and `pods` are all of the namespace, `in_flight` is the record of all its ZoneRollouts.
    pub fn new(
        budgets: &'a KnownBudgets,
        namespace: &'a str,
        (sets, pods): (&'a [Set], &'a [Pod]),
        in_flight: Vec<InFlight>,
        now: Timestamp,
    ) -> Self {
        Self {
            budgets,
            namespace,
            sets,
            pods,
            in_flight,
            operations: Vec::new(),
            now,
        }
    }

    /// Takes operations of the namespace into account, including those of other groups.
    #[must_use]
    pub fn beside(self, operations: Vec<Operation>) -> Self {
        Self { operations, ..self }
    }
}

impl roll::Budget for OfRollout<'_> {
    fn counts_by_partition(&mut self, pod: &Pod) -> Result<bool, String> {
        let found = self
            .budgets
            .find(&pod.labels)
            .map_err(|error| error.to_string())?;
        Ok(found.is_some_and(|budget| budget.partition.is_some()))
    }

    fn allows(&mut self, pod: &Pod, if_zero: u32) -> Result<(), String> {
        let request = Request {
            namespace: self.namespace.to_owned(),
            name: pod.name.clone(),
            dry_run: false,
            origin: EvictionOrigin::Rollout(if_zero),
        };
        let verdict = judge(
            &request,
            &Facts {
                budgets: self.budgets,
                pod: Ok(pod.clone()),
                owner: self.sets.iter().find(|set| set.owns(pod)).cloned().map(Ok),
                sets: Ok(self.sets.to_vec()),
                pods: Ok(self.pods.to_vec()),
                in_flight: &self.in_flight,
                operations: &self.operations,
                now: self.now,
            },
        );
        if !verdict.allowed() {
            return Err(verdict.message);
        }
        self.in_flight.extend(verdict.record.map(|record| *record));
        Ok(())
    }
}
