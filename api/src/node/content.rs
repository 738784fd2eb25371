//! What a NodeModule puts on nodes: files, what is reloaded, and the checks after that.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{duration::Duration, schema};

/// Maximum number of parts of a NodeModule.
pub const MAX_PARTS: usize = 32;
/// Maximum number of files in a part.
pub const MAX_FILES: usize = 64;
/// Maximum length of a file path, in bytes.
pub const MAX_PATH: usize = 1024;
/// Maximum size of a NodeModule's content as JSON, in bytes: 256 KiB.
pub const MAX_CONTENT: usize = 262_144;
/// Maximum number of reloaders, interfaces, targets or services.
pub const MAX_NAMES: usize = 32;
/// Maximum length of a Linux user or group name.
pub const MAX_USER: usize = 32;

/// What nodes get. The fields are those of a NodeModule's spec; a NodeRevision keeps a copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeContent {
    /// Files in parts; for each node the parts that select it are merged in order. If several parts contain the same
    /// path, the last one wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_PARTS), extend("x-kubernetes-list-type" = "atomic"))]
    pub parts: Vec<NodePart>,
    /// Variables that are evaluated in this cluster, once for each node. NODE_NAME and NODE_LABEL_<key> are built in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_VALUES), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub bindings: Vec<NodeBinding>,
    /// What is reloaded after files changed, in this order: names that are defined in the configuration of the node's
    /// agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_NAMES), schema_with = "reloaders", extend("x-kubernetes-list-type" = "atomic"))]
    pub reload: Vec<String>,
    /// Checks that must pass after the change; otherwise the node restores its previous files.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub checks: NodeChecks,
    /// Delay between the reload and the first check that counts.
    #[serde(default = "settle")]
    pub settle: Duration,
    /// How long the checks must pass without interruption; they run every 3 seconds.
    #[serde(default = "hold_for")]
    pub hold_for: Duration,
    /// How soon after the first write the change must be confirmed; otherwise the node restores its previous files.
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

/// Files for a subset of the nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePart {
    /// Selects nodes of the NodeModule by the labels of the Node. Absent: every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: Option<LabelSelector>,
    /// The files, written in this order.
    #[schemars(length(min = 1, max = MAX_FILES), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["path"]))]
    pub files: Vec<NodeFile>,
}

/// One file on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self.state != 'Absent' || !has(self.content)", "message": "a file with state Absent must not have content", "fieldPath": ".content" },
    { "rule": "!self.path.matches('/[.]{1,2}(/|$)')", "message": "path must not contain . or .. as a segment", "fieldPath": ".path" },
]))]
pub struct NodeFile {
    /// Absolute path, without variables, below a prefix that the configuration of the node's agent allows.
    #[schemars(length(min = 2, max = MAX_PATH), regex(pattern = r"^(/[^/\x00-\x1f]+)+$"))]
    pub path: String,
    /// File mode in octal digits; setuid, setgid and sticky bits are not allowed.
    #[serde(default = "mode")]
    #[schemars(length(max = 4), regex(pattern = "^0[0-7]{3}$"))]
    pub mode: String,
    /// Name of the user that owns the file.
    #[serde(default = "root")]
    #[schemars(length(min = 1, max = MAX_USER), regex(pattern = USER))]
    pub owner: String,
    /// Name of the group that owns the file.
    #[serde(default = "root")]
    #[schemars(length(min = 1, max = MAX_USER), regex(pattern = USER))]
    pub group: String,
    /// Present: the file exists with this content. Absent: the file does not exist.
    #[serde(default)]
    pub state: FileState,
    /// Content of the file. $(NODE_NAME), $(NODE_LABEL_<key>) and bindings are replaced; $(SECRET_<name>) is filled in
    /// on the node, from a file that the configuration of its agent names. $$( is an escaped $(.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = MAX_CONTENT))]
    pub content: Option<String>,
}

/// Whether the file exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FileState {
    /// The file exists.
    #[default]
    Present,
    /// The file does not exist.
    Absent,
}

/// A variable, used as $(NAME): a value, or a field of a namespaced object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.value) != has(self.objectFieldRef)", "message": "set exactly one of value and objectFieldRef" },
    { "rule": "!self.name.startsWith('SECRET_') && !self.name.startsWith('NODE_')", "message": "names that begin with SECRET_ or NODE_ are reserved", "fieldPath": ".name" },
]))]
pub struct NodeBinding {
    /// Name of the variable: letters, digits and underscores, not beginning with a digit.
    #[schemars(length(min = 1, max = schema::MAX_LABEL), regex(pattern = schema::VARIABLE))]
    pub name: String,
    /// Value of the variable; it may use other variables as $(NAME).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_VALUE))]
    pub value: Option<String>,
    /// A field of an object; the reference may use other variables as $(NAME).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_field_ref: Option<NodeObjectFieldRef>,
}

/// A field of an object in this cluster. Secrets are not allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self.kind != 'Secret'", "message": "kind Secret cannot be read: values of bindings are shown in specs" },
]))]
pub struct NodeObjectFieldRef {
    /// apiVersion of the object, such as v1.
    #[schemars(length(min = 1, max = schema::MAX_API_VERSION))]
    pub api_version: String,
    /// Kind of the object: ConfigMap, or a kind that the controller is allowed to read.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub kind: String,
    /// Namespace of the object.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub namespace: String,
    /// Name of the object.
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub name: String,
    /// A JSON pointer to a string, number or boolean in the object, such as /data/host.
    #[schemars(length(min = 1, max = schema::MAX_PATH), regex(pattern = r"^(/|\$\()"))]
    pub field_path: String,
}

/// Checks that must pass on a node after a change. Empty: the change counts as successful once files are written and
/// reloaded without an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeChecks {
    /// Network interfaces that must be up, by name or pattern (`eth*`); each pattern must match at least one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_NAMES), schema_with = "interfaces", extend("x-kubernetes-list-type" = "atomic"))]
    pub interfaces: Vec<String>,
    /// Addresses that must answer a TCP connection attempt, as `address:port`; a refused connection counts as an
    /// answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_NAMES), schema_with = "targets", extend("x-kubernetes-list-type" = "atomic"))]
    pub tcp: Vec<String>,
    /// Services that must be healthy: names that are defined in the configuration of the node's agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_NAMES), schema_with = "reloaders", extend("x-kubernetes-list-type" = "atomic"))]
    pub services: Vec<String>,
    /// Whether the API server must answer at the address that the kubelet uses.
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

/// Linux limits the name of an interface to 15 bytes.
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
