//! Evaluates the health expressions of a directory over recorded objects.

use std::{
    fmt,
    io::{self, Read as _},
    path::Path,
    sync::Arc,
};

use anyhow::Context as _;
use jiff::Timestamp;
use muster_api::{
    kind::GROUP,
    sync::{HealthExpression, HealthTable},
};
use muster_controllers::{expand::derive::table_entries, runtime::Clock};
use muster_health::{Expressions, table::Entry};
use muster_sync::{
    build::Manifest,
    health::{self, Health, NOT_BOOLEAN},
    yaml,
};
use serde::Deserialize as _;
use serde_json::Value;

/// The expressions of a kind, and their source.
struct KindExpressions {
    /// Name of the object that has them, and its position.
    of: String,
    group: String,
    kind: String,
    expressions: Arc<Expressions>,
}

/// The name of an object of the file, for the output.
struct Named<'a>(&'a Value);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |pointer| {
            self.0
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let namespace = text("/metadata/namespace");
        let between = if namespace.is_empty() { "" } else { "/" };
        write!(
            f,
            "{}/{namespace}{between}{}",
            text("/kind"),
            text("/metadata/name")
        )
    }
}

/// The results of health expressions for recorded objects.
#[derive(Debug)]
pub struct Judged {
    /// A line per object and expression; `None` if the objects cannot be read.
    pub lines: Option<String>,
    /// Errors of expressions or of the file, one message each.
    pub wrong: Vec<String>,
}

/// The status of each object of the file `recorded` (`-` is standard input), by the expressions in these manifests.
pub async fn judge(manifests: &[Manifest], recorded: &Path) -> Judged {
    let (written, mut wrong) = expressions(manifests);
    let objects = match objects(recorded) {
        Ok(objects) => objects,
        Err(error) => {
            wrong.push(format!("{error:#}"));
            return Judged { lines: None, wrong };
        }
    };
    let now = Clock::system().now();
    let mut lines = String::new();
    for object in &objects {
        for (verdict, of) in verdicts(object, &written, now).await {
            let line = format!(
                "{}: {}: {}{of}",
                Named(object),
                verdict.state.as_str(),
                verdict.message
            );
            if verdict.reason == NOT_BOOLEAN {
                wrong.push(line);
            } else {
                lines.push_str(&line);
                lines.push('\n');
            }
        }
    }
    Judged {
        lines: Some(lines),
        wrong,
    }
}

/// The result of each expression for an object, or of the built-in rules of its kind if there is none.
async fn verdicts(object: &Value, written: &[KindExpressions], now: Timestamp) -> Vec<(Health, String)> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    let mut verdicts = Vec::new();
    for of in written
        .iter()
        .filter(|of| of.group == group && of.kind == text("kind"))
    {
        let health = health::judge_health(object, now, Some(&of.expressions)).await;
        verdicts.push((health, format!(" ({})", of.of)));
    }
    if verdicts.is_empty() {
        let health = health::judge_health(object, now, None).await;
        verdicts.push((health, " (the rules of its kind)".to_owned()));
    }
    verdicts
}

/// The expressions of modules and Kustomizations, and the errors of invalid ones.
fn expressions(manifests: &[Manifest]) -> (Vec<KindExpressions>, Vec<String>) {
    let (mut written, mut wrong) = (Vec::new(), Vec::new());
    for manifest in manifests {
        let identity = manifest.identity();
        let field = match (identity.group.as_str(), identity.kind.as_str()) {
            (GROUP, "Module" | "BootstrapModule") => "/spec/sync/package/healthExpressions",
            ("kustomize.toolkit.fluxcd.io", "Kustomization") => "/spec/healthCheckExprs",
            _ => continue,
        };
        let owner = format!("{}/{}", identity.kind, identity.name);
        let own = written.len();
        let each = manifest.object.pointer(field).and_then(Value::as_array);
        for (index, entry) in each.into_iter().flatten().enumerate() {
            match parse(entry) {
                Ok((of, expressions)) => {
                    let (group, kind) = of.group_kind();
                    written.push(KindExpressions {
                        of: owner.clone(),
                        group: group.to_owned(),
                        kind: kind.to_owned(),
                        expressions: Arc::new(expressions),
                    });
                }
                Err(message) => {
                    let (kind, name, path) = (&identity.kind, &identity.name, field.replace('/', "."));
                    let path = path.trim_start_matches('.');
                    wrong.push(format!(
                        "{}: {kind}/{name}: {path}[{index}]: {message}",
                        manifest.origin
                    ));
                }
            }
        }
        if identity.group == GROUP {
            let of_table = of_table(manifest, &owner, &written[own..]);
            written.extend(of_table);
        }
    }
    (written, wrong)
}

/// The expressions of the health table that a module enables, except for kinds with expressions of its own.
fn of_table(manifest: &Manifest, owner: &str, own: &[KindExpressions]) -> Vec<KindExpressions> {
    let version = manifest.object.pointer("/spec/sync/package/healthTable");
    // Another version is refused by the definition, not by this command.
    let table = version.and_then(|version| HealthTable::deserialize(version).ok());
    let is_own = |entry: &Entry| {
        own.iter()
            .any(|own| own.group == entry.group() && own.kind == entry.kind)
    };
    let entries = table.map_or(&[][..], table_entries).iter();
    let entries = entries.filter(|entry| !is_own(entry)).filter_map(|entry| {
        // A test checks that the table's expressions parse.
        let parsed = Expressions::parse(entry.current, entry.in_progress, entry.failed).ok()?;
        Some(KindExpressions {
            of: format!("{owner}, healthTable"),
            group: entry.group().to_owned(),
            kind: entry.kind.to_owned(),
            expressions: Arc::new(parsed),
        })
    });
    entries.collect()
}

fn parse(entry: &Value) -> Result<(HealthExpression, Expressions), String> {
    let of = HealthExpression::deserialize(entry).map_err(|error| error.to_string())?;
    let expressions = Expressions::parse(&of.current, of.in_progress.as_deref(), of.failed.as_deref())
        .map_err(|error| format!("{} {}: {error}", of.api_version, of.kind))?;
    Ok((of, expressions))
}

/// The objects of a file; those of a List one by one.
fn objects(recorded: &Path) -> anyhow::Result<Vec<Value>> {
    let file = recorded.display().to_string();
    let mut bytes = Vec::new();
    if file == "-" {
        io::stdin().read_to_end(&mut bytes).context("stdin")?;
    } else {
        bytes = std::fs::read(recorded).with_context(|| file.clone())?;
    }
    let mut objects = Vec::new();
    for document in yaml::documents(&file, &bytes)? {
        let object = document.value()?;
        match object.get("items").and_then(Value::as_array) {
            Some(items) => objects.extend(items.iter().cloned()),
            None => objects.push(object),
        }
    }
    Ok(objects)
}
