//! `muster lint`: what is wrong with manifests of a fleet, before anybody applies them, without a cluster.
//!
//! ```text
//!   files ─► documents ─► each object by itself (object) ─┐
//!                    └──► modules and clusters together (together) ─► findings ─► text with its source, or JSON (print)
//! ```
//!
//! Of kinds that are not muster's, Clusters or Secrets nothing is judged but whether their health can be proven: a fleet's repository
//! holds other things besides.

mod finding;
mod object;
mod place;
mod plans;
mod print;
mod together;
mod words;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use muster_sync::{
    source::{self, File, Files, Limits},
    substitute::{self, Variables},
    yaml::{self, Document},
};

use crate::{
    exit::{DONE, FAILED, UNKNOWN},
    flags::Variable,
    output,
};
pub use finding::Code;
use finding::{Finding, Level};
pub use object::{Lens, Refused};
use print::Report;
pub use words::Problem;

pub const EXAMPLES: &str = "\
Examples:
  muster lint                              all manifests below this folder
  muster lint modules/podinfo.yaml         one file
  muster lint fleet --strict               warnings fail as well
  muster lint -o json | jq '.findings[].code'";

#[derive(Args, Debug)]
pub struct LintFlags {
    /// Files, or folders with manifests
    #[arg(value_name = "FILE|FOLDER", default_value = ".")]
    pub paths: Vec<PathBuf>,
    /// A variable, as postBuild.substitute has it; may be repeated. What other variables stand for is not judged
    #[arg(long = "substitute", value_name = "NAME=VALUE")]
    pub substitute: Vec<Variable>,
    /// Exit code 1 for warnings, too
    #[arg(long)]
    pub strict: bool,
    /// How it is printed
    #[arg(short, long, value_enum, default_value_t = Shown::Text)]
    pub output: Shown,
}

/// How findings are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shown {
    /// For people, each with the line that it is about
    Text,
    /// For programs; schema lint/v1
    Json,
}

/// Looks at files.
pub fn run(flags: &LintFlags) -> anyhow::Result<u8> {
    let files = read(&flags.paths)?;
    let variables = flags.substitute.iter().cloned();
    let variables = variables
        .map(|variable| (variable.name, variable.value))
        .collect();
    let report = look(&files, &Variables::new(&variables)?);
    match flags.output {
        Shown::Text => output::text(&print::text(&report, &files))?,
        Shown::Json => output::text(&print::json(&report)?)?,
    }
    if report.objects == 0 && report.findings.is_empty() {
        complain!("nothing of muster is in these files: name the folder that has the modules");
        return Ok(UNKNOWN);
    }
    let fails = |finding: &Finding| match finding.code.level() {
        Level::Error => true,
        Level::Warning => flags.strict,
        Level::Info => false,
    };
    Ok(if report.findings.iter().any(fails) {
        FAILED
    } else {
        DONE
    })
}

fn read(paths: &[PathBuf]) -> anyhow::Result<Files> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(source::read_folder(path, &Limits::default())?.iter().cloned());
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

/// Everything that is wrong with the files, by file and place.
fn look(files: &Files, variables: &Variables) -> Report {
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
                    let seen = lens.look(&document, value);
                    report.objects += usize::from(seen.is_of_the_fleet);
                    report.findings.extend(seen.findings);
                    fleet.take(document, seen.object);
                }
                Err(error) => report.findings.push(Finding::unreadable(&error)),
            }
        }
    }
    report
        .findings
        .extend(plans::check(files, fleet.modules(), variables));
    report.findings.extend(fleet.look());
    report
        .findings
        .sort_by(|a, b| (&a.file, a.at, a.code).cmp(&(&b.file, b.at, b.code)));
    report
}

/// A List as its items, anything else as itself.
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
