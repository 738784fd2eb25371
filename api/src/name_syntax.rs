//! The grammars of Kubernetes' names, labels and of variables.

use crate::schema;

/// Why a text is no name of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing stands there.
    #[error("it is empty")]
    Empty,
    /// Too long.
    #[error("it has {length} bytes, at most {max} are allowed")]
    TooLong {
        /// How long it is.
        length: usize,
        /// How long it may be.
        max: usize,
    },
    /// A part is no DNS label.
    #[error("use lower-case letters, digits and hyphens, with a letter or digit at both ends")]
    DnsLabel,
    /// A part is no DNS subdomain.
    #[error(
        "use lower-case letters, digits, hyphens and dots, with a letter or digit at both ends of each part"
    )]
    DnsSubdomain,
    /// A part is no name of a label.
    #[error("use letters, digits, hyphens, underscores and dots, with a letter or digit at both ends")]
    Qualified,
    /// More than one slash.
    #[error("use at most one slash, between a DNS subdomain and a name")]
    Slashes,
    /// No name of a variable.
    #[error("use letters, digits and underscores, not beginning with a digit")]
    Variable,
}

/// At most 63 bytes of lower-case letters, digits and hyphens.
pub fn dns_label(text: &str) -> Result<(), NameError> {
    length(text, schema::MAX_LABEL)?;
    is_dns_label(text).then_some(()).ok_or(NameError::DnsLabel)
}

/// DNS labels of any length joined by dots, together at most 253 bytes.
pub fn dns_subdomain(text: &str) -> Result<(), NameError> {
    length(text, schema::MAX_NAME)?;
    text.split('.')
        .all(is_dns_label)
        .then_some(())
        .ok_or(NameError::DnsSubdomain)
}

/// A name of at most 63 bytes, with or without a DNS subdomain and a slash before it.
pub fn label_key(text: &str) -> Result<(), NameError> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if name.contains('/') {
        return Err(NameError::Slashes);
    }
    prefix.map_or(Ok(()), dns_subdomain)?;
    length(name, schema::MAX_LABEL)?;
    is_qualified(name).then_some(()).ok_or(NameError::Qualified)
}

/// Nothing, or a name of at most 63 bytes.
pub fn label_value(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Ok(());
    }
    length(text, schema::MAX_LABEL)?;
    is_qualified(text).then_some(()).ok_or(NameError::Qualified)
}

/// Letters, digits and underscores, at most 63, not beginning with a digit.
pub fn variable(text: &str) -> Result<(), NameError> {
    length(text, schema::MAX_LABEL)?;
    let begins_well = text.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
    let all_well = text.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric());
    (begins_well && all_well).then_some(()).ok_or(NameError::Variable)
}

fn length(text: &str, max: usize) -> Result<(), NameError> {
    match text.len() {
        0 => Err(NameError::Empty),
        length if length > max => Err(NameError::TooLong { length, max }),
        _ => Ok(()),
    }
}

fn is_dns_label(text: &str) -> bool {
    let inner = |b: u8| b == b'-' || b.is_ascii_lowercase() || b.is_ascii_digit();
    ends_well(text) && text.bytes().all(inner)
}

fn is_qualified(text: &str) -> bool {
    ends_well(text)
        && text
            .bytes()
            .all(|b| matches!(b, b'-' | b'_' | b'.') || b.is_ascii_alphanumeric())
}

fn ends_well(text: &str) -> bool {
    let end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    end(text.as_bytes().first()) && end(text.as_bytes().last())
}
