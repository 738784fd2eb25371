//! Paths in URLs of an API server: which texts can be a path segment, and how a segment is encoded.
//!
//! A name becomes part of a URL. Inserted verbatim, `settings?v=2` would request `settings`; percent-encoded, as
//! kubectl does, the API server either rejects the name or answers for exactly that name.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::name_syntax::{self as names, NameError};

/// Characters that are not percent-encoded in a segment. The same as in Go's `url.URL`, which kubectl and controllers
/// written in Go use to build paths.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// Why a text cannot be a path segment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// Empty: the path would be that of the collection.
    #[error("it is empty")]
    Empty,
    /// `.` or `..`, which refer to another segment.
    #[error("it must not be {0:?}")]
    Dots(String),
    /// A character that is not allowed in the name of any kind.
    #[error("it must not contain {0:?}")]
    Forbidden(char),
    /// An invalid part of an `apiVersion`.
    #[error("it is not a group and version: {0}")]
    ApiVersion(#[source] NameError),
    /// More than one slash in an `apiVersion`.
    #[error("it is not a group and version: it has more than one slash")]
    Slashes,
}

/// Checks what API servers require of the names of *all* kinds: that the name can be a path segment.
pub fn check(name: &str) -> Result<(), SegmentError> {
    match name {
        "" => Err(SegmentError::Empty),
        "." | ".." => Err(SegmentError::Dots(name.to_owned())),
        _ => match name.chars().find(|c| matches!(c, '/' | '%')) {
            Some(forbidden) => Err(SegmentError::Forbidden(forbidden)),
            None => Ok(()),
        },
    }
}

/// A name as a percent-encoded path segment; an error if it cannot be one.
pub fn segment(name: &str) -> Result<Cow<'_, str>, SegmentError> {
    check(name)?;
    Ok(utf8_percent_encode(name, SEGMENT).into())
}

/// Checks an `apiVersion`: a version, or a group and a version.
pub fn api_version(text: &str) -> Result<(), SegmentError> {
    let (group, version) = match text.split_once('/') {
        Some((group, version)) => (Some(group), version),
        None => (None, text),
    };
    if version.contains('/') {
        return Err(SegmentError::Slashes);
    }
    group
        .map_or(Ok(()), names::dns_subdomain)
        .and_then(|()| names::dns_label(version))
        .map_err(SegmentError::ApiVersion)
}

/// Checks the path of a collection, as a request builder generated it: no segment is empty or consists of dots, and
/// every character is either allowed or percent-encoded.
pub fn collection(path: &str) -> Result<(), SegmentError> {
    let segments = path.strip_prefix('/').unwrap_or(path).split('/');
    for segment in segments {
        check(&percent_decode_str(segment).decode_utf8_lossy())?;
        if let Some(forbidden) = segment.chars().find(|c| *c != '%' && !is_literal(*c)) {
            return Err(SegmentError::Forbidden(forbidden));
        }
    }
    Ok(())
}

fn is_literal(c: char) -> bool {
    let mut bytes = [0; 4];
    let text: &str = c.encode_utf8(&mut bytes);
    utf8_percent_encode(text, SEGMENT).eq([text])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_encoded_as_go_does_it() {
        for (name, expect) in [
            ("settings", "settings"),
            ("settings?v=2", "settings%3Fv=2"),
            ("reader#2", "reader%232"),
            ("my role", "my%20role"),
            ("system:node@a~b+c,d;e$f&g", "system:node@a~b+c,d;e$f&g"),
            (
                "a[b]{c}|d\\e^f`g\"h<i>",
                "a%5Bb%5D%7Bc%7D%7Cd%5Ce%5Ef%60g%22h%3Ci%3E",
            ),
            ("größe", "gr%C3%B6%C3%9Fe"),
            ("a\nb", "a%0Ab"),
            ("!*'()", "%21%2A%27%28%29"),
            ("...", "..."),
        ] {
            assert_eq!(segment(name).as_deref(), Ok(expect), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_a_segment_is_refused() {
        for (name, expect) in [
            ("", "it is empty"),
            (".", "it must not be \".\""),
            ("..", "it must not be \"..\""),
            ("a/b", "it must not contain '/'"),
            ("a%2Fb", "it must not contain '%'"),
        ] {
            let error = segment(name).unwrap_err();
            assert_eq!(error.to_string(), expect, "{name}");
        }
    }

    #[test]
    fn api_versions() {
        for good in ["v1", "apps/v1", "rbac.authorization.k8s.io/v1beta1"] {
            assert_eq!(api_version(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "v1/../..",
            "v1/..",
            "/v1",
            "apps/",
            "apps/v1/x",
            "v1?a",
            "v1#",
            "V1",
            "a b/v1",
            "%2e%2e/v1",
        ] {
            assert!(api_version(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn paths_of_collections() {
        for good in [
            "/api/v1/namespaces/a/configmaps",
            "/apis/apps/v1/deployments",
            "/api/v1/namespaces/a%20b/pods",
        ] {
            assert_eq!(collection(good), Ok(()), "{good}");
        }
        for bad in [
            "/api/v1/namespaces/../pods",
            "/api/v1/namespaces//pods",
            "/api/v1?a/pods",
            "/api/v1/pods#",
            "/api/a b/pods",
        ] {
            assert!(collection(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        /// No two names share a segment, and a segment never begins or ends another part of the URL.
        #[test]
        fn a_segment_reads_back_as_its_name(name in ".*") {
            if let Ok(segment) = segment(&name) {
                prop_assert!(!segment.contains(['/', '?', '#', ' ']));
                let back = percent_decode_str(&segment).decode_utf8();
                prop_assert_eq!(back.as_deref(), Ok(name.as_str()));
            }
        }
    }
}
