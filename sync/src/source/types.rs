//! Requests to a source and their results.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::commit::{CommitId, hex};
use super::github_app::GitHubApp;
use super::{SourceError, Verify};
use crate::proxy::Proxy;

/// What is requested from a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// Exactly this commit.
    Commit(CommitId),
    /// The commit that this tag, annotated or not, refers to.
    Tag(String),
    /// The newest commit of this branch.
    Branch(String),
    /// The highest version in a range: not supported, but Flux on a cluster supports it.
    Semver(String),
}

impl Want {
    /// The reference name as Flux writes it before the `@` of a revision.
    pub fn reference(&self) -> Option<&str> {
        match self {
            Self::Commit(_) => None,
            Self::Tag(name) | Self::Branch(name) | Self::Semver(name) => Some(name),
        }
    }
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Commit(id) => write!(f, "commit {id}"),
            Self::Tag(name) => write!(f, "tag {name:?}"),
            Self::Branch(name) => write!(f, "branch {name:?}"),
            Self::Semver(range) => write!(f, "semver range {range:?}"),
        }
    }
}

/// The error for what our sources do not support.
pub(super) fn unsupported(want: &Want) -> SourceError {
    SourceError::Unsupported {
        what: want.to_string(),
        next: "name a tag, a branch or a commit, or run Flux in this cluster",
    }
}

/// A repository and how to access it.
#[derive(Clone, Default)]
pub struct Remote {
    /// The URL as the user wrote it; `https`, `ssh`, or, if insecure sources are allowed, `http` and `file`.
    pub url: String,
    /// From the Secret that `secretRef` names.
    pub credentials: Option<Credentials>,
    /// From the Secret that `proxySecretRef` names: it overrides the proxies of the process.
    pub proxy: Option<Proxy>,
    /// `spec.ignore` of the GitRepository: patterns of paths to ignore, with priority over those of `.sourceignore` and
    /// the default ones.
    pub ignore: Option<String>,
    /// The time limit of one call, if it is shorter than that of the process.
    pub timeout: Option<Duration>,
    /// What must be signed, and by which keys; `None` if nothing.
    pub verify: Option<Verify>,
}

impl fmt::Debug for Remote {
    /// Omits anything before an `@` in the URL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = super::url::redacted(&self.url);
        f.debug_struct("Remote")
            .field("url", &url)
            .field("credentials", &self.credentials)
            .field("proxy", &self.proxy)
            .finish_non_exhaustive()
    }
}

impl Remote {
    /// A repository without credentials.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ..Self::default()
        }
    }

    /// The same repository with `credentials`.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = Some(credentials);
        self
    }
}

/// Credentials for one git host; never sent to another one. Keys as in Flux's Secrets: an `ssh` URL uses `identity`,
/// `known_hosts` and `password`, other URLs use the rest.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// `username`, for basic authentication.
    pub username: Option<String>,
    /// `password`, for basic authentication; with ssh, the passphrase of the key.
    pub password: Option<String>,
    /// `bearerToken`, sent as it is.
    pub bearer_token: Option<String>,
    /// `ca.crt`: PEM certificates to trust in addition to those of the system.
    pub ca_crt: Option<Vec<u8>>,
    /// `tls.crt`: PEM client certificate.
    pub tls_crt: Option<Vec<u8>>,
    /// `tls.key`: PEM client key.
    pub tls_key: Option<Vec<u8>>,
    /// `githubAppID` and the other keys of a GitHub App.
    pub github_app: Option<GitHubApp>,
    /// `identity`: the private key for ssh; [`Self::password`] is its passphrase.
    pub identity: Option<Vec<u8>>,
    /// `known_hosts`: the hosts that ssh may connect to, with their keys.
    pub known_hosts: Option<Vec<u8>>,
}

impl Credentials {
    /// Reads the data of a Secret. An incomplete pair is an error; other keys are ignored.
    pub fn from_secret(data: &BTreeMap<String, Vec<u8>>) -> Result<Self, SourceError> {
        let refuse = |why: &str| Err(SourceError::Credentials { why: why.to_owned() });
        let text = |key: &str| {
            let Some(value) = data.get(key) else {
                return Ok(None);
            };
            let value = std::str::from_utf8(value).map_err(|_| SourceError::Credentials {
                why: format!("key {key:?} is not UTF-8"),
            })?;
            // Files end with a newline; white space around a token is never part of it, but a password may start with
            // some.
            let value = match key {
                "bearerToken" => value.trim(),
                _ => value.trim_end_matches(['\r', '\n']),
            };
            if value.chars().any(char::is_control) {
                return Err(SourceError::Credentials {
                    why: format!("key {key:?} contains a line feed or another control character"),
                });
            }
            Ok(Some(value.to_owned()))
        };
        let pem = |key: &str| data.get(key).cloned();
        let read = Self {
            username: text("username")?,
            password: text("password")?,
            bearer_token: text("bearerToken")?,
            ca_crt: pem("ca.crt"),
            tls_crt: pem("tls.crt"),
            tls_key: pem("tls.key"),
            github_app: GitHubApp::from_secret(data)?,
            identity: pem("identity"),
            known_hosts: pem("known_hosts"),
        };
        if read.identity.is_some() && read.known_hosts.is_none() {
            return refuse("identity also needs known_hosts: the lines that `ssh-keyscan <host>` prints");
        }
        // With ssh, a password alone is a passphrase.
        let pair = read.username.is_some() == read.password.is_some();
        if !pair && (read.username.is_some() || read.identity.is_none()) {
            return refuse("username and password must both be set");
        }
        if read.tls_crt.is_some() != read.tls_key.is_some() {
            return refuse("tls.crt and tls.key must be set together");
        }
        if read.username.is_some() && read.bearer_token.is_some() {
            return refuse("both username and bearerToken are given; keep one");
        }
        if read.github_app.is_some() && (read.username.is_some() || read.bearer_token.is_some()) {
            return refuse("the keys of a GitHub App and another login are given; keep one");
        }
        Ok(read)
    }
}

impl Credentials {
    /// Identifies the credentials in the caches of this process.
    pub(super) fn fingerprint(&self) -> String {
        let app = self.github_app.as_ref().map(GitHubApp::parts);
        let [id, installation, key] = app.map_or([None, None, None], |parts| parts.map(Some));
        let parts = [
            id.as_deref(),
            installation.as_deref(),
            key.as_deref(),
            self.username.as_deref().map(str::as_bytes),
            self.password.as_deref().map(str::as_bytes),
            self.bearer_token.as_deref().map(str::as_bytes),
            self.tls_crt.as_deref(),
            self.tls_key.as_deref(),
            self.identity.as_deref(),
            self.known_hosts.as_deref(),
        ];
        let mut hash = Sha256::new();
        for part in parts {
            hash.update([u8::from(part.is_some())]);
            hash.update((part.map_or(0, <[u8]>::len) as u64).to_be_bytes());
            hash.update(part.unwrap_or_default());
        }
        hex(&hash.finalize())
    }

    /// Whether the credentials can only be used for ssh.
    pub(super) fn are_for_ssh(&self) -> bool {
        let others = self.username.is_some()
            || self.bearer_token.is_some()
            || self.tls_crt.is_some()
            || self.github_app.is_some();
        self.identity.is_some() && !others
    }

    /// Whether the credentials authenticate us, and not only the server.
    pub(super) fn identify(&self) -> bool {
        self.username.is_some()
            || self.bearer_token.is_some()
            || self.tls_crt.is_some()
            || self.github_app.is_some()
            || self.identity.is_some()
    }
}

impl fmt::Debug for Credentials {
    /// Shows which keys are set, never their values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = [
            ("username", self.username.is_some()),
            ("password", self.password.is_some()),
            ("bearerToken", self.bearer_token.is_some()),
            ("ca.crt", self.ca_crt.is_some()),
            ("tls.crt", self.tls_crt.is_some()),
            ("tls.key", self.tls_key.is_some()),
            ("githubAppPrivateKey", self.github_app.is_some()),
            ("identity", self.identity.is_some()),
            ("known_hosts", self.known_hosts.is_some()),
        ];
        let held = keys.into_iter().filter(|(_, there)| *there).map(|(key, _)| key);
        f.write_str("Credentials")?;
        f.debug_set().entries(held).finish()
    }
}

/// Result of [`super::Source::resolve`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The commit; an annotated tag is peeled.
    pub commit: CommitId,
    /// The reference that was resolved; `None` for a commit.
    pub reference: Option<String>,
    /// When the remote was queried.
    pub at: Timestamp,
    /// The keys that signed it, if verification was requested.
    pub verified: Option<String>,
}

/// Result of [`super::Source::fetch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The commit that is available now.
    pub commit: CommitId,
    /// The reference that was resolved; `None` for a commit.
    pub reference: Option<String>,
    /// Digest of the whole content, `<algorithm>:<hex>`: equal for two commits with equal trees.
    pub digest: String,
    /// Total size of its files in bytes.
    pub size: u64,
    /// When the commit was requested.
    pub at: Timestamp,
    /// The keys that signed it, if verification was requested.
    pub verified: Option<String>,
}

impl Fetched {
    /// The revision as Flux writes it: `sha1:<hex>`, or `<reference>@sha1:<hex>`.
    pub fn revision(&self) -> String {
        let algorithm = if self.commit.as_str().len() == 64 {
            "sha256"
        } else {
            "sha1"
        };
        match &self.reference {
            None => format!("{algorithm}:{}", self.commit),
            Some(name) => format!("{name}@{algorithm}:{}", self.commit),
        }
    }
}

/// One manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Path relative to the root of the repository.
    pub path: String,
    /// Content of the file.
    pub bytes: Bytes,
}

/// The manifests below a path, sorted by the bytes of their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files(Vec<File>);

impl Files {
    /// Sorts the files; if two have the same path, the later one is kept.
    pub fn new(files: impl IntoIterator<Item = File>) -> Self {
        let sorted: BTreeMap<String, Bytes> = files.into_iter().map(|f| (f.path, f.bytes)).collect();
        Self(
            sorted
                .into_iter()
                .map(|(path, bytes)| File { path, bytes })
                .collect(),
        )
    }

    /// The files in the order of their paths.
    pub fn iter(&self) -> std::slice::Iter<'_, File> {
        self.0.iter()
    }

    /// Number of manifests.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no manifest.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Digest of paths and contents, `sha256:<hex>`.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for file in &self.0 {
            hash.update((file.path.len() as u64).to_be_bytes());
            hash.update(&file.path);
            hash.update((file.bytes.len() as u64).to_be_bytes());
            hash.update(&file.bytes);
        }
        format!("sha256:{}", hex(&hash.finalize()))
    }
}

impl<'a> IntoIterator for &'a Files {
    type Item = &'a File;
    type IntoIter = std::slice::Iter<'a, File>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
