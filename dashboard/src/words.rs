//! Settings in words.

use muster_api::module::ModuleSpec;

/// Which clusters a module selects, in the words of kubectl: `env=prod,region in (eu,us)`.
pub fn selector(spec: &ModuleSpec) -> String {
    let Some(selector) = &spec.selector else {
        return "no cluster: it has no selector".to_owned();
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
        return "every cluster".to_owned();
    }
    terms.join(",")
}
