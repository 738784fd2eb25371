//! Validation of the names of objects, namespaces and labels.

use serde_json::Value;

use super::Resource;
use crate::meta;
use crate::schema::Cause;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Maximum length of names that must be DNS labels.
const LABEL_LIMIT: usize = 63;
/// Maximum length of names that must be DNS subdomains.
const SUBDOMAIN_LIMIT: usize = 253;
/// The limit of all annotations of an object together, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Validation errors of the metadata of an object.
pub(crate) fn check(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = meta::name(object);
    if name.is_empty() {
        causes.push(Cause::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else if let Some(problem) = name_problem(resource, name) {
        causes.push(Cause::invalid("metadata.name", &name.into(), &problem));
    }
    labels(object, &mut causes);
    annotations(object, &mut causes);
    for owner in meta::owners(object) {
        check_owner(owner, &mut causes);
    }
    for finalizer in meta::finalizers(object) {
        if !is_qualified(finalizer) {
            causes.push(Cause::invalid(
                "metadata.finalizers",
                &finalizer.into(),
                QUALIFIED,
            ));
        }
    }
    causes
}

fn check_owner(owner: &Value, causes: &mut Vec<Cause>) {
    // The real server does not report which one.
    let path = "metadata.ownerReferences";
    for (field, detail) in [
        ("apiVersion", "version must not be empty"),
        ("kind", "must not be empty"),
        ("name", "must not be empty"),
        ("uid", "must not be empty"),
    ] {
        if owner[field].as_str().unwrap_or_default().is_empty() {
            causes.push(Cause::invalid(format!("{path}.{field}"), &"".into(), detail));
        }
    }
}

fn labels(object: &Value, causes: &mut Vec<Cause>) {
    for (key, value) in object["metadata"]["labels"].as_object().into_iter().flatten() {
        if !is_qualified(key) {
            causes.push(Cause::invalid("metadata.labels", &key.as_str().into(), QUALIFIED));
        }
        let value = value.as_str().unwrap_or_default();
        if value.len() > LABEL_LIMIT {
            causes.push(Cause::invalid(
                "metadata.labels",
                &value.into(),
                "must be no more than 63 bytes",
            ));
        } else if !value.is_empty() && !is_name_part(value) {
            causes.push(Cause::invalid("metadata.labels", &value.into(), LABEL_VALUE));
        }
    }
}

fn annotations(object: &Value, causes: &mut Vec<Cause>) {
    let mut size = 0;
    for (key, value) in object["metadata"]["annotations"]
        .as_object()
        .into_iter()
        .flatten()
    {
        if !is_qualified(&key.to_lowercase()) {
            causes.push(Cause::invalid(
                "metadata.annotations",
                &key.as_str().into(),
                QUALIFIED,
            ));
        }
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > ANNOTATIONS_LIMIT {
        let message = format!("Too long: may not be more than {ANNOTATIONS_LIMIT} bytes");
        causes.push(Cause::new(
            crate::schema::reason::TOO_LONG,
            "metadata.annotations",
            message,
        ));
    }
}

fn name_problem(resource: &Resource, name: &str) -> Option<String> {
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("rbac.authorization.k8s.io", _) => path_segment_problem(name),
        ("", "Namespace") => label_problem(name, false),
        ("", "Service") => label_problem(name, true),
        _ => subdomain_problem(name),
    }
}

fn path_segment_problem(name: &str) -> Option<String> {
    match name {
        "." | ".." => Some(format!("may not be '{name}'")),
        _ if name.contains('/') => Some("may not contain '/'".to_owned()),
        _ if name.contains('%') => Some("may not contain '%'".to_owned()),
        _ => None,
    }
}

fn label_problem(name: &str, starts_with_letter: bool) -> Option<String> {
    if name.len() > LABEL_LIMIT {
        return Some(format!("must be no more than {LABEL_LIMIT} bytes"));
    }
    let rule = if starts_with_letter { LABEL_1035 } else { LABEL };
    let starts_well = !starts_with_letter || name.starts_with(|c: char| c.is_ascii_lowercase());
    (!is_dns_label(name) || !starts_well).then(|| rule.to_owned())
}

fn subdomain_problem(name: &str) -> Option<String> {
    if name.len() > SUBDOMAIN_LIMIT {
        return Some(format!("must be no more than {SUBDOMAIN_LIMIT} bytes"));
    }
    (!name.split('.').all(is_dns_label)).then(|| SUBDOMAIN.to_owned())
}

/// Whether `text` is a DNS label, regardless of its length.
pub(crate) fn is_dns_label(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_name_part(text: &str) -> bool {
    let outer = |c: u8| c.is_ascii_alphanumeric();
    let bytes = text.as_bytes();
    bytes.iter().all(|c| outer(*c) || b"-_.".contains(c))
        && bytes.first().is_some_and(|c| outer(*c))
        && bytes.last().is_some_and(|c| outer(*c))
}

fn is_qualified(key: &str) -> bool {
    let (prefix, name) = key
        .split_once('/')
        .map_or((None, key), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(|prefix| subdomain_problem(prefix).is_none())
        && name.len() <= LABEL_LIMIT
        && is_name_part(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_names() {
        for (key, fine) in [
            ("app", true),
            ("app.kubernetes.io/name", true),
            ("Upper_case.too", true),
            ("a/b/c", false),
            ("-a", false),
            ("", false),
            ("Bad/name", false),
        ] {
            assert_eq!(is_qualified(key), fine, "{key}");
        }
    }
}
