//! Spans of time as people write them: `10s`, `1m30s`.

use std::time::Duration;

use jiff::SignedDuration;

/// How long a connection may take to open where the configuration does not say.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(3);

/// The span; `None` where the text is none, or a negative one.
pub fn parse(text: &str) -> Option<Duration> {
    text.parse::<SignedDuration>().ok()?.try_into().ok()
}

/// How long a connection may take to open: a span or whole seconds. What is neither, zero or negative is [`DIAL_TIMEOUT`]: a check without
/// a deadline could keep the agent from restoring.
pub fn dial_timeout(text: &str) -> Duration {
    let seconds = text.parse().ok().map(Duration::from_secs);
    let given = seconds.or_else(|| parse(text));
    given.filter(|timeout| !timeout.is_zero()).unwrap_or(DIAL_TIMEOUT)
}
