//! Which addresses are opened at all.

use std::net::IpAddr;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::SourceError;
use super::types::hex;

/// Longest URL taken.
const MAX_URL: usize = 2048;

/// How a repository is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scheme {
    /// By our own transport.
    Web,
    /// By libgit2, from this machine.
    File,
}

/// A URL that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GitUrl {
    /// As it is opened and shown: without credentials, because one with them is refused.
    pub text: String,
    /// How it is reached.
    pub scheme: Scheme,
    /// What fetches are counted by: host and port, or `file`.
    pub host: String,
}

impl GitUrl {
    /// Checks scheme, characters, and that the URL names a host and nothing secret.
    pub fn parse(url: &str, allow_insecure: bool) -> Result<Self, SourceError> {
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
            return Err(invalid("it holds a space, quote, backslash or control character"));
        }
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(scheme_refused(&shown, if url.contains('@') { "ssh" } else { "" }));
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
                "it holds credentials; put them into the Secret that secretRef names",
            ));
        }
        match parsed.scheme() {
            "https" => Ok(Self::web(&parsed)),
            "http" if allow_insecure => Ok(Self::web(&parsed)),
            "file" if allow_insecure => Self::file(&parsed, &invalid),
            "http" | "file" => Err(SourceError::SchemeRefused {
                url: shown,
                scheme: scheme.to_owned(),
                next: "use https (--allow-insecure-sources is for demos and tests)",
            }),
            _ => Err(scheme_refused(&shown, scheme)),
        }
    }

    /// Whether it is reached by our own transport.
    pub fn is_web(&self) -> bool {
        self.scheme == Scheme::Web
    }

    /// Whether what is sent there could be read on its way: by `http`, to another machine.
    pub fn is_readable_by_others(&self) -> bool {
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

    /// Name of the folder of its mirror.
    pub fn folder(&self) -> String {
        hex(&Sha256::digest(&self.text))
    }

    /// The path of a `file` URL.
    pub fn file_path(&self) -> Option<PathBuf> {
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

/// The URL without what may be a secret, for messages: what stands before an `@`, and behind a `?` or `#`.
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
            "ssh is not supported yet, use https"
        } else {
            "use https"
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
    fn only_https_unless_insecure_is_allowed() {
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
            ("ssh://git@example.com/x", true, Err("ssh is not supported yet")),
            ("ssh://-oProxyCommand=x/y", true, Err("ssh is not supported yet")),
            (
                "git@example.com:team/app.git",
                true,
                Err("ssh is not supported yet"),
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
    fn no_error_shows_what_stands_before_the_at_sign() {
        for url in [
            "https://user:hunter2@example.com/x",
            "ssh://hunter2@example.com",
            "https://a:hunter2@b@c/x y",
            "a:hunter2@example.com:x",
            "https://example.com/x?token=hunter2",
            "https://example.com/x?a=@hunter2",
            "https://example.com/x#hunter2",
        ] {
            let error = GitUrl::parse(url, true).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
