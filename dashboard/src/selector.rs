//! Selectors as text.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::Kind;

/// A selector in kubectl's syntax: `env=prod,region in (eu,us)`.
pub(crate) fn in_words(selector: Option<&LabelSelector>, kind: Kind) -> String {
    let Some(selector) = selector else {
        return format!("no {}: it has no selector", kind.unit());
    };
    let labels = selector.match_labels.iter().flatten();
    let labels = labels.map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter().flatten().map(|expression| {
        let key = &expression.key;
        let values = expression.values.iter().flatten().map(String::as_str);
        let values = values.collect::<Vec<_>>().join(",");
        match expression.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.clone(),
            "DoesNotExist" => format!("!{key}"),
            other => format!("{key} {other} ({values})"),
        }
    });
    let terms: Vec<String> = labels.chain(expressions).collect();
    if terms.is_empty() {
        return format!("every {}", kind.unit());
    }
    terms.join(",")
}
