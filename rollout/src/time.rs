//! Time, as passed by the caller. Arithmetic saturates: a clock that jumps never panics.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds: an instant since the Unix epoch, or a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Millis(pub u64);

impl Millis {
    /// A duration in seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// A duration in minutes.
    pub const fn minutes(minutes: u64) -> Self {
        Self::seconds(minutes.saturating_mul(60))
    }

    /// This instant plus a duration; saturates.
    #[must_use]
    pub const fn plus(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The duration from `earlier` until this instant; zero if the clock went back.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl From<Duration> for Millis {
    fn from(span: Duration) -> Self {
        Self(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
    }
}

impl From<Millis> for Duration {
    fn from(span: Millis) -> Self {
        Self::from_millis(span.0)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}s", self.0 / 1000, self.0 % 1000)
    }
}
