//! Defines a sync: source, package and bindings.

mod flux;

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

pub use self::flux::{
    FluxCommonMetadata, FluxDecryption, FluxGitReference, FluxGitRepository, FluxGitVerify,
    FluxGitVerifyMode, FluxImage, FluxLayerSelector, FluxOciReference, FluxOciRepository, FluxOciVerify,
    FluxOidcIdentity, FluxPackage, FluxPatch, FluxPatchTarget, FluxSource, PACKAGE_FIELDS, SOURCE_FIELDS,
};
use crate::{duration::Duration, schema};

/// One exact version of a piece of configuration: its source, how it is applied, and its variables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sync {
    /// Where the configuration comes from.
    pub source: Source,
    /// Which part of the source is applied, and how.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub package: Package,
    /// Variables that are evaluated in the downstream cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_VALUES), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub bindings: Vec<Binding>,
}

/// Where configuration comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "SourceFields")]
pub enum Source {
    /// A git repository that muster reads; supported by both sync modes.
    Git(GitSource),
    /// A source that Flux reads; boxed, as there are many rows and few of them have one.
    Flux(Box<FluxSource>),
}

/// Where configuration comes from: exactly one of git and flux.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.git) != has(self.flux)", "message": "set exactly one of git and flux" },
]))]
struct SourceFields {
    /// A git repository at an exact state, read by muster itself; with --sync flux, Flux reads the pinned commit in
    /// each cluster.
    #[serde(default)]
    git: Option<GitSource>,
    /// A source that Flux reads, in the management cluster and in each cluster; requires --sync flux in both.
    #[serde(default)]
    flux: Option<FluxSource>,
}

impl TryFrom<SourceFields> for Source {
    type Error = &'static str;

    fn try_from(fields: SourceFields) -> Result<Self, Self::Error> {
        match (fields.git, fields.flux) {
            (Some(git), None) => Ok(Self::Git(git)),
            (None, Some(flux)) => Ok(Self::Flux(Box::new(flux))),
            (Some(_), Some(_)) | (None, None) => Err("set exactly one of git and flux"),
        }
    }
}

impl JsonSchema for Source {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Source".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        SourceFields::json_schema(generator)
    }
}

impl Source {
    /// The repository, if muster reads it itself.
    pub const fn git(&self) -> Option<&GitSource> {
        match self {
            Self::Git(git) => Some(git),
            Self::Flux(_) => None,
        }
    }

    /// The source, if Flux reads it.
    pub fn flux(&self) -> Option<&FluxSource> {
        match self {
            Self::Git(_) => None,
            Self::Flux(flux) => Some(flux),
        }
    }

    /// URL of the source.
    pub fn url(&self) -> &str {
        match self {
            Self::Git(git) => &git.url,
            Self::Flux(flux) => flux.url(),
        }
    }

    /// The version of the source; for an OCI artifact, the digest's 64 digits are used as the commit.
    pub fn version(&self) -> GitVersion {
        match self {
            Self::Git(git) => git.version.clone(),
            Self::Flux(flux) => flux.version(),
        }
    }

    /// The source as written to rows: clusters get the commit that was verified when it was pinned.
    #[must_use]
    pub fn for_rows(&self) -> Self {
        match self {
            Self::Git(git) => Self::Git(GitSource {
                verify: None,
                ..git.clone()
            }),
            Self::Flux(flux) => Self::Flux(Box::new(flux.for_rows())),
        }
    }

    /// The same source without a version.
    #[must_use]
    pub fn without_version(&self) -> Self {
        let mut source = self.clone();
        match &mut source {
            Self::Git(git) => git.version = GitVersion::default(),
            Self::Flux(flux) => flux.remove_version(),
        }
        source
    }

    /// Sets the reference to the copy of the Secret in the cluster.
    pub fn name_copy(&mut self, name: String) {
        let copy = GitSecretReference {
            name,
            distribute: false,
        };
        match self {
            Self::Git(git) => git.secret_ref = Some(copy),
            Self::Flux(flux) => flux.name_copy(copy),
        }
    }

    /// The Secret of the git repository.
    pub fn git_secret(&self) -> Option<&GitSecretReference> {
        match self {
            Self::Git(git) => git.secret_ref.as_ref(),
            Self::Flux(flux) => flux.git_secret(),
        }
    }
}

/// A git repository at an exact state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "!has(self.verify) || self.verify.mode != 'Tag' || has(self.version.tag)", "message": "verify.mode Tag needs version.tag: a commit has no tag, use mode Commit", "fieldPath": ".verify.mode" },
]))]
pub struct GitSource {
    /// URL of the repository: https://host/path, or ssh://user@host/path with a secretRef; http and file only if the
    /// controller allows insecure sources.
    #[schemars(length(min = 1, max = schema::MAX_URL))]
    pub url: String,
    /// The state of the repository: exactly one of tag and commit. Branches are not supported: a module is an exact
    /// state.
    pub version: GitVersion,
    /// A Secret in this namespace with the keys that Flux expects (username, password, bearerToken, ca.crt, tls.crt,
    /// tls.key; over ssh identity, known_hosts, password). The downstream cluster needs a Secret of the same name,
    /// unless it is distributed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<GitSecretReference>,
    /// A Secret in this namespace that configures the HTTP proxy for the repository (Flux's keys address, username,
    /// password). The proxy's host must be listed in --proxy-hosts. The downstream cluster needs a Secret of the same
    /// name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_secret_ref: Option<LocalReference>,
    /// Signature verification of the version before it is pinned. It is verified once, in the management cluster;
    /// clusters get the pinned commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
}

/// Signature verification of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verify {
    /// What must be signed: the tag or the commit.
    pub mode: VerifyMode,
    /// A Secret in this namespace with the trusted public keys: armored OpenPGP keys under any names; OpenSSH public
    /// keys, or lines of an allowed_signers file, under names that end in .pub or are allowed_signers.
    pub secret_ref: LocalReference,
}

/// What must be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VerifyMode {
    /// The tag: it must be annotated, its own name must equal version.tag, and it must point to the commit that is
    /// used.
    Tag,
    /// The commit must be signed.
    Commit,
}

impl VerifyMode {
    /// The name used in specs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tag => "Tag",
            Self::Commit => "Commit",
        }
    }
}

/// An exact state of a repository: exactly one of tag and commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.tag) != has(self.commit)", "message": "set exactly one of tag and commit" },
]))]
pub struct GitVersion {
    /// Name of a tag, without refs/tags/. It is resolved once and pinned: a tag that moves later is reported, never
    /// rolled out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_TAG))]
    pub tag: Option<String>,
    /// A commit hash: 40 or 64 lower-case hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 40, max = 64), regex(pattern = schema::COMMIT))]
    pub commit: Option<String>,
}

impl GitVersion {
    /// A human-readable version: the tag, or the first digits of the version's commit or of the given one.
    pub fn display_version(&self, commit: Option<&str>) -> String {
        let commit = self.commit.as_deref().or(commit).unwrap_or_default();
        let short = || commit.get(..SHORT).unwrap_or(commit).to_owned();
        self.tag.clone().unwrap_or_else(short)
    }
}

/// Number of digits of a commit that messages show.
const SHORT: usize = 8;

/// The Secret for a repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitSecretReference {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub name: String,
    /// Whether the controller copies the Secret to each cluster that gets the module, and deletes the copy after the
    /// last row that needs it. The cluster needs the objects that muster install --export --downstream --distribute
    /// prints. Keys of GitHub Apps are never copied.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub distribute: bool,
}

/// Reference to an object in the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalReference {
    /// Name of the object.
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub name: String,
}

/// Which part of a source is applied, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "!has(self.settle) || duration(self.settle) <= duration('4m')", "message": "settle must be at most 4m", "fieldPath": ".settle" },
    { "rule": "!has(self.settle) || duration(self.settle) < duration(self.timeout)", "message": "settle must be shorter than timeout", "fieldPath": ".settle" },
]))]
pub struct Package {
    /// Directory of the manifests, relative to the root of the source.
    #[schemars(length(min = 1, max = schema::MAX_PATH))]
    pub path: String,
    /// Variables that are replaced in the manifests as ${NAME}; their values may use bindings as $(NAME).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::variables")]
    pub substitute: BTreeMap<String, String>,
    /// Namespace that overrides the namespace of all namespaced objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub target_namespace: Option<String>,
    /// Whether objects that are no longer in the source are deleted.
    pub prune: bool,
    /// Whether to wait until all applied objects are ready.
    pub wait: bool,
    /// Timeout of one attempt to apply the objects and wait until they are ready.
    pub timeout: Duration,
    /// How long a custom resource must stay healthy if its controller does not report that it observed the change. At
    /// most 4m; defaults to 30s, or half of timeout if that is shorter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle: Option<Duration>,
    /// How custom resources are treated that are healthy after settle, but without evidence. Unset: they are assumed
    /// healthy, and reported. Never: the attempt fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assume: Option<Assume>,
    /// How often the cluster is compared with the source and corrected.
    pub interval: Duration,
    /// How soon a failed attempt is retried.
    pub retry_interval: Duration,
    /// Whether objects are re-created when an immutable field changes.
    pub force: bool,
    /// Objects whose readiness to wait for, instead of all applied objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_VALUES), extend("x-kubernetes-list-type" = "atomic"))]
    pub health_checks: Vec<HealthCheck>,
    /// CEL expressions that determine the health of objects of a kind, instead of the rules of kstatus: one entry for
    /// each group and kind, at most 8 KiB in total.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_EXPRESSION_KINDS), extend("x-kubernetes-list-type" = "atomic"))]
    pub health_expressions: Vec<HealthExpression>,
    /// A built-in table of health expressions for kinds of well-known operators that the rules of kstatus misjudge;
    /// healthExpressions take precedence. Unset: none. A version of the table never changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_table: Option<HealthTable>,
    /// A plan that defines the order in which the directory is applied, and what runs before and after. Unset: all
    /// objects are applied at once, in stages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PackagePlan>,
    /// Additional options of Flux, passed to its Kustomization: requires --sync flux in each cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flux: Option<Box<FluxPackage>>,
}

/// The plan of a package: docs/plans.md. Supported by the built-in sync, not by Flux.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackagePlan {
    /// The file with the plan, relative to path.
    #[schemars(length(min = 1, max = schema::MAX_PATH))]
    pub file: String,
    /// How long Jobs of earlier runs are kept. Unset: until the next run has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Duration>,
    /// Maximum duration of one run. Unset: each step has its own timeout, the run has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
}

impl Default for Package {
    fn default() -> Self {
        Self {
            path: ".".to_owned(),
            substitute: BTreeMap::new(),
            target_namespace: None,
            prune: true,
            wait: true,
            timeout: Duration::from_mins(5),
            settle: None,
            assume: None,
            interval: Duration::from_mins(10),
            retry_interval: Duration::from_mins(1),
            force: false,
            health_checks: Vec::new(),
            health_expressions: Vec::new(),
            health_table: None,
            plan: None,
            flux: None,
        }
    }
}

/// How objects are treated that are healthy, but without evidence that they observed the last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Assume {
    /// Objects are never assumed healthy: the attempt fails.
    Never,
}

impl Assume {
    /// The name used in specs and annotations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Never => "Never",
        }
    }
}

/// A built-in table of health expressions. A new version is a new table: an existing table never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HealthTable {
    /// The first version of the table.
    V1,
}

impl HealthTable {
    /// The name used in specs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
        }
    }
}

/// Default of `settle`, unless half of the timeout is shorter.
pub const SETTLE: Duration = Duration::from_secs(30);

/// The longest `settle`.
pub const SETTLE_MAX: Duration = Duration::from_mins(4);

/// An object whose readiness to wait for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// apiVersion of the object, such as apps/v1.
    #[schemars(length(min = 1, max = schema::MAX_API_VERSION))]
    pub api_version: String,
    /// Kind of the object.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub kind: String,
    /// Name of the object.
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub name: String,
    /// Namespace of the object; absent for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub namespace: Option<String>,
}

/// How the health of objects of a kind is determined: CEL expressions over the objects' top-level fields, such as
/// status and metadata. They are evaluated in the order inProgress, failed, current; if none is true, the object is in
/// progress.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthExpression {
    /// apiVersion of the kind, such as example.com/v1; only the group is used.
    #[schemars(length(min = 1, max = schema::MAX_API_VERSION))]
    pub api_version: String,
    /// The kind of the objects.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub kind: String,
    /// CEL expression that is true if the object matches its spec.
    #[schemars(length(min = 1, max = MAX_EXPRESSION))]
    pub current: String,
    /// CEL expression that is true while the object's controller has not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_EXPRESSION))]
    pub in_progress: Option<String>,
    /// CEL expression that is true if the object's controller has given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_EXPRESSION))]
    pub failed: Option<String>,
}

impl HealthExpression {
    /// The group and kind that the expressions apply to.
    pub fn group_kind(&self) -> (&str, &str) {
        let group = self.api_version.split_once('/').map_or("", |(group, _)| group);
        (group, &self.kind)
    }

    /// Total size of the expressions and the kind, in bytes.
    pub fn size(&self) -> usize {
        let optional = [&self.in_progress, &self.failed].into_iter().flatten();
        [&self.api_version, &self.kind, &self.current]
            .into_iter()
            .chain(optional)
            .map(String::len)
            .sum()
    }
}

/// Maximum number of kinds with expressions: twice the number that the operators of a large platform need.
pub const MAX_EXPRESSION_KINDS: usize = 32;

/// The longest expression, in bytes.
pub const MAX_EXPRESSION: usize = 1_024;

/// Maximum total size of the expressions of a package, in bytes.
pub const MAX_EXPRESSIONS: usize = 8_192;

/// A variable, used as $(NAME): a value, or a field of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.value) != has(self.objectFieldRef)", "message": "set exactly one of value and objectFieldRef" },
]))]
pub struct Binding {
    /// Name of the variable: letters, digits and underscores, not beginning with a digit.
    #[schemars(length(min = 1, max = schema::MAX_LABEL), regex(pattern = schema::VARIABLE))]
    pub name: String,
    /// Value of the variable; it may use other variables as $(NAME).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_VALUE))]
    pub value: Option<String>,
    /// A field of an object in the same namespace; the reference may use other variables as $(NAME).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_field_ref: Option<ObjectFieldRef>,
}

/// A field of an object in the same namespace. Secrets are not allowed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self.kind != 'Secret'", "message": "kind Secret cannot be read: values of bindings are shown in specs" },
]))]
pub struct ObjectFieldRef {
    /// apiVersion of the object, such as v1.
    #[schemars(length(min = 1, max = schema::MAX_API_VERSION))]
    pub api_version: String,
    /// Kind of the object: ConfigMap, Cluster, or a kind that the controller is allowed to read.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub kind: String,
    /// Name of the object.
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub name: String,
    /// A JSON pointer to a string, number or boolean in the object, such as /data/host.
    #[schemars(length(min = 1, max = schema::MAX_PATH), regex(pattern = r"^(/|\$\()"))]
    pub field_path: String,
}
