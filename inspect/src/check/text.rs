//! The report as text: a line per check, and for problems the reason, remedy and documentation.

use std::collections::BTreeMap;

use muster_fleet::text::{counted, wrapped};

use super::finding::{Finding, Level, Report};

/// How many findings of one code are printed in full.
const SHOWN: usize = 3;

/// The lines of a report, at most `width` characters wide where possible.
pub fn lines(report: &Report, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut group = None;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let total = |code: &str| {
        report
            .findings
            .iter()
            .filter(|finding| finding.code == code)
            .count()
    };
    for finding in &report.findings {
        if group != Some(finding.group) {
            group = Some(finding.group);
            lines.extend((!lines.is_empty()).then(String::new));
            lines.push(finding.group.title().to_owned());
            lines.push("-".repeat(finding.group.title().chars().count()));
        }
        let count = counts.entry(finding.code.as_str()).or_default();
        *count += 1;
        if *count <= SHOWN {
            lines.extend(of(finding, width));
        } else if *count == total(&finding.code) {
            lines.push(format!(
                "  and {} more [{}] (-o json has all)",
                *count - SHOWN,
                finding.code
            ));
        }
    }
    lines.push(String::new());
    lines.push(result(report));
    lines
}

fn of(finding: &Finding, width: usize) -> Vec<String> {
    let about = finding
        .about
        .as_ref()
        .map_or_else(String::new, |about| format!("{about}: "));
    let line = format!("{} {about}{}", finding.level.mark(), finding.text);
    if finding.level == Level::Ok {
        return vec![line];
    }
    let mut lines = vec![format!("{line}  [{}]", finding.code)];
    let inner = width.saturating_sub(4).max(20);
    let reason = finding
        .reason
        .as_ref()
        .map(|reason| wrapped(reason, inner))
        .unwrap_or_default();
    lines.extend(reason.into_iter().map(|line| format!("    {line}")));
    // A command is copied, so it is never wrapped.
    lines.extend(finding.remedy.as_ref().map(|remedy| format!("    → {remedy}")));
    lines.push(format!("    {}", finding.docs));
    lines
}

fn result(report: &Report) -> String {
    let count = |level: Level| {
        report
            .findings
            .iter()
            .filter(|finding| finding.level == level)
            .count()
    };
    let mut parts = Vec::new();
    for (level, one, many) in [
        (Level::Problem, "problem", "problems"),
        (
            Level::Unknown,
            "check that could not be made",
            "checks that could not be made",
        ),
        (Level::Warning, "warning", "warnings"),
    ] {
        let count = count(level);
        if count > 0 {
            parts.push(counted(count, one, many));
        }
    }
    if parts.is_empty() {
        return format!("Result: √ all {} checks passed.", report.findings.len());
    }
    format!("Result: {} {}", report.result.mark(), parts.join(", "))
}
