//! One pass over a group: from the observed state to actions.

use std::{sync::Arc, time::Duration};

use kube::{ResourceExt, runtime::controller::Action as Next};
use muster_api::{ZoneRollout, names, zonerollout::ZoneRolloutStatus};
use muster_zones::{
    budget::OfRollout,
    decide::{self, Action, Decision},
    model::Group,
    roll::Budget,
    scale::Facts,
};
use tokio::time::Instant;

use super::{
    Error, Last, MANAGER, Zones, act,
    pods::ask_all,
    read::Namespace,
    report::{self, reason},
    reviews,
};
use crate::runtime::{Api, status::patch_if_changed};

/// How many times a pass decides again: after each reference and each round of requests to pods, and after conflicts.
const ROUNDS: usize = 256;

/// Runs a pass over a group.
pub(super) async fn reconcile(rollout: Arc<ZoneRollout>, zones: Arc<Zones>) -> Result<Next, Error> {
    let group = rollout.spec.group.clone();
    if names::zone_rollout_name(&group) != rollout.name_any() {
        return zones.refuse_name(&rollout).await;
    }
    if let Some(wait) = zones.too_soon(&group) {
        return Ok(Next::requeue(wait));
    }
    let began = Instant::now();
    let last = zones.begin(&group, began);
    let passed = match zones.nothing_to_do(&rollout, last.as_deref()).await {
        Ok(None) => zones.pass(&rollout.name_any(), last.as_deref()).await,
        quiet => quiet,
    };
    zones.end(&group, began, &passed);
    let wake = passed?.unwrap_or_default();
    Ok(wake.at.map_or_else(Next::await_change, |at| {
        let wait = at.duration_since(zones.clock.now());
        Next::requeue(
            Duration::try_from(wait)
                .unwrap_or_default()
                .max(Duration::from_millis(1)),
        )
    }))
}

/// When the next pass over a group is due without a change.
#[derive(Clone, Copy, Debug, Default)]
struct Wake {
    at: Option<jiff::Timestamp>,
    /// The decision reports a failure: nothing is retried before something changes.
    failed: bool,
}

impl Zones {
    /// How long until the next pass may begin.
    fn too_soon(&self, group: &str) -> Option<Duration> {
        let passes = self.passes.lock();
        let since = passes.get(group)?.began.elapsed();
        self.settings
            .interval
            .checked_sub(since)
            .filter(|wait| !wait.is_zero())
    }

    fn begin(&self, group: &str, began: Instant) -> Option<String> {
        let mut passes = self.passes.lock();
        let refused = passes.get(group).and_then(|last| last.refused.clone());
        let last = Last {
            began,
            refused: refused.clone(),
        };
        passes.insert(group.to_owned(), last);
        refused
    }

    /// `passed` without a [`Wake`]: the group is gone.
    fn end(&self, group: &str, began: Instant, passed: &Result<Option<Wake>, Error>) {
        if matches!(passed, Ok(None)) {
            return self.metrics.gone(group);
        }
        let refused = match passed {
            Err(Error::Refused(words)) => Some(words.clone()),
            Err(_) | Ok(_) => None,
        };
        if let Some(last) = self.passes.lock().get_mut(group) {
            last.refused = refused;
        }
        let succeeded = matches!(passed, Ok(Some(wake)) if !wake.failed);
        let now = self.clock.now().as_second();
        self.metrics.passed(group, succeeded, began.elapsed(), now);
    }

    /// Decides from the caches of the watches. If the result is only a status, nothing is read.
    async fn nothing_to_do(
        &self,
        rollout: &ZoneRollout,
        refused: Option<&str>,
    ) -> Result<Option<Wake>, Error> {
        let Some(group) = self.rows.group(rollout, self.clock.now()) else {
            return Ok(None);
        };
        let decision = decide::decide(
            &group,
            &Facts::default(),
            &self.scaling(),
            &mut Refusing,
            self.clock.now(),
        );
        let is_quiet = decision.actions.is_empty()
            && decision.read.is_empty()
            && decision.ask.is_empty()
            && !decision.status.reasons.iter().any(|reason| reason.reason == muster_zones::roll::code::BUDGET)
            // Only a fresh read can end an entry or an operation: a pod that is missing in the cache may exist.
            && decision.status.in_flight == group.status.in_flight
            && decision.status.operation == group.status.operation
            && decision.status.last_downscale == group.status.last_downscale
            && act::are_times_written(self, &group, &decision.status);
        if !is_quiet {
            return Ok(None);
        }
        match self.write(rollout, &group, &decision, refused).await {
            Ok(()) => Ok(Some(wake(&decision))),
            // The cache is outdated.
            Err(Error::Status(error)) if error.is_conflict() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads, decides, writes the status and acts.
    async fn pass(&self, name: &str, refused: Option<&str>) -> Result<Option<Wake>, Error> {
        let mut facts = Facts::default();
        let mut read = self.reader.all().await?;
        for _ in 0..ROUNDS {
            let Some(rollout) = read.rollout(name).cloned() else {
                return Ok(None);
            };
            let group = read.group(&rollout, self.clock.now());
            if group.sets.is_empty() {
                return self.without_sets(&rollout).await;
            }
            facts.tracker = Some(read.tracker());
            let (decision, turn) = self.decide(&group, &facts, &read).await;
            let is_open = !(decision.read.is_empty() && decision.ask.is_empty());
            let turn = (!is_open).then_some(turn);
            for reference in &decision.read {
                facts
                    .scales
                    .insert(reference.clone(), self.reader.scale(reference).await);
            }
            if !decision.ask.is_empty() {
                // Lists take time: a review that started meanwhile prepares the pods that would be un-prepared here.
                let present = self.reader.rollout(name).await?;
                if present.and_then(|present| present.resource_version()) == rollout.resource_version() {
                    let answers = ask_all(&*self.pods, &decision.ask).await;
                    facts.answers.extend(decision.ask.iter().cloned().zip(answers));
                }
                read = self.reader.all().await?;
            }
            if is_open {
                continue;
            }
            // Before the status: the status marks them as due.
            act::write_times(self, &group, &decision.status, &read).await?;
            match self.write(&rollout, &group, &decision, refused).await {
                Ok(()) => drop(turn),
                Err(Error::Status(error)) if error.is_conflict() => {
                    read = self.reader.all().await?;
                    continue;
                }
                Err(error) => return Err(error),
            }
            if let Some(words) = self.apply_actions(&group, &decision, &read).await? {
                facts.refused = Some(decision.refused(words));
                read = self.reader.all().await?;
                continue;
            }
            return Ok(Some(wake(&decision)));
        }
        Err(Error::Conflicts(name.to_owned(), ROUNDS))
    }

    /// Decides, with the budgets of the namespace.
    async fn decide(
        &self,
        group: &Group,
        facts: &Facts,
        read: &Namespace,
    ) -> (Decision, tokio::sync::MutexGuard<'_, ()>) {
        let turn = self.turn.lock().await;
        let now = self.clock.now();
        let known = self.rows.budgets.read().clone();
        let sets: Vec<_> = read.sets.iter().map(|set| set.clone().with(&read.pods)).collect();
        let in_flight = self.in_flight(&read.rollouts);
        let mut budget = OfRollout::new(
            &known,
            &self.settings.namespace,
            (&sets, &read.pods),
            in_flight,
            now,
        )
        .beside(reviews::operations(&read.rollouts));
        let decision = decide::decide(group, facts, &self.scaling(), &mut budget, now);
        (decision, turn)
    }

    /// All pods of the namespace that are being deleted or evicted.
    pub(super) fn in_flight(&self, rollouts: &[ZoneRollout]) -> Vec<muster_api::zonerollout::InFlight> {
        let statuses = rollouts.iter().filter_map(|rollout| rollout.status.as_ref());
        let on_record = statuses.flat_map(|status| status.in_flight.iter().cloned());
        on_record.chain(self.evicted.lock().iter().cloned()).collect()
    }

    /// Writes the status over the version that was read, if it changed; then the events of the change.
    async fn write(
        &self,
        rollout: &ZoneRollout,
        group: &Group,
        decision: &Decision,
        refused: Option<&str>,
    ) -> Result<(), Error> {
        let name = rollout.name_any();
        let pass = report::Pass {
            name: &name,
            generation: rollout.metadata.generation.unwrap_or_default(),
            refused,
            now: self.clock.now(),
        };
        let status = report::zone_status(group, decision, pass);
        self.write_status(rollout, &status).await
    }

    async fn write_status(&self, rollout: &ZoneRollout, status: &ZoneRolloutStatus) -> Result<(), Error> {
        let api: Api<ZoneRollout> = Api::namespaced(self.client.clone(), &self.settings.namespace);
        let before = rollout.status.as_ref();
        let written = patch_if_changed(&api, rollout, before, status, MANAGER).await;
        if written.map_err(Error::Status)?.is_some() {
            let before = before.cloned().unwrap_or_default();
            for event in report::events(&before, status) {
                self.events.publish(rollout, event).await;
            }
        }
        Ok(())
    }

    /// Applies the actions, in order. Returns the API server's message if a change of replicas was refused; another
    /// refusal ends the pass.
    async fn apply_actions(
        &self,
        group: &Group,
        decision: &Decision,
        read: &Namespace,
    ) -> Result<Option<String>, Error> {
        for action in &decision.actions {
            let Err(error) = act::act(self, group, action, read).await else {
                continue;
            };
            let words = action.refused(&error);
            if matches!(action, Action::Scale(_)) {
                return Ok(Some(words));
            }
            return Err(Error::Refused(words));
        }
        Ok(None)
    }

    /// A ZoneRollout of the group with another name is ignored.
    async fn refuse_name(&self, rollout: &ZoneRollout) -> Result<Next, Error> {
        let message = format!(
            "the ZoneRollout of group {:?} is {}",
            rollout.spec.group,
            names::zone_rollout_name(&rollout.spec.group)
        );
        self.stand_still(rollout, (reason::WRONG_NAME, message)).await?;
        Ok(Next::await_change())
    }

    /// A group without sets: a ZoneRollout that only muster wrote is deleted, another one reports it.
    async fn without_sets(&self, rollout: &ZoneRollout) -> Result<Option<Wake>, Error> {
        self.passes.lock().remove(&rollout.spec.group);
        if act::is_own_rollout(rollout) {
            act::delete_rollout(self, rollout).await?;
            return Ok(None);
        }
        let message = format!(
            "no StatefulSet in the namespace has the label rollout-group={}",
            rollout.spec.group
        );
        self.stand_still(rollout, (reason::NO_SETS, message)).await?;
        Ok(None)
    }

    async fn stand_still(&self, rollout: &ZoneRollout, why: (&str, String)) -> Result<(), Error> {
        let before = rollout.status.clone().unwrap_or_default();
        let name = rollout.name_any();
        let pass = report::Pass {
            name: &name,
            generation: rollout.metadata.generation.unwrap_or_default(),
            refused: None,
            now: self.clock.now(),
        };
        // The record stays: its sets may come back.
        let status = ZoneRolloutStatus {
            observed_generation: rollout.metadata.generation,
            conditions: report::without_sets(&before.conditions, why, pass),
            progress: None,
            reasons: Vec::new(),
            ..before
        };
        match self.write_status(rollout, &status).await {
            Err(Error::Status(error)) if error.is_conflict() => Ok(()),
            written => written,
        }
    }
}

fn wake(decision: &Decision) -> Wake {
    Wake {
        at: decision.wake_at,
        failed: decision.error.is_some(),
    }
}

/// Budgets without a read: they allow no deletion, so that a pass that would delete is detected.
struct Refusing;

impl Budget for Refusing {
    fn counts_by_partition(&mut self, _: &muster_zones::model::Pod) -> Result<bool, String> {
        Ok(false)
    }

    fn allows(&mut self, _: &muster_zones::model::Pod, _: u32) -> Result<(), String> {
        Err("it is not known yet".to_owned())
    }
}
