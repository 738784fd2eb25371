//! Formats the result of a health check. Pure.

use super::Health;
use crate::inventory::ObjectId;

/// The maximum length of a quoted cause; a registry's error can be pages long.
const CAUSE_MAX: usize = 300;

/// The result of a health check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The objects that are not current, permanently failed ones first. Only the first has a cause.
    pub unhealthy: Vec<Unhealthy>,
}

/// An object that is not current.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhealthy {
    /// The object.
    pub id: ObjectId,
    /// The health of the object.
    pub health: Health,
    /// The cause, from its pods.
    pub cause: Option<String>,
}

impl Report {
    /// Whether every object is current.
    pub fn is_healthy(&self) -> bool {
        self.unhealthy.is_empty()
    }

    /// Whether waiting is pointless: an object failed permanently.
    pub fn is_terminal(&self) -> bool {
        self.unhealthy.iter().any(|unhealthy| unhealthy.health.terminal)
    }

    /// The first unhealthy object and why, then the number of others: Flux's text `<object> status: '<state>'`, which
    /// other tools parse, followed by the cause. Empty if all objects are healthy.
    pub fn summary(&self) -> String {
        let Some(first) = self.unhealthy.first() else {
            return String::new();
        };
        let mut text = format!("{} status: '{}'", first.id, first.health.state.as_str());
        let why = [Some(first.health.message.as_str()), first.cause.as_deref()];
        for part in why.into_iter().flatten().filter(|part| !part.is_empty()) {
            text = format!("{text}: {}", shortened(part));
        }
        match self.unhealthy.len() - 1 {
            0 => text,
            more => format!("{text}, and {more} more"),
        }
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(CAUSE_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
