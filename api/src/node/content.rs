//! What a NodeModule asks of nodes: files, what is reloaded, and what must hold then.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{duration::Duration, schema};

/// How many parts a NodeModule may have.
pub const MAX_PARTS: usize = 32;
/// How many files a part may have.
pub const MAX_FILES: usize = 64;
/// The longest path of a file, in bytes.
pub const MAX_PATH: usize = 1024;
/// How large the content of a NodeModule may be as JSON, in bytes: 256 KiB.
pub const MAX_CONTENT: usize = 262_144;
/// How many names of reloaders, interfaces, targets or services there may be.
pub const MAX_NAMES: usize = 32;
/// The longest name of a user or group, as Linux has them.
pub const MAX_USER: usize = 32;

/// What nodes get. The fields are those of the spec of a NodeModule; a NodeRevision keeps them as they were.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeContent {
    /// The files, in parts that are merged in order for the nodes that each selects; of a path in several parts the last one counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_PARTS), extend("x-kubernetes-list-type" = "atomic"))]
    pub parts: Vec<NodePart>,
    /// Variables evaluated in this cluster, once for each node. NODE_NAME and NODE_LABEL_<key> are given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_VALUES), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub bindings: Vec<NodeBinding>,
    /// What is reloaded after files changed, in this order: names that the configuration of the node's agent defines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_NAMES), schema_with = "reloaders", extend("x-kubernetes-list-type" = "atomic"))]
    pub reload: Vec<String>,
    /// What must hold afterwards; else the node restores what it had.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub checks: NodeChecks,
    /// How long after the reload the first check counts.
    #[serde(default = "settle")]
    pub settle: Duration,
    /// How long the checks must hold without interruption; they are made every 3 seconds.
    #[serde(default = "hold_for")]
    pub hold_for: Duration,
    /// How long after the first write the change must be confirmed; else the node restores what it had.
    #[serde(default = "confirm_within")]
    pub confirm_within: Duration,
}

impl Default for NodeContent {
    fn default() -> Self {
        Self {
            parts: Vec::new(),
            bindings: Vec::new(),
            reload: Vec::new(),
            checks: NodeChecks::default(),
            settle: settle(),
            hold_for: hold_for(),
            confirm_within: confirm_within(),
        }
    }
}

/// Files for some of the nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePart {
    /// Which nodes of the NodeModule: a selector over the labels of Nodes. Absent: every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: Option<LabelSelector>,
    /// The files, applied in this order.
    #[schemars(length(min = 1, max = MAX_FILES), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["path"]))]
    pub files: Vec<NodeFile>,
}

/// One file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self.state != 'Absent' || !has(self.content)", "message": "a file that is to be absent has no content", "fieldPath": ".content" },
    { "rule": "!self.path.matches('/[.]{1,2}(/|$)')", "message": "path must not have . or .. as a part", "fieldPath": ".path" },
]))]
pub struct NodeFile {
    /// The absolute path, without variables, below a prefix that the configuration of the node's agent allows.
    #[schemars(length(min = 2, max = MAX_PATH), regex(pattern = r"^(/[^/\x00-\x1f]+)+$"))]
    pub path: String,
    /// The permissions in octal digits; without set-user-ID, set-group-ID and sticky bits.
    #[serde(default = "mode")]
    #[schemars(length(max = 4), regex(pattern = "^0[0-7]{3}$"))]
    pub mode: String,
    /// The user that owns it, by name.
    #[serde(default = "root")]
    #[schemars(length(min = 1, max = MAX_USER), regex(pattern = USER))]
    pub owner: String,
    /// The group that owns it, by name.
    #[serde(default = "root")]
    #[schemars(length(min = 1, max = MAX_USER), regex(pattern = USER))]
    pub group: String,
    /// Present: the file is as it is written here. Absent: there is no file.
    #[serde(default)]
    pub state: FileState,
    /// The content. $(NODE_NAME), $(NODE_LABEL_<key>) and bindings are replaced; $(SECRET_<name>) is filled in on the node, from a file that the configuration of its agent names. $$( stands for $(.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_CONTENT))]
    pub content: Option<String>,
}

/// Whether there is a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FileState {
    /// There is.
    #[default]
    Present,
    /// There is none.
    Absent,
}

/// A variable, used as $(NAME): a value, or a field of an object of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.value) != has(self.objectFieldRef)", "message": "set exactly one of value and objectFieldRef" },
    { "rule": "!self.name.startsWith('SECRET_') && !self.name.startsWith('NODE_')", "message": "names that begin with SECRET_ or NODE_ are given", "fieldPath": ".name" },
]))]
pub struct NodeBinding {
    /// The variable's name: letters, digits and underscores, not beginning with a digit.
    #[schemars(length(min = 1, max = schema::MAX_LABEL), regex(pattern = schema::VARIABLE))]
    pub name: String,
    /// The variable's value; it may use other variables as $(NAME).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_VALUE))]
    pub value: Option<String>,
    /// A field of an object; the reference may use other variables as $(NAME).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_field_ref: Option<NodeObjectFieldRef>,
}

/// A field of an object of this cluster. Secrets are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self.kind != 'Secret'", "message": "kind Secret cannot be read: values of bindings are shown in specs" },
]))]
pub struct NodeObjectFieldRef {
    /// The object's apiVersion, such as v1.
    #[schemars(length(min = 1, max = schema::MAX_API_VERSION))]
    pub api_version: String,
    /// The object's kind: ConfigMap, or one that the controller was allowed to read.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub kind: String,
    /// The object's namespace.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub namespace: String,
    /// The object's name.
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub name: String,
    /// A JSON pointer to a string, number or boolean, such as /data/host.
    #[schemars(length(min = 1, max = schema::MAX_PATH), regex(pattern = r"^(/|\$\()"))]
    pub field_path: String,
}

/// What must hold on a node after a change. Nothing: what was written and reloaded without an error counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeChecks {
    /// Network interfaces that must be up, by name or pattern (`eth*`); each pattern must match one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_NAMES), schema_with = "interfaces", extend("x-kubernetes-list-type" = "atomic"))]
    pub interfaces: Vec<String>,
    /// Addresses that must answer a TCP connection, as `address:port`; a refused connection is an answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_NAMES), schema_with = "targets", extend("x-kubernetes-list-type" = "atomic"))]
    pub tcp: Vec<String>,
    /// Services that must be well: names that the configuration of the node's agent defines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_NAMES), schema_with = "reloaders", extend("x-kubernetes-list-type" = "atomic"))]
    pub services: Vec<String>,
    /// Whether the API server must answer, at the address that the kubelet uses.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub api_server: bool,
}

/// Names of users and groups.
pub const USER: &str = "^[a-z_][a-z0-9_-]*[$]?$";

fn names(most: usize, pattern: &str) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": MAX_NAMES,
        "items": { "type": "string", "minLength": 1, "maxLength": most, "pattern": pattern },
    })
}

fn reloaders(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    names(schema::MAX_LABEL, schema::DNS_LABEL)
}

/// Linux allows 15 bytes for the name of an interface.
fn interfaces(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    names(15, "^[^/ ]+$")
}

fn targets(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    names(64, r"^([0-9.]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}$")
}

fn mode() -> String {
    "0644".to_owned()
}

fn root() -> String {
    "root".to_owned()
}

const fn settle() -> Duration {
    Duration::from_secs(10)
}

const fn hold_for() -> Duration {
    Duration::from_secs(15)
}

const fn confirm_within() -> Duration {
    Duration::from_mins(2)
}
