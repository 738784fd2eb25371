//! Messages to receivers of notifications, by receiver and delivery.

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// The result of a message, after a round of tries.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub enum Delivery {
    /// The receiver accepted it.
    Sent,
    /// It failed; there is another round.
    Failed,
    /// It failed, and there is no further round.
    GivenUp,
}

impl Delivery {
    const ALL: [Self; 3] = [Self::Sent, Self::Failed, Self::GivenUp];
}

impl EncodeLabelValue for Delivery {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        let word = match self {
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::GivenUp => "given-up",
        };
        EncodeLabelValue::encode(&word, encoder)
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Label {
    receiver: String,
    outcome: Delivery,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReceiverLabel {
    receiver: String,
}

/// The message metrics of a process, for the receivers in its configuration.
pub(super) struct Notifications {
    messages: Family<Label, Counter>,
    pending: Family<ReceiverLabel, Gauge>,
}

impl Notifications {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let notifications = Self {
            messages: Family::default(),
            pending: Family::default(),
        };
        registry.register(
            "muster_notifications",
            "Notifications by receiver and outcome: sent, failed (to be retried), given-up",
            notifications.messages.clone(),
        );
        registry.register(
            "muster_notifications_pending",
            "Notifications waiting to be retried, by receiver",
            notifications.pending.clone(),
        );
        notifications
    }

    /// Starts the series of a receiver, with zeros.
    pub(super) fn of(&self, receiver: &str) {
        for outcome in Delivery::ALL {
            drop(self.messages.get_or_create(&label(receiver, outcome)));
        }
        self.pending(receiver, 0);
    }

    pub(super) fn ended(&self, receiver: &str, outcome: Delivery) {
        self.messages.get_or_create(&label(receiver, outcome)).inc();
    }

    pub(super) fn pending(&self, receiver: &str, rollouts: usize) {
        let label = ReceiverLabel {
            receiver: receiver.to_owned(),
        };
        let rollouts = i64::try_from(rollouts).unwrap_or(i64::MAX);
        self.pending.get_or_create(&label).set(rollouts);
    }
}

fn label(receiver: &str, outcome: Delivery) -> Label {
    Label {
        receiver: receiver.to_owned(),
        outcome,
    }
}
