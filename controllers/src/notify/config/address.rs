//! URLs, and files whose content is secret.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

use reqwest::Url;

/// The maximum size of a file, in bytes.
const MAX_FILE: u64 = 64 * 1024;
/// The placeholders of a link.
pub(crate) const PLACES: [&str; 5] = ["{namespace}", "{kind}", "{module}", "{revision}", "{commit}"];

/// A URL, or the file with it if it is secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverUrl {
    /// The URL.
    Url(Url),
    /// The file with the URL.
    File(PathBuf),
}

impl ReceiverUrl {
    /// The URL, read if it is in a file.
    pub fn open(&self) -> Result<Url, String> {
        match self {
            Self::Url(url) => Ok(url.clone()),
            // The URL in a file is secret: it is not shown.
            Self::File(file) => url_of(&secret(file)?)
                .map_err(|_| format!("{}: it contains no https address", file.display())),
        }
    }
}

/// The content of a file, without the line feed at its end. The error names only the file.
pub(crate) fn secret(file: &Path) -> Result<String, String> {
    let text = text_of(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(format!("{}: it contains no text", file.display()));
    }
    Ok(text.to_owned())
}

/// The content of a file of at most [`MAX_FILE`] bytes.
pub(crate) fn text_of(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    let mut file = std::fs::File::open(path)?.take(MAX_FILE + 1);
    let read = file.read_to_string(&mut text)? as u64;
    if read > MAX_FILE {
        return Err(std::io::Error::other(format!(
            "it is longer than {MAX_FILE} bytes"
        )));
    }
    Ok(text)
}

/// The URL from one of two fields.
pub(crate) fn parse_address(url: Option<&str>, file: Option<PathBuf>) -> Result<ReceiverUrl, String> {
    match (url, file) {
        (Some(url), None) => url_of(url).map(ReceiverUrl::Url),
        (None, Some(file)) => Ok(ReceiverUrl::File(file)),
        _ => Err("set one of url and urlFile".to_owned()),
    }
}

/// An https URL; http is only allowed to this machine, because tokens could be read in transit.
pub(crate) fn url_of(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("invalid URL: {error}"))?;
    let host = url.host_str().unwrap_or_default();
    let is_near = host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    let is_safe = url.scheme() == "https" || url.scheme() == "http" && is_near;
    if !is_safe || host.is_empty() || !url.username().is_empty() || url.password().is_some() {
        return Err(format!(
            "{}://{host}: write an https address without a user or a password",
            url.scheme()
        ));
    }
    Ok(url)
}

/// A repository URL normalized for comparison: modules may write it with or without insignificant parts.
pub(crate) fn normal(repository: &str) -> String {
    let text = repository.trim_end_matches('/');
    let text = text.strip_suffix(".git").unwrap_or(text).to_ascii_lowercase();
    // Over ssh it is the same repository: user and port belong to the transport.
    let Some((authority, path)) = text.strip_prefix("ssh://").and_then(|rest| rest.split_once('/')) else {
        return text;
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = host.split_once(':').map_or(host, |(host, _)| host);
    format!("https://{host}/{path}")
}

/// A link with placeholders for its subject; unknown ones are errors.
pub(crate) fn link(text: String) -> Result<String, String> {
    let mut rest = text.clone();
    for place in PLACES {
        rest = rest.replace(place, "x");
    }
    if rest.contains(['{', '}']) {
        return Err(format!("link: only {} are allowed in it", PLACES.join(", ")));
    }
    url_of(&rest).map_err(|why| format!("link: {why}"))?;
    Ok(text)
}
