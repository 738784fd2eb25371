//! Configurations of admission webhooks: defaults and validation.

use http::Uri;
use serde_json::{Value, json};

use crate::schema::{Cause, Condition};

/// Fills in the defaults of a webhook.
pub(super) fn fill(object: &mut Value) {
    let is_mutating = object["kind"] == "MutatingWebhookConfiguration";
    for hook in object["webhooks"].as_array_mut().into_iter().flatten() {
        let Some(fields) = hook.as_object_mut() else {
            continue;
        };
        for (field, value) in [
            ("failurePolicy", json!("Fail")),
            ("matchPolicy", json!("Equivalent")),
            ("namespaceSelector", json!({})),
            ("objectSelector", json!({})),
            ("timeoutSeconds", json!(10)),
        ] {
            fields.entry(field).or_insert(value);
        }
        if is_mutating {
            fields.entry("reinvocationPolicy").or_insert(json!("Never"));
        }
        if let Some(service) = fields
            .get_mut("clientConfig")
            .and_then(|config| config["service"].as_object_mut())
        {
            service.entry("port").or_insert(json!(443));
        }
        let rules = fields.get_mut("rules").and_then(Value::as_array_mut);
        for rule in rules.into_iter().flatten().filter_map(Value::as_object_mut) {
            rule.entry("scope").or_insert(json!("*"));
        }
    }
}

/// Validation errors of a configuration.
pub(super) fn problems(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut names = Vec::new();
    for (index, hook) in object["webhooks"].as_array().into_iter().flatten().enumerate() {
        let at = |field: &str| format!("webhooks[{index}].{field}");
        name(&at("name"), &hook["name"], &mut names, &mut causes);
        rules(&at("rules"), &hook["rules"], &mut causes);
        for (field, supported) in [
            ("failurePolicy", ["Fail", "Ignore"]),
            ("matchPolicy", ["Equivalent", "Exact"]),
            ("sideEffects", ["None", "NoneOnDryRun"]),
            ("reinvocationPolicy", ["IfNeeded", "Never"]),
        ] {
            one_of(&at(field), &hook[field], &supported, &mut causes);
        }
        if hook["sideEffects"].is_null() {
            let why = "must specify one of None, NoneOnDryRun";
            causes.push(Cause::required(at("sideEffects"), why));
        }
        let timeout = &hook["timeoutSeconds"];
        if timeout
            .as_i64()
            .is_some_and(|seconds| !(1..=30).contains(&seconds))
        {
            let why = "the timeout value must be between 1 and 30 seconds";
            causes.push(Cause::invalid(at("timeoutSeconds"), timeout, why));
        }
        client_config(&at("clientConfig"), &hook["clientConfig"], &mut causes);
        conditions(&at("matchConditions"), &hook["matchConditions"], &mut causes);
        versions(
            &at("admissionReviewVersions"),
            &hook["admissionReviewVersions"],
            &mut causes,
        );
    }
    causes
}

fn name(at: &str, name: &Value, names: &mut Vec<Value>, causes: &mut Vec<Cause>) {
    let text = name.as_str().unwrap_or_default(); // absent
    if text.is_empty() {
        causes.push(Cause::required(at, ""));
        return;
    }
    if text.split('.').filter(|part| !part.is_empty()).count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        causes.push(Cause::invalid(at, name, why));
    }
    if names.contains(name) {
        causes.push(Cause::duplicate(at, name));
    }
    names.push(name.clone());
}

fn rules(at: &str, rules: &Value, causes: &mut Vec<Cause>) {
    for (index, rule) in rules.as_array().into_iter().flatten().enumerate() {
        for field in ["operations", "apiGroups", "apiVersions", "resources"] {
            let values = rule[field].as_array().map(Vec::as_slice).unwrap_or_default(); // absent
            if values.is_empty() {
                causes.push(Cause::required(format!("{at}[{index}].{field}"), ""));
            }
            if values.len() > 1 && values.contains(&json!("*")) && field != "resources" {
                let what = match field {
                    "operations" => "operations",
                    "apiGroups" => "API groups",
                    _ => "API versions",
                };
                let why = format!("if '*' is present, must not specify other {what}");
                causes.push(Cause::invalid(
                    format!("{at}[{index}].{field}"),
                    &rule[field],
                    &why,
                ));
            }
        }
        for (number, operation) in rule["operations"].as_array().into_iter().flatten().enumerate() {
            let supported = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
            let at = format!("{at}[{index}].operations[{number}]");
            one_of(&at, operation, &supported, causes);
        }
        let scopes = ["*", "Cluster", "Namespaced"];
        one_of(&format!("{at}[{index}].scope"), &rule["scope"], &scopes, causes);
    }
}

fn one_of(at: &str, value: &Value, supported: &[&str], causes: &mut Vec<Cause>) {
    let is_supported = value.as_str().is_some_and(|value| supported.contains(&value));
    if !value.is_null() && !is_supported {
        let supported: Vec<String> = supported.iter().map(|value| (*value).to_owned()).collect();
        causes.push(Cause::not_supported(at, value, &supported));
    }
}

fn client_config(at: &str, config: &Value, causes: &mut Vec<Cause>) {
    let (url, service) = (&config["url"], &config["service"]);
    if url.is_null() == service.is_null() {
        causes.push(Cause::required(at, "exactly one of url or service is required"));
    } else if let Some(url) = url.as_str() {
        check_url(&format!("{at}.url"), url, causes);
    } else {
        for field in ["name", "namespace"] {
            if service[field].as_str().unwrap_or_default().is_empty() {
                causes.push(Cause::required(format!("{at}.service.{field}"), ""));
            }
        }
        let port = &service["port"];
        if port.as_i64().is_none_or(|port| !(1..=65535).contains(&port)) {
            let why = "port is not valid: must be between 1 and 65535, inclusive";
            causes.push(Cause::invalid(format!("{at}.service.port"), port, why));
        }
        let path = &service["path"];
        if path
            .as_str()
            .is_some_and(|path| !path.is_empty() && !path.starts_with('/'))
        {
            causes.push(Cause::invalid(
                format!("{at}.service.path"),
                path,
                "must start with a '/'",
            ));
        }
    }
}

fn check_url(at: &str, url: &str, causes: &mut Vec<Cause>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (plain, fragment) = url.split_once('#').unwrap_or((url, ""));
    let uri: Uri = match plain.parse() {
        Ok(uri) => uri,
        Err(error) => {
            let why = format!("url must be a valid URL: {error}{FORM}");
            causes.push(Cause::required(at, &why));
            return;
        }
    };
    let scheme = uri.scheme_str().unwrap_or_default(); // absent is invalid too
    if scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{FORM}");
        causes.push(Cause::invalid(at, &scheme.into(), &why));
    }
    if uri.host().unwrap_or_default().is_empty() {
        causes.push(Cause::invalid(
            at,
            &"".into(),
            &format!("host must be specified{FORM}"),
        ));
    }
    if !fragment.is_empty() {
        let why = "fragments are not permitted in the URL";
        causes.push(Cause::invalid(at, &fragment.into(), why));
    }
    if let Some(query) = uri.query().filter(|query| !query.is_empty()) {
        let why = "query parameters are not permitted in the URL";
        causes.push(Cause::invalid(at, &query.into(), why));
    }
}

fn conditions(at: &str, conditions: &Value, causes: &mut Vec<Cause>) {
    let mut names = Vec::new();
    for (index, condition) in conditions.as_array().into_iter().flatten().enumerate() {
        let at = |field: &str| format!("{at}[{index}].{field}");
        let (name, text) = (&condition["name"], &condition["expression"]);
        if name.as_str().unwrap_or_default().is_empty() {
            causes.push(Cause::required(at("name"), ""));
        } else if names.contains(&name) {
            causes.push(Cause::duplicate(at("name"), name));
        }
        names.push(name);
        let source = text.as_str().unwrap_or_default(); // absent
        if source.trim().is_empty() {
            causes.push(Cause::required(at("expression"), ""));
        } else if let Err(error) = Condition::parse(source) {
            let why = format!("compilation failed: {error}");
            causes.push(Cause::invalid(at("expression"), text, &why));
        }
    }
}

fn versions(at: &str, versions: &Value, causes: &mut Vec<Cause>) {
    let given = versions.as_array().map(Vec::as_slice).unwrap_or_default(); // absent
    let is_known = |version: &Value| matches!(version.as_str(), Some("v1" | "v1beta1"));
    if given.is_empty() {
        causes.push(Cause::required(at, "must specify one of v1, v1beta1"));
    } else if !given.iter().any(is_known) {
        let why = "must include at least one of v1, v1beta1";
        causes.push(Cause::invalid(at, versions, why));
    }
}
