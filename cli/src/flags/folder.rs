//! Flags of what reads a folder of manifests: `build` and `diff`.

use std::{collections::BTreeMap, fmt, path::PathBuf, str::FromStr};

use clap::{Args, ValueEnum};
use muster_fleet::name::{ModuleName, with_content};
use muster_foresee::plan::Clone as SourceClone;
use muster_sync::substitute::Variables;

pub(crate) const BUILD_EXAMPLES: &str = "\
Examples:
  muster build apps/podinfo                     the objects, as one List in YAML
  muster build apps/podinfo --substitute REPLICAS=3
                                                with a variable, as postBuild.substitute
  muster build apps/podinfo -q --all-errors     only check: every error and its place
  muster build apps/db --plan update            the steps by which a later version is applied
  kubectl get widgets -A -o yaml | muster build fleet/modules --health -
                                                what health expressions say of live objects
  muster build apps/podinfo | kubectl apply --server-side --dry-run=server -f -";

#[derive(Args, Debug)]
pub(crate) struct BuildFlags {
    #[command(flatten)]
    pub folder: FolderFlags,
    /// How it is printed
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    pub output: Format,
    /// Print every error, not only the first
    #[arg(long)]
    pub all_errors: bool,
    /// Check the plans of the folder (kind: Plan), and print this one instead of the objects: its phases and steps, and what each applies
    #[arg(long, value_name = "NAME", conflicts_with = "health")]
    pub plan: Option<String>,
    /// Evaluate the health expressions of the folder's modules and Kustomizations over the objects of this file, and print where each
    /// object stands instead; - reads what kubectl get -o yaml prints
    #[arg(long, value_name = "FILE")]
    pub health: Option<PathBuf>,
}

pub(crate) const DIFF_EXAMPLES: &str = "\
Examples:
  muster diff apps/podinfo                   against the cluster of the kubeconfig
  muster diff apps/podinfo --kustomization podinfo -n apps
                                             as this Kustomization applies it, with pruning
  muster diff apps/podinfo --context eu-1 -q only the exit code
  muster diff module/podinfo                 drift: what in each of its clusters is not as it should be
  muster diff module/podinfo --cluster eu-1  in one of them
  muster diff nodemodule/fabric --node n1    files of a node that drifted, and what is to change there";

#[derive(Args, Debug)]
pub(crate) struct DiffFlags {
    /// A folder with manifests; or module/NAME, bootstrapmodule/NAME or nodemodule/NAME: what its clusters or nodes should have (a folder of
    /// that name: ./module/NAME)
    #[arg(value_name = "FOLDER|module/NAME")]
    pub what: PathBuf,
    /// A variable of a folder; may be repeated. Without any, nothing is substituted
    #[arg(long = "substitute", value_name = "NAME=VALUE")]
    pub substitute: Vec<Variable>,
    /// The Kustomization (in --namespace) that applies the folder: its labels, targetNamespace, force, variables, pruning
    #[arg(long, value_name = "NAME")]
    pub kustomization: Option<String>,
    /// Only this cluster of the module; may be repeated
    #[arg(short, long, value_name = "NAME", conflicts_with_all = ["kustomization", "substitute"])]
    pub cluster: Vec<String>,
    /// Only this node of the NodeModule; may be repeated
    #[arg(long, value_name = "NAME", conflicts_with_all = ["kustomization", "substitute", "cluster", "source"])]
    pub node: Vec<String>,
    /// A clone of the repository of the module, read instead of asking for it; may be repeated
    #[arg(long, value_name = "URL=DIR", conflicts_with_all = ["kustomization", "substitute"])]
    pub source: Vec<SourceClone>,
    /// Ask repositories by http and file, too
    #[arg(long, env = "MUSTER_ALLOW_INSECURE_SOURCES")]
    pub allow_insecure_sources: bool,
}

impl DiffFlags {
    /// What is wrong with the flags: some are for a module, and some for a folder.
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
                "--node is for a NodeModule, and {what} is none: write nodemodule/NAME"
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
                "{flag} is for a folder, and {what} is a module: leave it out (a folder of that name: ./{what})"
            ));
        }
        let flag = first([
            (!self.cluster.is_empty(), "--cluster"),
            (!self.source.is_empty(), "--source"),
        ])?;
        Some(format!(
            "{flag} is for a module, and {what} is a folder: name a module (muster diff module/NAME), or the cluster that the folder is for by --context"
        ))
    }

    /// The module that is named; none: it is a folder.
    pub(crate) fn module(&self) -> Option<anyhow::Result<ModuleName>> {
        let text = self.what.to_str()?;
        let (kind, _) = text.split_once('/')?;
        let is_module = matches!(
            kind,
            "module"
                | "modules"
                | "mmod"
                | "bootstrapmodule"
                | "bootstrapmodules"
                | "bmod"
                | "clusterupgrade"
                | "clusterupgrades"
                | "cup"
                | "nodemodule"
                | "nodemodules"
                | "nmod"
        );
        is_module.then(|| with_content(text).map_err(anyhow::Error::msg))
    }
}

/// A folder with manifests, and the variables in them.
#[derive(Args, Debug)]
pub(crate) struct FolderFlags {
    /// The folder with the manifests
    #[arg(value_name = "FOLDER")]
    pub path: PathBuf,
    /// A variable; may be repeated. Without any, nothing is substituted
    #[arg(long = "substitute", value_name = "NAME=VALUE")]
    pub substitute: Vec<Variable>,
}

/// How objects are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// As YAML
    Yaml,
    /// As JSON
    Json,
}

/// A variable of a substitution.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl fmt::Debug for Variable {
    /// Without the value, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Variable({})", self.name)
    }
}

impl FromStr for Variable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text
            .split_once('=')
            .ok_or("write NAME=VALUE, such as REPLICAS=3")?;
        let (name, value) = (name.to_owned(), value.to_owned());
        Variables::new(&BTreeMap::from([(name.clone(), String::new())]))
            .map_err(|error| error.to_string())?;
        Ok(Self { name, value })
    }
}

impl Variable {
    /// Variables by name; of several of one name the last.
    pub(crate) fn map(all: Vec<Self>) -> BTreeMap<String, String> {
        all.into_iter()
            .map(|variable| (variable.name, variable.value))
            .collect()
    }
}
