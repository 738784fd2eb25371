//! Addresses, and the files that have what is as good as a password.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
};

use reqwest::Url;

/// The longest file, in bytes.
const MAX_FILE: u64 = 64 * 1024;
/// What may stand in a link.
pub(crate) const PLACES: [&str; 5] = ["{namespace}", "{kind}", "{module}", "{revision}", "{commit}"];

/// An address, or the file that has it where it is as good as a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Itself.
    Url(Url),
    /// In a file.
    File(PathBuf),
}

impl Address {
    /// The address, read if it is in a file.
    pub fn open(&self) -> Result<Url, String> {
        match self {
            Self::Url(url) => Ok(url.clone()),
            // What is in the file is as good as a password: it is not shown.
            Self::File(file) => {
                url_of(&secret(file)?).map_err(|_| format!("{}: it holds no https address", file.display()))
            }
        }
    }
}

/// What a file holds, without the line feed at its end. The error names the file alone.
pub(crate) fn secret(file: &Path) -> Result<String, String> {
    let text = text_of(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() || text.chars().any(char::is_control) {
        return Err(format!("{}: it holds no line of text", file.display()));
    }
    Ok(text.to_owned())
}

/// What a file of at most [`MAX_FILE`] bytes holds.
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

/// The address of which one of two is written.
pub(crate) fn address(url: Option<&str>, file: Option<PathBuf>) -> Result<Address, String> {
    match (url, file) {
        (Some(url), None) => url_of(url).map(Address::Url),
        (None, Some(file)) => Ok(Address::File(file)),
        _ => Err("name one of url and urlFile".to_owned()),
    }
}

/// An https address; http is for this machine alone, as tokens would be read on the way.
pub(crate) fn url_of(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("an address cannot be used: {error}"))?;
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

/// A repository as it is compared: modules may write it with or without what means nothing.
pub(crate) fn normal(repository: &str) -> String {
    let text = repository.trim_end_matches('/');
    let text = text.strip_suffix(".git").unwrap_or(text).to_ascii_lowercase();
    // Over ssh it is the same repository: user and port belong to the way.
    let Some((authority, path)) = text.strip_prefix("ssh://").and_then(|rest| rest.split_once('/')) else {
        return text;
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = host.split_once(':').map_or(host, |(host, _)| host);
    format!("https://{host}/{path}")
}

/// A link with places for what it is about; unknown ones are mistakes.
pub(crate) fn link(text: String) -> Result<String, String> {
    let mut rest = text.clone();
    for place in PLACES {
        rest = rest.replace(place, "x");
    }
    if rest.contains(['{', '}']) {
        return Err(format!("link: only {} may stand in it", PLACES.join(", ")));
    }
    url_of(&rest).map_err(|why| format!("link: {why}"))?;
    Ok(text)
}
