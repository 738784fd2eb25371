//! `muster rollout undo`: the way back is a change in git. No cluster is touched.

use std::path::PathBuf;

use clap::Args;
use kube::Client;
use muster_fleet::{
    history,
    name::{ModuleName, with_content},
};
use muster_operate::{
    steps::Cause,
    undo::{Options, go_back},
};

use crate::{
    exit::{DONE, FAILED, UNKNOWN},
    nodes,
    output::Terminal,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster rollout undo module/podinfo                             what to write, and where
  muster rollout undo module/podinfo | git apply                 in the work tree of the repository that has the Module
  muster rollout undo module/podinfo --commit                    as a commit in this checkout; then push it";

#[derive(Args, Debug)]
pub(crate) struct UndoFlags {
    /// module/NAME or bootstrapmodule/NAME; of nodemodule/NAME the manifest is printed with the content of that revision
    #[arg(value_parser = with_content)]
    pub module: ModuleName,
    /// The revision to go back to, by at least 8 digits of its hash; otherwise the last one that was good with another version
    #[arg(long, value_name = "REVISION")]
    pub to_revision: Option<String>,
    /// The work tree of the git repository that has the Module, or a folder of it; if none is named the current one, where it has it
    #[arg(long, value_name = "DIR")]
    pub repo: Option<PathBuf>,
    /// Commit the change to the branch that is checked out; hooks and signing of git are left out
    #[arg(long)]
    pub commit: bool,
    /// Why: it stands in the message of the commit
    #[arg(long, requires = "commit")]
    pub reason: Option<String>,
}

/// Prints the way back, or commits it.
pub(crate) async fn undo(client: &Client, namespace: &str, flags: &UndoFlags) -> anyhow::Result<u8> {
    if flags.module.is_of_nodes() {
        let into_git = flags.repo.is_some() || flags.commit;
        return nodes::undo(client, &flags.module, flags.to_revision.as_deref(), into_git).await;
    }
    let read = history::read(client, namespace, &flags.module).await?;
    let Err(refusal) = go_back(namespace, &flags.options(), &read, &Terminal) else {
        return Ok(DONE);
    };
    let (code, word) = match refusal.cause() {
        None => (DONE, ""),
        Some(Cause::Failed) => (FAILED, "error: "),
        Some(Cause::Unknown) => (UNKNOWN, "error: "),
    };
    complain!("{word}{refusal}");
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
