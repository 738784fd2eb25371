//! The formats that the real server checks in custom resources.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine;
use regex::Regex;

use super::types::Type;

const STRING_FORMATS: [&str; 20] = [
    "byte",
    "cidr",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
];

/// Whether the server supports this format for this type; others are ignored.
pub(super) fn known(ty: Option<Type>, format: &str) -> bool {
    match ty {
        None | Some(Type::String) => {
            let name = normal(format);
            name == "uuid5" || STRING_FORMATS.contains(&name.as_str())
        }
        Some(Type::Integer) => matches!(format, "int32" | "int64"),
        Some(Type::Number) => matches!(format, "float" | "double"),
        Some(Type::Object | Type::Array | Type::Boolean) => false,
    }
}

/// Whether `text` matches the string format `format`.
pub(super) fn matches(format: &str, text: &str) -> bool {
    match normal(format).as_str() {
        "byte" => base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
        "cidr" => is_cidr(text),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "datetime" => DATE_TIME.is_match(text) && text.to_uppercase().parse::<jiff::Timestamp>().is_ok(),
        "duration" => is_duration(text),
        "email" => EMAIL.is_match(text),
        "hexcolor" => HEX_COLOR.is_match(text),
        "hostname" => text.len() <= 255 && HOSTNAME.is_match(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "k8sshortname" => text.len() <= 63 && LABEL.is_match(text),
        "k8slongname" => text.len() <= 253 && text.split('.').all(|part| LABEL.is_match(part)),
        "mac" => MAC.is_match(text),
        "ssn" => SSN.is_match(text),
        "uri" => text.parse::<http::Uri>().is_ok() && (text.contains("://") || text.starts_with('/')),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => is_uuid(&normal(format), text),
        _ => true,
    }
}

/// A Go duration (`1h30m`, `-1.5s`), or a number with a unit in Scala's notation (`22 ns`, `3 days`).
pub(super) fn is_duration(text: &str) -> bool {
    text == "0" || GO_DURATION.is_match(text) || SCALA_DURATION.is_match(text)
}

fn normal(format: &str) -> String {
    format.replace('-', "")
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let Ok(length) = length.parse::<u8>() else {
        return false;
    };
    (address.parse::<Ipv4Addr>().is_ok() && length <= 32)
        || (address.parse::<Ipv6Addr>().is_ok() && length <= 128)
}

fn is_uuid(format: &str, text: &str) -> bool {
    let version = format
        .strip_prefix("uuid")
        .and_then(|version| version.chars().next());
    let digits: Vec<char> = text.to_ascii_lowercase().chars().filter(|c| *c != '-').collect();
    UUID.is_match(text)
        && version.is_none_or(|version| digits.get(12) == Some(&version))
        && (version.is_none_or(|version| version == '3')
            || digits.get(16).is_some_and(|variant| "89ab".contains(*variant)))
}

static DATE_TIME: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)^\d{4}-\d{2}-\d{2}[t ]\d{2}:\d{2}:\d{2}(\.\d+)?(z|[+-]\d{2}:\d{2})$"));
static GO_DURATION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^[+-]?((\d+\.?\d*|\.\d+)(ns|us|\x{b5}s|\x{3bc}s|ms|s|m|h))+$"));
static SCALA_DURATION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"(?i)(\d+)\s*(ns|nano\w*|us|\x{b5}s|micro\w*|ms|milli\w*|s|sec|second\w*|m|min|minute\w*|",
        r"h|hr|hour\w*|d|day\w*|w|wk|week\w*)\s*$"
    ))
});
static EMAIL: LazyLock<Regex> = LazyLock::new(|| pattern(r"^([^<>]*<)?[^\s@<>]+@[^\s@<>]+>?$"));
static HEX_COLOR: LazyLock<Regex> = LazyLock::new(|| pattern(r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));
static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$")
});
static LABEL: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"));
static MAC: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^([0-9a-fA-F]{2}[:-]){5}([0-9a-fA-F]{2}[:-]){0,2}[0-9a-fA-F]{2}$"));
static SSN: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$"));
static UUID: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"));

/// The patterns above are constants; a test compiles each of them.
#[allow(clippy::expect_used)]
fn pattern(source: &str) -> Regex {
    Regex::new(source).expect("the patterns of this file compile")
}
