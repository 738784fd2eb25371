//! `muster rollout undo`: rolls back by a change in git. No cluster is touched.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use kube::Client;
use muster_fleet::{
    history,
    name::{ModuleName, with_content},
};
use muster_operate::{
    steps::Cause,
    undo::{self, Options, UndoRefusal, go_back},
};

use crate::{
    exit::{DONE, FAILED, UNKNOWN, code},
    output::Out,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster rollout undo module/podinfo                             what to change, and where
  muster rollout undo module/podinfo | git apply                 in the work tree of the repository that has the Module
  muster rollout undo module/podinfo --commit                    as a commit in this checkout; then push it";

/// Go back to the last good version, in git
///
/// Never touches a cluster: prints the patch for the file that has the module, or commits it.
///
/// Exit codes: 0 printed, committed, or nothing to do; 1 refused: there is no good revision to go back to, the revision
/// is known to be bad, or the file has uncommitted changes; 2 could not find out.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct UndoFlags {
    /// module/NAME or bootstrapmodule/NAME; for nodemodule/NAME the manifest is printed with the content of that
    /// revision
    #[arg(value_parser = with_content)]
    pub module: ModuleName,
    /// The revision to go back to, by at least 8 digits of its hash [default: the last good one with another version]
    #[arg(long, value_name = "REVISION")]
    pub to_revision: Option<String>,
    /// The work tree of the git repository that has the Module, or a directory in it [default: the current one, if it
    /// has the Module]
    #[arg(long, value_name = "DIR")]
    pub repo: Option<PathBuf>,
    /// Commit the change to the branch that is checked out; git hooks and signing are skipped
    #[arg(long)]
    pub commit: bool,
    /// The reason; added to the commit message
    #[arg(long, requires = "commit")]
    pub reason: Option<String>,
}

/// Prints the patch, or commits it.
pub(crate) async fn run(
    client: &Client,
    namespace: &str,
    flags: &UndoFlags,
    out: &Out,
) -> anyhow::Result<u8> {
    let module = &flags.module;
    if module.is_of_nodes() {
        if flags.repo.is_some() || flags.commit {
            bail!(
                "--repo and --commit are for modules: for {module} the manifest is printed instead; next: muster rollout undo {module}, and commit the output where the manifest is maintained"
            );
        }
        let to_revision = flags.to_revision.as_deref();
        return undo::nodes(client, module, to_revision, out).await.map(code);
    }
    let read = history::read(client, namespace, module).await?;
    let Err(refusal) = go_back(namespace, &flags.options(), &read, out) else {
        return Ok(DONE);
    };
    if let UndoRefusal::Output(error) = refusal {
        return Err(error);
    }
    let (code, word) = match refusal.cause() {
        None => (DONE, ""),
        Some(Cause::Failed) => (FAILED, "error: "),
        Some(Cause::Unknown) => (UNKNOWN, "error: "),
    };
    complain!(out, "{word}{refusal}");
    Ok(code)
}

impl UndoFlags {
    fn options(&self) -> Options {
        Options {
            module: self.module.clone(),
            to_revision: self.to_revision.clone(),
            repo: self.repo.clone(),
            commit: self.commit,
            reason: self.reason.clone(),
        }
    }
}
