//! Content negotiation.

use crate::http::{MediaRange, media_ranges};
use crate::status::ApiError;

/// Representation of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// The complete object.
    Whole,
    /// As rows of a Table.
    Table,
    /// Only their metadata.
    Metadata,
}

/// The text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// JSON text.
    Json,
    /// YAML text.
    Yaml,
}

/// The negotiated representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accept {
    /// Representation of objects.
    pub view: View,
    /// The text format.
    pub format: Format,
}

/// Parses the `Accept` header of a request for objects.
pub(super) fn negotiate(header: &str) -> Result<Accept, ApiError> {
    if header.trim().is_empty() {
        return Ok(Accept {
            view: View::Whole,
            format: Format::Json,
        });
    }
    media_ranges(header)
        .iter()
        .find_map(agree)
        .ok_or_else(|| ApiError::not_acceptable(&["application/json", "application/yaml"]))
}

fn agree(range: &MediaRange<'_>) -> Option<Accept> {
    let format = match range.media {
        "application/json" | "*/*" | "application/*" => Format::Json,
        "application/yaml" => Format::Yaml,
        _ => return None,
    };
    let in_meta = range.parameter("g") == "meta.k8s.io" && range.parameter("v") == "v1";
    let view = match range.parameter("as") {
        "" => View::Whole,
        "Table" if in_meta => View::Table,
        "PartialObjectMetadata" | "PartialObjectMetadataList" if in_meta => View::Metadata,
        _ => return None,
    };
    Some(Accept { view, format })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, expect: Option<(View, Format)>) {
        let got = negotiate(header).ok().map(|accept| (accept.view, accept.format));
        assert_eq!(got, expect, "{header}");
    }

    #[test]
    fn the_first_range_that_can_be_served_wins() {
        check("", Some((View::Whole, Format::Json)));
        check("*/*", Some((View::Whole, Format::Json)));
        check(
            "application/vnd.kubernetes.protobuf, application/json",
            Some((View::Whole, Format::Json)),
        );
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            Some((View::Table, Format::Json)),
        );
        check(
            "application/json;as=Table;v=v9;g=meta.k8s.io,application/json",
            Some((View::Whole, Format::Json)),
        );
        check(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Some((View::Metadata, Format::Json)),
        );
        check("application/yaml", Some((View::Whole, Format::Yaml)));
        check("application/vnd.kubernetes.protobuf", None);
    }
}
