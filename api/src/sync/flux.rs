//! Sources that Flux reads, and the additional options of Flux's Kustomization.
//!
//! The source is passed to Flux as is, except for its version: what a tag points to is pinned once, in the management
//! cluster. Fields that are not modelled here are kept, so that they are rejected by name (`crate::validate::flux`)
//! instead of being dropped silently.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{GitSecretReference, GitVersion, LocalReference};
use crate::schema;

/// A source that Flux reads: requires Flux in the management cluster and in each cluster, and `--sync flux` in both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "FluxSourceFields")]
pub enum FluxSource {
    /// A git repository.
    GitRepository(FluxGitRepository),
    /// An OCI artifact.
    OciRepository(FluxOciRepository),
}

/// A source that Flux's source-controller reads, in the management cluster and in each cluster: exactly one of
/// gitRepository and ociRepository. Both sides must run with --sync flux.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    { "rule": "has(self.gitRepository) != has(self.ociRepository)", "message": "set exactly one of gitRepository and ociRepository" },
]))]
struct FluxSourceFields {
    /// A git repository, with the fields of Flux's GitRepository that refer to an exact state.
    #[serde(default)]
    git_repository: Option<FluxGitRepository>,
    /// An OCI artifact, with the fields of Flux's OCIRepository that refer to an exact state.
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
    /// URL of the repository: https://host/path or ssh://user@host/path.
    #[schemars(length(min = 1, max = schema::MAX_URL))]
    pub url: String,
    /// The state of the repository: exactly one of tag and commit.
    #[serde(rename = "ref")]
    pub reference: FluxGitReference,
    /// How Flux authenticates: generic, aws, azure or github, as in GitRepository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub provider: Option<String>,
    /// A Secret with the keys that Flux expects, in the namespace of the Module and in muster-system of each cluster,
    /// unless it is distributed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<GitSecretReference>,
    /// A Secret that configures the HTTP proxy, in the namespace of the Module and in muster-system of each cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_secret_ref: Option<LocalReference>,
    /// Signature verification of the version. A tag is verified only in the management cluster; HEAD also in each
    /// cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<FluxGitVerify>,
    /// Files to exclude, in the format of .gitignore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_IGNORE))]
    pub ignore: Option<String>,
    /// Every other field, by name; rejected by validation.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// An exact state of a git repository: exactly one of tag and commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true, "x-kubernetes-validations" = [
    { "rule": "has(self.tag) != has(self.commit)", "message": "set exactly one of tag and commit: a branch or a range is not an exact state" },
]))]
pub struct FluxGitReference {
    /// Name of a tag. It is resolved once and pinned: a tag that moves later is reported, never rolled out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_TAG))]
    pub tag: Option<String>,
    /// A commit hash: 40 or 64 lower-case hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 40, max = 64), regex(pattern = schema::COMMIT))]
    pub commit: Option<String>,
    /// Every other field, by name; rejected by validation.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

impl FluxGitReference {
    /// The reference as a version.
    pub fn version(&self) -> GitVersion {
        GitVersion {
            tag: self.tag.clone(),
            commit: self.commit.clone(),
        }
    }
}

/// Signature verification of a git version, as in Flux.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct FluxGitVerify {
    /// What must be signed: HEAD (the commit), Tag, or TagAndHEAD.
    #[serde(default)]
    pub mode: FluxGitVerifyMode,
    /// A Secret with the trusted public keys, in the namespace of the Module; also in each cluster if HEAD is verified.
    pub secret_ref: LocalReference,
    /// Every other field, by name; rejected by validation.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// Which parts of a git version must be signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FluxGitVerifyMode {
    /// The commit must be signed.
    #[default]
    #[serde(rename = "HEAD", alias = "head")]
    Head,
    /// The tag must be signed.
    Tag,
    /// Both the tag and the commit must be signed.
    #[serde(rename = "TagAndHEAD")]
    TagAndHead,
}

impl FluxGitVerifyMode {
    /// Whether the tag must be signed.
    pub const fn verifies_tag(self) -> bool {
        matches!(self, Self::Tag | Self::TagAndHead)
    }

    /// The mode as Flux writes it.
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
    /// URL of the artifact, without tag and digest: oci://host/path.
    #[schemars(length(min = 1, max = schema::MAX_URL))]
    pub url: String,
    /// The version of the artifact: exactly one of tag and digest.
    #[serde(rename = "ref")]
    pub reference: FluxOciReference,
    /// How Flux authenticates: generic, aws, azure or gcp, as in OCIRepository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub provider: Option<String>,
    /// A Secret of type kubernetes.io/dockerconfigjson, in the namespace of the Module and in muster-system of each
    /// cluster. It is never distributed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// A Secret that configures the HTTP proxy, in the namespace of the Module and in muster-system of each cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_secret_ref: Option<LocalReference>,
    /// A Secret with ca.crt, or tls.crt and tls.key, for the registry, in the namespace of the Module and in
    /// muster-system of each cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_secret_ref: Option<LocalReference>,
    /// Signature verification of the artifact, in the management cluster and in each cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<FluxOciVerify>,
    /// Which layer is read, if the artifact has several, or one with another media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer_selector: Option<FluxLayerSelector>,
    /// Files to exclude, in the format of .gitignore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_IGNORE))]
    pub ignore: Option<String>,
    /// Every other field, by name; rejected by validation.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// An exact artifact: exactly one of tag and digest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true, "x-kubernetes-validations" = [
    { "rule": "has(self.tag) != has(self.digest)", "message": "set exactly one of tag and digest: a range is not an exact state" },
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
    /// Every other field, by name; rejected by validation.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// Signature verification of an OCI artifact, as in Flux.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct FluxOciVerify {
    /// The tool that verifies the signature: cosign or notation.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub provider: String,
    /// A Secret with the trusted public keys, in the namespace of the Module and in muster-system of each cluster.
    /// Without it: keyless verification by cosign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// Identities that are accepted by keyless verification with cosign.
    #[serde(default, rename = "matchOIDCIdentity", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_VALUES), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_oidc_identity: Vec<FluxOidcIdentity>,
    /// Every other field, by name; rejected by validation.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// A signer identity, matched by regular expressions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FluxOidcIdentity {
    /// Regular expression for the issuer of the OIDC token.
    #[schemars(length(min = 1, max = schema::MAX_PATH))]
    pub issuer: String,
    /// Regular expression for the subject of the OIDC token.
    #[schemars(length(min = 1, max = schema::MAX_PATH))]
    pub subject: String,
}

/// Which layer of an artifact is read, as in Flux.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct FluxLayerSelector {
    /// The media type of the layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub media_type: Option<String>,
    /// What is done with the layer: extract or copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub operation: Option<String>,
    /// Every other field, by name; rejected by validation.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// The parts of a source's `spec` that are used in the name of its Flux object.
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

/// The fields that [`FluxPackage`] adds to the `spec` of a Kustomization.
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

/// Prefix of the digests of OCI artifacts.
const SHA256: &str = "sha256:";

impl FluxSource {
    /// Kind of the Flux object for this source.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::GitRepository(_) => "GitRepository",
            Self::OciRepository(_) => "OCIRepository",
        }
    }

    /// URL of the source.
    pub fn url(&self) -> &str {
        match self {
            Self::GitRepository(git) => &git.url,
            Self::OciRepository(oci) => &oci.url,
        }
    }

    /// The version in the form of a git version: a digest is represented by its 64 digits.
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

    /// The Secret of a git repository; `None` for OCI artifacts.
    pub const fn git_secret(&self) -> Option<&GitSecretReference> {
        match self {
            Self::GitRepository(git) => git.secret_ref.as_ref(),
            Self::OciRepository(_) => None,
        }
    }

    /// Sets the reference to the distributed copy of a git repository's Secret; Secrets of OCI artifacts are never
    /// copied.
    pub(super) fn name_copy(&mut self, copy: GitSecretReference) {
        match self {
            Self::GitRepository(git) => git.secret_ref = Some(copy),
            Self::OciRepository(_) => {}
        }
    }

    /// Removes the version.
    pub(super) fn remove_version(&mut self) {
        match self {
            Self::GitRepository(git) => git.reference = FluxGitReference::default(),
            Self::OciRepository(oci) => oci.reference = FluxOciReference::default(),
        }
    }

    /// The fields that determine what is pinned; a change of other fields keeps the pin.
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

    /// The source as written to rows: a tag is verified where it is pinned, and the pinned commit has no tag.
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

    /// All fields except the version, which a commit or digest replaces.
    pub fn options(&self) -> Value {
        let mut options = serde_json::to_value(self).unwrap_or_default();
        for kind in ["gitRepository", "ociRepository"] {
            if let Some(fields) = options.get_mut(kind).and_then(Value::as_object_mut) {
                fields.remove("ref");
            }
        }
        options
    }

    /// The `spec` of the Flux object except its interval, with the requested version or the pinned one.
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
            // The API server's default is written explicitly, so that the stored object equals the applied one.
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

/// Options of Flux's Kustomization that the built-in sync does not support.
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
    /// Directories of kustomize components, relative to path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = schema::MAX_VALUES), inner(length(min = 1, max = schema::MAX_PATH)), extend("x-kubernetes-list-type" = "atomic"))]
    pub components: Vec<String>,
    /// Whether missing components are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignore_missing_components: Option<bool>,
    /// Labels and annotations that are added to all objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub common_metadata: Option<FluxCommonMetadata>,
    /// Prefix for the names of all objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub name_prefix: Option<String>,
    /// Suffix for the names of all objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub name_suffix: Option<String>,
    /// The ServiceAccount, in muster-system of each cluster, that Flux impersonates when it applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub service_account_name: Option<String>,
    /// Every other field, by name; rejected by validation.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

impl FluxPackage {
    /// The fields that are added to the `spec` of Flux's Kustomization.
    pub fn fields(&self) -> BTreeMap<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => fields.into_iter().collect(),
            _ => BTreeMap::new(),
        }
    }
}

/// How encrypted files are decrypted, as in Flux.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct FluxDecryption {
    /// The encryption tool: sops.
    #[schemars(length(min = 1, max = schema::MAX_LABEL))]
    pub provider: String,
    /// A Secret with the private keys, in muster-system of each cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// A ServiceAccount in muster-system of each cluster that has access to a cloud's key management service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = schema::MAX_NAME))]
    pub service_account_name: Option<String>,
    /// Every other field, by name; rejected by validation.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// A patch, as in Flux.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FluxPatch {
    /// The patch: a strategic merge patch or a JSON patch, as YAML.
    #[schemars(length(min = 1, max = schema::MAX_PATCH))]
    pub patch: String,
    /// Which objects are patched. Without it: the object that the patch names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<FluxPatchTarget>,
}

/// Which objects are patched: those that match all of these fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FluxPatchTarget {
    /// API group of the objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_NAME))]
    pub group: Option<String>,
    /// API version of the objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub version: Option<String>,
    /// Kind of the objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_LABEL))]
    pub kind: Option<String>,
    /// Namespace of the objects, a regular expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_NAME))]
    pub namespace: Option<String>,
    /// Name of the objects, a regular expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_NAME))]
    pub name: Option<String>,
    /// A selector for annotations of the objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_PATH))]
    pub annotation_selector: Option<String>,
    /// A selector for labels of the objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_PATH))]
    pub label_selector: Option<String>,
}

/// An image replacement, as in Flux.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FluxImage {
    /// Name of the image in the manifests, without tag.
    #[schemars(length(min = 1, max = schema::MAX_PATH))]
    pub name: String,
    /// The new image name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_PATH))]
    pub new_name: Option<String>,
    /// The new tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_OCI_TAG))]
    pub new_tag: Option<String>,
    /// The new digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = schema::MAX_NAME))]
    pub digest: Option<String>,
}

/// Labels and annotations that are added to all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FluxCommonMetadata {
    /// Labels to add.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::texts")]
    pub labels: BTreeMap<String, String>,
    /// Annotations to add.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::texts")]
    pub annotations: BTreeMap<String, String>,
}
