//! Notifications: the receivers in `--notify-config` are notified of rollouts, with one message per rollout that is
//! edited or followed up.
//!
//! ```text
//!   ModuleRevision (status) ─────┐
//!   module (cached status) ──────┼─► standing ─► decide ─► courier ──► receiver
//!   annotation (what was sent) ──┘   (pure)      (pure)       └─► annotation of the ModuleRevision
//! ```
//!
//! A separate controller over ModuleRevisions: no rollout waits for a receiver.
//!
//! Invariant: what was sent is recorded in an annotation of the ModuleRevision, written after the receiver has
//! responded: a crash between the two repeats one message, with the same number, and loses none. Invariant: requests go
//! only to hosts in the configuration; objects contribute only the commit and texts. Invariant: tries, rounds and
//! responses are bounded; a receiver that does not respond delays the others by one round of tries at most.

mod config;
mod courier;
mod decide;
mod message;
mod phase;
mod record;
mod requests;
mod rollout_state;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future;
use kube::{ResourceExt, runtime::reflector::Store};
use muster_api::{
    BootstrapModule, Module, ModuleRevision,
    module::{ModuleKind, ModuleObject},
    names,
};
use parking_lot::Mutex;
use thiserror::Error;
use tracing::{debug, warn};

use self::{
    config::Receiver,
    courier::{Courier, ROUND, Undelivered},
    decide::{Next, NotificationRecord, Telling},
    record::on_record,
    rollout_state::{ModuleRow, RolloutState, rollout_standing},
};
pub use self::{
    config::{Config, ConfigError},
    phase::Phase,
};
use crate::{
    metrics::{Delivery, Metrics},
    reconcile::{Context, Runner},
    runtime::{Action, CallError, Index, Key, Retry, Retryable},
};

/// Rounds of tries of one message before it is given up: an hour.
const ROUNDS: u32 = 12;

/// What was sent could not be recorded.
#[derive(Debug, Error)]
enum Error {
    /// The record cannot be serialized: a bug in muster.
    #[error("what was sent cannot be encoded as JSON")]
    Encode(#[from] serde_json::Error),
    /// The API server refused, or did not respond.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl Retryable for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Encode(_) => Retry::AwaitChange,
            Self::Call(error) => error.retry(),
        }
    }
}

/// A ModuleRevision, and a receiver that is notified about it.
type Recipient = (Key, String);

/// The shared state of reconciles.
struct Notifier {
    context: Context,
    config: Arc<Config>,
    courier: Courier,
    modules: Arc<Index<Module, ModuleRow>>,
    bootstraps: Arc<Index<BootstrapModule, ModuleRow>>,
    revisions: Store<ModuleRevision>,
    /// What was sent, until the watch shows the record: a decision based on an older record would send it again.
    kept: Mutex<BTreeMap<Recipient, Kept>>,
    /// Rounds of tries of a pending message so far. Like `kept`, at most one entry for each ModuleRevision and
    /// receiver.
    rounds: Mutex<BTreeMap<Recipient, u32>>,
}

/// What was sent, and whether the record was written.
#[derive(Clone)]
struct Kept {
    sent: NotificationRecord,
    written: bool,
}

/// Notifies receivers of rollouts until shutdown.
pub async fn run(context: Context, config: Arc<Config>) {
    let runner = Runner::<ModuleRevision>::new("notify", &context);
    let notifier = Arc::new(Notifier {
        revisions: runner.store(),
        modules: Arc::new(rows()),
        bootstraps: Arc::new(rows()),
        courier: Courier::through(context.options.proxies.clone()),
        kept: Mutex::default(),
        rounds: Mutex::default(),
        config,
        context: context.clone(),
    });
    for receiver in &notifier.config.receivers {
        context.metrics.notifies(&receiver.name);
    }
    runner
        .rows(Arc::clone(&notifier.modules))
        .rows(Arc::clone(&notifier.bootstraps))
        .run(notifier, reconcile)
        .await;
}

/// Caches modules; a change of one triggers the ModuleRevision that it is about.
fn rows<K: ModuleObject>() -> Index<K, ModuleRow> {
    Index::new(
        |module: &K| Some(ModuleRow::of(module)),
        |key: &Key, row: &ModuleRow| {
            let revision = row.revision.iter();
            let name =
                |revision: &String| names::module_revision_name(K::KIND, &key.namespace, &key.name, revision);
            revision
                .map(|revision| Key::new(&key.namespace, name(revision)))
                .collect()
        },
    )
}

async fn reconcile(revision: Arc<ModuleRevision>, notifier: Arc<Notifier>) -> Result<Action, Error> {
    let module = notifier.module(&revision);
    let Some(standing) = rollout_standing(&revision, module.as_ref()) else {
        if module.is_none() {
            notifier.remove_revision(&Key::of(&*revision));
        }
        return Ok(Action::await_change());
    };
    let labels = module.map(|module| module.labels).unwrap_or_default();
    let receivers = notifier.config.receivers.iter();
    let concerned = receivers.filter(|receiver| {
        receiver.modules.matches(&labels) && receiver.is_about(&standing.rollout.repository)
    });
    let notifications = concerned.map(|receiver| notifier.notify_receiver(&revision, &standing, receiver));
    let mut next: Option<Duration> = None;
    let mut failed = None;
    for result in future::join_all(notifications).await {
        match result {
            Ok(None) => {}
            Ok(Some(wait)) => next = Some(next.map_or(wait, |next| next.min(wait))),
            Err(error) => failed = Some(error),
        }
    }
    match (failed, next) {
        (Some(error), _) => Err(error),
        (None, Some(wait)) => Ok(Action::requeue(wait)),
        (None, None) => Ok(Action::await_change()),
    }
}

impl Notifier {
    fn module(&self, revision: &ModuleRevision) -> Option<ModuleRow> {
        let reference = &revision.spec.module_ref;
        let key = Key::new(revision.namespace().unwrap_or_default(), &reference.name);
        match reference.kind {
            ModuleKind::Module => self.modules.get(&key),
            ModuleKind::BootstrapModule => self.bootstraps.get(&key),
        }
    }

    /// Notifies one receiver, if there is something to send; returns when to retry, if a message was not delivered.
    async fn notify_receiver(
        &self,
        revision: &ModuleRevision,
        standing: &RolloutState,
        receiver: &Receiver,
    ) -> Result<Option<Duration>, Error> {
        let concern = (Key::of(revision), receiver.name.clone());
        let on_record = on_record(revision, receiver);
        let kept = self.kept(&concern, on_record.as_ref());
        let sent = kept.as_ref().map(|kept| &kept.sent).or(on_record.as_ref());
        let now = self.context.clock.now();
        let telling = match decide::decide(sent, standing, receiver.manner(), &receiver.phases, now) {
            Next::Tell(telling) => telling,
            Next::Note(sent) => {
                self.arrived(&concern);
                self.record(revision, receiver, sent).await?;
                return Ok(None);
            }
            Next::Rest => {
                self.arrived(&concern);
                if let Some(kept) = kept.filter(|kept| !kept.written) {
                    self.record(revision, receiver, kept.sent).await?;
                }
                return Ok(None);
            }
        };
        if let Some(wait) = self.courier.ails_for(receiver) {
            // It waits like the messages that were tried.
            self.rounds.lock().entry(concern).or_insert(0);
            self.show_pending();
            return Ok(Some(wait));
        }
        let brought = self.courier.bring(receiver, standing, &telling, now).await;
        let sent = match brought {
            Ok(post) => {
                self.metrics().notified(&receiver.name, Delivery::Sent);
                debug!(
                    receiver = receiver.name,
                    rollout = standing.rollout.id(),
                    phase = standing.phase.as_str(),
                    "told"
                );
                decide::after(&telling, standing, post, false)
            }
            Err(why) => match self.undelivered(&concern, receiver, standing, &telling, &why) {
                Some(sent) => sent,
                None => return Ok(Some(ROUND)),
            },
        };
        self.arrived(&concern);
        self.record(revision, receiver, sent).await?;
        Ok(None)
    }

    /// A message was not delivered: the record if it is given up; `None` if it is retried.
    fn undelivered(
        &self,
        concern: &Recipient,
        receiver: &Receiver,
        standing: &RolloutState,
        telling: &Telling,
        why: &Undelivered,
    ) -> Option<NotificationRecord> {
        let (is_last, why) = match why {
            Undelivered::Never(why) => (true, why),
            Undelivered::Later(why) => {
                let mut rounds = self.rounds.lock();
                let round = rounds.entry(concern.clone()).or_insert(0);
                *round = round.saturating_add(1);
                (*round >= ROUNDS, why)
            }
        };
        self.show_pending();
        let delivery = if is_last {
            Delivery::GivenUp
        } else {
            Delivery::Failed
        };
        self.metrics().notified(&receiver.name, delivery);
        warn!(
            receiver = receiver.name,
            rollout = standing.rollout.id(),
            phase = standing.phase.as_str(),
            given_up = is_last,
            "a message was not delivered: {why}"
        );
        is_last.then(|| decide::after(telling, standing, None, true))
    }

    /// Nothing more needs to be sent to a receiver.
    fn arrived(&self, concern: &Recipient) {
        if self.rounds.lock().remove(concern).is_some() {
            self.show_pending();
        }
    }

    /// A ModuleRevision no longer needs notifications.
    fn remove_revision(&self, revision: &Key) {
        self.kept.lock().retain(|(key, _), _| key != revision);
        self.rounds.lock().retain(|(key, _), _| key != revision);
        self.show_pending();
    }

    fn show_pending(&self) {
        let rounds = self.rounds.lock();
        for receiver in &self.config.receivers {
            let waiting = rounds.keys().filter(|(_, name)| *name == receiver.name).count();
            self.metrics().set_pending_notifications(&receiver.name, waiting);
        }
    }

    fn metrics(&self) -> &Metrics {
        &self.context.metrics
    }
}
