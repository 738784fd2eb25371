//! `RolloutWindow`: when changes may start in the clusters that it selects. `muster-windows` evaluates windows at a
//! given time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{kind::kind, module::Dependency, schema};

/// Maximum number of entries in `allow` or `deny`.
pub const MAX_ENTRIES: usize = 32;
/// Maximum number of bypasses of a window.
pub const MAX_BYPASSES: usize = 64;
/// Maximum length of a time zone name, in bytes.
pub const MAX_TIME_ZONE: usize = 64;

/// Start time of an entry: `00:00` to `23:59`.
pub const FROM: &str = "^([01][0-9]|2[0-3]):[0-5][0-9]$";
/// End time of an entry: like a start time, or `24:00`.
pub const TO: &str = "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$";
/// A range of dates: `2026-12-20/2027-01-03`.
pub const DATES: &str = "^[0-9]{4}-[0-9]{2}-[0-9]{2}/[0-9]{4}-[0-9]{2}-[0-9]{2}$";
/// Syntax of a name in the time zone database. Whether the name exists is checked when the window is read.
pub const TIME_ZONE: &str = "^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$";

kind! {
    /// Defines when changes of modules may start in the clusters that it selects, either by allow or by deny entries. A
    /// cluster that no window selects is always open.
    RolloutWindow, "rolloutwindows", "rwin", crate::definition::columns::rollout_window, RolloutWindowSpec, RolloutWindowStatus
}

/// Which clusters and modules a window applies to, when it is open, and what waits while it is closed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.allow) != has(self.deny)", "message": "set either allow or deny" },
]))]
pub struct RolloutWindowSpec {
    /// Selects Clusters in this namespace by their labels. Empty ({}): all. Together with deny: [{}] this stops all
    /// rollouts.
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: LabelSelector,
    /// Selects Modules and BootstrapModules in this namespace by their labels. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub module_selector: Option<LabelSelector>,
    /// Times at which changes may start. Entries and windows are combined as a union: it is enough that one of them is
    /// open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_ENTRIES), extend("x-kubernetes-list-type" = "atomic"))]
    pub allow: Option<Vec<WindowEntry>>,
    /// Times at which no change may start, even if other windows allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_ENTRIES), extend("x-kubernetes-list-type" = "atomic"))]
    pub deny: Option<Vec<WindowEntry>>,
    /// Whether clusters may go back to the last good revision while the window is closed.
    #[serde(default = "allow")]
    #[schemars(extend("default" = "Allow"))]
    pub reverts: WhileClosed,
    /// Whether a module may be withdrawn from clusters while the window is closed.
    #[serde(default)]
    #[schemars(extend("default" = "Wait"))]
    pub withdrawals: WhileClosed,
    /// What the stage of a cluster with a closed window does: Wait for the cluster, or Skip it, so that the stage does
    /// not count the cluster until the window opens.
    #[serde(default)]
    #[schemars(extend("default" = "Wait"))]
    pub while_closed: ClosedClusters,
    /// Why the window exists; shown with every cluster that waits for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: String,
    /// Modules for which the window is open until a given time, regardless of its entries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_BYPASSES), extend("x-kubernetes-list-type" = "atomic"))]
    pub bypasses: Vec<WindowBypass>,
}

/// A recurring or one-off time. Empty ({}): always.
///
/// A minute is included if its local date and time are: an hour that is repeated by a clock change is included twice,
/// and one that is skipped is never included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.from) == has(self.to)", "message": "set both from and to, or neither for the whole day" },
    { "rule": "!has(self.from) || !has(self.to) || self.from != self.to", "message": "from and to must differ: omit both for the whole day" },
    { "rule": "!(has(self.timeZone) && has(self.timeZoneFrom))", "message": "set either timeZone or timeZoneFrom" },
    { "rule": "has(self.timeZone) || has(self.timeZoneFrom) || !(has(self.days) || has(self.from) || has(self.to) || has(self.dates))", "message": "days, from, to and dates need timeZone or timeZoneFrom" },
    { "rule": "!has(self.dates) || self.dates.substring(0, 10) <= self.dates.substring(11)", "message": "dates must not end before they start" },
]))]
pub struct WindowEntry {
    /// Days of the week on which the entry starts. Absent: every day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 7), extend("x-kubernetes-list-type" = "set"))]
    pub days: Option<Vec<Weekday>>,
    /// Start time: local time, 00:00 to 23:59.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 5), regex(pattern = FROM))]
    pub from: Option<String>,
    /// End time: local time, exclusive; 24:00 is the end of the day. If it is earlier than from, the entry ends on the
    /// next day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 5), regex(pattern = TO))]
    pub to: Option<String>,
    /// Time zone of days, from, to and dates, such as Europe/Berlin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_TIME_ZONE), regex(pattern = TIME_ZONE))]
    pub time_zone: Option<String>,
    /// Where to read the time zone of each cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone_from: Option<TimeZoneFrom>,
    /// First and last date on which the entry starts, such as 2026-12-20/2027-01-03. Absent: every date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 21), regex(pattern = DATES))]
    pub dates: Option<String>,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Weekday {
    /// Monday.
    Mon,
    /// Tuesday.
    Tue,
    /// Wednesday.
    Wed,
    /// Thursday.
    Thu,
    /// Friday.
    Fri,
    /// Saturday.
    Sat,
    /// Sunday.
    Sun,
}

/// Where to read the time zone of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TimeZoneFrom {
    /// Key of an annotation of the Cluster object. For a cluster without the annotation the window is closed.
    #[schemars(length(min = 1, max = schema::MAX_LABEL_KEY))]
    pub annotation: String,
}

/// Whether a kind of change may start while a window is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum WhileClosed {
    /// The change starts regardless of the window.
    Allow,
    /// The change waits until the window opens.
    #[default]
    Wait,
}

/// What a stage does with a cluster whose window is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ClosedClusters {
    /// The stage continues without the cluster, unless the cluster has a change in flight.
    Skip,
    /// The stage waits for the cluster.
    #[default]
    Wait,
}

/// A module for which a window is open until a given time. Requires permission to write the window; permission to write
/// modules is not sufficient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WindowBypass {
    /// The module, in the same namespace as the window.
    pub module: Dependency,
    /// Why the bypass was added.
    #[schemars(length(min = 1, max = schema::MAX_MESSAGE))]
    pub reason: String,
    /// When the bypass ends. A bypass without an end is rejected.
    #[schemars(required)]
    pub until: Option<Time>,
    /// The user who added the bypass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_NAME))]
    pub by: Option<String>,
}

/// State of a window; written only by muster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutWindowStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready is true if the window is valid. An invalid window is closed for everything that it selects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Whether this window currently allows changes to start. Absent: it depends on the time zone of each cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<bool>,
    /// When open changes next. Absent: never, not within a year, or it depends on the time zone of each cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_change: Option<Time>,
    /// Number of clusters that the window selects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<u32>,
}

const fn allow() -> WhileClosed {
    WhileClosed::Allow
}
