//! `muster diff`: what applying a directory would change in a cluster, and how the clusters of a module drifted.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use muster_fleet::{
    connect::{self, Target},
    name::{ModuleName, is_module, with_content},
};
use muster_foresee::{
    diff::{self, Compared, Differs, Options},
    plan::Clone as SourceClone,
};

use crate::{
    exit::{DONE, FAILED, UNKNOWN, code},
    flags::{ClusterName, NodeName, Variable, strings},
    output::Out,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster diff apps/podinfo                   against the cluster of the kubeconfig
  muster diff apps/podinfo --kustomization podinfo -n apps
                                             as this Kustomization applies it, with pruning
  muster diff apps/podinfo --context eu-1 -q only the exit code
  muster diff module/podinfo                 drift: how each of its clusters differs from its commit
  muster diff module/podinfo --cluster eu-1  in one of them
  muster diff nodemodule/fabric --node n1    files of a node that drifted, and pending changes";

/// Show what applying a directory would change in a cluster, or how a module's clusters drifted
///
/// Compares by server-side dry runs; nothing is written. Values of Secrets are never shown: they are printed as `***`,
/// and where one changes as `*** (before)` and `*** (after)`. For a module, each cluster is read with the kubeconfig in
/// its Secret, which you must be allowed to read, and compared with the commit that is assigned to it; a difference
/// that several clusters share is shown once.
///
/// Exit codes: 0 no differences, 1 differences, 2 the comparison failed.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct DiffFlags {
    /// A directory with manifests; or module/NAME, bootstrapmodule/NAME or nodemodule/NAME to compare its clusters or
    /// nodes with their desired state (a directory of that name: ./module/NAME)
    #[arg(value_name = "DIRECTORY|module/NAME")]
    pub what: PathBuf,
    /// A variable of the directory; may be repeated. Without any, nothing is substituted
    #[arg(long = "substitute", value_name = "NAME=VALUE")]
    pub substitute: Vec<Variable>,
    /// The Kustomization (in --namespace) that applies the directory: its labels, targetNamespace, force, variables and
    /// pruning are used
    #[arg(long, value_name = "NAME")]
    pub kustomization: Option<String>,
    /// Only this cluster of the module; may be repeated
    #[arg(short, long, value_name = "NAME", conflicts_with_all = ["kustomization", "substitute"])]
    pub cluster: Vec<ClusterName>,
    /// Only this node of the NodeModule; may be repeated
    #[arg(long, value_name = "NAME", conflicts_with_all = ["kustomization", "substitute", "cluster", "source"])]
    pub node: Vec<NodeName>,
    /// A local clone of the module's repository, read instead of the remote; may be repeated
    #[arg(long, value_name = "URL=DIR", conflicts_with_all = ["kustomization", "substitute"])]
    pub source: Vec<SourceClone>,
    /// Also fetch from repositories over http and file
    #[arg(long, env = "MUSTER_ALLOW_INSECURE_SOURCES")]
    pub allow_insecure_sources: bool,
}

impl DiffFlags {
    /// Checks the flags: some apply to a module only, and some to a directory only.
    pub(crate) fn misplaced(&self) -> Option<String> {
        let what = self.what.display();
        let is_of_nodes = matches!(self.module(), Some(Ok(module)) if module.is_of_nodes());
        if is_of_nodes && !(self.cluster.is_empty() && self.source.is_empty()) {
            return Some(format!(
                "--cluster and --source are for modules, and {what} rolls over nodes: name nodes with --node"
            ));
        }
        if !is_of_nodes && !self.node.is_empty() {
            return Some(format!(
                "--node is for a NodeModule, and {what} is not one: write nodemodule/NAME"
            ));
        }
        let first = |flags: [(bool, &'static str); 2]| {
            let mut given = flags.into_iter().filter(|(is_given, _)| *is_given);
            given.next().map(|(_, flag)| flag)
        };
        if self.module().is_some() {
            let flag = first([
                (self.kustomization.is_some(), "--kustomization"),
                (!self.substitute.is_empty(), "--substitute"),
            ])?;
            return Some(format!(
                "{flag} is for a directory, and {what} is a module: leave it out (a directory of that name: ./{what})"
            ));
        }
        let flag = first([
            (!self.cluster.is_empty(), "--cluster"),
            (!self.source.is_empty(), "--source"),
        ])?;
        Some(format!(
            "{flag} is for a module, and {what} is a directory: name a module (muster diff module/NAME), or choose the cluster that the directory is for with --context"
        ))
    }

    /// The module that the argument names; `None` if it is a directory.
    pub(crate) fn module(&self) -> Option<anyhow::Result<ModuleName>> {
        let text = self.what.to_str()?;
        is_module(text).then(|| with_content(text).map_err(anyhow::Error::msg))
    }
}

/// Prints what would be created, changed and deleted. Writes nothing.
pub(crate) async fn run(target: &Target, flags: DiffFlags, out: &Out) -> anyhow::Result<u8> {
    if let Some(wrong) = flags.misplaced() {
        bail!(wrong);
    }
    let module = flags.module().transpose()?;
    let (client, namespace) = connect::client(target).await?;
    let compared = match module {
        Some(module) if module.is_of_nodes() => {
            let compared = diff::nodes(&client, &module, &strings(&flags.node)).await?;
            for text in &compared.texts {
                out.text(text)?;
            }
            if compared.texts.is_empty() {
                say!(out, "{} of {module}: no difference", compared.nodes)?;
            }
            return Ok(code(compared.texts.is_empty()));
        }
        Some(module) => {
            let options = Options {
                clusters: strings(&flags.cluster),
                clones: flags.source,
                allow_insecure_sources: flags.allow_insecure_sources,
            };
            diff::module((&client, &namespace), &module, &options).await?
        }
        None => {
            let given = Variable::map(flags.substitute);
            let kustomization = flags.kustomization.as_deref();
            diff::diff_directory((client, &namespace), &flags.what, given, kustomization).await?
        }
    };
    show(&compared, out)
}

fn show(compared: &Compared, out: &Out) -> anyhow::Result<u8> {
    for message in &compared.errors {
        complain!(out, "error: {message}");
    }
    for text in &compared.texts {
        out.text(text)?;
    }
    if let Some(note) = &compared.note {
        complain!(out, "{note}");
    }
    Ok(match compared.differs {
        Differs::No => DONE,
        Differs::Yes => FAILED,
        Differs::Unknown => UNKNOWN,
    })
}
