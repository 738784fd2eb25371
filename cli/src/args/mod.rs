//! What can be said on the command line. The flags of a verb stand beside the verb, or here where several share them.

mod folder;
mod manner;
mod process;

use std::{ffi::OsStr, fmt, net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use clap::{
    Args, Parser, Subcommand, ValueEnum,
    builder::{EnumValueParser, PossibleValue, TypedValueParser},
};
use muster_api::{module::ModuleKind, path};
use muster_dashboard::{Kind, ModuleRef};
use muster_node_agent::command::{self as node_agent, NodeAgentFlags};

use crate::{
    bundle::{self, BundleFlags},
    check::{self, CheckFlags},
    completion::{self, CompletionFlags},
    crds,
    dashboard::{self, DashboardFlags},
    demo,
    enroll::{self, EnrollFlags},
    events::{self, EventsFlags},
    get,
    history::{self, HistoryFlags},
    install::{self, InstallFlags},
    level::{self, HoldFlags, PinFlags, ReleaseFlags, UnpinFlags},
    lint::{self, LintFlags},
    machines::{self, MachinesFlags},
    man::{self, ManFlags},
    matrix,
    nodes::{self, NodesFlags},
    once::{self, RetryFlags, RevisionFlags, StageFlags, WithdrawFlags},
    pause::{self, PauseFlags, ResumeFlags},
    plan::{self, PlanFlags},
    plan_run::{self, PlanRunFlags},
    process::{AGENT_EXAMPLES, CONTROLLER_EXAMPLES},
    reconcile,
    replay::{self, ReplayFlags},
    rollout,
    simulate::{self, SimulateFlags},
    tree::{self, TreeFlags},
    undo::{self, UndoFlags},
    unenroll::{self, UnenrollFlags},
    uninstall::{self, UninstallFlags},
    version, why,
    window::{self, WindowFlags},
    zones::{self, ZonesFlags},
};

use self::folder::{BUILD_EXAMPLES, DIFF_EXAMPLES};
pub use self::{
    folder::{BuildFlags, DiffFlags, FolderFlags, Format, Variable},
    manner::Manner,
    process::{AgentFlags, ControllerFlags, LogFormat, ProcessFlags, Sync},
};

/// Rolls git-pinned configuration over a fleet of Kubernetes clusters, cluster by cluster.
#[derive(Debug, Parser)]
#[command(name = "muster", version, propagate_version = true, before_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    pub cluster: ClusterFlags,
    #[command(flatten)]
    pub manner: Manner,
    #[command(subcommand)]
    pub verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  muster demo                         a management plane and five simulated clusters, here
  muster matrix -w                    who is at what, at a glance, as it changes
  muster dashboard                    the same in a browser, live
  muster tree                         what needs attention, in full; all else on one line
  muster why module/podinfo           why a module is where it is
  muster rollout status module/podinfo
  muster get modules -o wide
  muster build apps/podinfo           what would be applied of a folder
  muster diff apps/podinfo            what that would change in a cluster
  muster plan -f fleet/modules        what a commit would do to the fleet, in which order
  muster simulate fleet.yaml          how a version would roll over a fleet, drawn
  muster replay LOG                   what a controller decided when, and whether it comes out the same here";

/// Which management cluster, and which namespace of it: kubectl's own flags.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Management cluster")]
pub struct ClusterFlags {
    /// Path of the kubeconfig [default: $KUBECONFIG, else ~/.kube/config, else in-cluster]
    #[arg(long, global = true, value_name = "FILE", env = "MUSTER_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, global = true)]
    pub context: Option<String>,
    /// Namespace of modules and clusters [default: the context's]
    #[arg(short, long, global = true, env = "MUSTER_NAMESPACE")]
    pub namespace: Option<String>,
    /// User to impersonate
    #[arg(long = "as", global = true, value_name = "USER")]
    pub impersonate: Option<String>,
    /// Group to impersonate; can be repeated
    #[arg(
        long = "as-group",
        global = true,
        value_name = "GROUP",
        requires = "impersonate"
    )]
    pub impersonate_groups: Vec<String>,
    /// Time limit of a single request to the API server, such as 10s [default: 30s]
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration)]
    pub request_timeout: Option<Duration>,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a management plane and a fleet of simulated clusters in one process, with a real git repository
    #[command(before_help = demo::EXAMPLES)]
    Demo(DemoFlags),
    /// Run the controller of the management cluster
    #[command(before_help = CONTROLLER_EXAMPLES)]
    Controller(ControllerFlags),
    /// Run the agent of a downstream cluster, or of a single one
    #[command(before_help = AGENT_EXAMPLES)]
    Agent(AgentFlags),
    /// The agent of a node: a service of the host that carries rows of NodeModules out, and takes back what is not confirmed
    #[command(before_help = node_agent::EXAMPLES)]
    NodeAgent(NodeAgentFlags),
    /// Roll and scale StatefulSets of several zones one zone at a time, in place of rollout-operator
    #[command(before_help = zones::EXAMPLES, disable_help_flag = true)]
    Zones(ZonesFlags),
    /// Update machines in place for Cluster API, and retry or abort the update of a Machine
    #[command(before_help = machines::EXAMPLES)]
    Machines(MachinesFlags),
    /// Print the manifests of an installation: namespace, RBAC, Deployment, CRDs
    ///
    /// Exit codes: 0 printed, 2 usage.
    #[command(before_help = install::EXAMPLES)]
    Install(InstallFlags),
    /// Remove an installation; nothing in the downstream clusters is touched
    ///
    /// Says first what would be removed, in which order; refuses while modules or enrolled clusters need it.
    ///
    /// Exit codes: 0 removed, or nothing is there, 1 refused, or a step failed, 2 usage, or the cluster does not answer, 130 interrupted.
    #[command(before_help = uninstall::EXAMPLES)]
    Uninstall(UninstallFlags),
    /// Collect diagnostics into one archive, secrets redacted
    ///
    /// Objects of muster's kinds, events, logs of muster's pods, muster check -o json; Secrets by name and keys only. Values of Secrets and
    /// what looks like a credential are masked wherever they appear.
    ///
    /// Exit codes: 0 written, 2 could not be written, or the management cluster does not answer.
    #[command(before_help = bundle::EXAMPLES)]
    SupportBundle(BundleFlags),
    /// Print the CustomResourceDefinitions
    ///
    /// Exit codes: 0 printed, 2 usage.
    #[command(before_help = crds::EXAMPLES)]
    Crds(CrdsFlags),
    /// Check the health of the installation, its clusters and modules; each finding has a code, a reason and a remedy
    ///
    /// With -o json: `schema` (`check/v1`), namespace, result and findings; each has code, level (Ok, Warning, Unknown, Problem), group,
    /// about, text, reason, remedy and docs. docs/checks.md explains each code.
    ///
    /// Exit codes: 0 nothing is broken, 1 something is, 2 usage, or something could not be checked.
    #[command(before_help = check::EXAMPLES)]
    Check(CheckFlags),
    /// Enroll a cluster that Cluster API does not manage
    ///
    /// Looks first: both clusters answer, everything would be taken, the address can be one for the management cluster. Then writes an
    /// account with few rights and muster agent into the cluster, and a Secret and a Cluster into the management cluster; and waits until
    /// the controller has reached it from where it runs. Doing it twice changes nothing.
    ///
    /// Exit codes: 0 enrolled, 1 a step failed, or it was not reached in time, 2 usage, or a cluster does not answer, 130 interrupted.
    #[command(before_help = enroll::EXAMPLES)]
    Enroll(EnrollFlags),
    /// Remove an enrolled cluster from the fleet
    ///
    /// Says first what will happen. What modules brought stays, unless --prune; Cluster and Secret are deleted, and where your way into the
    /// cluster is named, the account of the management cluster there. What is left is named, with the command that removes it.
    ///
    /// Exit codes: 0 not in the fleet, 1 a step failed or something is left, 2 usage, or a cluster does not answer, 130 interrupted.
    #[command(before_help = unenroll::EXAMPLES)]
    Unenroll(UnenrollFlags),
    /// Render a folder: print the objects that would be applied, without a cluster
    ///
    /// Reads the files on disk as the built-in sync reads a commit of them, with the same refusals; what git ignores does not
    /// count. Secrets are printed as they are written: what would be applied is what this is for.
    ///
    /// Exit codes: 0 printed, 1 something is wrong with the files, 2 usage.
    #[command(before_help = BUILD_EXAMPLES)]
    Build(BuildFlags),
    /// Show what applying a folder would change in a cluster, or how a module's clusters drifted
    ///
    /// Asks API servers by dry runs; nothing is written. Values of Secrets are never shown: `***`, and where one changes
    /// `*** (before)` and `*** (after)`. Of a module, each cluster is asked with the kubeconfig in its Secret, which you must be allowed to
    /// read, and compared with the commit that it is assigned; what is alike in several clusters is shown once.
    ///
    /// Exit codes: 0 no difference, 1 differences, 2 could not find out.
    #[command(before_help = DIFF_EXAMPLES)]
    Diff(DiffFlags),
    /// Validate fleet manifests offline; findings have stable codes, a source position and a remedy
    ///
    /// With -o json: `schema` (`lint/v1`), files, objects, errors, warnings and findings.
    ///
    /// Exit codes: 0 nothing is wrong, 1 something is (with --strict also a warning), 2 usage, or there is nothing of a fleet.
    #[command(before_help = lint::EXAMPLES)]
    Lint(LintFlags),
    /// Preview what a commit would do to the fleet: which clusters change, in which order, which are skipped and why
    ///
    /// Reads modules of a folder, or of both sides of a git range, and what stands in the management cluster; writes nothing, and reads no
    /// Secret but its name. The order is what the shipped decisions make of what is seen now, where everything that is begun succeeds.
    /// What changes in objects is shown where a clone of their repository is at hand (--source), alike clusters together, and of Secrets
    /// never more than that they change.
    ///
    /// With -o json: `schema` (`plan/v1`), modules (each with module, namespace, place, change, from, to, fields, selected, joins, leaves,
    /// loses, moves, order, objects, skipped, warnings, digests, took), unchanged, unmentioned and notes.
    ///
    /// Exit codes: 0 no changes, 1 changes, 2 usage, something is wrong with the files, or could not find out.
    #[command(before_help = plan::EXAMPLES)]
    Plan(PlanFlags),
    /// Simulate a rollout over a fleet described in a file, with the shipped engine
    ///
    /// With -o json: `schema` (`simulate/v1`), verdict, evidence, seconds, batches, carrying, failed and clusters with their changes.
    ///
    /// Exit codes: 0 printed, whatever became of the version; 2 something is wrong with the file or the flags.
    #[command(before_help = simulate::EXAMPLES)]
    Simulate(SimulateFlags),
    /// Replay a recorded decision log, and verify that each decision is reproduced
    ///
    /// A controller records with --record-decisions. With -o json: `schema` (`replay/v1`), module, recordedBy, decisions, differing,
    /// firstDifference, tornLine and changes; each of these has at, line, what, reason, clusters and text.
    ///
    /// Exit codes: 0 every decision comes out as it was recorded, 1 some do not, 2 no record, or one that cannot be read.
    #[command(before_help = replay::EXAMPLES)]
    Replay(ReplayFlags),
    /// List modules, clusters, assemblages, revisions or ZoneRollouts, as kubectl does
    ///
    /// Exit codes: 0 printed, 2 nothing is of the name, or could not find out.
    #[command(before_help = get::EXAMPLES)]
    Get(GetFlags),
    /// Show which version of each module runs on each cluster
    ///
    /// With -o json: `schema` (`matrix/v1`), columns (each with title and clusters), rows (each with kind, module, target and cells; a cell
    /// has cluster, shape, reason, version, since and message) and total.
    ///
    /// Exit codes: 0 printed, 2 could not find out.
    #[command(before_help = matrix::EXAMPLES)]
    Matrix(MatrixFlags),
    /// Show the fleet, a module or a cluster as a tree: problems in full, equal clusters grouped
    ///
    /// With -o json: `schema` (`tree/v1`) and `root`; each branch has kind, names, shape, version, reason, since, message and branches.
    ///
    /// Exit codes: 0 printed, 2 could not find out.
    #[command(before_help = tree::EXAMPLES)]
    Tree(TreeFlags),
    /// Explain why a module, a NodeModule or a ZoneRollout is where it is, down to the failing object, node or pod, and what to do next
    ///
    /// Of a NodeModule its nodes stand where a module has clusters.
    ///
    /// With -o json: `schema` (`why/v1`), headline, checks (of one cluster or node; each with holds, shape, what and found), steps (each with
    /// shape, who, cluster, reason, message and since), plan (of a cluster where it has one: line, run and class), next and command.
    ///
    /// Exit codes: 0 printed, 2 no such module, NodeModule or ZoneRollout, or could not find out.
    #[command(before_help = why::EXAMPLES)]
    Why(WhyFlags),
    /// Serve a read-only dashboard of the fleet, live, with your own rights
    ///
    /// Answers at a loopback address to whoever is on this machine, until Ctrl-C. Nothing is written, and no page has a button that does
    /// something: commands to copy stand instead. docs/dashboard.md has more.
    ///
    /// Exit codes: 0 ended by Ctrl-C, 2 could not begin.
    #[command(before_help = dashboard::EXAMPLES)]
    Dashboard(DashboardFlags),
    /// Show events of the fleet, a module or a cluster
    ///
    /// With -o json: `schema` (`events/v1`) and events, each with namespace, at, warning, reason, note, kind, name and by.
    ///
    /// Exit codes: 0 printed, 2 no such module or cluster, or could not find out.
    #[command(before_help = events::EXAMPLES)]
    Events(EventsFlags),
    /// Follow and control the rollout of a module, of a NodeModule, or of the zones of a ZoneRollout
    #[command(before_help = rollout::EXAMPLES)]
    Rollout(RolloutFlags),
    /// Hold clusters or nodes at what they have: one for all modules, or some for one module
    ///
    /// Writes the annotation fleet.muster.dev/hold, which git does not own, with your name, reason and time. Doing it twice changes
    /// nothing.
    ///
    /// Exit codes: 0 held, 2 could not be done.
    #[command(before_help = level::HOLD_EXAMPLES)]
    Hold(HoldFlags),
    /// Release a hold
    ///
    /// Exit codes: 0 not held any more, 1 a module still holds the cluster, 2 could not be done.
    #[command(before_help = level::RELEASE_EXAMPLES)]
    Release(ReleaseFlags),
    /// Pin a cluster or a node to another revision of a module
    ///
    /// Writes the annotation fleet.muster.dev/pin.MODULE on the Cluster or Node, which git does not own, with your name, reason and time. The
    /// cluster gets the revision in its turn, like any change, and keeps it until it is unpinned.
    ///
    /// Exit codes: 0 pinned, 2 could not be done.
    #[command(before_help = level::PIN_EXAMPLES)]
    Pin(PinFlags),
    /// Remove a pin; the cluster gets the current version in its turn
    ///
    /// Exit codes: 0 not pinned any more, 1 the module itself still pins it, 2 could not be done.
    #[command(before_help = level::UNPIN_EXAMPLES)]
    Unpin(UnpinFlags),
    /// Let a module through a change window
    #[command(before_help = window::EXAMPLES)]
    Window(WindowFlags),
    /// Start, abort, retry or skip in the run of a module's plan in a cluster
    #[command(before_help = plan_run::EXAMPLES)]
    PlanRun(PlanRunFlags),
    /// Reconcile a module now instead of at its next interval
    ///
    /// Exit codes: 0 looked at, 1 not within the time, 2 no such module, or could not find out.
    #[command(before_help = reconcile::EXAMPLES)]
    Reconcile(ReconcileFlags),
    /// Print the completion script of a shell
    #[command(before_help = completion::EXAMPLES)]
    Completion(CompletionFlags),
    /// Print the manual pages
    ///
    /// Exit codes: 0 printed or written, 2 could not be written.
    #[command(before_help = man::EXAMPLES)]
    Man(ManFlags),
    /// Print the version of this command and of the management cluster's API server
    ///
    /// With -o json: `schema` (`version/v1`), muster, and server (null with --client).
    ///
    /// Exit codes: 0 printed, 2 the API server does not answer.
    #[command(before_help = version::EXAMPLES)]
    Version(VersionFlags),
}

#[derive(Args, Debug)]
pub struct DemoFlags {
    /// How many clusters, 1 to 50
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=50))]
    pub clusters: u16,
    /// Where kubeconfigs and the git work tree are put; else a fresh folder that is removed at the end
    #[arg(long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
    /// Keep the folder
    #[arg(long)]
    pub keep: bool,
    /// Play a tour that checks itself, and end: exit code 0 only if all was as it should be
    #[arg(long, conflicts_with = "clusters")]
    pub tour: bool,
    /// Instead of a fleet one cluster with StatefulSets of three zones, and muster zones
    #[arg(long, conflicts_with_all = ["clusters", "tour", "dashboard"])]
    pub zones: bool,
    /// Also three simulated nodes in each cluster, and a NodeModule that a Module brings there
    #[arg(long, conflicts_with_all = ["tour", "zones"])]
    pub nodes: bool,
    /// Also the dashboard, at this loopback address; without one at a free port
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "127.0.0.1:0"
    )]
    pub dashboard: Option<SocketAddr>,
    /// The seed of all jitter: the same seed gives the same delays
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
}

#[derive(Args, Debug)]
pub struct CrdsFlags {
    /// Those of the management cluster
    #[arg(long, required_unless_present_any = ["downstream", "nodes", "machines"], conflicts_with = "downstream")]
    pub management: bool,
    /// With --management: also those of ClusterUpgrades (docs/upgrades.md)
    #[arg(long, requires = "management")]
    pub upgrades: bool,
    /// Those of downstream clusters
    #[arg(long)]
    pub downstream: bool,
    /// Those of downstream clusters whose nodes are configured by NodeModules (docs/nodes.md)
    #[arg(long, conflicts_with = "management")]
    pub nodes: bool,
    /// Those of a management cluster whose Cluster API updates machines in place, alone (docs/machines.md)
    #[arg(long, conflicts_with_all = ["management", "downstream", "nodes"])]
    pub machines: bool,
    /// Also a minimal kind Cluster, for a management cluster without the Cluster API
    #[arg(long, requires = "management", conflicts_with = "downstream")]
    pub cluster_api: bool,
}

#[derive(Args, Debug)]
pub struct GetFlags {
    /// What to list, or TYPE/NAME; without it: the types that there are
    #[arg(value_parser = ListedParser)]
    pub what: Option<Listed>,
    /// Only this one
    pub name: Option<String>,
    /// Only those with these labels
    #[arg(short = 'l', long, conflicts_with = "name")]
    pub selector: Option<String>,
    /// Only those with a condition of this status, such as ready=false; a condition that is not there is unknown
    #[arg(long, value_name = "CONDITION=STATUS")]
    pub status_selector: Option<StatusSelector>,
    /// In all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Print a line for each change until interrupted
    #[arg(short, long)]
    pub watch: bool,
    /// How it is printed
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// Objects by one of their conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusSelector {
    /// The type of the condition, in lower case.
    pub condition: String,
    /// Its status: `True`, `False` or `Unknown`.
    pub status: &'static str,
}

impl FromStr for StatusSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (condition, status) = text
            .split_once('=')
            .filter(|(condition, _)| !condition.is_empty())
            .ok_or("write CONDITION=STATUS, such as ready=false")?;
        let known = ["True", "False", "Unknown"];
        let status = known
            .into_iter()
            .find(|known| known.eq_ignore_ascii_case(status))
            .ok_or_else(|| format!("{status:?} is no status of a condition: write true, false or unknown"))?;
        Ok(Self {
            condition: condition.to_ascii_lowercase(),
            status,
        })
    }
}

impl GetFlags {
    /// What is listed is in all namespaces, or in none.
    pub fn is_everywhere(&self) -> bool {
        let of_nodes = self.what.as_ref().is_some_and(|what| what.what.is_of_nodes());
        self.all_namespaces || of_nodes
    }

    /// The one that is meant, if it is one.
    pub fn name(&self) -> Option<&str> {
        let listed = self.what.as_ref().and_then(|what| what.name.as_deref());
        self.name.as_deref().or(listed)
    }
}

/// What `get` lists, as kubectl takes it: TYPE or TYPE/NAME.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Of which kinds.
    pub what: What,
    /// Which one.
    pub name: Option<String>,
}

/// Reads it: the type is one of the values that it may have.
#[derive(Clone)]
struct ListedParser;

impl TypedValueParser for ListedParser {
    type Value = Listed;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Listed, clap::Error> {
        let text = value.to_string_lossy();
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) if !name.is_empty() => (kind, Some(name.to_owned())),
            _ => (&*text, None),
        };
        let what = EnumValueParser::<What>::new().parse_ref(command, arg, OsStr::new(kind))?;
        Ok(Listed { what, name })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(
            What::value_variants().iter().filter_map(What::to_possible_value),
        ))
    }
}

/// What `get` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Modules and BootstrapModules
    #[value(alias = "module", alias = "mmod")]
    Modules,
    /// BootstrapModules alone
    #[value(name = "bootstrapmodules", alias = "bootstrapmodule", alias = "bmod")]
    BootstrapModules,
    /// Clusters
    #[value(alias = "cluster")]
    Clusters,
    /// ProxyAssemblages and RemoteAssemblages
    #[value(alias = "assemblage")]
    Assemblages,
    /// ModuleRevisions
    #[value(
        alias = "revision",
        alias = "modulerevision",
        alias = "modulerevisions",
        alias = "mrev"
    )]
    Revisions,
    /// ZoneRollouts
    #[value(name = "zonerollouts", alias = "zonerollout", alias = "zr")]
    ZoneRollouts,
    /// ClusterUpgrades
    #[value(name = "clusterupgrades", alias = "clusterupgrade", alias = "cup")]
    ClusterUpgrades,
    /// NodeModules of this cluster
    #[value(name = "nodemodules", alias = "nodemodule", alias = "nmod")]
    NodeModules,
    /// What each node of this cluster gets
    #[value(name = "nodeassemblages", alias = "nodeassemblage", alias = "nasm")]
    NodeAssemblages,
    /// Revisions of NodeModules
    #[value(name = "noderevisions", alias = "noderevision", alias = "nrev")]
    NodeRevisions,
    /// All but ClusterUpgrades, ZoneRollouts and what is of nodes
    All,
}

impl What {
    /// It is of the nodes of a cluster: its kinds have no namespace.
    pub const fn is_of_nodes(self) -> bool {
        matches!(
            self,
            Self::NodeModules | Self::NodeAssemblages | Self::NodeRevisions
        )
    }
}

/// How objects are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// As a table
    Table,
    /// As a table with more columns
    Wide,
    /// As JSON
    Json,
    /// As YAML
    Yaml,
    /// kind/name, one a line
    Name,
}

#[derive(Args, Debug)]
pub struct MatrixFlags {
    /// Show each change until interrupted
    #[arg(short, long, conflicts_with = "output")]
    pub watch: bool,
    /// The fleet of each namespace that has modules
    #[arg(short = 'A', long, conflicts_with_all = ["watch", "output"])]
    pub all_namespaces: bool,
    /// NodeModules and nodes of the cluster of the context, in place of modules and clusters
    #[arg(long, conflicts_with = "all_namespaces")]
    pub nodes: bool,
    /// Only clusters, or nodes, with these labels: env=prod, env!=prod, env or !env, several with commas
    #[arg(short = 'l', long, default_value = "", hide_default_value = true)]
    pub selector: String,
    /// Only modules and clusters with something that is not ready
    #[arg(long)]
    pub only_problems: bool,
    /// How it is printed: table or json
    #[arg(short, long, value_enum, default_value_t = View::Table)]
    pub output: View,
}

#[derive(Args, Debug)]
pub struct WhyFlags {
    /// module/NAME, bootstrapmodule/NAME, nodemodule/NAME, clusterupgrade/NAME, zonerollout/NAME or machine/NAME
    pub rollout: RolloutName,
    /// Only this cluster
    #[arg(short, long)]
    pub cluster: Option<String>,
    /// Only this node of the NodeModule
    #[arg(long, conflicts_with = "cluster")]
    pub node: Option<String>,
    /// Show each change until interrupted
    #[arg(short, long, conflicts_with = "output")]
    pub watch: bool,
    /// How it is printed: table or json
    #[arg(short, long, value_enum, default_value_t = View::Table)]
    pub output: View,
}

/// How a view is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum View {
    /// For people
    Table,
    /// As JSON
    Json,
}

#[derive(Args, Debug)]
pub struct RolloutFlags {
    #[command(subcommand)]
    pub verb: RolloutVerb,
}

#[derive(Debug, Subcommand)]
pub enum RolloutVerb {
    /// Follow a rollout until it is done or has failed
    ///
    /// With -o json one object at the end: `schema` (`status/v1`), module, result (Complete, Failed, Aborted, Paused, TimedOut, or
    /// Progressing with --no-watch), version, message and summary (clusters by state).
    ///
    /// Exit codes: 0 done, 1 failed or not done in time, 2 could not find out, 130 interrupted.
    #[command(before_help = rollout::STATUS_EXAMPLES)]
    Status(StatusFlags),
    /// Pause: no further cluster starts; those that are updating finish
    ///
    /// Writes the annotation fleet.muster.dev/paused, which git does not own, with your name, reason and time; of a ZoneRollout spec.paused.
    /// Doing it twice changes nothing.
    ///
    /// Exit codes: 0 paused, 2 could not be done.
    #[command(before_help = pause::PAUSE_EXAMPLES)]
    Pause(PauseFlags),
    /// Resume a paused rollout
    ///
    /// Exit codes: 0 not paused any more, 1 still paused by spec.rollout.paused, which only its owner (git, as a rule) can change,
    /// 2 could not be done.
    #[command(before_help = pause::RESUME_EXAMPLES)]
    Resume(ResumeFlags),
    /// Approve a stage: it is passed once its clusters are ready, its soak is over and its gates hold
    ///
    /// Writes the annotation fleet.muster.dev/approve for this stage of this revision, with your name, reason and time. It counts once.
    ///
    /// Exit codes: 0 written, 1 it would have no effect, 2 could not be done.
    #[command(before_help = once::APPROVE_EXAMPLES)]
    Approve(StageFlags),
    /// Promote a stage: it is passed once its clusters are ready, without its soak and gates
    ///
    /// Exit codes: 0 written, 1 it would have no effect, 2 could not be done.
    #[command(before_help = once::PROMOTE_EXAMPLES)]
    Promote(StageFlags),
    /// Abort the rollout; the revision is marked Aborted, not Bad
    ///
    /// No further cluster gets it; with onFailure.action Revert clusters go back to the last good revision.
    ///
    /// Exit codes: 0 written, 1 it would have no effect, 2 could not be done.
    #[command(before_help = once::ABORT_EXAMPLES)]
    Abort(RevisionFlags),
    /// Retry a revision that is bad or was aborted, or of a ZoneRollout one that was condemned
    ///
    /// Exit codes: 0 written, 1 it would have no effect, 2 could not be done.
    #[command(before_help = once::RETRY_EXAMPLES)]
    Retry(RetryFlags),
    /// Show the withdrawal that the brake holds, and acknowledge it
    ///
    /// A module that is deleted, or no longer selects many clusters at once, is withdrawn only after an acknowledgement. Without
    /// --acknowledge this prints which clusters would lose it, and changes nothing. With it, it writes the annotation
    /// fleet.muster.dev/acknowledge-withdrawal for exactly these clusters, with your name, reason and time.
    ///
    /// Exit codes: 0 shown or acknowledged, 1 nothing is held, so there is nothing to acknowledge, 2 could not be done.
    #[command(before_help = once::WITHDRAW_EXAMPLES)]
    Withdraw(WithdrawFlags),
    /// Release nodes that vanished in their change: the rollout of the NodeModule waits for them no more
    ///
    /// Writes the annotation fleet.muster.dev/release, which git does not own, with your name, reason and time. The slot of such a node is
    /// free after rollout.deadlines.absence. It stands until it is taken away.
    ///
    /// Exit codes: 0 released, 1 the node is not lost in its change, 2 could not be done.
    #[command(before_help = nodes::RELEASE_EXAMPLES)]
    Release(NodesFlags),
    /// Abandon nodes of a NodeModule that is being deleted, or does not select them any more: they are not waited for, and keep what they have
    ///
    /// Writes the annotation fleet.muster.dev/abandon, which git does not own, with your name, reason and time.
    ///
    /// Exit codes: 0 abandoned, 1 there is nothing to abandon, 2 could not be done.
    #[command(before_help = nodes::ABANDON_EXAMPLES)]
    Abandon(NodesFlags),
    /// List the revisions of a module: verdict, clusters, times, and what failed
    ///
    /// CLUSTERS NOW counts the clusters that have the present revision, AT END those that had a revision when its rollout ended. Of a
    /// revision that was rolled out several times the first and the last rollout are on record, a line each.
    ///
    /// With -o json: `schema` (`history/v1`), `module`, and `revisions`, newest first; each has revision, name, version, wanted, commit,
    /// verdict (Good, Bad, Aborted, Superseded, Running, Pending), isTarget, first, started, finished, counts, countsNow, evidence and
    /// differsByVersionOnly.
    ///
    /// Exit codes: 0 printed, 2 could not find out.
    #[command(before_help = history::EXAMPLES)]
    History(HistoryFlags),
    /// Go back to the last good version, in git
    ///
    /// Never touches a cluster: prints the patch to the file that has the module, or commits it.
    ///
    /// Exit codes: 0 printed, committed, or nothing to do, 1 refused: there is nothing good to go back to, it is known to be bad, or the
    /// file has changes of yours, 2 could not find out.
    #[command(before_help = undo::EXAMPLES)]
    Undo(UndoFlags),
}

#[derive(Args, Debug)]
pub struct StatusFlags {
    /// module/NAME, bootstrapmodule/NAME, nodemodule/NAME or clusterupgrade/NAME
    pub module: ModuleName,
    /// Say where it stands now, and do not follow it
    #[arg(long)]
    pub no_watch: bool,
    /// Follow only once the module asks for this tag: after a commit that is on its way, also one that adds the module
    #[arg(long)]
    pub tag: Option<String>,
    /// Give up after this time; exit code 1
    #[arg(long, value_parser = duration)]
    pub timeout: Option<Duration>,
    /// How it is printed: table as it changes, or json at the end
    #[arg(short, long, value_enum, default_value_t = View::Table)]
    pub output: View,
}

#[derive(Args, Debug)]
pub struct ReconcileFlags {
    /// module/NAME or bootstrapmodule/NAME
    #[arg(value_parser = over_clusters)]
    pub module: ModuleName,
    /// Give up after this time; exit code 1
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub timeout: Duration,
}

#[derive(Args, Debug)]
pub struct VersionFlags {
    /// Only of this command
    #[arg(long)]
    pub client: bool,
    /// How it is printed: table or json
    #[arg(short, long, value_enum, default_value_t = View::Table)]
    pub output: View,
}

/// A module by kind and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleName {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

impl ModuleName {
    /// The same, as views name it.
    pub fn reference(&self) -> ModuleRef {
        ModuleRef {
            kind: self.kind,
            name: self.name.clone(),
        }
    }

    /// The module of the other kind that has the same name; what is no module has none.
    pub fn twin(&self) -> Option<Self> {
        let kind = match self.kind {
            Kind::Module => Kind::BootstrapModule,
            Kind::BootstrapModule => Kind::Module,
            Kind::ClusterUpgrade | Kind::NodeModule => return None,
        };
        Some(Self {
            kind,
            name: self.name.clone(),
        })
    }

    /// Its kind, where the verb is about clusters alone: see [`over_clusters`].
    pub fn kind_of_modules(&self) -> ModuleKind {
        self.kind.of_modules().unwrap_or_default()
    }

    /// It rolls over the nodes of a cluster.
    pub fn is_of_nodes(&self) -> bool {
        self.kind == Kind::NodeModule
    }
}

impl FromStr for ModuleName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = text.split_once('/').unwrap_or(("module", text));
        let kind = match kind {
            "module" | "modules" | "mmod" => Kind::Module,
            "bootstrapmodule" | "bootstrapmodules" | "bmod" => Kind::BootstrapModule,
            "clusterupgrade" | "clusterupgrades" | "cup" => Kind::ClusterUpgrade,
            "nodemodule" | "nodemodules" | "nmod" => Kind::NodeModule,
            "cluster" | "clusters" => {
                return Err(format!(
                    "a module is asked for here: write module/NAME, or look at the cluster with muster tree cluster/{name}"
                ));
            }
            other => {
                return Err(format!(
                    "{other:?} is no kind of module: write module/{name}, bootstrapmodule/{name}, nodemodule/{name} or clusterupgrade/{name}"
                ));
            }
        };
        if name.is_empty() {
            return Err("the name is missing: write module/NAME".to_owned());
        }
        path::check(name).map_err(|error| format!("{name:?} cannot be the name of a module: {error}"))?;
        Ok(Self {
            kind,
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for ModuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind.address(&self.name))
    }
}

/// Something with content, which can be compared and gone back to.
pub fn with_content(text: &str) -> Result<ModuleName, String> {
    let module: ModuleName = text.parse()?;
    if module.kind == Kind::ClusterUpgrade {
        return Err(format!(
            "{module} has no content: a Kubernetes version is never taken back; to have it explained: muster why {module}"
        ));
    }
    Ok(module)
}

/// A module, for a verb that is about clusters alone.
pub fn over_clusters(text: &str) -> Result<ModuleName, String> {
    let module = with_content(text)?;
    if module.is_of_nodes() {
        return Err(format!(
            "a module is asked for here, and {module} rolls over nodes: write module/NAME; to have it explained: muster why {module}"
        ));
    }
    Ok(module)
}

/// What is rolled: a module over clusters, a NodeModule over nodes, or a group of zones in one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutName {
    /// A module.
    Module(ModuleName),
    /// A ZoneRollout, by its name or by its group.
    Zones(String),
    /// A Machine of Cluster API that is updated in place.
    Machine(String),
}

impl FromStr for RolloutName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some(("zonerollout" | "zonerollouts" | "zr", "")) => {
                Err("the name is missing: write zonerollout/NAME".to_owned())
            }
            Some(("zonerollout" | "zonerollouts" | "zr", name)) => Ok(Self::Zones(name.to_owned())),
            Some(("machine" | "machines" | "ma", "")) => {
                Err("the name is missing: write machine/NAME".to_owned())
            }
            Some(("machine" | "machines" | "ma", name)) => Ok(Self::Machine(name.to_owned())),
            _ => text.parse().map(Self::Module),
        }
    }
}

impl fmt::Display for RolloutName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Module(module) => module.fmt(f),
            Self::Zones(name) => write!(f, "zonerollout/{name}"),
            Self::Machine(name) => write!(f, "machine/{name}"),
        }
    }
}

pub fn duration(text: &str) -> Result<Duration, String> {
    let duration: muster_api::Duration = text
        .parse()
        .map_err(|error: muster_api::duration::DurationError| error.to_string())?;
    Ok(duration.to_std())
}
