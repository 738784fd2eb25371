//! Sources that Flux reads, and what Flux's Kustomization can do besides.
//!
//! A source of Flux is handed through to Flux as it is, but for its version: what a tag stands for is pinned once, in the management cluster.
//! Fields that are not modelled here are kept, so that they are refused by name (`crate::validate::flux`) instead of being dropped in silence.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{GitSecretReference, GitVersion, LocalReference};
use crate::schema;

/// A source that Flux reads: needs Flux in the management cluster and in each cluster, and `--sync flux` in both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "FluxSourceFields")]
pub enum FluxSource {
    /// A git repository.
    GitRepository(FluxGitRepository),
    /// An OCI artifact.
    OciRepository(FluxOciRepository),
}

/// A source that Flux's source-controller reads, here and in each cluster: exactly one of gitRepository and ociRepository. Both sides run with --sync flux.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.gitRepository) != has(self.ociRepository)", "message": "set exactly one of gitRepository and ociRepository" },
]))]
struct FluxSourceFields {
    /// A git repository, with the fields of Flux's GitRepository that name an exact state.
    #[serde(default)]
    git_repository: Option<FluxGitRepository>,
    /// An OCI artifact, with the fields of Flux's OCIRepository that name an exact state.
    #[serde(default)]
    oci_repository: Option<FluxOciRepository>,
}

impl TryFrom<FluxSourceFields> for FluxSource {
    type Error = &'static str;

    fn try_from(fields: FluxSourceFields) -> Result<Self, Self::Error> {
        match (fields.git_repository, fields.oci_repository) {
            (Some(git), None) => Ok(Self::GitRepository(git)),
            (None, Some(oci)) => Ok(Self::OciRepository(oci)),
            (Some(_), Some(_)) | (None, None) => Err("set exactly one of gitRepository and ociRepository"),
        }
    }
}

impl JsonSchema for FluxSource {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "FluxSource".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        FluxSourceFields::json_schema(generator)
    }
}

/// A git repository that Flux reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct FluxGitRepository {
    /// The repository: https://host/path or ssh://user@host/path.
    #[schemars(length(min = 1, max = schema::MAX_URL))]
    pub url: String,
    /// Which state of the repository: exactly one of tag and commit.
    #[serde(rename = "ref")]
    pub reference: FluxGitReference,
    /// How Flux logs in: generic, aws, azure or github, as GitRepository has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub provider: Option<String>,
    /// A Secret with Flux's keys, beside the Module and in muster-system of each cluster, unless it is distributed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<GitSecretReference>,
    /// A Secret that names the HTTP proxy, beside the Module and in muster-system of each cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_secret_ref: Option<LocalReference>,
    /// By whom the version must be signed. A tag is verified in the management cluster alone; HEAD also in each cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<FluxGitVerify>,
    /// Files that are left out, in the format of .gitignore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_IGNORE))]
    pub ignore: Option<String>,
    /// Every other field, by its name: refused.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// An exact state of a git repository: exactly one of tag and commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true, "x-kubernetes-validations" = [
    { "rule": "has(self.tag) != has(self.commit)", "message": "set exactly one of tag and commit: a branch or a range is no exact state" },
]))]
pub struct FluxGitReference {
    /// The name of a tag. It is resolved once and pinned: a tag that moves later is reported, never rolled out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_TAG))]
    pub tag: Option<String>,
    /// A commit: 40 or 64 lower-case hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 40, max = 64), regex(pattern = schema::COMMIT))]
    pub commit: Option<String>,
    /// Every other field, by its name: refused.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

impl FluxGitReference {
    /// The version that it names.
    pub fn version(&self) -> GitVersion {
        GitVersion {
            tag: self.tag.clone(),
            commit: self.commit.clone(),
        }
    }
}

/// By whom a git version must be signed, as Flux has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct FluxGitVerify {
    /// What must be signed.
    #[serde(default)]
    pub mode: FluxGitVerifyMode,
    /// A Secret with the public keys that are trusted, beside the Module; in each cluster too, where HEAD is verified.
    pub secret_ref: LocalReference,
    /// Every other field, by its name: refused.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// What of a git version must be signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FluxGitVerifyMode {
    /// The commit.
    #[default]
    #[serde(rename = "HEAD", alias = "head")]
    Head,
    /// The tag.
    Tag,
    /// Both.
    #[serde(rename = "TagAndHEAD")]
    TagAndHead,
}

impl FluxGitVerifyMode {
    /// Whether the tag must be signed.
    pub const fn verifies_tag(self) -> bool {
        matches!(self, Self::Tag | Self::TagAndHead)
    }

    /// Flux's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Head => "HEAD",
            Self::Tag => "Tag",
            Self::TagAndHead => "TagAndHEAD",
        }
    }
}

/// An OCI artifact that Flux reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct FluxOciRepository {
    /// The artifact without tag and digest: oci://host/path.
    #[schemars(length(min = 1, max = schema::MAX_URL))]
    pub url: String,
    /// Which artifact: exactly one of tag and digest.
    #[serde(rename = "ref")]
    pub reference: FluxOciReference,
    /// How Flux logs in: generic, aws, azure or gcp, as OCIRepository has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub provider: Option<String>,
    /// A Secret of type kubernetes.io/dockerconfigjson, beside the Module and in muster-system of each cluster. It is never distributed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// A Secret that names the HTTP proxy, beside the Module and in muster-system of each cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_secret_ref: Option<LocalReference>,
    /// A Secret with ca.crt, or tls.crt and tls.key, for the registry, beside the Module and in muster-system of each cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_secret_ref: Option<LocalReference>,
    /// By whom the artifact must be signed: verified in the management cluster and in each cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<FluxOciVerify>,
    /// Which layer is read, where the artifact has several, or one of another media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer_selector: Option<FluxLayerSelector>,
    /// Files that are left out, in the format of .gitignore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_IGNORE))]
    pub ignore: Option<String>,
    /// Every other field, by its name: refused.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// An exact artifact: exactly one of tag and digest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true, "x-kubernetes-validations" = [
    { "rule": "has(self.tag) != has(self.digest)", "message": "set exactly one of tag and digest: a range is no exact state" },
]))]
pub struct FluxOciReference {
    /// A tag. Its digest is resolved once and pinned: a tag that moves later is reported, never rolled out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_OCI_TAG), regex(pattern = schema::OCI_TAG))]
    pub tag: Option<String>,
    /// A digest: sha256: and 64 lower-case hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 71, max = 71), regex(pattern = schema::OCI_DIGEST))]
    pub digest: Option<String>,
    /// Every other field, by its name: refused.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// By whom an OCI artifact must be signed, as Flux has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct FluxOciVerify {
    /// What verifies: cosign or notation.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub provider: String,
    /// A Secret with the public keys that are trusted, beside the Module and in muster-system of each cluster. Without it: keyless, as cosign has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// Which identities count, where cosign verifies without a key.
    #[serde(default, rename = "matchOIDCIdentity", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_VALUES), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_oidc_identity: Vec<FluxOidcIdentity>,
    /// Every other field, by its name: refused.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// An identity, by regular expressions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FluxOidcIdentity {
    /// The issuer of its token.
    #[schemars(length(min = 1, max = schema::MAX_PATH))]
    pub issuer: String,
    /// Its subject.
    #[schemars(length(min = 1, max = schema::MAX_PATH))]
    pub subject: String,
}

/// Which layer of an artifact is read, as Flux has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct FluxLayerSelector {
    /// The media type of the layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub media_type: Option<String>,
    /// What is done with it: extract or copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub operation: Option<String>,
    /// Every other field, by its name: refused.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// What the `spec` of a source says by which its object is named.
pub const SOURCE_FIELDS: &[&str] = &[
    "url",
    "ref",
    "provider",
    "secretRef",
    "proxySecretRef",
    "certSecretRef",
    "verify",
    "layerSelector",
    "ignore",
];

/// What [`FluxPackage`] says in the `spec` of a Kustomization.
pub const PACKAGE_FIELDS: &[&str] = &[
    "decryption",
    "patches",
    "images",
    "components",
    "ignoreMissingComponents",
    "commonMetadata",
    "namePrefix",
    "nameSuffix",
    "serviceAccountName",
];

/// How the digests of OCI artifacts begin.
const SHA256: &str = "sha256:";

impl FluxSource {
    /// The kind of the object that stands for it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::GitRepository(_) => "GitRepository",
            Self::OciRepository(_) => "OCIRepository",
        }
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        match self {
            Self::GitRepository(git) => &git.url,
            Self::OciRepository(oci) => &oci.url,
        }
    }

    /// Its version, as one of git: a digest is its 64 digits.
    pub fn version(&self) -> GitVersion {
        match self {
            Self::GitRepository(git) => git.reference.version(),
            Self::OciRepository(oci) => GitVersion {
                tag: oci.reference.tag.clone(),
                commit: oci
                    .reference
                    .digest
                    .as_deref()
                    .map(|digest| digest.strip_prefix(SHA256).unwrap_or(digest).to_owned()),
            },
        }
    }

    /// The Secret of a git repository.
    pub const fn git_secret(&self) -> Option<&GitSecretReference> {
        match self {
            Self::GitRepository(git) => git.secret_ref.as_ref(),
            Self::OciRepository(_) => None,
        }
    }

    /// Names the copy of the Secret of a git repository; those of artifacts are never copied.
    pub(super) fn name_copy(&mut self, copy: GitSecretReference) {
        match self {
            Self::GitRepository(git) => git.secret_ref = Some(copy),
            Self::OciRepository(_) => {}
        }
    }

    /// Leaves it at no version.
    pub(super) fn remove_version(&mut self) {
        match self {
            Self::GitRepository(git) => git.reference = FluxGitReference::default(),
            Self::OciRepository(oci) => oci.reference = FluxOciReference::default(),
        }
    }

    /// What is asked for before a version is pinned: what else of it changes takes no pin away.
    pub fn request(&self) -> Value {
        let verify = match self {
            Self::GitRepository(git) => serde_json::to_value(&git.verify),
            Self::OciRepository(oci) => serde_json::to_value(&oci.verify),
        };
        let version = self.version();
        serde_json::json!({
            "kind": self.kind(),
            "url": self.url(),
            "tag": version.tag,
            "commit": version.commit,
            "verify": verify.unwrap_or_default(),
        })
    }

    /// What rows say of it: a tag was verified where it was pinned, and a pinned commit has none.
    #[must_use]
    pub fn for_rows(&self) -> Self {
        let mut source = self.clone();
        if let Self::GitRepository(git) = &mut source {
            git.verify = git.verify.take().and_then(|verify| match verify.mode {
                FluxGitVerifyMode::Tag => None,
                FluxGitVerifyMode::Head | FluxGitVerifyMode::TagAndHead => Some(FluxGitVerify {
                    mode: FluxGitVerifyMode::Head,
                    ..verify
                }),
            });
        }
        source
    }

    /// All of it but its version, which a commit or digest stands for.
    pub fn options(&self) -> Value {
        let mut options = serde_json::to_value(self).unwrap_or_default();
        for kind in ["gitRepository", "ociRepository"] {
            if let Some(fields) = options.get_mut(kind).and_then(Value::as_object_mut) {
                fields.remove("ref");
            }
        }
        options
    }

    /// What Flux's object says as its `spec`, but for its interval: the version that is asked for, or the one that is pinned.
    pub fn flux_spec(&self, pinned: Option<&str>) -> serde_json::Map<String, Value> {
        let fields = match self {
            Self::GitRepository(git) => serde_json::to_value(git),
            Self::OciRepository(oci) => serde_json::to_value(oci),
        };
        let Ok(Value::Object(mut spec)) = fields else {
            return serde_json::Map::new();
        };
        if let Some(secret) = spec.get_mut("secretRef").and_then(Value::as_object_mut) {
            secret.remove("distribute");
        }
        if let Self::OciRepository(_) = self {
            // What the kind fills in is said, so that the object is as it was written.
            spec.entry("provider").or_insert_with(|| Value::from("generic"));
        }
        if let Some(pinned) = pinned {
            let reference = match self {
                Self::GitRepository(_) => serde_json::json!({ "commit": pinned }),
                Self::OciRepository(_) => serde_json::json!({ "digest": format!("{SHA256}{pinned}") }),
            };
            spec.insert("ref".to_owned(), reference);
        }
        spec
    }
}

/// What Flux's Kustomization can do and the built-in sync cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct FluxPackage {
    /// How encrypted files are decrypted in each cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decryption: Option<FluxDecryption>,
    /// Patches of the manifests, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_VALUES), extend("x-kubernetes-list-type" = "atomic"))]
    pub patches: Vec<FluxPatch>,
    /// Images that are replaced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_VALUES), extend("x-kubernetes-list-type" = "atomic"))]
    pub images: Vec<FluxImage>,
    /// Folders of components, relative to path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_VALUES), inner(length(min = 1, max = schema::MAX_PATH)), extend("x-kubernetes-list-type" = "atomic"))]
    pub components: Vec<String>,
    /// Whether components that are not there are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_missing_components: Option<bool>,
    /// Labels and annotations of all objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub common_metadata: Option<FluxCommonMetadata>,
    /// What the names of all objects begin with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub name_prefix: Option<String>,
    /// What the names of all objects end with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub name_suffix: Option<String>,
    /// The ServiceAccount, in muster-system of each cluster, with whose rights Flux applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub service_account_name: Option<String>,
    /// Every other field, by its name: refused.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

impl FluxPackage {
    /// What it adds to the `spec` of Flux's Kustomization.
    pub fn fields(&self) -> BTreeMap<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => fields.into_iter().collect(),
            _ => BTreeMap::new(),
        }
    }
}

/// How encrypted files are decrypted, as Flux has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct FluxDecryption {
    /// By what they are encrypted: sops.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub provider: String,
    /// A Secret with the private keys, in muster-system of each cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// A ServiceAccount of muster-system of each cluster that a cloud's key service knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub service_account_name: Option<String>,
    /// Every other field, by its name: refused.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// A patch, as Flux has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FluxPatch {
    /// The patch: a strategic merge patch or a JSON patch, as YAML.
    #[schemars(length(min = 1, max = schema::MAX_PATCH))]
    pub patch: String,
    /// Which objects are patched. Without it: the one that the patch names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<FluxPatchTarget>,
}

/// Which objects are patched: those that all of these fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FluxPatchTarget {
    /// Their API group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_NAME))]
    pub group: Option<String>,
    /// Their API version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub version: Option<String>,
    /// Their kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub kind: Option<String>,
    /// Their namespace, a regular expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_NAME))]
    pub namespace: Option<String>,
    /// Their name, a regular expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_NAME))]
    pub name: Option<String>,
    /// A selector of their annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_PATH))]
    pub annotation_selector: Option<String>,
    /// A selector of their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_PATH))]
    pub label_selector: Option<String>,
}

/// An image that is replaced, as Flux has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FluxImage {
    /// The image in the manifests, without tag.
    #[schemars(length(min = 1, max = schema::MAX_PATH))]
    pub name: String,
    /// The image instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_PATH))]
    pub new_name: Option<String>,
    /// Its tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_OCI_TAG))]
    pub new_tag: Option<String>,
    /// Its digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_NAME))]
    pub digest: Option<String>,
}

/// Labels and annotations of all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FluxCommonMetadata {
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::texts")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::texts")]
    pub annotations: BTreeMap<String, String>,
}
