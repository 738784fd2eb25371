//! Prints findings as text with their source lines, and as JSON.

use std::{collections::BTreeMap, fmt::Write as _, ops::Range};

use annotate_snippets::{AnnotationKind, Group, Level as Title, Renderer, Snippet};
use muster_fleet::text::{counted, safe};
use muster_sync::{source::Files, yaml::Position};
use serde::Serialize;

use super::{Code, Finding, Level};
use crate::bundle::redact::{MASK, without_credentials};

/// URL of the documentation of codes.
const CHAPTERS: &str = "docs/lint.md";

/// The validated files, and the findings.
#[derive(Debug, Default)]
pub struct Report {
    /// Number of files.
    pub files: usize,
    /// Number of fleet objects in the files.
    pub objects: usize,
    /// Findings by file and position.
    pub findings: Vec<Finding>,
}

impl Report {
    fn count(&self, level: Level) -> usize {
        let same = |finding: &&Finding| finding.code.level() == level;
        self.findings.iter().filter(same).count()
    }
}

/// The report as text, with lines of about `width` characters: each finding with its source line. It is colored for a
/// terminal.
pub fn text(report: &Report, files: &Files, width: usize) -> String {
    let texts: BTreeMap<&str, String> = files
        .iter()
        .map(|file| {
            (
                file.path.as_str(),
                safe(&String::from_utf8_lossy(&file.bytes)).into_owned(),
            )
        })
        .collect();
    let renderer = Renderer::styled().term_width(width.clamp(40, 160));
    let mut text = String::new();
    // The remedy is the same for all findings of a kind: it is printed after the last of them.
    let last: BTreeMap<Code, usize> = report
        .findings
        .iter()
        .enumerate()
        .map(|(number, finding)| (finding.code, number))
        .collect();
    for (number, finding) in report.findings.iter().enumerate() {
        let source = texts.get(&*finding.file).map_or("", String::as_str);
        let (source, span) = redacted_source(source, finding);
        let title = match finding.code.level() {
            Level::Error => Title::ERROR,
            Level::Warning => Title::WARNING,
            Level::Info => Title::INFO,
        };
        let message = without_credentials(safe(&finding.message).into_owned());
        let snippet = Snippet::source(&source)
            .path(&*finding.file)
            .annotation(AnnotationKind::Primary.span(span));
        let is_last = last.get(&finding.code) == Some(&number);
        let help = is_last.then(|| Group::with_title(Title::HELP.secondary_title(finding.code.remedy())));
        let finding = title.primary_title(message).id(finding.code.id());
        let report: Vec<Group<'_>> = [finding.element(snippet)].into_iter().chain(help).collect();
        text.push_str(&renderer.render(&report));
        text.push_str("\n\n");
    }
    let Report { files, objects, .. } = report;
    let (errors, warnings) = (report.count(Level::Error), report.count(Level::Warning));
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{} in {}: {}, {}",
        counted(*objects, "object", "objects"),
        counted(*files, "file", "files"),
        counted(errors, "error", "errors"),
        counted(warnings, "warning", "warnings")
    );
    text
}

/// The source with the redacted line of a finding, and the marked span: no value of a Secret, no credential.
fn redacted_source(source: &str, finding: &Finding) -> (String, Range<usize>) {
    let Range { start, end } = span(source, finding.at);
    let line = source[..start].rfind('\n').map_or(0, |before| before + 1);
    // Invalid YAML may be a Secret as well.
    let is_secret = finding.code == Code::PlainSecret
        || (finding.code == Code::Yaml && source.lines().any(|line| line.trim_end() == "kind: Secret"));
    let without_value = |text: &str| match text.split_once(':') {
        Some((key, value)) if is_secret && !value.is_empty() => format!("{key}: {MASK}"),
        _ => without_credentials(text.to_owned()),
    };
    let (before, marked) = (
        without_value(&source[line..start]),
        without_value(&source[start..end]),
    );
    let at = line + before.len();
    let shown = [&source[..line], &before, &marked, &source[end..]].concat();
    (shown, at..at + marked.len())
}

/// The bytes from a position to the end of its line.
fn span(source: &str, at: Position) -> Range<usize> {
    let before: usize = source.split_inclusive('\n').take(at.line - 1).map(str::len).sum();
    let line = source[before..].lines().next().unwrap_or_default();
    let column = line
        .char_indices()
        .nth(at.column - 1)
        .map_or(line.len(), |(byte, _)| byte);
    let end = line.trim_end().len().max(column);
    before + column..before + end
}

#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    files: usize,
    objects: usize,
    errors: usize,
    warnings: usize,
    findings: Vec<JsonFinding<'a>>,
}

#[derive(Serialize)]
struct JsonFinding<'a> {
    code: &'static str,
    level: &'static str,
    file: &'a str,
    line: usize,
    column: usize,
    object: Option<&'a str>,
    message: String,
    remedy: &'static str,
    documentation: String,
}

/// The report as JSON: `lint/v1`.
pub fn json(report: &Report) -> anyhow::Result<String> {
    let findings = report.findings.iter().map(|finding| JsonFinding {
        code: finding.code.id(),
        level: finding.code.level().word(),
        file: &finding.file,
        line: finding.at.line,
        column: finding.at.column,
        object: finding.object.as_deref(),
        message: without_credentials(finding.message.clone()),
        remedy: finding.code.remedy(),
        documentation: chapter(finding.code),
    });
    let json = Json {
        schema: "lint/v1",
        files: report.files,
        objects: report.objects,
        errors: report.count(Level::Error),
        warnings: report.count(Level::Warning),
        findings: findings.collect(),
    };
    Ok(serde_json::to_string_pretty(&json)? + "\n")
}

fn chapter(code: Code) -> String {
    format!("{CHAPTERS}#{}", code.id().to_lowercase())
}
