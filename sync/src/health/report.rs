//! What a health check found, in words. Pure.

use super::Health;
use crate::inventory::ObjectId;

/// The longest cause that is quoted; a registry's error can be pages long.
const CAUSE_MAX: usize = 300;

/// What a health check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The objects that are not current; the ones that failed for good first. Only the first one's cause was asked for.
    pub unhealthy: Vec<Unhealthy>,
}

/// An object that is not current.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhealthy {
    /// The object.
    pub id: ObjectId,
    /// Where it stands.
    pub health: Health,
    /// The cause in the words of its pods.
    pub cause: Option<String>,
}

impl Report {
    /// Whether every object is current.
    pub fn is_healthy(&self) -> bool {
        self.unhealthy.is_empty()
    }

    /// Whether waiting is of no use: something failed for good.
    pub fn is_terminal(&self) -> bool {
        self.unhealthy.iter().any(|unhealthy| unhealthy.health.terminal)
    }

    /// The first unhealthy object and why, then how many more: Flux's words `<object> status: '<state>'`, which others
    /// read, with the cause after them. Empty if all is well.
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
