//! `muster build`: renders the objects of a directory, and evaluates health expressions over objects.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use muster_foresee::{directory, verdicts};
use muster_sync::build::{Manifest, print};

use crate::{
    exit::{DONE, FAILED, UNKNOWN},
    flags::Variable,
    output::Out,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster build apps/podinfo                     the objects, as one List in YAML
  muster build apps/podinfo --substitute REPLICAS=3
                                                with a variable, as in postBuild.substitute
  muster build apps/podinfo -q --all-errors     only validate: every error with its position
  muster build apps/db --plan update            the steps of an update to a later version
  kubectl get widgets -A -o yaml | muster build fleet/modules --health -
                                                evaluate health expressions over live objects
  muster build apps/podinfo | kubectl apply --server-side --dry-run=server -f -";

/// Render a directory: print the objects that would be applied, without a cluster
///
/// Reads the files on disk as the built-in sync would read them from a commit, and refuses the same input; files that
/// git ignores are skipped. Secrets are printed unredacted.
///
/// Exit codes: 0 printed, 1 something is wrong with the files, 2 usage error.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct BuildFlags {
    #[command(flatten)]
    pub directory: DirectoryFlags,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    pub output: Format,
    /// Print every error, not only the first
    #[arg(long)]
    pub all_errors: bool,
    /// Check the plans of the directory (kind: Plan), and print this one instead of the objects: its phases and steps,
    /// and what each step applies
    #[arg(long, value_name = "NAME", conflicts_with = "health")]
    pub plan: Option<String>,
    /// Evaluate the health expressions of the directory's modules and Kustomizations over the objects in this file, and
    /// print the status of each object instead; takes the output of kubectl get -o yaml; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub health: Option<PathBuf>,
}

/// A directory with manifests, and their variables.
#[derive(Args, Debug)]
pub(crate) struct DirectoryFlags {
    /// The directory with the manifests
    #[arg(value_name = "DIRECTORY")]
    pub path: PathBuf,
    /// A variable; may be repeated. Without any, nothing is substituted
    #[arg(long = "substitute", value_name = "NAME=VALUE")]
    pub substitute: Vec<Variable>,
}

/// Output format of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// As YAML
    Yaml,
    /// As JSON
    Json,
}

/// Reports the errors of a directory.
fn report_errors(wrong: &directory::Wrong, all_errors: bool, out: &Out) -> u8 {
    let shown = if all_errors { wrong.messages.len() } else { 1 };
    for message in wrong.messages.iter().take(shown) {
        complain!(out, "error: {message}");
    }
    match wrong.messages.len() - shown {
        0 => {}
        more => complain!(out, "and {more} more: --all-errors shows them"),
    }
    if wrong.is_usage { UNKNOWN } else { FAILED }
}

/// Prints the objects as one List, or the errors of the files.
pub(crate) async fn run(flags: BuildFlags, out: &Out) -> anyhow::Result<u8> {
    let BuildFlags {
        directory,
        output: format,
        all_errors,
        plan,
        health,
    } = flags;
    let DirectoryFlags { path, substitute } = directory;
    let substitute = Variable::map(substitute);
    if let Some(name) = plan {
        return match directory::read_plan(&path, substitute, &name) {
            Ok(plan) => {
                out.text(&plan.to_string())?;
                Ok(DONE)
            }
            Err(wrong) => Ok(report_errors(&wrong, all_errors, out)),
        };
    }
    let manifests = match directory::manifests(&path, substitute) {
        Ok(manifests) => manifests,
        Err(wrong) => return Ok(report_errors(&wrong, all_errors, out)),
    };
    if manifests.is_empty() {
        complain!(out, "{} contains no objects", path.display());
    }
    if let Some(recorded) = health {
        return health_of(&manifests, &recorded, out).await;
    }
    let list = print::as_list(&manifests);
    let text = match format {
        Format::Yaml => print::yaml(&list),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(&list)?),
    };
    out.text(&text)?;
    Ok(DONE)
}

/// Prints the status of each object of a file; fails if an expression can never match an object.
async fn health_of(manifests: &[Manifest], recorded: &Path, out: &Out) -> anyhow::Result<u8> {
    let judged = verdicts::judge(manifests, recorded).await;
    for message in &judged.wrong {
        complain!(out, "error: {message}");
    }
    match judged.lines {
        Some(lines) => out.text(&lines)?,
        None => return Ok(FAILED),
    }
    Ok(if judged.wrong.is_empty() { DONE } else { FAILED })
}
