//! `muster lint`: validates the manifests of a fleet before they are applied, without a cluster.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use muster_inspect::lint::{self, Finding, Level};
use muster_sync::substitute::Variables;

use crate::{
    exit::{DONE, FAILED, UNKNOWN},
    flags::Variable,
    output::Out,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster lint                              all manifests below this directory
  muster lint modules/podinfo.yaml         one file
  muster lint fleet --strict               warnings fail as well
  muster lint -o json | jq '.findings[].code'";

/// Validate fleet manifests offline; findings have stable codes, a source position and a remedy
///
/// With -o json: `schema` (`lint/v1`), files, objects, errors, warnings and findings.
///
/// Exit codes: 0 no errors; 1 errors (with --strict also warnings); 2 usage error, or there are no fleet manifests.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct LintFlags {
    /// Files, or directories with manifests
    #[arg(value_name = "FILE|DIRECTORY", default_value = ".")]
    pub paths: Vec<PathBuf>,
    /// A variable, as in postBuild.substitute; may be repeated. Values that contain other variables are not checked
    #[arg(long = "substitute", value_name = "NAME=VALUE")]
    pub substitute: Vec<Variable>,
    /// Exit code 1 for warnings, too
    #[arg(long)]
    pub strict: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Shown::Text)]
    pub output: Shown,
}

/// Output format of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shown {
    /// Human-readable, each finding with the line that it is about
    Text,
    /// JSON; schema lint/v1
    Json,
}

/// Validates files.
pub(crate) fn run(flags: &LintFlags, out: &Out) -> anyhow::Result<u8> {
    let files = lint::read(&flags.paths)?;
    let variables = flags.substitute.iter().cloned();
    let variables = variables
        .map(|variable| (variable.name, variable.value))
        .collect();
    let report = lint::lint_files(&files, &Variables::new(&variables)?);
    match flags.output {
        Shown::Text => out.text(&lint::text(&report, &files, out.width()))?,
        Shown::Json => out.text(&lint::json(&report)?)?,
    }
    if report.objects == 0 && report.findings.is_empty() {
        complain!(
            out,
            "there are no fleet manifests in these files: name the directory that has the modules"
        );
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
