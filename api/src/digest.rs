//! Canonical bytes and their hashes: revisions and digests.
//!
//! Canonical bytes are JSON with ordered keys and without spaces, the parts joined by NUL; hashes are SHA-256 in
//! lower-case hexadecimal digits, short ones the first ten characters of base32 (RFC 4648, lower case, no padding).

use std::collections::BTreeMap;

use data_encoding::{BASE32_NOPAD, HEXLOWER};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    duration::Duration,
    sync::{
        Binding, GitSource, HealthCheck, HealthExpression, ObjectFieldRef, Package, PackagePlan, Source, Sync,
    },
};

/// Prefix of the digests in rows.
pub const DIGEST_PREFIX: &str = "sha256:";

/// The identity of a revision, under which it is targeted, evaluated and recorded: 64 hexadecimal digits.
///
/// The hash of the commit, the path, the options (everything else in source and package except the version, which the
/// commit replaces), and the definitions of bindings. Two tags of one commit are the same revision.
pub fn revision(commit: &str, sync: &Sync, control_plane_bindings: &[Binding]) -> String {
    let Sync {
        source,
        package,
        bindings,
    } = sync;
    let mut options = match source {
        Source::Git(git) => git_options(git),
        Source::Flux(flux) => json!({ "flux": flux.options() }),
    };
    options["package"] = self::options(package);
    let definitions = json!({
        "bindings": definitions(bindings),
        "controlPlaneBindings": definitions(control_plane_bindings),
    });
    sha256_hex(&[
        commit,
        &package.path,
        &canonical(&options),
        &canonical(&definitions),
    ])
}

fn git_options(git: &GitSource) -> Value {
    let mut options = json!({
        "url": git.url,
        "secretRef": git.secret_ref.as_ref().map(|reference| &reference.name),
    });
    // Unset fields are not part of the hash, so existing revisions keep their hashes.
    if git.secret_ref.as_ref().is_some_and(|secret| secret.distribute) {
        options["distribute"] = json!(true);
    }
    if let Some(reference) = &git.proxy_secret_ref {
        options["proxySecretRef"] = json!(reference.name);
    }
    options
}

/// The identity of what one cluster gets: `sha256:` and the hash of the revision and the cluster's values.
pub fn digest(revision: &str, values: &BTreeMap<String, String>) -> String {
    format!(
        "{DIGEST_PREFIX}{}",
        sha256_hex(&[revision, &canonical(&json!(values))])
    )
}

/// SHA-256 of the parts joined by NUL, in lower-case hexadecimal digits.
pub fn sha256_hex(parts: &[&str]) -> String {
    HEXLOWER.encode(&sha256(&parts.join("\0")))
}

/// The first ten characters of the base32 of SHA-256 of the parts joined by NUL: 50 bits.
pub fn short_hash(parts: &[&str]) -> String {
    let mut text = BASE32_NOPAD
        .encode(&sha256(&parts.join("\0")))
        .to_ascii_lowercase();
    text.truncate(SHORT_LENGTH);
    text
}

/// The length of the result of [`short_hash`].
pub const SHORT_LENGTH: usize = 10;

/// JSON with the keys of every object in byte order and without spaces, regardless of the order of the value's maps.
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let ordered: BTreeMap<&String, &Value> = map.iter().collect();
            write_list(out, ['{', '}'], ordered, |(key, value), out| {
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_canonical(value, out);
            });
        }
        Value::Array(items) => write_list(out, ['[', ']'], items, write_canonical),
        scalar => out.push_str(&scalar.to_string()),
    }
}

fn write_list<T>(
    out: &mut String,
    [open, close]: [char; 2],
    items: impl IntoIterator<Item = T>,
    write: impl Fn(T, &mut String),
) {
    out.push(open);
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(item, out);
    }
    out.push(close);
}

/// Every option of a package except its path; destructured by field name, so that a new field cannot be forgotten.
fn options(package: &Package) -> Value {
    let Package {
        path: _,
        substitute,
        target_namespace,
        prune,
        wait,
        timeout,
        settle,
        assume,
        interval,
        retry_interval,
        force,
        health_checks,
        health_expressions,
        health_table,
        plan,
        flux,
    } = package;
    let mut options = json!({
        "substitute": substitute,
        "targetNamespace": target_namespace,
        "prune": prune,
        "wait": wait,
        "timeout": timeout.as_millis(),
        "interval": interval.as_millis(),
        "retryInterval": retry_interval.as_millis(),
        "force": force,
        "healthChecks": health_checks.iter().map(health_check).collect::<Vec<_>>(),
    });
    // Fields that were added later contribute nothing when unset, so existing revisions keep their hashes.
    let expressions = || health_expressions.iter().map(health_expression).collect();
    let later = [
        ("settle", settle.map(|settle| Value::from(settle.as_millis()))),
        ("assume", assume.map(|assume| Value::from(assume.as_str()))),
        (
            "healthExpressions",
            (!health_expressions.is_empty()).then(expressions),
        ),
        (
            "healthTable",
            health_table.map(|table| Value::from(table.as_str())),
        ),
        ("plan", plan.as_ref().map(package_plan)),
        ("flux", flux.as_ref().map(|flux| json!(flux.fields()))),
    ];
    for (name, value) in later {
        if let Some(value) = value {
            options[name] = value;
        }
    }
    options
}

fn package_plan(plan: &PackagePlan) -> Value {
    let PackagePlan { file, keep, deadline } = plan;
    json!({ "file": file, "keep": keep.map(Duration::as_millis), "deadline": deadline.map(Duration::as_millis) })
}

fn health_expression(expression: &HealthExpression) -> Value {
    let HealthExpression {
        api_version,
        kind,
        current,
        in_progress,
        failed,
    } = expression;
    json!({ "apiVersion": api_version, "kind": kind, "current": current, "inProgress": in_progress, "failed": failed })
}

fn health_check(check: &HealthCheck) -> Value {
    let HealthCheck {
        api_version,
        kind,
        name,
        namespace,
    } = check;
    json!({ "apiVersion": api_version, "kind": kind, "name": name, "namespace": namespace })
}

/// Binding definitions by name, as their order has no meaning.
fn definitions(bindings: &[Binding]) -> BTreeMap<&str, Value> {
    bindings
        .iter()
        .map(|binding| (binding.name.as_str(), definition(binding)))
        .collect()
}

fn definition(binding: &Binding) -> Value {
    let Binding {
        name: _,
        value,
        object_field_ref,
    } = binding;
    json!({ "value": value, "objectFieldRef": object_field_ref.as_ref().map(object_field) })
}

fn object_field(reference: &ObjectFieldRef) -> Value {
    let ObjectFieldRef {
        api_version,
        kind,
        name,
        field_path,
    } = reference;
    json!({ "apiVersion": api_version, "kind": kind, "name": name, "fieldPath": field_path })
}

fn sha256(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}
