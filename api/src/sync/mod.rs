//! What a sync is: source, package, bindings.

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

/// One exactly versioned piece of configuration: where it comes from, how it is applied, what is filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sync {
    /// Where the configuration comes from.
    pub source: Source,
    /// Which part of the source is applied, and how.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub package: Package,
    /// Variables evaluated in the downstream cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_VALUES), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub bindings: Vec<Binding>,
}

/// Where configuration comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "SourceFields")]
pub enum Source {
    /// A git repository that muster reads, in both modes of sync.
    Git(GitSource),
    /// A source that Flux reads: boxed, for rows are many and few of them have one.
    Flux(Box<FluxSource>),
}

/// Where configuration comes from: exactly one of git and flux.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.git) != has(self.flux)", "message": "set exactly one of git and flux" },
]))]
struct SourceFields {
    /// A git repository at an exact state, which muster reads itself; with --sync flux Flux reads the pinned commit in each cluster.
    #[serde(default)]
    git: Option<GitSource>,
    /// A source that Flux reads, in the management cluster and in each cluster; needs --sync flux in both.
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

    /// Where it is.
    pub fn url(&self) -> &str {
        match self {
            Self::Git(git) => &git.url,
            Self::Flux(flux) => flux.url(),
        }
    }

    /// Its version; of an OCI artifact the digest's 64 digits stand for the commit.
    pub fn version(&self) -> GitVersion {
        match self {
            Self::Git(git) => git.version.clone(),
            Self::Flux(flux) => flux.version(),
        }
    }

    /// What rows say of it: clusters get the commit that was verified where it was pinned.
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

    /// The same source at no version.
    #[must_use]
    pub fn without_version(&self) -> Self {
        let mut source = self.clone();
        match &mut source {
            Self::Git(git) => git.version = GitVersion::default(),
            Self::Flux(flux) => flux.remove_version(),
        }
        source
    }

    /// Names the copy of the Secret that a cluster has.
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

    /// The Secret of a git repository.
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
    /// The repository: https://host/path, or ssh://user@host/path with a secretRef; http and file only where the controller allows insecure sources.
    #[schemars(length(min = 1, max = schema::MAX_URL))]
    pub url: String,
    /// Which state of the repository: exactly one of tag and commit. There are no branches: a module is an exact state.
    pub version: GitVersion,
    /// A Secret of this namespace with Flux's keys (username, password, bearerToken, ca.crt, tls.crt, tls.key; over ssh identity, known_hosts, password). The downstream cluster needs one of the same name, unless it is distributed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<GitSecretReference>,
    /// A Secret of this namespace that names the HTTP proxy which leads to the repository (Flux's keys address, username, password). Its host must be one of --proxy-hosts. The downstream cluster needs a Secret of the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_secret_ref: Option<LocalReference>,
    /// By whom the version must be signed before it is pinned. It is verified in the management cluster, once; clusters get the pinned commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
}

/// By whom a version must be signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verify {
    /// What must be signed.
    pub mode: VerifyMode,
    /// A Secret of this namespace with the public keys that are trusted: armored OpenPGP keys under any names; OpenSSH public keys, or lines of an allowed_signers file, under names that end in .pub or are allowed_signers.
    pub secret_ref: LocalReference,
}

/// What must be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VerifyMode {
    /// The tag: it must be annotated, name itself as version.tag does, and be of the commit that is used.
    Tag,
    /// The commit.
    Commit,
}

impl VerifyMode {
    /// The word in specs.
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
    /// The name of a tag, without refs/tags/. It is resolved once and pinned: a tag that moves later is reported, never rolled out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_TAG))]
    pub tag: Option<String>,
    /// A commit: 40 or 64 lower-case hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 40, max = 64), regex(pattern = schema::COMMIT))]
    pub commit: Option<String>,
}

impl GitVersion {
    /// The version for people: the tag, or the first digits of the commit, or of the one that is given.
    pub fn short(&self, commit: Option<&str>) -> String {
        let commit = self.commit.as_deref().or(commit).unwrap_or_default();
        let short = || commit.get(..SHORT).unwrap_or(commit).to_owned();
        self.tag.clone().unwrap_or_else(short)
    }
}

/// Digits of a commit that messages show.
const SHORT: usize = 8;

/// The Secret for a repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitSecretReference {
    /// The Secret's name.
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub name: String,
    /// Whether the controller copies the Secret to each cluster that gets the module, and deletes the copy after the last row that needs it. The cluster needs what muster install --export --downstream --distribute prints. Keys of GitHub Apps are never copied.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub distribute: bool,
}

/// An object of the same namespace, by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalReference {
    /// The object's name.
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
    /// The folder of the manifests, relative to the root of the repository.
    #[schemars(length(min = 1, max = schema::MAX_PATH))]
    pub path: String,
    /// Variables replaced in the manifests as ${NAME}; their values may use bindings as $(NAME).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::variables")]
    pub substitute: BTreeMap<String, String>,
    /// The namespace that all namespaced objects are put into.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub target_namespace: Option<String>,
    /// Delete objects that the source no longer has.
    pub prune: bool,
    /// Wait until all applied objects are ready.
    pub wait: bool,
    /// How long one attempt to apply and become ready may take.
    pub timeout: Duration,
    /// How long a custom resource must stay healthy where its controller does not say that it observed the change. At most 4m; unset: 30s, or half of timeout if that is shorter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle: Option<Duration>,
    /// What becomes of custom resources that are healthy without evidence after settle. Unset: they are taken to be healthy, and reported. Never: the attempt fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assume: Option<Assume>,
    /// How often the cluster is compared with the source.
    pub interval: Duration,
    /// How soon a failed attempt is repeated.
    pub retry_interval: Duration,
    /// Re-create objects whose immutable fields changed.
    pub force: bool,
    /// Objects whose readiness is waited for, instead of all applied ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_VALUES), extend("x-kubernetes-list-type" = "atomic"))]
    pub health_checks: Vec<HealthCheck>,
    /// How the health of objects of a kind is judged, instead of by the rules of kstatus: one entry for each group and kind, at most 8 KiB in all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_EXPRESSION_KINDS), extend("x-kubernetes-list-type" = "atomic"))]
    pub health_expressions: Vec<HealthExpression>,
    /// Which table of expressions judges the kinds of well-known operators that the rules of kstatus misread; expressions of healthExpressions go before. Unset: none. A version of the table never changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_table: Option<HealthTable>,
    /// In which order the folder is applied, and what runs before and after. Unset: in stages, all at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PackagePlan>,
    /// What Flux does besides, handed through to its Kustomization: needs --sync flux in each cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flux: Option<Box<FluxPackage>>,
}

/// The plan of a package: docs/plans.md. The built-in sync carries it out; Flux cannot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackagePlan {
    /// The file with the plan, relative to path.
    #[schemars(length(min = 1, max = schema::MAX_PATH))]
    pub file: String,
    /// How long Jobs of earlier runs are kept. Unset: until the next run has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Duration>,
    /// The longest time that one run may take. Unset: each step has its timeout, and a run none.
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

/// What becomes of objects that are healthy without evidence that they are so after the last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Assume {
    /// They are never taken to be healthy: the attempt fails.
    Never,
}

impl Assume {
    /// The word in specs and annotations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Never => "Never",
        }
    }
}

/// A table of expressions of health. A new version is another table: what an old one says never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HealthTable {
    /// The first one.
    V1,
}

impl HealthTable {
    /// The word in specs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
        }
    }
}

/// `settle` where it is not set and half of the timeout is not less.
pub const SETTLE: Duration = Duration::from_secs(30);

/// The longest `settle`.
pub const SETTLE_MAX: Duration = Duration::from_mins(4);

/// An object whose readiness is waited for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// The object's apiVersion, such as apps/v1.
    #[schemars(length(min = 1, max = schema::MAX_API_VERSION))]
    pub api_version: String,
    /// The object's kind.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub kind: String,
    /// The object's name.
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub name: String,
    /// The object's namespace; none for objects of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub namespace: Option<String>,
}

/// How the health of objects of a kind is judged: expressions in CEL over their top-level fields, such as status and metadata. They are evaluated in the order inProgress, failed, current; an object of which none is true is in progress.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthExpression {
    /// The kind's apiVersion, such as example.com/v1; its group alone counts.
    #[schemars(length(min = 1, max = schema::MAX_API_VERSION))]
    pub api_version: String,
    /// The kind.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub kind: String,
    /// True where an object is as its specification says.
    #[schemars(length(min = 1, max = MAX_EXPRESSION))]
    pub current: String,
    /// True where the object's controller has not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_EXPRESSION))]
    pub in_progress: Option<String>,
    /// True where the object's controller gave up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = MAX_EXPRESSION))]
    pub failed: Option<String>,
}

impl HealthExpression {
    /// The group and the kind that it is for.
    pub fn group_kind(&self) -> (&str, &str) {
        let group = self.api_version.split_once('/').map_or("", |(group, _)| group);
        (group, &self.kind)
    }

    /// Its bytes.
    pub fn size(&self) -> usize {
        let optional = [&self.in_progress, &self.failed].into_iter().flatten();
        [&self.api_version, &self.kind, &self.current]
            .into_iter()
            .chain(optional)
            .map(String::len)
            .sum()
    }
}

/// How many kinds may have expressions: twice as many as the operators of a large platform bring.
pub const MAX_EXPRESSION_KINDS: usize = 32;

/// The longest expression, in bytes.
pub const MAX_EXPRESSION: usize = 1_024;

/// The most bytes of all expressions of a package.
pub const MAX_EXPRESSIONS: usize = 8_192;

/// A variable, used as $(NAME): a value, or a field of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.value) != has(self.objectFieldRef)", "message": "set exactly one of value and objectFieldRef" },
]))]
pub struct Binding {
    /// The variable's name: letters, digits and underscores, not beginning with a digit.
    #[schemars(length(min = 1, max = schema::MAX_LABEL), regex(pattern = schema::VARIABLE))]
    pub name: String,
    /// The variable's value; it may use other variables as $(NAME).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_VALUE))]
    pub value: Option<String>,
    /// A field of an object of the same namespace; the reference may use other variables as $(NAME).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_field_ref: Option<ObjectFieldRef>,
}

/// A field of an object of the same namespace. Secrets are refused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "self.kind != 'Secret'", "message": "kind Secret cannot be read: values of bindings are shown in specs" },
]))]
pub struct ObjectFieldRef {
    /// The object's apiVersion, such as v1.
    #[schemars(length(min = 1, max = schema::MAX_API_VERSION))]
    pub api_version: String,
    /// The object's kind: ConfigMap, Cluster, or one that the controller was allowed to read.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub kind: String,
    /// The object's name.
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub name: String,
    /// A JSON pointer to a string, number or boolean, such as /data/host.
    #[schemars(length(min = 1, max = schema::MAX_PATH), regex(pattern = r"^(/|\$\()"))]
    pub field_path: String,
}
