//! `RolloutWindow`: when changes may begin in the clusters that it selects. What it means at an instant is decided by `muster-windows`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{kind::kind, module::Dependency, schema};

/// How many entries `allow` or `deny` may have.
pub const MAX_ENTRIES: usize = 32;
/// How many bypasses a window may have.
pub const MAX_BYPASSES: usize = 64;
/// The longest name of a time zone, in bytes.
pub const MAX_TIME_ZONE: usize = 64;

/// Start of an entry: `00:00` to `23:59`.
pub const FROM: &str = "^([01][0-9]|2[0-3]):[0-5][0-9]$";
/// End of an entry: as a start, or `24:00`.
pub const TO: &str = "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$";
/// A range of dates: `2026-12-20/2027-01-03`.
pub const DATES: &str = "^[0-9]{4}-[0-9]{2}-[0-9]{2}/[0-9]{4}-[0-9]{2}-[0-9]{2}$";
/// The form of a name of the time zone database. Which names exist is checked when the window is read.
pub const TIME_ZONE: &str = "^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$";

kind! {
    /// When changes of modules may begin in the clusters that it selects: either allow or deny. A cluster that no window selects is always open.
    RolloutWindow, "rolloutwindows", "rwin", crate::definition::columns::rollout_window, RolloutWindowSpec, RolloutWindowStatus
}

/// Which clusters and modules a window is about, when it is open, and what waits while it is closed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.allow) != has(self.deny)", "message": "set either allow or deny" },
]))]
pub struct RolloutWindowSpec {
    /// Which clusters of this namespace: a selector over the labels of Cluster objects. Empty ({}): all. With deny: [{}] this stops all rollouts.
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: LabelSelector,
    /// Which modules of this namespace: a selector over the labels of Module and BootstrapModule objects. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub module_selector: Option<LabelSelector>,
    /// When changes may begin. Several entries, and several windows, are a union: one that is open is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_ENTRIES), extend("x-kubernetes-list-type" = "atomic"))]
    pub allow: Option<Vec<WindowEntry>>,
    /// When no change may begin, whatever other windows allow.
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
    /// What the stage of a closed cluster does: Wait for the cluster, or Skip it, so that it leaves the count of its stage until the window opens.
    #[serde(default)]
    #[schemars(extend("default" = "Wait"))]
    pub while_closed: ClosedClusters,
    /// Why the window exists; shown wherever a cluster waits for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = schema::MAX_MESSAGE))]
    pub message: String,
    /// Modules for which the window is open until an instant, whatever its entries say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_BYPASSES), extend("x-kubernetes-list-type" = "atomic"))]
    pub bypasses: Vec<WindowBypass>,
}

/// A recurring or one-off time. Empty ({}): always.
///
/// A minute is inside if its local date and time are: the hour that a clock change repeats counts twice, and one that it skips never comes.
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
    /// The days on which it starts. Absent: every day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 7), extend("x-kubernetes-list-type" = "set"))]
    pub days: Option<Vec<Weekday>>,
    /// When it starts: local time, 00:00 to 23:59.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 5), regex(pattern = FROM))]
    pub from: Option<String>,
    /// When it ends: local time, not included; 24:00 is the end of the day. Before from: on the next day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 5), regex(pattern = TO))]
    pub to: Option<String>,
    /// The time zone of days, from, to and dates, such as Europe/Berlin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_TIME_ZONE), regex(pattern = TIME_ZONE))]
    pub time_zone: Option<String>,
    /// Where each cluster has its time zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone_from: Option<TimeZoneFrom>,
    /// The first and the last date on which it starts, such as 2026-12-20/2027-01-03. Absent: every date.
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

/// Where a cluster has its time zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TimeZoneFrom {
    /// The key of an annotation of the Cluster object. A cluster without it is closed.
    #[schemars(length(min = 1, max = schema::MAX_LABEL_KEY))]
    pub annotation: String,
}

/// What a kind of change does while a window is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum WhileClosed {
    /// It begins all the same.
    Allow,
    /// It waits until the window opens.
    #[default]
    Wait,
}

/// What a stage does with a cluster whose window is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ClosedClusters {
    /// The stage goes on without the cluster, unless a change of it is in flight.
    Skip,
    /// The stage waits for the cluster.
    #[default]
    Wait,
}

/// A module for which a window is open until an instant. It takes the right to write the window; the right to write modules is not enough.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WindowBypass {
    /// The module, in the namespace of the window.
    pub module: Dependency,
    /// Why.
    #[schemars(length(min = 1, max = schema::MAX_MESSAGE))]
    pub reason: String,
    /// When the bypass ends. A bypass without an end is refused.
    #[schemars(required)]
    pub until: Option<Time>,
    /// The user who added it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_NAME))]
    pub by: Option<String>,
}

/// The state of a window; written by muster alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutWindowStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready: whether the window can be read. One that cannot be read closes what it selects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Whether changes may begin now as far as this window decides. Absent: that depends on the time zone of each cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<bool>,
    /// When open changes next. Absent: never, or not within a year, or that depends on the time zone of each cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_change: Option<Time>,
    /// How many clusters the window selects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters: Option<u32>,
}

const fn allow() -> WhileClosed {
    WhileClosed::Allow
}
