//! The audit log of a real API server: which requests muster made, and with which permissions.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Display, Formatter},
    fs,
    time::Duration,
};

use jiff::Timestamp;
use muster_real::Fleet;
use serde_json::Value;
use tokio::time::Instant;

use super::{AGENT, CONTROLLER, recorded::Request};

/// Prefix of every ServiceAccount's user name: namespace and name follow.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// Prefix of the names of muster's ServiceAccounts, in any namespace.
const MUSTER: &str = "muster-";
/// The audit stage that ends a request.
const COMPLETE: &str = "ResponseComplete";

/// One moment on two clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epoch {
    pub instant: Instant,
    time: Timestamp,
}

impl Epoch {
    pub(crate) fn now() -> Self {
        Self {
            instant: Instant::now(),
            time: Timestamp::now(),
        }
    }

    fn since(self, value: &Value) -> Duration {
        Duration::try_from(time(value).duration_since(self.time)).unwrap_or_default()
    }
}

/// A request of an account, allowed or denied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    /// Whether it was allowed.
    pub allowed: bool,
    /// The name of the ServiceAccount.
    pub account: String,
    /// The Kubernetes verb.
    pub verb: String,
    /// The API group; empty for the core.
    pub group: String,
    /// The resource, with its subresource after a slash.
    pub resource: String,
    /// The namespace; empty for requests across all namespaces and for cluster-scoped resources.
    pub namespace: String,
}

impl Use {
    /// Parses a line written by [`Display`].
    pub fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split('\t').collect();
        let [decision, account, verb, group, resource, namespace] = words[..] else {
            return None;
        };
        Some(Self {
            allowed: decision == "allow",
            account: account.to_owned(),
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
        })
    }

    fn of(event: &Value) -> Option<Self> {
        let reference = event["objectRef"].as_object()?;
        let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
        let resource = match text("subresource") {
            "" => text("resource").to_owned(),
            subresource => format!("{}/{subresource}", text("resource")),
        };
        Some(Self {
            allowed: event["annotations"]["authorization.k8s.io/decision"].as_str()? == "allow",
            account: account(event)?.to_owned(),
            verb: event["verb"].as_str()?.to_owned(),
            group: text("apiGroup").to_owned(),
            resource,
            namespace: text("namespace").to_owned(),
        })
    }
}

impl Display for Use {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let decision = if self.allowed { "allow" } else { "forbid" };
        let Self {
            account,
            verb,
            group,
            resource,
            namespace,
            ..
        } = self;
        write!(
            f,
            "{decision}\t{account}\t{verb}\t{group}\t{resource}\t{namespace}"
        )
    }
}

/// All requests that muster's accounts made, and those that were denied outside of the excused periods.
pub(crate) fn uses(log: &str, excused: impl Fn(Timestamp) -> bool) -> BTreeSet<Use> {
    events(log)
        .filter_map(|event| Some((time(&event["requestReceivedTimestamp"]), Use::of(&event)?)))
        .filter(|(time, used)| used.allowed || !excused(*time))
        .map(|(_, used)| used)
        .collect()
}

/// The same for all control planes of a fleet, one line each.
pub(crate) fn lines(fleet: &Fleet, excused: impl Fn(Timestamp) -> bool) -> String {
    let mut lines = String::new();
    for plane in fleet.planes() {
        let log = fs::read_to_string(plane.audit_log()).unwrap_or_default();
        for used in uses(&log, &excused) {
            lines += &used.to_string();
            lines.push('\n');
        }
    }
    lines
}

fn time(value: &Value) -> Timestamp {
    value.as_str().and_then(|text| text.parse().ok()).unwrap()
}

/// The requests of muster's accounts, in order.
pub(crate) fn requests(log: &str, epoch: Epoch) -> Vec<Request> {
    // A watch has two entries: when it starts, and when it ends.
    let mut last: BTreeMap<String, Value> = BTreeMap::new();
    for event in events(log).filter(|event| account(event).is_some()) {
        if let Some(id) = event["auditID"].as_str() {
            last.insert(id.to_owned(), event);
        }
    }
    let mut requests: Vec<Request> = last.values().map(|event| request(event, epoch)).collect();
    requests.sort_by_key(|request| request.came);
    requests
}

fn request(event: &Value, epoch: Epoch) -> Request {
    let uri = event["requestURI"].as_str().unwrap_or_default();
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let method = match event["verb"].as_str().unwrap_or_default() {
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        "delete" | "deletecollection" => "DELETE",
        _ => "GET",
    };
    let at = epoch.since(&event["requestReceivedTimestamp"]);
    let ended = (event["stage"] == COMPLETE).then(|| epoch.since(&event["stageTimestamp"]));
    Request {
        at,
        came: epoch.instant + at,
        // The user name on the other beds.
        user: match account(event) {
            Some("muster-agent") => AGENT,
            _ => CONTROLLER,
        }
        .to_owned(),
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        lasted: ended.map(|ended| ended.saturating_sub(at)),
    }
}

/// The name of the muster account that made the request; `None` for other users.
fn account(event: &Value) -> Option<&str> {
    let user = event["user"]["username"].as_str()?;
    let (_, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    name.starts_with(MUSTER).then_some(name)
}

/// The audit events; an incomplete last line is skipped.
fn events(log: &str) -> impl Iterator<Item = Value> {
    log.lines().filter_map(|line| serde_json::from_str(line).ok())
}
