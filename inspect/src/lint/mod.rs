//! Validates manifests of a fleet before they are applied, without a cluster.
//!
//! ```text
//!   files ─► documents ─► each object alone (object)     ─┐
//!                    └──► modules and clusters together (together) ─► findings ─► text with its source, or JSON (print)
//! ```
//!
//! Objects other than muster's kinds, Clusters and Secrets are only checked for health evidence: the repository of a
//! fleet has other things, too.

mod field_position;
mod finding;
mod object;
mod plans;
mod print;
mod together;
mod words;

use std::path::PathBuf;

use anyhow::Context as _;
use muster_sync::{
    source::{self, File, Files, Limits},
    substitute::{self, Variables},
    yaml::{self, Document},
};

pub use self::{
    finding::{Code, Finding, Level},
    object::{Lens, Refused},
    print::{Report, json, text},
    words::Problem,
};

/// Reads these files, and the files of these directories.
pub fn read(paths: &[PathBuf]) -> anyhow::Result<Files> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(source::read_directory(path, &Limits::default())?.iter().cloned());
        } else {
            let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
            let path = path.display().to_string();
            files.push(File {
                path,
                bytes: bytes.into(),
            });
        }
    }
    Ok(Files::new(files))
}

/// All findings of the files, ordered by file and position.
pub fn lint_files(files: &Files, variables: &Variables) -> Report {
    let lens = Lens::new();
    let mut report = Report::default();
    let mut fleet = together::Fleet::default();
    for file in files {
        report.files += 1;
        let documents = match yaml::documents(&file.path, &file.bytes) {
            Ok(documents) => documents,
            Err(error) => {
                report.findings.push(Finding::unreadable(&error));
                continue;
            }
        };
        for document in documents.into_iter().flat_map(unrolled) {
            let document = match substitute::document(&document, variables) {
                Ok(document) => document,
                Err(error) => {
                    report.findings.push(Finding::not_substituted(&error));
                    continue;
                }
            };
            match document.value() {
                Ok(value) => {
                    let result = lens.validate(&document, value);
                    report.objects += usize::from(result.is_of_the_fleet);
                    report.findings.extend(result.findings);
                    fleet.take(document, result.object);
                }
                Err(error) => report.findings.push(Finding::unreadable(&error)),
            }
        }
    }
    report
        .findings
        .extend(plans::check(files, fleet.modules(), variables));
    report.findings.extend(fleet.check_together());
    report
        .findings
        .sort_by(|a, b| (&a.file, a.at, a.code).cmp(&(&b.file, b.at, b.code)));
    report
}

/// The items of a List, or the object itself.
fn unrolled(document: Document) -> Vec<Document> {
    let is_list = document.root.get("kind").and_then(|kind| kind.text()) == Some("List");
    let items = document.root.get("items").filter(|_| is_list);
    match items.map(|items| &items.kind) {
        Some(yaml::Kind::Sequence(items)) => items
            .iter()
            .map(|item| Document {
                file: document.file.clone(),
                root: item.clone(),
            })
            .collect(),
        _ => vec![document],
    }
}

#[cfg(test)]
mod tests;
