//! The query string of a URL.

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::{Filter, PageLocation, page::Request};

/// Maximum number of characters of a value.
const MAX_VALUE: usize = 200;

/// Parses a query into a request. Unknown keys are ignored.
pub(super) fn request(place: PageLocation, query: &str) -> Request {
    let mut request = Request {
        place,
        filter: Filter::default(),
        unfolded: false,
        group: String::new(),
    };
    for (key, value) in pairs(query) {
        match (&*key, &*value) {
            ("q", _) => request.filter.text = value,
            ("label", _) => request.filter.labels = value,
            ("group", _) => request.group = value,
            ("only", "problems") => request.filter.only_problems = true,
            ("fold", "no") => request.unfolded = true,
            _ => {}
        }
    }
    request
}

/// Formats a request as a query string.
pub(super) fn written(request: &Request) -> String {
    let Request {
        place: _,
        filter,
        unfolded,
        group,
    } = request;
    let pairs = [
        ("q", &*filter.text),
        ("label", &*filter.labels),
        ("group", group),
        ("only", if filter.only_problems { "problems" } else { "" }),
        ("fold", if *unfolded { "no" } else { "" }),
    ];
    let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    let written = pairs.map(|(key, value)| format!("{key}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)));
    written.collect::<Vec<_>>().join("&")
}

/// The value of a key.
pub(super) fn value(query: &str, key: &str) -> Option<String> {
    pairs(query)
        .find(|(found, _)| found == key)
        .map(|(_, value)| value)
}

/// Keys and values, form-decoded.
fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    query.split('&').filter_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        Some((decoded(key), decoded(value)))
    })
}

fn decoded(text: &str) -> String {
    let blanks = text.replace('+', " ");
    let text = percent_decode_str(&blanks).decode_utf8_lossy();
    text.chars()
        .filter(|char| !char.is_control())
        .take(MAX_VALUE)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_survives_its_address() {
        let query = "q=a+b%26c&label=env%3Dprod%2C%21x&group=region&only=problems&fold=no&else=1&&=";
        let read = request(PageLocation::Fleet, query);
        assert_eq!(
            (&*read.filter.text, &*read.filter.labels),
            ("a b&c", "env=prod,!x")
        );
        assert!(read.filter.only_problems && read.unfolded && read.group == "region");
        assert_eq!(request(PageLocation::Fleet, &written(&read)), read);
        assert_eq!(written(&request(PageLocation::Fleet, "only=all&fold=yes")), "");
        assert_eq!(
            request(PageLocation::Fleet, "q=%00a%0a%ff").filter.text,
            "a\u{fffd}"
        );
        let long = request(PageLocation::Fleet, &format!("q={}", "a".repeat(5_000)));
        assert_eq!(long.filter.text.len(), MAX_VALUE);
    }
}
