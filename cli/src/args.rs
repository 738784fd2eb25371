//! What can be said on the command line: the verbs. The flags of a verb stand beside the verb, or in `flags` where several share them.

use clap::{Parser, Subcommand};
use muster_node_agent::command::{self as node_agent, NodeAgentFlags};

use crate::{
    bundle::{self, BundleFlags},
    check::{self, CheckFlags},
    crds::{self, CrdsFlags},
    dashboard::{self, DashboardFlags},
    demo::{self, DemoFlags},
    enroll::{self, EnrollFlags},
    events::{self, EventsFlags},
    flags::{
        BuildFlags, ClusterFlags, DiffFlags, GetFlags, Manner, WhyFlags,
        folder::{BUILD_EXAMPLES, DIFF_EXAMPLES},
        shell::{self, CompletionFlags, ManFlags},
    },
    get,
    install::{self, InstallFlags},
    level::{self, HoldFlags, PinFlags, ReleaseFlags, UnpinFlags},
    lint::{self, LintFlags},
    machines::{self, MachinesFlags},
    matrix::{self, MatrixFlags},
    plan::{self, PlanFlags},
    plan_run::{self, PlanRunFlags},
    process::{AGENT_EXAMPLES, AgentFlags, CONTROLLER_EXAMPLES, ControllerFlags},
    reconcile::{self, ReconcileFlags},
    replay::{self, ReplayFlags},
    rollout::{self, RolloutFlags},
    simulate::{self, SimulateFlags},
    tree::{self, TreeFlags},
    unenroll::{self, UnenrollFlags},
    uninstall::{self, UninstallFlags},
    version::{self, VersionFlags},
    why,
    window::{self, WindowFlags},
    zones::{self, ZonesFlags},
};

/// Rolls git-pinned configuration over a fleet of Kubernetes clusters, cluster by cluster.
#[derive(Debug, Parser)]
#[command(name = "muster", version, propagate_version = true, before_help = EXAMPLES)]
pub(crate) struct Arguments {
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

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
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
    #[command(before_help = shell::COMPLETION_EXAMPLES)]
    Completion(CompletionFlags),
    /// Print the manual pages
    ///
    /// Exit codes: 0 printed or written, 2 could not be written.
    #[command(before_help = shell::MAN_EXAMPLES)]
    Man(ManFlags),
    /// Print the version of this command and of the management cluster's API server
    ///
    /// With -o json: `schema` (`version/v1`), muster, and server (null with --client).
    ///
    /// Exit codes: 0 printed, 2 the API server does not answer.
    #[command(before_help = version::EXAMPLES)]
    Version(VersionFlags),
}
