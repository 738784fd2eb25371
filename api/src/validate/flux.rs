//! Validates which fields of Flux's sources and Kustomizations are passed to Flux. All other fields are rejected by
//! name.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{InsecureSources, Problem, Problems, UrlError, VersionError, git, names};
use crate::{
    schema,
    sync::{FluxGitRepository, FluxOciRepository, FluxPackage, FluxSource, Package, Source},
};

/// Why a field of Flux is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FluxError {
    /// A known field of Flux that is not passed on.
    #[error("{field} is not passed on to Flux: {why}")]
    Field {
        /// Name of the field.
        field: String,
        /// Why it is rejected, and what to write instead.
        why: &'static str,
    },
    /// An unknown field.
    #[error("{field} is not passed on to Flux: remove it; supported fields: {known}")]
    Unknown {
        /// Name of the field.
        field: String,
        /// The supported fields.
        known: &'static str,
    },
    /// Not the URL of an OCI artifact.
    #[error("{0:?} is not the URL of an OCI artifact: write oci://host/path, without tag and digest")]
    OciUrl(String),
    /// Not exactly one version.
    #[error("set exactly one of tag and digest: nothing else is an exact state")]
    OciVersion,
    /// Not a tag.
    #[error("{0:?} is not the tag of an OCI artifact: letters, digits and . _ - of at most {max}", max = schema::MAX_OCI_TAG)]
    OciTag(String),
    /// Not a digest.
    #[error("{0:?} is not a digest: write sha256: and 64 lower-case hexadecimal digits")]
    OciDigest(String),
    /// Tag verification without a tag.
    #[error("mode {0} needs ref.tag: a commit has no tag; write mode: HEAD")]
    VerifyTag(&'static str),
    /// A field that Flux does not support.
    #[error(
        "{0} is supported only by the built-in sync, and source.flux and package.flux only by Flux: remove one of them"
    )]
    BuiltIn(&'static str),
    /// An unknown decryption provider.
    #[error("provider {0:?} is not supported by Flux: write sops")]
    Decryption(String),
}

/// The decryption provider that Flux supports.
const SOPS: &str = "sops";
const NO_STATE: &str = "it is not an exact state: write tag or commit";
const NO_ARTIFACT: &str = "it is not an exact artifact: write tag or digest";
const OF_A_SOURCE: &str =
    "muster sets it; a tag is resolved again each package.interval, to detect that it moved";
const PAUSE: &str = "pause the module instead: muster rollout pause";
const BY_MUSTER: &str = "muster sets it for each cluster";

const REFERENCE: &[(&str, &str)] = &[("branch", NO_STATE), ("semver", NO_STATE), ("name", NO_STATE)];
const OCI_REFERENCE: &[(&str, &str)] = &[("semver", NO_ARTIFACT), ("semverFilter", NO_ARTIFACT)];
const SOURCE: &[(&str, &str)] = &[
    (
        "include",
        "the state of the other repositories is not pinned: use separate modules with dependsOn",
    ),
    ("interval", OF_A_SOURCE),
    ("timeout", OF_A_SOURCE),
    ("suspend", PAUSE),
    ("insecure", "a registry is read over https"),
    (
        "recurseSubmodules",
        "the repositories of submodules are neither pinned nor verified",
    ),
    (
        "sparseCheckout",
        "package.path says which directory is applied; ignore leaves files out",
    ),
    (
        "serviceAccountName",
        "use provider for a cloud identity, or secretRef",
    ),
];
const GIT_KNOWN: &str = "url, ref, provider, secretRef, proxySecretRef, verify, ignore";
const OCI_KNOWN: &str =
    "url, ref, provider, secretRef, proxySecretRef, certSecretRef, verify, layerSelector, ignore";
const PACKAGE: &[(&str, &str)] = &[
    ("sourceRef", BY_MUSTER),
    ("kubeConfig", BY_MUSTER),
    ("deletionPolicy", "use onDelete of the module"),
    ("suspend", PAUSE),
    ("dependsOn", "use dependsOn of the module"),
    (
        "postBuild",
        "use package.substitute, and bindings for cluster-specific values",
    ),
    ("path", "use package.path"),
    ("prune", "use package.prune"),
    ("wait", "use package.wait"),
    ("force", "use package.force"),
    ("timeout", "use package.timeout"),
    ("interval", "use package.interval"),
    ("retryInterval", "use package.retryInterval"),
    ("targetNamespace", "use package.targetNamespace"),
    ("healthChecks", "use package.healthChecks"),
    ("healthCheckExprs", "use package.healthExpressions"),
    ("ignore", "use ignore of the source"),
    ("buildMetadata", "use commonMetadata"),
];
const PACKAGE_KNOWN: &str = "decryption, patches, images, components, ignoreMissingComponents, commonMetadata, namePrefix, nameSuffix, serviceAccountName";

/// The Flux-related errors of a row that was written by something other than muster's modules.
pub fn row(source: &Source, package: &Package) -> Vec<super::Invalid> {
    let mut found = Problems::default();
    found.flux(
        source,
        package,
        "source.flux",
        "package",
        InsecureSources::Allowed,
    );
    found.0
}

impl Problems {
    /// Checks a source that Flux reads, and the additional options of Flux.
    pub(super) fn flux(
        &mut self,
        source: &Source,
        package: &Package,
        source_field: &str,
        package_field: &str,
        insecure: InsecureSources,
    ) {
        if let Source::Flux(flux) = source {
            self.flux_source(source_field, flux, insecure);
        }
        if let Some(flux) = &package.flux {
            self.flux_package(&format!("{package_field}.flux"), flux);
        }
        if source.flux().is_none() && package.flux.is_none() {
            return;
        }
        let built_in = [
            ("plan", package.plan.is_some()),
            ("assume", package.assume.is_some()),
        ];
        for (field, _) in built_in.into_iter().filter(|(_, is_set)| *is_set) {
            let problem = FluxError::BuiltIn(field);
            self.check(format!("{package_field}.{field}"), Err::<(), _>(problem));
        }
    }

    fn flux_source(&mut self, field: &str, source: &FluxSource, insecure: InsecureSources) {
        match source {
            FluxSource::GitRepository(git) => self.flux_git(&format!("{field}.gitRepository"), git, insecure),
            FluxSource::OciRepository(oci) => self.flux_oci(&format!("{field}.ociRepository"), oci),
        }
    }

    fn flux_git(&mut self, field: &str, source: &FluxGitRepository, insecure: InsecureSources) {
        self.check(format!("{field}.url"), git::url(&source.url, insecure));
        let version = source.reference.version();
        self.refused(
            &format!("{field}.ref"),
            &source.reference.other,
            REFERENCE,
            "tag, commit",
        );
        if source.reference.other.is_empty() || git::version(&version) != Err(VersionError::Neither) {
            self.check(format!("{field}.ref"), git::version(&version).map(drop));
        }
        let secrets = [
            ("secretRef", source.secret_ref.as_ref().map(|secret| &secret.name)),
            (
                "proxySecretRef",
                source.proxy_secret_ref.as_ref().map(|secret| &secret.name),
            ),
            (
                "verify.secretRef",
                source.verify.as_ref().map(|verify| &verify.secret_ref.name),
            ),
        ];
        self.flux_secrets(field, &secrets);
        if source.secret_ref.is_none() && git::needs_secret(&source.url) {
            self.check(format!("{field}.secretRef"), Err::<(), _>(UrlError::NoSecret));
        }
        if let Some(verify) = &source.verify {
            self.refused(&format!("{field}.verify"), &verify.other, &[], "mode, secretRef");
        }
        let verify = source.verify.as_ref().map(|verify| verify.mode);
        if let Some(mode) = verify.filter(|mode| mode.verifies_tag() && source.reference.tag.is_none()) {
            let problem = FluxError::VerifyTag(mode.as_str());
            self.check(format!("{field}.verify.mode"), Err::<(), _>(problem));
        }
        self.refused(field, &source.other, SOURCE, GIT_KNOWN);
    }

    fn flux_oci(&mut self, field: &str, source: &FluxOciRepository) {
        self.check(format!("{field}.url"), oci_url(&source.url));
        let reference = &source.reference;
        self.refused(
            &format!("{field}.ref"),
            &reference.other,
            OCI_REFERENCE,
            "tag, digest",
        );
        let version = match (&reference.tag, &reference.digest) {
            (Some(tag), None) => oci_tag(tag),
            (None, Some(digest)) => oci_digest(digest),
            (None, None) if !reference.other.is_empty() => Ok(()),
            (None, None) | (Some(_), Some(_)) => Err(FluxError::OciVersion),
        };
        self.check(format!("{field}.ref"), version);
        let of_verify = source
            .verify
            .as_ref()
            .and_then(|verify| verify.secret_ref.as_ref());
        let secrets = [
            ("secretRef", &source.secret_ref),
            ("proxySecretRef", &source.proxy_secret_ref),
            ("certSecretRef", &source.cert_secret_ref),
        ];
        let secrets = secrets.map(|(key, secret)| (key, secret.as_ref().map(|secret| &secret.name)));
        self.flux_secrets(field, &secrets);
        self.flux_secrets(
            field,
            &[("verify.secretRef", of_verify.map(|secret| &secret.name))],
        );
        if let Some(verify) = &source.verify {
            let known = "provider, secretRef, matchOIDCIdentity";
            self.refused(&format!("{field}.verify"), &verify.other, &[], known);
        }
        if let Some(layer) = &source.layer_selector {
            self.refused(
                &format!("{field}.layerSelector"),
                &layer.other,
                &[],
                "mediaType, operation",
            );
        }
        self.refused(field, &source.other, SOURCE, OCI_KNOWN);
    }

    fn flux_package(&mut self, field: &str, package: &FluxPackage) {
        self.refused(field, &package.other, PACKAGE, PACKAGE_KNOWN);
        for (index, component) in package.components.iter().enumerate() {
            // Directories outside the package's directory, such as ../components.
            let up = component.trim_start_matches("../");
            self.check(format!("{field}.components[{index}]"), git::path(up));
        }
        let of_decryption = package
            .decryption
            .as_ref()
            .and_then(|decryption| decryption.secret_ref.as_ref())
            .map(|secret| &secret.name);
        self.flux_secrets(field, &[("decryption.secretRef", of_decryption)]);
        if let Some(decryption) = &package.decryption {
            let of_decryption = format!("{field}.decryption");
            self.refused(
                &of_decryption,
                &decryption.other,
                &[],
                "provider, secretRef, serviceAccountName",
            );
            if decryption.provider != SOPS {
                let problem =
                    FluxError::Decryption(decryption.provider.chars().take(schema::MAX_LABEL).collect());
                self.check(format!("{of_decryption}.provider"), Err::<(), _>(problem));
            }
            if let Some(account) = &decryption.service_account_name {
                self.name(
                    format!("{of_decryption}.serviceAccountName"),
                    account,
                    names::dns_subdomain,
                );
            }
        }
        if let Some(account) = &package.service_account_name {
            self.name(
                format!("{field}.serviceAccountName"),
                account,
                names::dns_subdomain,
            );
        }
    }

    fn flux_secrets(&mut self, field: &str, secrets: &[(&str, Option<&String>)]) {
        for (key, name) in secrets {
            if let Some(name) = name {
                self.name(format!("{field}.{key}.name"), name, names::dns_subdomain);
            }
        }
    }

    fn refused(
        &mut self,
        field: &str,
        other: &BTreeMap<String, Value>,
        reasons: &[(&str, &'static str)],
        known: &'static str,
    ) {
        for name in other.keys() {
            let why = reasons.iter().find(|(refused, _)| refused == name);
            let problem = match why {
                Some((_, why)) => FluxError::Field {
                    field: name.clone(),
                    why,
                },
                None => FluxError::Unknown {
                    field: name.chars().take(schema::MAX_LABEL).collect(),
                    known,
                },
            };
            self.check(format!("{field}.{name}"), Err::<(), Problem>(problem.into()));
        }
    }
}

/// Whether the URL can refer to an OCI artifact.
fn oci_url(text: &str) -> Result<(), FluxError> {
    let wrong = || FluxError::OciUrl(text.chars().take(schema::MAX_NAME).collect());
    let rest = text.strip_prefix("oci://").ok_or_else(wrong)?;
    let (host, path) = rest.split_once('/').ok_or_else(wrong)?;
    let (name, port) = host.split_once(':').unwrap_or((host, "443"));
    let host_char = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let is_host =
        !name.is_empty() && name.bytes().all(host_char) && port.parse::<u16>().is_ok_and(|port| port > 0);
    let path_char =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'_');
    let is_part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphanumeric()) && part.bytes().all(path_char)
    };
    if is_host && path.split('/').all(is_part) && text.len() <= schema::MAX_URL {
        Ok(())
    } else {
        Err(wrong())
    }
}

fn oci_tag(text: &str) -> Result<(), FluxError> {
    let is_tag = (1..=schema::MAX_OCI_TAG).contains(&text.len())
        && !text.starts_with(['.', '-'])
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
    if is_tag {
        Ok(())
    } else {
        Err(FluxError::OciTag(text.chars().take(schema::MAX_NAME).collect()))
    }
}

fn oci_digest(text: &str) -> Result<(), FluxError> {
    let digits = text.strip_prefix("sha256:").unwrap_or_default();
    let is_digest = digits.len() == 64
        && digits
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_digest {
        Ok(())
    } else {
        Err(FluxError::OciDigest(
            text.chars().take(schema::MAX_NAME).collect(),
        ))
    }
}
