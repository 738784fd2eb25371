//! Why a source could not give what was wanted: what, where, and what to do next.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// A failure of a source. URLs in it never carry credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The text is no URL that we would open.
    #[error("url {url:?} cannot be used: {why}")]
    InvalidUrl {
        /// Without what stood before an `@`.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The scheme is not one that we speak, or one that is not allowed here.
    #[error("url {url:?}: scheme {scheme:?} is refused; {next}")]
    SchemeRefused {
        /// The URL.
        url: String,
        /// Its scheme.
        scheme: String,
        /// What to do.
        next: &'static str,
    },
    /// A wish that is known and not supported.
    #[error("{what} is not supported by the built-in sync; {next}")]
    Unsupported {
        /// What was wished for.
        what: String,
        /// What to do.
        next: &'static str,
    },
    /// The Secret cannot be used.
    #[error("credentials cannot be used: {why}")]
    Credentials {
        /// Which key, and why; never a value.
        why: String,
    },
    /// The public keys of the Secret cannot be used.
    #[error("the public keys for verify cannot be used: {why}")]
    VerificationKeys {
        /// Which key, and why; never a value.
        why: String,
    },
    /// A tag or a commit is not signed by a key that is trusted.
    #[error("{what} of {url} is not verified: {why}")]
    VerificationFailed {
        /// The URL.
        url: String,
        /// The tag or the commit.
        what: String,
        /// What is wrong with its signature, and what to do.
        why: Unverified,
    },
    /// No answer from the host, or a 5xx one.
    #[error("{url} cannot be reached: {why}")]
    Unreachable {
        /// The URL.
        url: String,
        /// What the network said.
        why: String,
    },
    /// The deadline of the whole operation has passed.
    #[error("{url} did not answer within {}s ({phase}); see --git-timeout", .after.as_secs_f64())]
    Timeout {
        /// The URL.
        url: String,
        /// The time that it had.
        after: Duration,
        /// What it was doing.
        phase: &'static str,
    },
    /// The proxy on the way is not there, or does not let the request through.
    #[error(
        "{url} cannot be reached through proxy {proxy}: {why}; see HTTPS_PROXY and NO_PROXY of the process, or the Secret that proxySecretRef names"
    )]
    Proxy {
        /// The URL.
        url: String,
        /// Scheme, host and port.
        proxy: String,
        /// What it answered, or what the network said.
        why: String,
    },
    /// The proxy on the way asks for a user and a password.
    #[error("{url}: proxy {proxy} {}; see HTTPS_PROXY of the process, or the Secret that proxySecretRef names", if *.given { "refuses the user and the password" } else { "asks for a user and a password" })]
    ProxyUnauthorized {
        /// The URL.
        url: String,
        /// Scheme, host and port.
        proxy: String,
        /// Whether they were sent.
        given: bool,
    },
    /// The host wants other credentials.
    #[error("{url} answered {status}: {}", if *.given { "the credentials are refused; renew them in the Secret" } else { "credentials are needed; name a Secret in secretRef" })]
    Unauthorized {
        /// The URL.
        url: String,
        /// 401 or 403.
        status: u16,
        /// Whether credentials were sent.
        given: bool,
    },
    /// GitHub gives the App no token for the repository.
    #[error("GitHub App {app} gets no token for {repository}: {why}")]
    GitHubApp {
        /// The App's id.
        app: String,
        /// Owner and name.
        repository: String,
        /// Why.
        why: AppRefusal,
    },
    /// The host does not show the key that it should.
    #[error("the host key of {url} is refused: {why}")]
    HostKey {
        /// The URL.
        url: String,
        /// What is wrong with it.
        why: HostKeyRefusal,
    },
    /// The host does not let the key of the Secret in.
    #[error("{url} refuses {key} for user {user}: {why}")]
    KeyRefused {
        /// The URL.
        url: String,
        /// Type and fingerprint of its public half.
        key: String,
        /// The user.
        user: String,
        /// What to do.
        why: String,
    },
    /// The host let us in, and gives no repository.
    #[error("{url} gives no repository: {why}; check the path, and that the key may read it")]
    CommandFailed {
        /// The URL.
        url: String,
        /// What the host said, without control characters.
        why: String,
    },
    /// There is no repository, or it is hidden from us.
    #[error("{url} is not there: no git repository, or the credentials do not show it")]
    RepositoryNotFound {
        /// The URL.
        url: String,
    },
    /// A redirect that leaves the host or its scheme.
    #[error(
        "{url} redirects to {to}, which is refused: another host or scheme; use the new address if you trust it"
    )]
    RedirectRefused {
        /// The URL.
        url: String,
        /// Scheme and host of the target.
        to: String,
    },
    /// What came is not the git protocol, or it broke off.
    #[error("{url} does not speak git as expected: {why}")]
    Protocol {
        /// The URL.
        url: String,
        /// What was wrong.
        why: String,
    },
    /// A repository without a commit.
    #[error("{url} is empty: it has no branch and no tag yet; push one")]
    Empty {
        /// The URL.
        url: String,
    },
    /// The remote offers no such tag.
    #[error("tag {tag:?} is not in {url}; push it, or name another one")]
    UnknownTag {
        /// The URL.
        url: String,
        /// The tag.
        tag: String,
    },
    /// The remote offers no such branch.
    #[error("branch {branch:?} is not in {url}; push it, or name another one")]
    UnknownBranch {
        /// The URL.
        url: String,
        /// The branch.
        branch: String,
    },
    /// The remote does not give this commit.
    #[error(
        "commit {commit} is on no branch or tag that the server offers ({url}); push a branch or tag that holds it"
    )]
    UnknownCommit {
        /// The URL.
        url: String,
        /// The commit.
        commit: String,
    },
    /// A tag that leads to a file or a folder, or the id of one.
    #[error("{what} of {url} is a git {kind}, not a commit")]
    NotACommit {
        /// The URL.
        url: String,
        /// What was wanted.
        what: String,
        /// What it is.
        kind: String,
    },
    /// A read of what was never fetched, or what is here no more.
    #[error("commit {commit} of {url} is not here; it must be fetched first")]
    NotFetched {
        /// The URL.
        url: String,
        /// The commit.
        commit: String,
    },
    /// The commit has no such folder.
    #[error("path not found: {path:?} is not in commit {commit}")]
    PathNotFound {
        /// The commit.
        commit: String,
        /// The path.
        path: String,
    },
    /// A path that we would not follow.
    #[error("path {path:?} is refused: {why}")]
    InvalidPath {
        /// The path.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An entry of the repository that is no plain file.
    #[error("{path:?} is refused: {why}")]
    Refused {
        /// The path.
        path: String,
        /// What it is.
        why: Refusal,
    },
    /// A kustomization is for kustomize.
    #[error(
        "{path:?} needs kustomize, which the built-in sync does not have; remove the file, or run Flux in this cluster"
    )]
    KustomizeUnsupported {
        /// The path.
        path: String,
    },
    /// More than the process allows.
    #[error("{what} is more than the limit of {limit}; see {option}")]
    LimitExceeded {
        /// What there is too much of, and where.
        what: String,
        /// The limit.
        limit: u64,
        /// The option that sets it.
        option: &'static str,
    },
    /// The patterns cannot be read.
    #[error("{path}: pattern {pattern:?} cannot be read: {why}")]
    IgnorePattern {
        /// The file, or `spec.ignore`.
        path: String,
        /// The line.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// Our own disk.
    #[error("the data directory cannot be used ({what}): {why}; see --data-dir")]
    Storage {
        /// What was tried.
        what: &'static str,
        /// What the operating system said.
        why: String,
    },
}

/// Why a host is not taken for the one that is meant. Keys are named by type and fingerprint, lines are those of `known_hosts`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostKeyRefusal {
    /// No line is about this host.
    #[error(
        "known_hosts has no line for {host}, which shows {key}; compare the fingerprint, and add the line that `ssh-keyscan` prints"
    )]
    Unknown {
        /// The host.
        host: String,
        /// The key that it shows.
        key: String,
    },
    /// The lines about this host hold other keys.
    #[error(
        "{host} shows {key}, which is not what known_hosts has for it (line {lines}); put the new key in if the host changed it, otherwise another machine answers"
    )]
    Changed {
        /// The host.
        host: String,
        /// The key that it shows.
        key: String,
        /// The lines.
        lines: String,
    },
    /// The key, or the authority that signed it, is marked as revoked.
    #[error(
        "{host} shows {key}, which line {line} of known_hosts revokes; give the host a new key, and add it"
    )]
    Revoked {
        /// The host.
        host: String,
        /// The key.
        key: String,
        /// The line.
        line: usize,
    },
    /// The authority is known, but its certificate cannot be used.
    #[error(
        "the certificate of {host} by {authority} cannot be used: {why}; sign a new one with `ssh-keygen -s <authority> -h`"
    )]
    Certificate {
        /// The host.
        host: String,
        /// The authority.
        authority: String,
        /// What is wrong with it.
        why: String,
    },
}

/// Why an entry of a repository is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Mode 120000.
    #[error("it is a symbolic link; put the file itself there, or list it in .sourceignore")]
    Symlink,
    /// Mode 160000.
    #[error("it is a submodule; put the files themselves there, or list it in .sourceignore")]
    Submodule,
    /// Something that is no folder, where the path goes on or ends.
    #[error("it is a file; name the folder that holds it")]
    NoFolder,
    /// The content is a pointer to Git LFS.
    #[error("it is a Git LFS pointer; commit the file itself")]
    LfsPointer,
    /// A name that git itself, or some file system, takes for `.git`, `.` or `..`.
    #[error("its name is one that git reserves (.git, . or ..), however it is spelt")]
    ReservedName,
    /// Bytes that are no text.
    #[error("its name is not UTF-8")]
    NotUtf8,
    /// Line feeds, escapes, and marks that change how a name is shown.
    #[error("its name holds a control or invisible character")]
    ControlCharacter,
    /// A slash, a backslash or an empty name within a tree.
    #[error("its name holds a path separator, or is empty")]
    Separator,
    /// Two entries of one name: which of them is meant cannot be known.
    #[error("its name stands twice in its folder")]
    Twice,
    /// A mode that git does not write.
    #[error("it has the unknown mode {0:o}")]
    UnknownMode(u32),
}

/// What a caller does about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceErrorClass {
    /// Passes by itself: try again soon, with backoff.
    Unavailable,
    /// Passes when somebody pushes or renews a Secret: try again, less and less often.
    Missing,
    /// Stays so for this commit: wait for another one.
    Content,
    /// Stays so until the object is changed: wait for that.
    Invalid,
}

/// Why an App has no token for a repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppRefusal {
    /// 404.
    #[error("it is not installed there; install it for this repository, or correct the Secret")]
    NotInstalled,
    /// 403, or said by the installation.
    #[error("its installation is suspended; have its owner unsuspend it")]
    Suspended,
    /// 401. The clock may be the reason.
    #[error("its key is refused{}; correct githubAppID and githubAppPrivateKey in the Secret", match .0 {
        Some(ahead) if ahead.is_negative() => format!(", and this machine's clock is {} s behind: set it", ahead.unsigned_abs().as_secs()),
        Some(ahead) => format!(", and this machine's clock is {} s ahead: set it", ahead.unsigned_abs().as_secs()),
        None => String::new(),
    })]
    Unauthorized(Option<SignedDuration>),
    /// 422.
    #[error("its installation does not reach the repository with contents: read; grant it")]
    NotGranted,
    /// Another answer.
    #[error("it answered {0}")]
    Status(u16),
    /// Not what the API answers.
    #[error("it answered what is no answer of GitHub's API")]
    Answer,
}

/// Why a tag or a commit is not taken for signed. A key stands in it by its kind and fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unverified {
    /// It has no signature.
    #[error("it is not signed; next: sign it (git tag -s, git commit -S) and push it")]
    Unsigned,
    /// A tag that is only a name.
    #[error(
        "it is a lightweight tag, which holds no signature; next: make a signed one (git tag -s) and push it"
    )]
    Lightweight,
    /// A branch or a commit where a tag is asked for.
    #[error("mode Tag needs a tag, and none is named; next: name a tag, or use the mode for commits")]
    NoTag,
    /// The signed tag has another name.
    #[error(
        "the signed tag names itself {0:?}: it was renamed, which can bring an old release back; next: sign a tag of this name"
    )]
    Renamed(String),
    /// The signed tag is of another commit.
    #[error(
        "the signed tag is of {signed}, not of commit {used}, which the server gives for it; next: find out who moved it"
    )]
    OtherCommit {
        /// What the tag says.
        signed: String,
        /// The commit that would be used.
        used: String,
    },
    /// The signed tag is of no commit, but of a tag, a folder or a file.
    #[error("the signed tag is of a {0}, not of a commit; next: sign a tag of the commit itself")]
    NotOfACommit(String),
    /// The object is not one as git writes it.
    #[error("it is {0}; next: make it anew with git, and sign it")]
    Malformed(&'static str),
    /// The signature cannot be read.
    #[error("its signature cannot be read: {0}; next: sign it again")]
    Broken(&'static str),
    /// More than one signature.
    #[error("it has several signatures, of which it is unclear which one counts; next: sign it once")]
    Several,
    /// A signature of a kind that is not supported.
    #[error("it is signed with {0}, which is not supported; next: sign it with OpenPGP or ssh")]
    Unsupported(&'static str),
    /// No key of the Secret.
    #[error(
        "it is signed by {0}, which is not among the keys of the Secret; next: add the key there if you trust it"
    )]
    UnknownKey(String),
    /// The signature is not of this content.
    #[error(
        "its signature by {0} is bad: it was changed after it was signed; next: find out by whom, and sign what is right"
    )]
    Bad(String),
    /// A hash or a key that can be forged.
    #[error(
        "its signature uses {0}, which can be forged; next: sign it with SHA-256 or better and a strong key"
    )]
    Weak(String),
    /// The signature has an end, which has passed.
    #[error("its signature expired {0}; next: sign it again")]
    ExpiredSignature(Timestamp),
    /// The key has an end, which has passed.
    #[error(
        "{key}, which signed it, expired {at}; next: extend the key and put it into the Secret, or sign with another one"
    )]
    ExpiredKey {
        /// The key.
        key: String,
        /// When it ended.
        at: Timestamp,
    },
    /// The key must not be used yet.
    #[error(
        "{key}, which signed it, is not valid before {at}; next: correct valid-after in the Secret, or sign with another key"
    )]
    EarlyKey {
        /// The key.
        key: String,
        /// When it begins.
        at: Timestamp,
    },
    /// The key was revoked by its owner.
    #[error("{0}, which signed it, is revoked; next: sign it with another key")]
    Revoked(String),
    /// The key says that it is not for signing, or does not say that it is.
    #[error("{key}, which signed it, {why}; next: sign it with a key for signing")]
    NotForSigning {
        /// The key.
        key: String,
        /// What is missing.
        why: &'static str,
    },
    /// It was signed later than now, or before the key existed.
    #[error(
        "it says that it was signed {at}, which is {why}; next: check the clock of its signer, and sign it again"
    )]
    WrongTime {
        /// The time of the signature.
        at: Timestamp,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An ssh signature for another purpose.
    #[error("its signature is for {0:?}, not for git; next: sign it with git")]
    Namespace(String),
}

impl SourceError {
    /// What a caller does about it.
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

    /// Whether a signature that is asked for is missing, bad, or cannot be judged with these keys.
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
