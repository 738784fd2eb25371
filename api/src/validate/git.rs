//! Syntax of versions, URLs and paths. Nothing is passed to git's revparse.

use crate::{schema, sync::GitVersion};

/// Whether insecure URLs are allowed, whose content can be read or changed in transit (`--allow-insecure-sources`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InsecureSources {
    /// https and ssh only.
    #[default]
    Refused,
    /// Also http and file.
    Allowed,
}

/// The exact state that a version refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version<'a> {
    /// A tag, by its name.
    Tag(&'a str),
    /// A commit, by its full object name.
    Commit(&'a str),
}

/// Why a version does not refer to an exact state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// Neither tag nor commit.
    #[error("no version: set tag or commit")]
    Neither,
    /// Both tag and commit.
    #[error("tag {tag:?} and commit {commit:?} are both set: remove one")]
    Both {
        /// The given tag.
        tag: String,
        /// The given commit.
        commit: String,
    },
    /// An abbreviated commit hash.
    #[error("commit {0:?} is abbreviated: write all 40 (or 64) digits, as `git rev-parse` prints them")]
    Short(String),
    /// Not a commit hash.
    #[error(
        "{0:?} is not a commit hash: write its 40 (or 64) lower-case hexadecimal digits; for a tag use the field tag"
    )]
    Commit(String),
    /// A full reference name.
    #[error("tag {0:?} is a reference: write the tag's name without refs/tags/")]
    Reference(String),
    /// Not a valid tag name in git.
    #[error("{0:?} is not a valid tag name: git allows no spaces and none of ~ ^ : ? * [ \\ .. @{{ in it")]
    Tag(String),
}

/// Why a URL is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// git's short form of ssh URLs; contains the long form.
    #[error("git's short form of ssh is not supported: write {0}")]
    ShortForm(String),
    /// Another name of the ssh scheme, which is not supported.
    #[error("scheme {0:?} is not supported: write ssh://git@host/path")]
    SshScheme(String),
    /// Characters that are not allowed in the user or host of an ssh URL.
    #[error(
        "its user and its host may contain letters, digits, dots, hyphens and underscores, and its port must be 1 to 65535"
    )]
    SshAuthority,
    /// No path.
    #[error("it has no repository path: write ssh://git@host/path")]
    NoPath,
    /// ssh without a Secret.
    #[error(
        "ssh needs a Secret with the keys identity and known_hosts: create it, and reference it in secretRef"
    )]
    NoSecret,
    /// A proxy is not supported over ssh.
    #[error("a proxy is supported only for https and http: remove proxySecretRef, or use the https URL")]
    ProxyOverSsh,
    /// A scheme that is insecure, and not allowed.
    #[error("{0} is insecure: use https, or start the controller with --allow-insecure-sources")]
    Insecure(String),
    /// An unsupported scheme.
    #[error("scheme {0:?} is not supported: use https or ssh")]
    Scheme(String),
    /// No scheme at all.
    #[error("it has no scheme: write https:// and the rest of the URL")]
    NoScheme,
    /// No host.
    #[error("it has no host: write https://host/path")]
    NoHost,
    /// Credentials in the URL, which would be shown wherever the URL is.
    #[error("it contains a user or password: put them in a Secret and reference it in secretRef")]
    Credentials,
    /// A query or fragment.
    #[error("it has a query or a fragment: git repositories have none")]
    Query,
    /// Characters that are not allowed in a URL.
    #[error("it contains spaces or control characters: percent-encode them")]
    Characters,
    /// Too long.
    #[error("it has {0} bytes, at most {max} are allowed", max = schema::MAX_URL)]
    TooLong(usize),
}

/// Why a path is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Begins with a slash.
    #[error("path {0:?} is absolute: write it relative to the root of the repository")]
    Absolute(String),
    /// The path leaves the repository.
    #[error("path {0:?} contains \"..\": write the directory's path from the root of the repository")]
    Parent(String),
    /// The path refers to git's own files.
    #[error("path {0:?} contains \".git\": git's own files are not read")]
    Git(String),
    /// Characters that are not allowed in a path.
    #[error("path {0:?} contains control characters or a backslash: separate directories with /")]
    Characters(String),
    /// Empty, or too long.
    #[error("path has {0} bytes: write 1 to {max}, \".\" for the root of the repository", max = schema::MAX_PATH)]
    Length(usize),
}

/// The exact state that a version refers to: exactly one of a tag and a commit, each by its full name.
pub fn version(version: &GitVersion) -> Result<Version<'_>, VersionError> {
    match (&version.tag, &version.commit) {
        (None, None) => Err(VersionError::Neither),
        (Some(tag), Some(commit)) => Err(VersionError::Both {
            tag: tag.clone(),
            commit: commit.clone(),
        }),
        (Some(tag), None) => self::tag(tag).map(|()| Version::Tag(tag)),
        (None, Some(commit)) => self::commit(commit).map(|()| Version::Commit(commit)),
    }
}

/// Whether a text is the full object name of a commit.
pub fn commit(text: &str) -> Result<(), VersionError> {
    let hexadecimal = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    match text.len() {
        40 | 64 if hexadecimal(text) => Ok(()),
        4..=63 if hexadecimal(text) => Err(VersionError::Short(text.to_owned())),
        _ => Err(VersionError::Commit(text.to_owned())),
    }
}

/// Whether git allows a tag with this name (git-check-ref-format).
pub fn tag(text: &str) -> Result<(), VersionError> {
    if text.starts_with("refs/") {
        return Err(VersionError::Reference(text.to_owned()));
    }
    let bad_character = |c: char| c.is_ascii_control() || " ~^:?*[\\".contains(c);
    let bad_part = |part: &str| {
        let lock = part.len() >= 5 && part.as_bytes()[part.len() - 5..].eq_ignore_ascii_case(b".lock");
        part.is_empty() || part.starts_with('.') || lock
    };
    let bad = text.len() > schema::MAX_TAG
        || text == "@"
        || text.starts_with('-')
        || text.ends_with('.')
        || text.contains("..")
        || text.contains("@{")
        || text.contains(bad_character)
        || text.split('/').any(bad_part);
    if bad {
        Err(VersionError::Tag(text.to_owned()))
    } else {
        Ok(())
    }
}

/// Checks that a repository may be read from this URL.
pub fn url(text: &str, insecure: InsecureSources) -> Result<(), UrlError> {
    match address(text, insecure)? {
        UrlTarget::Web(rest) | UrlTarget::Ssh(rest) if rest.contains(['?', '#']) => Err(UrlError::Query),
        UrlTarget::Ssh(rest) => ssh_location(rest),
        UrlTarget::Web(_) | UrlTarget::File => Ok(()),
    }
}

/// Whether the URL can only be read with a Secret.
pub fn needs_secret(text: &str) -> bool {
    matches!(address(text, InsecureSources::Allowed), Ok(UrlTarget::Ssh(_)))
}

/// The `ssh` URL for git's short form, `user@host:path`.
pub fn long_form(text: &str) -> Option<String> {
    let (before, path) = text.split_once(':')?;
    let (user, host) = before.rsplit_once('@').unwrap_or(("git", before));
    // Without a user, the text before the colon must look like a host name: `C:/x` does not.
    let is_host = !host.contains('/') && (before.contains('@') && !host.is_empty() || host.contains('.'));
    let long = || format!("ssh://{user}@{host}/{}", path.trim_start_matches('/'));
    (is_host && !path.starts_with("//")).then(long)
}

/// Checks that a gate may query this URL, which may have a query part.
pub fn gate_url(text: &str, insecure: InsecureSources) -> Result<(), UrlError> {
    match address(text, insecure)? {
        UrlTarget::File => Err(UrlError::Scheme("file".to_owned())),
        UrlTarget::Ssh(_) => Err(UrlError::Scheme("ssh".to_owned())),
        UrlTarget::Web(_) => Ok(()),
    }
}

/// What a URL refers to.
enum UrlTarget<'a> {
    /// An HTTP host: everything after the scheme.
    Web(&'a str),
    /// An ssh host: everything after the scheme.
    Ssh(&'a str),
    /// The local file system.
    File,
}

fn address(text: &str, insecure: InsecureSources) -> Result<UrlTarget<'_>, UrlError> {
    if text.len() > schema::MAX_URL {
        return Err(UrlError::TooLong(text.len()));
    }
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(UrlError::Characters);
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(long_form(text).map_or(UrlError::NoScheme, |long| {
            // Everything before the host may be a secret, except the common user `git`.
            let hidden = long.split_once('@').filter(|(user, _)| *user != "ssh://git");
            UrlError::ShortForm(
                hidden.map_or_else(|| long.clone(), |(_, rest)| format!("ssh://<user>@{rest}")),
            )
        }));
    };
    let scheme = scheme.to_ascii_lowercase();
    match (scheme.as_str(), insecure) {
        ("https", _) | ("http", InsecureSources::Allowed) => location(rest).map(|()| UrlTarget::Web(rest)),
        ("file", InsecureSources::Allowed) => Ok(UrlTarget::File),
        ("http" | "file", InsecureSources::Refused) => Err(UrlError::Insecure(scheme)),
        ("ssh", _) => Ok(UrlTarget::Ssh(rest)),
        ("git+ssh" | "ssh+git", _) => Err(UrlError::SshScheme(scheme)),
        _ => Err(UrlError::Scheme(scheme)),
    }
}

/// Checks that the path can be a directory in a repository.
pub fn path(text: &str) -> Result<(), PathError> {
    if text.is_empty() || text.len() > schema::MAX_PATH {
        return Err(PathError::Length(text.len()));
    }
    if text.starts_with('/') {
        return Err(PathError::Absolute(text.to_owned()));
    }
    if text.contains(|c: char| c.is_control() || c == '\\') {
        return Err(PathError::Characters(text.to_owned()));
    }
    for part in text.split('/') {
        match part {
            ".." => return Err(PathError::Parent(text.to_owned())),
            _ if part.eq_ignore_ascii_case(".git") => return Err(PathError::Git(text.to_owned())),
            _ => {}
        }
    }
    Ok(())
}

/// Checks host and path of an http or https URL.
fn location(rest: &str) -> Result<(), UrlError> {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    if authority.contains('@') {
        return Err(UrlError::Credentials);
    }
    if authority.is_empty() || authority.starts_with(':') {
        return Err(UrlError::NoHost);
    }
    Ok(())
}

/// Checks user, host, port and path of an ssh URL.
fn ssh_location(rest: &str) -> Result<(), UrlError> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, place) = authority.rsplit_once('@').unwrap_or(("git", authority));
    if user.contains(':') {
        return Err(UrlError::Credentials);
    }
    // An IPv6 address is enclosed in brackets.
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) if address.parse::<std::net::Ipv6Addr>().is_ok() => ("v6", port),
        _ => place.find(':').map_or((place, ""), |at| place.split_at(at)),
    };
    if host.is_empty() {
        return Err(UrlError::NoHost);
    }
    let plain = |text: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        text.chars().all(allowed) && !text.starts_with(['-', '.'])
    };
    let number = port.strip_prefix(':').map(str::parse::<u16>);
    let port_is_fine = port.is_empty() || matches!(number, Some(Ok(1..)));
    if !plain(user) || !plain(host) || !port_is_fine {
        return Err(UrlError::SshAuthority);
    }
    if path.trim_matches('/').is_empty() {
        return Err(UrlError::NoPath);
    }
    Ok(())
}
