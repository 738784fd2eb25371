//! Why a source could not be read: what, where, and what to do next.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// A failure of a source. URLs in it never carry credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The text is not a URL that we open.
    #[error("url {url:?} cannot be used: {why}")]
    InvalidUrl {
        /// The URL, without anything before an `@`.
        url: String,
        /// What is wrong with the URL.
        why: String,
    },
    /// The scheme is not supported, or not allowed here.
    #[error("url {url:?}: scheme {scheme:?} is refused; {next}")]
    SchemeRefused {
        /// URL of the repository, without credentials.
        url: String,
        /// The scheme, such as `http`.
        scheme: String,
        /// What the user should do.
        next: &'static str,
    },
    /// A known setting that is not supported.
    #[error("{what} is not supported by the built-in sync; {next}")]
    Unsupported {
        /// The setting.
        what: String,
        /// What the user should do.
        next: &'static str,
    },
    /// The Secret is invalid.
    #[error("credentials cannot be used: {why}")]
    Credentials {
        /// Which key, and why; never a value.
        why: String,
    },
    /// The public keys of the Secret are invalid.
    #[error("the public keys for verify cannot be used: {why}")]
    VerificationKeys {
        /// Which key, and why; never a value.
        why: String,
    },
    /// A tag or a commit is not signed by a trusted key.
    #[error("{what} of {url} is not verified: {why}")]
    VerificationFailed {
        /// URL of the repository, without credentials.
        url: String,
        /// The tag or the commit.
        what: String,
        /// The problem with the signature, and what to do.
        why: Unverified,
    },
    /// No response from the host, or a 5xx one.
    #[error("{url} cannot be reached: {why}")]
    Unreachable {
        /// URL of the repository, without credentials.
        url: String,
        /// The network error or the status.
        why: String,
    },
    /// The deadline of the whole operation has passed.
    #[error("{url} did not answer within {}s ({phase}); see --git-timeout", .after.as_secs_f64())]
    Timeout {
        /// URL of the repository, without credentials.
        url: String,
        /// The time limit of the operation.
        after: Duration,
        /// What the operation was doing.
        phase: &'static str,
    },
    /// The proxy cannot be reached, or refuses the request.
    #[error(
        "{url} cannot be reached through proxy {proxy}: {why}; see HTTPS_PROXY and NO_PROXY of the process, or the Secret that proxySecretRef names"
    )]
    Proxy {
        /// URL of the repository, without credentials.
        url: String,
        /// Scheme, host and port of the proxy.
        proxy: String,
        /// The response of the proxy, or the network error.
        why: String,
    },
    /// The proxy requires a user and a password.
    #[error("{url}: proxy {proxy} {}; see HTTPS_PROXY of the process, or the Secret that proxySecretRef names", if *.given { "refuses the user and the password" } else { "asks for a user and a password" })]
    ProxyUnauthorized {
        /// URL of the repository, without credentials.
        url: String,
        /// Scheme, host and port of the proxy.
        proxy: String,
        /// Whether credentials were sent.
        given: bool,
    },
    /// The host requires credentials, or other ones.
    #[error("{url} answered {status}: {}", if *.given { "the credentials are refused; renew them in the Secret" } else { "credentials are needed; name a Secret in secretRef" })]
    Unauthorized {
        /// URL of the repository, without credentials.
        url: String,
        /// HTTP status 401 or 403.
        status: u16,
        /// Whether credentials were sent.
        given: bool,
    },
    /// GitHub refuses the App a token for the repository.
    #[error("GitHub App {app} gets no token for {repository}: {why}")]
    GitHubApp {
        /// Id of the App.
        app: String,
        /// Owner and name of the repository.
        repository: String,
        /// The reason.
        why: AppRefusal,
    },
    /// The host presents an untrusted key.
    #[error("the host key of {url} is refused: {why}")]
    HostKey {
        /// URL of the repository, without credentials.
        url: String,
        /// What is wrong with the host key.
        why: HostKeyRefusal,
    },
    /// The host refuses the key in the Secret.
    #[error("{url} refuses {key} for user {user}: {why}")]
    KeyRefused {
        /// URL of the repository, without credentials.
        url: String,
        /// Type and fingerprint of the public key.
        key: String,
        /// The ssh user.
        user: String,
        /// What the user should do.
        why: String,
    },
    /// The host accepts the key, but provides no repository.
    #[error("{url} provides no repository: {why}; check the path, and that the key has access")]
    CommandFailed {
        /// URL of the repository, without credentials.
        url: String,
        /// The message of the host, without control characters.
        why: String,
    },
    /// The repository does not exist, or is not visible with these credentials.
    #[error("{url} was not found: it is not a git repository, or the credentials have no access")]
    RepositoryNotFound {
        /// URL of the repository, without credentials.
        url: String,
    },
    /// A redirect to another host or scheme.
    #[error(
        "{url} redirects to {to}, which is refused: another host or scheme; use the new address if you trust it"
    )]
    RedirectRefused {
        /// URL of the repository, without credentials.
        url: String,
        /// Scheme and host of the target.
        to: String,
    },
    /// The response is not the git protocol, or is incomplete.
    #[error("{url} does not speak git as expected: {why}")]
    Protocol {
        /// URL of the repository, without credentials.
        url: String,
        /// The protocol error.
        why: String,
    },
    /// A repository without commits.
    #[error("{url} is empty: it has no branch and no tag yet; push one")]
    Empty {
        /// URL of the repository, without credentials.
        url: String,
    },
    /// The remote has no such tag.
    #[error("tag {tag:?} is not in {url}; push it, or name another one")]
    UnknownTag {
        /// URL of the repository, without credentials.
        url: String,
        /// Name of the tag.
        tag: String,
    },
    /// The remote has no such branch.
    #[error("branch {branch:?} is not in {url}; push it, or name another one")]
    UnknownBranch {
        /// URL of the repository, without credentials.
        url: String,
        /// Name of the branch.
        branch: String,
    },
    /// The remote does not provide this commit.
    #[error(
        "commit {commit} is not on any branch or tag of the server ({url}); push a branch or tag that contains it"
    )]
    UnknownCommit {
        /// URL of the repository, without credentials.
        url: String,
        /// Id of the commit.
        commit: String,
    },
    /// A tag or an id that refers to a file or a directory.
    #[error("{what} of {url} is a git {kind}, not a commit")]
    NotACommit {
        /// URL of the repository, without credentials.
        url: String,
        /// The requested tag or commit.
        what: String,
        /// The git type of the object, such as `tree`.
        kind: String,
    },
    /// A commit that was never fetched, or is no longer stored.
    #[error("commit {commit} of {url} has not been fetched; fetch it first")]
    NotFetched {
        /// URL of the repository, without credentials.
        url: String,
        /// Id of the commit.
        commit: String,
    },
    /// The commit has no such directory.
    #[error("path not found: {path:?} is not in commit {commit}")]
    PathNotFound {
        /// Id of the commit.
        commit: String,
        /// The requested path.
        path: String,
    },
    /// A path that is not allowed.
    #[error("path {path:?} is refused: {why}")]
    InvalidPath {
        /// The requested path.
        path: String,
        /// Why it is not allowed.
        why: &'static str,
    },
    /// An entry of the repository that is not a regular file.
    #[error("{path:?} is refused: {why}")]
    Refused {
        /// Path of the entry.
        path: String,
        /// Why it is refused.
        why: EntryRefusal,
    },
    /// A directory with a kustomization file, which needs kustomize.
    #[error(
        "{path:?} needs kustomize, which the built-in sync does not have; remove the file, or run Flux in this cluster"
    )]
    KustomizeUnsupported {
        /// Path of the kustomization file.
        path: String,
    },
    /// A limit of the process is exceeded.
    #[error("{what} is more than the limit of {limit}; see {option}")]
    LimitExceeded {
        /// What exceeds the limit, and where.
        what: String,
        /// The limit.
        limit: u64,
        /// The command-line flag that sets the limit.
        option: &'static str,
    },
    /// The ignore patterns are invalid.
    #[error("{path}: pattern {pattern:?} cannot be read: {why}")]
    IgnorePattern {
        /// The file, or `spec.ignore`.
        path: String,
        /// The pattern as written.
        pattern: String,
        /// What is wrong with the pattern.
        why: String,
    },
    /// The local disk failed.
    #[error("the data directory cannot be used ({what}): {why}; see --data-dir")]
    Storage {
        /// The operation.
        what: &'static str,
        /// The error of the operating system.
        why: String,
    },
}

/// Why a host key is not trusted. Keys are named by type and fingerprint, lines are those of `known_hosts`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostKeyRefusal {
    /// No line matches this host.
    #[error(
        "known_hosts has no line for {host}, which shows {key}; compare the fingerprint, and add the line that `ssh-keyscan` prints"
    )]
    Unknown {
        /// Name of the host, as looked up in `known_hosts`.
        host: String,
        /// The key that the host presents.
        key: String,
    },
    /// The lines for this host contain other keys.
    #[error(
        "{host} shows {key}, which is not what known_hosts has for it (line {lines}); replace the key if the host changed it; otherwise another machine is answering"
    )]
    Changed {
        /// Name of the host, as looked up in `known_hosts`.
        host: String,
        /// The key that the host presents.
        key: String,
        /// The line numbers.
        lines: String,
    },
    /// The key, or the authority that signed it, is marked as revoked.
    #[error(
        "{host} shows {key}, which line {line} of known_hosts revokes; give the host a new key, and add it"
    )]
    Revoked {
        /// Name of the host, as looked up in `known_hosts`.
        host: String,
        /// The revoked key.
        key: String,
        /// The line number.
        line: usize,
    },
    /// The authority is trusted, but the certificate is invalid.
    #[error(
        "the certificate of {host} by {authority} cannot be used: {why}; sign a new one with `ssh-keygen -s <authority> -h`"
    )]
    Certificate {
        /// Name of the host, as looked up in `known_hosts`.
        host: String,
        /// The key of the authority.
        authority: String,
        /// What is wrong with the certificate.
        why: String,
    },
}

/// Why an entry of a repository is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryRefusal {
    /// A symbolic link (mode 120000).
    #[error("it is a symbolic link; put the file itself there, or list it in .sourceignore")]
    Symlink,
    /// A submodule (mode 160000).
    #[error("it is a submodule; put the files themselves there, or list it in .sourceignore")]
    Submodule,
    /// A path component that is not a directory.
    #[error("it is a file; use the directory that contains it")]
    NoDirectory,
    /// The content is a Git LFS pointer.
    #[error("it is a Git LFS pointer; commit the file itself")]
    LfsPointer,
    /// A name that git, or a file system, treats as `.git`, `.` or `..`.
    #[error("its name is one that git reserves (.git, . or ..), however it is spelled")]
    ReservedName,
    /// The name is not UTF-8.
    #[error("its name is not UTF-8")]
    NotUtf8,
    /// Newlines, escapes, and characters that change how a name is displayed.
    #[error("its name contains a control or invisible character")]
    ControlCharacter,
    /// A slash, a backslash or an empty name in a tree.
    #[error("its name contains a path separator, or is empty")]
    Separator,
    /// Two entries with the same name: it is unclear which one is meant.
    #[error("its name appears twice in its directory")]
    Twice,
    /// A file mode that git does not write.
    #[error("it has the unknown mode {0:o}")]
    UnknownMode(u32),
}

/// How a caller should handle a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceErrorClass {
    /// Temporary: try again soon, with backoff.
    Unavailable,
    /// Resolved by a push or by renewing a Secret: try again, with growing intervals.
    Missing,
    /// Permanent for this commit: wait for another one.
    Content,
    /// Permanent until the object changes: wait for that.
    Invalid,
}

/// Why an App gets no token for a repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppRefusal {
    /// HTTP status 404.
    #[error("it is not installed there; install it for this repository, or correct the Secret")]
    NotInstalled,
    /// HTTP status 403, or reported by the installation.
    #[error("its installation is suspended; ask its owner to unsuspend it")]
    Suspended,
    /// HTTP status 401. The clock may be the cause.
    #[error("its key is refused{}; correct githubAppID and githubAppPrivateKey in the Secret", match .0 {
        Some(ahead) if ahead.is_negative() => format!(", and this machine's clock is {} s behind: set it", ahead.unsigned_abs().as_secs()),
        Some(ahead) => format!(", and this machine's clock is {} s ahead: set it", ahead.unsigned_abs().as_secs()),
        None => String::new(),
    })]
    Unauthorized(Option<SignedDuration>),
    /// HTTP status 422.
    #[error("its installation has no contents: read permission for the repository; grant it")]
    NotGranted,
    /// Another status.
    #[error("it answered {0}")]
    Status(u16),
    /// Not a response of the GitHub API.
    #[error("the response is not from GitHub's API")]
    Answer,
}

/// Why the signature of a tag or a commit is not accepted. Keys are named by type and fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unverified {
    /// There is no signature.
    #[error("it is not signed; next: sign it (git tag -s, git commit -S) and push it")]
    Unsigned,
    /// A lightweight tag, which cannot be signed.
    #[error(
        "it is a lightweight tag, which has no signature; next: create a signed one (git tag -s) and push it"
    )]
    Lightweight,
    /// A branch or a commit where a tag is required.
    #[error("mode Tag needs a tag, but none is set; next: name a tag, or use the mode for commits")]
    NoTag,
    /// The signed tag has another name.
    #[error(
        "the name in the signed tag is {0:?}: it was renamed, which can bring an old release back; next: sign a tag of this name"
    )]
    Renamed(String),
    /// The signed tag is for another commit.
    #[error(
        "the signed tag points to {signed}, not to commit {used}, which the server returns for it; next: find out who moved it"
    )]
    OtherCommit {
        /// The commit in the tag.
        signed: String,
        /// The commit that would be used.
        used: String,
    },
    /// The signed tag is not for a commit, but for a tag, a tree or a blob.
    #[error("the signed tag points to a {0}, not to a commit; next: sign a tag of the commit itself")]
    NotOfACommit(String),
    /// The object does not have the format that git writes.
    #[error("it is {0}; next: create it again with git, and sign it")]
    Malformed(&'static str),
    /// The signature is malformed.
    #[error("its signature cannot be read: {0}; next: sign it again")]
    Broken(&'static str),
    /// There is more than one signature.
    #[error("it has several signatures, and it is unclear which one counts; next: sign it once")]
    Several,
    /// The type of the signature is not supported.
    #[error("it is signed with {0}, which is not supported; next: sign it with OpenPGP or ssh")]
    Unsupported(&'static str),
    /// No key in the Secret matches.
    #[error(
        "it is signed by {0}, which is not among the keys of the Secret; next: add the key there if you trust it"
    )]
    UnknownKey(String),
    /// The signature does not match the content.
    #[error(
        "its signature by {0} is bad: it was changed after it was signed; next: find out who changed it, and sign the right content"
    )]
    Bad(String),
    /// A hash or a key that can be forged.
    #[error(
        "its signature uses {0}, which can be forged; next: sign it with SHA-256 or better and a strong key"
    )]
    Weak(String),
    /// The signature has expired.
    #[error("its signature expired {0}; next: sign it again")]
    ExpiredSignature(Timestamp),
    /// The key has expired.
    #[error(
        "{key}, which signed it, expired {at}; next: extend the key and put it into the Secret, or sign with another one"
    )]
    ExpiredKey {
        /// The key that signed.
        key: String,
        /// Time of expiry.
        at: Timestamp,
    },
    /// The key is not valid yet.
    #[error(
        "{key}, which signed it, is not valid before {at}; next: correct valid-after in the Secret, or sign with another key"
    )]
    EarlyKey {
        /// The key that signed.
        key: String,
        /// Start of validity.
        at: Timestamp,
    },
    /// The owner has revoked the key.
    #[error("{0}, which signed it, is revoked; next: sign it with another key")]
    Revoked(String),
    /// The key is not marked for signing, or is marked for other uses.
    #[error("{key}, which signed it, {why}; next: sign it with a signing key")]
    NotForSigning {
        /// The key that signed.
        key: String,
        /// What is missing.
        why: &'static str,
    },
    /// The time of the signature is in the future, or before the key was created.
    #[error(
        "its signature claims to be from {at}, which is {why}; next: check the clock of its signer, and sign it again"
    )]
    WrongTime {
        /// Time of the signature.
        at: Timestamp,
        /// What is wrong with the time.
        why: &'static str,
    },
    /// An ssh signature in another namespace than `git`.
    #[error("its signature is for {0:?}, not for git; next: sign it with git")]
    Namespace(String),
}

impl SourceError {
    /// How a caller should handle the failure.
    pub fn class(&self) -> SourceErrorClass {
        match self {
            Self::Unreachable { .. }
            | Self::Proxy { .. }
            | Self::Timeout { .. }
            | Self::Protocol { .. }
            | Self::NotFetched { .. }
            | Self::Storage { .. } => SourceErrorClass::Unavailable,
            Self::Unauthorized { .. }
            | Self::ProxyUnauthorized { .. }
            | Self::GitHubApp { .. }
            | Self::HostKey { .. }
            | Self::KeyRefused { .. }
            | Self::CommandFailed { .. }
            | Self::RepositoryNotFound { .. }
            | Self::RedirectRefused { .. }
            | Self::Empty { .. }
            | Self::UnknownTag { .. }
            | Self::UnknownBranch { .. }
            | Self::UnknownCommit { .. }
            | Self::Credentials { .. }
            | Self::VerificationKeys { .. }
            | Self::VerificationFailed { .. } => SourceErrorClass::Missing,
            Self::NotACommit { .. }
            | Self::PathNotFound { .. }
            | Self::Refused { .. }
            | Self::KustomizeUnsupported { .. }
            | Self::LimitExceeded { .. }
            | Self::IgnorePattern { .. } => SourceErrorClass::Content,
            Self::InvalidUrl { .. }
            | Self::SchemeRefused { .. }
            | Self::Unsupported { .. }
            | Self::InvalidPath { .. } => SourceErrorClass::Invalid,
        }
    }

    /// Whether a required signature is missing, invalid, or cannot be verified with these keys.
    pub const fn is_verification(&self) -> bool {
        matches!(
            self,
            Self::VerificationKeys { .. } | Self::VerificationFailed { .. }
        )
    }

    /// Whether trying the same again soon may help.
    pub fn is_transient(&self) -> bool {
        self.class() == SourceErrorClass::Unavailable
    }
}
