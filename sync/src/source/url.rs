//! Parses repository URLs, and checks whether they are allowed.

use std::net::IpAddr;
use std::path::PathBuf;

use muster_api::validate::{InsecureSources, UrlError, git};
use sha2::{Digest, Sha256};

use super::SourceError;
use super::commit::hex;

/// Maximum length of a URL.
const MAX_URL: usize = 2048;

/// The user for an `ssh` URL without one, as in Flux.
const DEFAULT_USER: &str = "git";

const DEFAULT_SSH_PORT: u16 = 22;

/// How a repository is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scheme {
    /// Over http or https, by our own transport.
    Web,
    /// Over ssh, by our own transport.
    Ssh(SshAddress),
    /// From the local file system, by libgit2.
    File,
}

/// The parts of an `ssh` URL. None contains characters that a shell or an option parser interprets, except the path,
/// which is quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SshAddress {
    /// `git` if the URL has no user.
    pub user: String,
    /// In lower case; an IPv6 address without brackets.
    pub host: String,
    /// 22 if the URL has no port.
    pub port: u16,
    /// Percent-decoded; starts with a slash.
    pub path: String,
}

/// A checked URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GitUrl {
    /// The URL that is opened and shown: it has no credentials, because a URL with credentials is refused.
    pub text: String,
    /// How it is reached.
    pub scheme: Scheme,
    /// The key of the per-host limit of fetches: host and port, or `file`.
    pub host: String,
}

impl GitUrl {
    /// Checks the scheme and characters, and that the URL has a host and contains no secret.
    pub(crate) fn parse(url: &str, allow_insecure: bool) -> Result<Self, SourceError> {
        let shown = redacted(url);
        let invalid = |why: &str| SourceError::InvalidUrl {
            url: shown.clone(),
            why: why.to_owned(),
        };
        if url.len() > MAX_URL {
            return Err(invalid("it is longer than 2048 bytes"));
        }
        if url
            .chars()
            .any(|c| c.is_control() || c.is_whitespace() || "\\'\"<>`".contains(c))
        {
            return Err(invalid(
                "it contains a space, quote, backslash or control character",
            ));
        }
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(match git::url(url, InsecureSources::Refused) {
                Err(error @ UrlError::ShortForm(_)) => invalid(&error.to_string()),
                _ => scheme_refused(&shown, ""),
            });
        };
        if rest.starts_with('/') && scheme != "file" {
            return Err(invalid("it names no host"));
        }
        let parsed = reqwest::Url::parse(url).map_err(|error| invalid(&error.to_string()))?;
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(invalid("it has a query or a fragment"));
        }
        let is_web = matches!(parsed.scheme(), "https" | "http");
        if is_web && !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(invalid(
                "it contains credentials; put them into the Secret that secretRef names",
            ));
        }
        match parsed.scheme() {
            "https" => Ok(Self::web(&parsed)),
            "http" if allow_insecure => Ok(Self::web(&parsed)),
            "file" if allow_insecure => Self::file(&parsed, &invalid),
            "ssh" => Self::ssh(&parsed).map_err(|why| invalid(&why)),
            "http" | "file" => Err(SourceError::SchemeRefused {
                url: shown,
                scheme: scheme.to_owned(),
                next: "use https (--allow-insecure-sources is for demos and tests)",
            }),
            _ => Err(scheme_refused(&shown, scheme)),
        }
    }

    /// Whether it is reached over http or https.
    pub(crate) fn is_web(&self) -> bool {
        self.scheme == Scheme::Web
    }

    /// Whether it is on the local file system.
    pub(crate) fn is_file(&self) -> bool {
        self.scheme == Scheme::File
    }

    /// The parts of an `ssh` URL.
    pub(crate) fn ssh_address(&self) -> Option<&SshAddress> {
        match &self.scheme {
            Scheme::Ssh(address) => Some(address),
            Scheme::Web | Scheme::File => None,
        }
    }

    /// Whether requests could be read in transit: by `http`, to another host.
    pub(crate) fn is_readable_by_others(&self) -> bool {
        let Ok(parsed) = reqwest::Url::parse(&self.text) else {
            return true;
        };
        let loopback = match parsed.host_str().unwrap_or_default() {
            "localhost" => true,
            host => host
                .trim_matches(['[', ']'])
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback()),
        };
        parsed.scheme() == "http" && !loopback
    }

    /// Name of the directory of its mirror.
    pub(crate) fn directory(&self) -> String {
        hex(&Sha256::digest(&self.text))
    }

    /// The path of a `file` URL.
    pub(crate) fn file_path(&self) -> Option<PathBuf> {
        reqwest::Url::parse(&self.text)
            .ok()
            .filter(|u| u.scheme() == "file")?
            .to_file_path()
            .ok()
    }

    fn web(parsed: &reqwest::Url) -> Self {
        let host = parsed.host_str().unwrap_or_default();
        let port = parsed.port_or_known_default().unwrap_or_default();
        let text = parsed.as_str().trim_end_matches('/').to_owned();
        Self {
            host: format!("{host}:{port}"),
            text,
            scheme: Scheme::Web,
        }
    }

    fn ssh(parsed: &reqwest::Url) -> Result<Self, String> {
        let plain = |text: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            text.chars().all(allowed) && !text.starts_with(['-', '.'])
        };
        let user = match parsed.username() {
            "" => DEFAULT_USER,
            user if plain(user) => user,
            _ => {
                return Err("its user may contain letters, digits, dots, hyphens and underscores".to_owned());
            }
        };
        let written = parsed.host_str().unwrap_or_default().to_ascii_lowercase();
        let host = written.trim_matches(['[', ']']);
        if host.is_empty() {
            return Err("it names no host".to_owned());
        }
        if !plain(host) && host.parse::<IpAddr>().is_err() {
            return Err("its host may contain letters, digits, dots, hyphens and underscores".to_owned());
        }
        let port = match parsed.port() {
            None => DEFAULT_SSH_PORT,
            Some(0) => return Err("port 0 is invalid".to_owned()),
            Some(port) => port,
        };
        let encoded = parsed.path().trim_end_matches('/');
        let path = percent_encoding::percent_decode_str(encoded).decode_utf8();
        let path = path.map_err(|_| "its path is not UTF-8".to_owned())?;
        if path.is_empty() {
            return Err("it has no repository path: write ssh://git@host/path".to_owned());
        }
        if path.chars().any(char::is_control) {
            return Err("its path contains a control character".to_owned());
        }
        let shown_port = if port == DEFAULT_SSH_PORT {
            String::new()
        } else {
            format!(":{port}")
        };
        Ok(Self {
            text: format!("ssh://{user}@{written}{shown_port}{encoded}"),
            host: format!("{host}:{port}"),
            scheme: Scheme::Ssh(SshAddress {
                user: user.to_owned(),
                host: host.to_owned(),
                port,
                path: path.into_owned(),
            }),
        })
    }

    fn file(parsed: &reqwest::Url, invalid: &impl Fn(&str) -> SourceError) -> Result<Self, SourceError> {
        if parsed.host_str().is_some_and(|host| !host.is_empty()) {
            return Err(invalid("a file url has three slashes: file:///path"));
        }
        let text = parsed.as_str().trim_end_matches('/').to_owned();
        Ok(Self {
            host: "file".to_owned(),
            text,
            scheme: Scheme::File,
        })
    }
}

/// The URL for messages, without parts that may be secret: those before an `@`, and after a `?` or `#`.
pub(super) fn redacted(url: &str) -> String {
    let (scheme, rest) = url
        .split_once("://")
        .map_or(("", url), |(scheme, rest)| (scheme, rest));
    let (rest, tail) = match rest.find(['?', '#']) {
        Some(end) => (&rest[..end], "?***"),
        None => (rest, ""),
    };
    let (who, rest) = rest
        .rsplit_once('@')
        .map_or(("", rest), |(_, rest)| ("***@", rest));
    let slashes = if scheme.is_empty() { "" } else { "://" };
    let shown: String = rest.chars().take(200).collect();
    format!("{scheme}{slashes}{who}{shown}{tail}")
}

fn scheme_refused(shown: &str, scheme: &str) -> SourceError {
    SourceError::SchemeRefused {
        url: shown.to_owned(),
        scheme: scheme.to_owned(),
        next: if scheme.contains("ssh") {
            "write ssh://git@host/path"
        } else {
            "use https or ssh"
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, allow_insecure: bool, expect: Result<&str, &str>) {
        let got = GitUrl::parse(url, allow_insecure)
            .map(|u| u.text)
            .map_err(|e| e.to_string());
        match (got, expect) {
            (Ok(text), Ok(expect)) => assert_eq!(text, expect, "{url}"),
            (Err(error), Err(expect)) => assert!(error.contains(expect), "{url}: {error}"),
            (got, expect) => panic!("{url}: got {got:?}, not {expect:?}"),
        }
    }

    #[test]
    fn only_https_and_ssh_unless_insecure_is_allowed() {
        let cases: &[(&str, bool, Result<&str, &str>)] = &[
            (
                "https://git.example.com/team/app.git",
                false,
                Ok("https://git.example.com/team/app.git"),
            ),
            (
                "https://git.example.com/team/app/",
                false,
                Ok("https://git.example.com/team/app"),
            ),
            (
                "HTTPS://Git.Example.com:443/x",
                false,
                Ok("https://git.example.com/x"),
            ),
            (
                "https://git.example.com:8443/x",
                false,
                Ok("https://git.example.com:8443/x"),
            ),
            (
                "http://git.example.com/x",
                false,
                Err("scheme \"http\" is refused; use https"),
            ),
            ("http://127.0.0.1:80/x", true, Ok("http://127.0.0.1/x")),
            ("file:///srv/git/x", false, Err("scheme \"file\" is refused")),
            ("file:///srv/git/x", true, Ok("file:///srv/git/x")),
            ("file://host/srv/git/x", true, Err("three slashes")),
            (
                "ssh://Git.Example.com/team/app/",
                false,
                Ok("ssh://git@git.example.com/team/app"),
            ),
            (
                "ssh://ann@example.com:22/x.git",
                false,
                Ok("ssh://ann@example.com/x.git"),
            ),
            ("ssh://git@[::1]:2222/x", false, Ok("ssh://git@[::1]:2222/x")),
            ("ssh://git@example.com", false, Err("it has no repository path")),
            ("ssh://git@example.com:0/x", false, Err("port 0")),
            (
                "ssh://git:hunter2@example.com/x",
                false,
                Err("Secret that secretRef names"),
            ),
            ("ssh://-oProxyCommand=x/y", true, Err("its host may contain")),
            ("ssh://-l@example.com/y", true, Err("its user may contain")),
            ("ssh://git@example.com/a%0Ab", true, Err("control character")),
            ("ssh://git@example.com/a%FF", true, Err("not UTF-8")),
            ("git+ssh://example.com/x", true, Err("write ssh://git@host/path")),
            (
                "git@example.com:team/app.git",
                true,
                Err("write ssh://git@example.com/team/app.git"),
            ),
            (
                "hunter2@example.com:/team/app.git",
                true,
                Err("write ssh://<user>@example.com/team/app.git"),
            ),
            ("git://example.com/x", true, Err("scheme \"git\" is refused")),
            ("ext::sh -c id", true, Err("space")),
            ("/srv/git/x", true, Err("refused")),
            (
                "https://user:secret@example.com/x",
                false,
                Err("Secret that secretRef names"),
            ),
            ("https://example.com/x?token=1", false, Err("query or a fragment")),
            ("https://example.com/x#main", false, Err("query or a fragment")),
            ("https://example.com/a b", false, Err("space")),
            ("https://example.com/a\nb", false, Err("control character")),
            ("https://example.com/it's", false, Err("quote")),
            ("https://", false, Err("cannot be used")),
            ("https:///x", false, Err("it names no host")),
            ("", false, Err("refused")),
        ];
        for (url, allow_insecure, expect) in cases {
            check(url, *allow_insecure, *expect);
        }
    }

    #[test]
    fn no_error_shows_the_credentials_of_a_url() {
        for url in [
            "https://user:hunter2@example.com/x",
            "ssh://hunter2@example.com",
            "https://a:hunter2@b@c/x y",
            "a:hunter2@example.com:x",
            "hunter2@example.com:x",
            "https://example.com/x?token=hunter2",
            "https://example.com/x?a=@hunter2",
            "https://example.com/x#hunter2",
        ] {
            let error = GitUrl::parse(url, true).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
