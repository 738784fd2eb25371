//! Syntax of Kubernetes names, of labels, and of variable names.

use crate::schema;

/// Why a text is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is empty.
    #[error("it is empty")]
    Empty,
    /// The text is too long.
    #[error("it has {length} bytes, at most {max} are allowed")]
    TooLong {
        /// Actual length in bytes.
        length: usize,
        /// Maximum length in bytes.
        max: usize,
    },
    /// Not a DNS label.
    #[error("use lower-case letters, digits and hyphens, with a letter or digit at both ends")]
    DnsLabel,
    /// Not a DNS subdomain.
    #[error(
        "use lower-case letters, digits, hyphens and dots, with a letter or digit at both ends of each part"
    )]
    DnsSubdomain,
    /// Not a valid label name.
    #[error("use letters, digits, hyphens, underscores and dots, with a letter or digit at both ends")]
    Qualified,
    /// More than one slash.
    #[error("use at most one slash, between a DNS subdomain and a name")]
    Slashes,
    /// Not a valid variable name.
    #[error("use letters, digits and underscores, not beginning with a digit")]
    Variable,
}

/// Checks a DNS label: at most 63 bytes of lower-case letters, digits and hyphens.
pub fn dns_label(text: &str) -> Result<(), NameError> {
    length(text, schema::MAX_LABEL)?;
    is_dns_label(text).then_some(()).ok_or(NameError::DnsLabel)
}

/// Checks DNS labels of any length joined by dots, at most 253 bytes in total.
pub fn dns_subdomain(text: &str) -> Result<(), NameError> {
    length(text, schema::MAX_NAME)?;
    text.split('.')
        .all(is_dns_label)
        .then_some(())
        .ok_or(NameError::DnsSubdomain)
}

/// Checks a label key: a name of at most 63 bytes, optionally prefixed with a DNS subdomain and a slash.
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

/// Checks a label value: empty, or at most 63 bytes.
pub fn label_value(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Ok(());
    }
    length(text, schema::MAX_LABEL)?;
    is_qualified(text).then_some(()).ok_or(NameError::Qualified)
}

/// Checks a variable name: at most 63 letters, digits and underscores, not beginning with a digit.
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
