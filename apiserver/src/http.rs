//! Shared types of requests and responses: caller, verb, media types, and the body.

use std::convert::Infallible;

use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};

/// Verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many.
    List,
    /// Follow changes.
    Watch,
    /// Create an object.
    Create,
    /// Replace an object.
    Update,
    /// Change part of an object.
    Patch,
    /// Delete an object.
    Delete,
    /// Delete all objects that match.
    DeleteCollection,
}

impl Verb {
    /// The verb as Kubernetes writes it in rules and audit logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// Whether the verb may change objects.
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

/// A response body.
pub type Body = UnsyncBoxBody<Bytes, BodyError>;

/// Why a response body ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// A fault rule closed the connection.
    #[error("connection closed by a fault rule")]
    Closed,
}

/// The client of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The name of the client: the user of its certificate or token, or the name given to an in-process client.
    pub client: String,
    /// The `User-Agent` header.
    pub agent: String,
}

/// A body with these bytes.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}

/// A body that is a stream of chunks.
pub(crate) fn streamed(
    chunks: impl futures::Stream<Item = Result<Bytes, BodyError>> + Send + 'static,
) -> Body {
    http_body_util::StreamBody::new(chunks.map(|chunk| chunk.map(http_body::Frame::data))).boxed_unsync()
}

/// One media range of an `Accept` header with its parameters.
#[derive(Debug)]
pub(crate) struct MediaRange<'a> {
    /// `type/subtype`.
    pub media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> MediaRange<'a> {
    /// The value of a parameter, empty if absent.
    pub(crate) fn parameter(&self, name: &str) -> &'a str {
        self.parameters
            .iter()
            .find(|(key, _)| *key == name)
            .map_or("", |(_, value)| value)
    }
}

/// The media ranges of an `Accept` header, in its order.
pub(crate) fn media_ranges(header: &str) -> Vec<MediaRange<'_>> {
    header
        .split(',')
        .map(str::trim)
        .filter(|range| !range.is_empty())
        .map(range)
        .collect()
}

fn range(text: &str) -> MediaRange<'_> {
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    let parameters = parts.filter_map(|part| part.split_once('=')).collect();
    MediaRange { media, parameters }
}
