//! Prints changes as unified diffs with a summary.

use muster_sync::{
    apply::preview::{Change, Fate, Preview},
    build::{Manifest, print},
    inventory::ObjectId,
};
use similar::TextDiff;

/// Context lines of a diff.
const CONTEXT: usize = 3;
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// All changes as unified diffs, then a summary. `wanted` is the name of the new side.
pub(crate) fn diff_text(preview: &Preview, manifests: &[Manifest], wanted: &str) -> String {
    let mut text: String = preview
        .changes
        .iter()
        .map(|change| block(change, manifests, wanted))
        .collect();
    let count = |fate| {
        preview
            .changes
            .iter()
            .filter(|change| change.fate == fate)
            .count()
    };
    let counts = [
        (count(Fate::Create), "to create"),
        (count(Fate::Configure), "to change"),
        (count(Fate::Recreate), "to delete and create again"),
        (count(Fate::Delete), "to delete"),
        (preview.failures.len(), "unknown"),
        (
            preview.owned.len(),
            "to be owned by muster-sync, content unchanged",
        ),
        (preview.unchanged, "unchanged"),
    ];
    let counts: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    text.push_str(if counts.is_empty() { "no objects" } else { "" });
    text.push_str(&counts.join(", "));
    text.push('\n');
    text
}

fn block(change: &Change, manifests: &[Manifest], wanted: &str) -> String {
    let word = match change.fate {
        Fate::Create => "create",
        Fate::Configure => "change",
        Fate::Recreate => "delete and create again",
        Fate::Delete => "delete",
    };
    let yaml = |side: &Option<serde_json::Value>| side.as_ref().map(print::yaml).unwrap_or_default();
    let (before, after) = (yaml(&change.before), yaml(&change.after));
    let name = |side: &Option<serde_json::Value>, word: &str| match side {
        Some(_) => format!("{word}/{}", change.id),
        None => "/dev/null".to_owned(),
    };
    let diff = TextDiff::from_lines(&before, &after)
        .unified_diff()
        .context_radius(CONTEXT)
        .header(&name(&change.before, "live"), &name(&change.after, wanted))
        .to_string();
    let lines: String = diff.lines().map(coloured).collect();
    format!(
        "{BOLD}{}{word} {}{PLAIN}\n{lines}\n",
        position_prefix(manifests, &change.id),
        change.id
    )
}

fn coloured(line: &str) -> String {
    match line.chars().next() {
        Some('-') => format!("{RED}{line}{PLAIN}\n"),
        Some('+') => format!("{GREEN}{line}{PLAIN}\n"),
        _ => format!("{line}\n"),
    }
}

/// The source position of an object, followed by a colon and a space; empty for an object that is not in the directory.
pub(crate) fn position_prefix(manifests: &[Manifest], id: &ObjectId) -> String {
    let named = || {
        manifests.iter().filter(|manifest| {
            let found = manifest.identity();
            (&found.group, &found.kind, &found.name) == (&id.group, &id.kind, &id.name)
        })
    };
    // targetNamespace, or the scope of the kind, may have changed the namespace.
    named()
        .find(|manifest| manifest.namespace().unwrap_or_default() == id.namespace)
        .or_else(|| named().next())
        .map(|manifest| format!("{}: ", manifest.origin))
        .unwrap_or_default()
}
