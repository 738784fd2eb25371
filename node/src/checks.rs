//! The checks of a change: each has a name, and all of them are run, so that failures from before the change can be
//! recognized.

use std::{net::SocketAddr, time::Duration};

use crate::{
    clock::Clock,
    config::{Config, Program},
    content::{Checks, glob},
    host::{Dialed, Host},
};

/// The interval of checks while they must stay successful.
pub const PERIOD: Duration = Duration::from_secs(3);
/// Timeout for the response of the API server.
pub const API_TIMEOUT: Duration = Duration::from_secs(5);

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// What was checked: `interface bond0`, `tcp 10.0.0.1:179`, `service frr`, `apiServer`.
    pub name: String,
    /// The error; it may contain secrets.
    pub message: String,
}

impl Failing {
    /// The reason of the condition, by the kind of check.
    pub fn reason(name: &str) -> &'static str {
        match name.split(' ').next() {
            Some("interface") => "InterfaceCheckFailed",
            Some("tcp") => "ReachabilityCheckFailed",
            Some("service") => "ServiceCheckFailed",
            _ => "APIServerCheckFailed",
        }
    }
}

/// The checks that fail now, in the order interfaces, tcp, services, API server.
pub fn failing(checks: &Checks, config: &Config, host: &dyn Host) -> Vec<Failing> {
    failing_within(checks, config, host, &|| Duration::MAX)
}

/// The same, with each check limited to the time that is `left`: a check that hangs must not delay a restore.
pub(crate) fn failing_within(
    checks: &Checks,
    config: &Config,
    host: &dyn Host,
    left: &dyn Fn() -> Duration,
) -> Vec<Failing> {
    let mut failing = interfaces(&checks.interfaces, host);
    let mut note = |name: String, result: Result<(), String>| {
        if let Err(message) = result {
            failing.push(Failing { name, message });
        }
    };
    for target in &checks.tcp {
        note(format!("tcp {target}"), tcp(target, config, host, left));
    }
    for service in &checks.services {
        let result = match config.services.get(service) {
            Some(program) => host.run(&Program {
                timeout: program.timeout.min(left()),
                ..program.clone()
            }),
            None => Err("the node's configuration defines no such service".to_owned()),
        };
        note(format!("service {service}"), result);
    }
    if checks.api_server {
        let result = match &config.server {
            Some(server) => host.api_server(server, API_TIMEOUT.min(left())),
            None => Err("the node's configuration has no server".to_owned()),
        };
        note("apiServer".to_owned(), result);
    }
    failing
}

/// Each pattern must match an interface, and all matching interfaces must be up.
fn interfaces(patterns: &[String], host: &dyn Host) -> Vec<Failing> {
    if patterns.is_empty() {
        return Vec::new();
    }
    let links = host.links();
    let check = |pattern: &String| {
        let links = links.as_ref().map_err(Clone::clone)?;
        let matcher = glob(pattern)?;
        let mut matching = links.iter().filter(|(name, _)| matcher.is_match(name)).peekable();
        if matching.peek().is_none() {
            return Err("no interface matches".to_owned());
        }
        match matching.find(|(_, state)| *state != "up") {
            Some((name, state)) => Err(format!("{name} is {state}")),
            None => Ok(()),
        }
    };
    let checked = patterns.iter().map(|pattern| (pattern, check(pattern)));
    checked
        .filter_map(|(pattern, result)| {
            let message = result.err()?;
            let name = format!("interface {pattern}");
            Some(Failing { name, message })
        })
        .collect()
}

fn tcp(target: &str, config: &Config, host: &dyn Host, left: &dyn Fn() -> Duration) -> Result<(), String> {
    let address: SocketAddr = target
        .parse()
        .map_err(|_| "it is not an address and port".to_owned())?;
    if !config.allows_target(address) {
        return Err("it is not in the checkTargets of the node's configuration".to_owned());
    }
    let mut last = String::new();
    for _ in 0..config.dial.tries {
        match host.dial(address, config.dial.timeout.min(left())) {
            Dialed::Open | Dialed::Refused => return Ok(()),
            Dialed::Failed(message) => last = message,
        }
    }
    Err(last)
}

/// Why the checks were not successful for long enough.
pub(crate) struct NotHeld {
    pub message: String,
    pub failing: Vec<Failing>,
}

/// Waits until all checks have been successful for `hold_for`: a failure restarts that time. `deadline` is relative to
/// the boot.
pub(crate) fn hold(
    run: &dyn Fn() -> Vec<Failing>,
    clock: &dyn Clock,
    (settle, hold_for): (Duration, Duration),
    deadline: Duration,
) -> Result<(), NotHeld> {
    clock.sleep(settle);
    let mut since = None;
    let mut last = Vec::new();
    loop {
        let begun = clock.since_boot();
        let failing = run();
        let now = clock.since_boot();
        if failing.is_empty() {
            let held = now.saturating_sub(*since.get_or_insert(begun));
            if held >= hold_for && now <= deadline {
                return Ok(());
            }
        } else {
            since = None;
            last = failing;
        }
        let Some(left) = deadline.checked_sub(now).filter(|left| !left.is_zero()) else {
            let message = match last.first() {
                Some(first) => format!("{}: {}", first.name, first.message),
                None => format!("the checks did not hold for {hold_for:?} in time"),
            };
            // A check that failed once and succeeds at the end does not count as failing.
            let failing = if since.is_some() { Vec::new() } else { last };
            return Err(NotHeld { message, failing });
        };
        let wanted = since.map_or(PERIOD, |since| (since + hold_for).saturating_sub(now).min(PERIOD));
        clock.sleep(wanted.max(Duration::from_millis(1)).min(left));
    }
}
