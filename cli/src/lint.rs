//! `muster lint`: what is wrong with manifests of a fleet, before anybody applies them, without a cluster.

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
  muster lint                              all manifests below this folder
  muster lint modules/podinfo.yaml         one file
  muster lint fleet --strict               warnings fail as well
  muster lint -o json | jq '.findings[].code'";

/// Validate fleet manifests offline; findings have stable codes, a source position and a remedy
///
/// With -o json: `schema` (`lint/v1`), files, objects, errors, warnings and findings.
///
/// Exit codes: 0 nothing is wrong, 1 something is (with --strict also a warning), 2 usage, or there is nothing of a fleet.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct LintFlags {
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
pub(crate) enum Shown {
    /// For people, each with the line that it is about
    Text,
    /// For programs; schema lint/v1
    Json,
}

/// Looks at files.
pub(crate) fn run(flags: &LintFlags, out: &Out) -> anyhow::Result<u8> {
    let files = lint::read(&flags.paths)?;
    let variables = flags.substitute.iter().cloned();
    let variables = variables
        .map(|variable| (variable.name, variable.value))
        .collect();
    let report = lint::look(&files, &Variables::new(&variables)?);
    match flags.output {
        Shown::Text => out.text(&lint::text(&report, &files, out.width()))?,
        Shown::Json => out.text(&lint::json(&report)?)?,
    }
    if report.objects == 0 && report.findings.is_empty() {
        complain!(
            out,
            "nothing of muster is in these files: name the folder that has the modules"
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
