//! Durations in their text form: `10s`, `1m30s`.

use std::time::Duration;

use jiff::SignedDuration;

/// Default timeout for opening a connection.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(3);

/// The duration; `None` if the text is not one, or is negative.
pub fn parse(text: &str) -> Option<Duration> {
    text.parse::<SignedDuration>().ok()?.try_into().ok()
}

/// Timeout for opening a connection: a duration or whole seconds. Anything else, zero or a negative value gives
/// [`DIAL_TIMEOUT`]: a check without a deadline could keep the agent from restoring.
pub fn dial_timeout(text: &str) -> Duration {
    let seconds = text.parse().ok().map(Duration::from_secs);
    let given = seconds.or_else(|| parse(text));
    given.filter(|timeout| !timeout.is_zero()).unwrap_or(DIAL_TIMEOUT)
}
