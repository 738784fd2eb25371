//! The command line: the verbs. Each has its own file with its definition (flags, examples, exit codes) and `run`;
//! flags that several verbs share are in `flags`.

use clap::{CommandFactory as _, Parser, Subcommand};
use muster_fleet::connect::Target;
use muster_node_agent::command::{EXAMPLES as NODE_AGENT_EXAMPLES, NodeAgentFlags};

use crate::{
    agent::{self, AgentFlags},
    build::{self, BuildFlags},
    bundle::{self, BundleFlags},
    check::{self, CheckFlags},
    completion::{self, CompletionFlags},
    controller::{self, ControllerFlags},
    crds::{self, CrdsFlags},
    dashboard::{self, DashboardFlags},
    demo::{self, DemoFlags},
    diff::{self, DiffFlags},
    enroll::{self, EnrollFlags},
    events::{self, EventsFlags},
    flags::{ClusterFlags, Manner},
    get::{self, GetFlags},
    hold::{self, HoldFlags},
    install::{self, InstallFlags},
    lint::{self, LintFlags},
    machines::{self, MachinesFlags},
    man::{self, ManFlags},
    matrix::{self, MatrixFlags},
    node_agent,
    output::Out,
    pin::{self, PinFlags},
    plan::{self, PlanFlags},
    plan_run::{self, PlanRunFlags},
    reconcile::{self, ReconcileFlags},
    release::{self, ReleaseFlags},
    replay::{self, ReplayFlags},
    rollout::{self, RolloutFlags},
    simulate::{self, SimulateFlags},
    tree::{self, TreeFlags},
    unenroll::{self, UnenrollFlags},
    uninstall::{self, UninstallFlags},
    unpin::{self, UnpinFlags},
    version::{self, VersionFlags},
    why::{self, WhyFlags},
    window::{self, WindowFlags},
    zones::{self, ZonesFlags},
};

/// Rolls out versioned configuration from git across a fleet of Kubernetes clusters, cluster by cluster.
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
  muster demo                         a management cluster and five simulated clusters, here
  muster matrix -w                    which cluster runs which version, live
  muster dashboard                    the same in a browser, live
  muster tree                         what needs attention, in full; the rest on one line
  muster why module/podinfo           why a module is in its current state
  muster rollout status module/podinfo
  muster get modules -o wide
  muster build apps/podinfo           the objects that a directory renders to
  muster diff apps/podinfo            what applying it would change in a cluster
  muster plan -f fleet/modules        what a commit would do to the fleet, in which order
  muster simulate fleet.yaml          how a version would roll out across a fleet, as a chart
  muster replay LOG                   what a controller decided when, and whether this version decides the same";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Demo(DemoFlags),
    Controller(ControllerFlags),
    Agent(AgentFlags),
    /// Run the agent of a node: a host service that applies NodeModules and rolls back changes that are not confirmed
    /// in time
    #[command(before_help = NODE_AGENT_EXAMPLES)]
    NodeAgent(NodeAgentFlags),
    Zones(ZonesFlags),
    Machines(MachinesFlags),
    Install(InstallFlags),
    Uninstall(UninstallFlags),
    SupportBundle(BundleFlags),
    Crds(CrdsFlags),
    Check(CheckFlags),
    Enroll(EnrollFlags),
    Unenroll(UnenrollFlags),
    Build(BuildFlags),
    Diff(DiffFlags),
    Lint(LintFlags),
    Plan(PlanFlags),
    Simulate(SimulateFlags),
    Replay(ReplayFlags),
    Get(GetFlags),
    Matrix(MatrixFlags),
    Tree(TreeFlags),
    Why(WhyFlags),
    Dashboard(DashboardFlags),
    Events(EventsFlags),
    Rollout(RolloutFlags),
    Hold(HoldFlags),
    Release(ReleaseFlags),
    Pin(PinFlags),
    Unpin(UnpinFlags),
    Window(WindowFlags),
    PlanRun(PlanRunFlags),
    Reconcile(ReconcileFlags),
    Completion(CompletionFlags),
    Man(ManFlags),
    Version(VersionFlags),
}

impl Verb {
    /// Runs the verb and returns the exit code.
    pub(crate) async fn run(self, target: &Target, out: &Out) -> anyhow::Result<u8> {
        match self {
            Self::Demo(flags) => demo::run(flags, out).await,
            Self::Controller(flags) => controller::run(target, flags, out).await,
            Self::Agent(flags) => agent::run(target, flags, out).await,
            Self::NodeAgent(flags) => node_agent::run(flags, out).await,
            Self::Zones(flags) => zones::run(target, &flags, out).await,
            Self::Machines(flags) => Box::pin(machines::run(target, &flags, out)).await,
            Self::Install(flags) => install::run(target, flags, out),
            Self::Uninstall(flags) => uninstall::run(target, flags, out).await,
            Self::SupportBundle(flags) => bundle::run(target, &flags, out).await,
            Self::Crds(flags) => crds::run(&flags, out),
            Self::Check(flags) => check::run(target, &flags, out).await,
            Self::Enroll(flags) => enroll::run(target, flags, out).await,
            Self::Unenroll(flags) => unenroll::run(target, flags, out).await,
            Self::Build(flags) => build::run(flags, out).await,
            Self::Diff(flags) => diff::run(target, flags, out).await,
            Self::Lint(flags) => lint::run(&flags, out),
            Self::Plan(flags) => Box::pin(plan::run(target, flags, out)).await,
            Self::Simulate(flags) => simulate::run(flags, out),
            Self::Replay(flags) => replay::run(&flags, out),
            Self::Get(flags) => get::run(target, &flags, out).await,
            Self::Matrix(flags) => matrix::run(target, &flags, out).await,
            Self::Tree(flags) => tree::run(target, &flags, out).await,
            Self::Why(flags) => why::run(target, &flags, out).await,
            Self::Dashboard(flags) => dashboard::run(target, flags, out).await,
            Self::Events(flags) => events::run(target, &flags, out).await,
            Self::Rollout(flags) => rollout::run(target, &flags, out).await,
            Self::Hold(flags) => hold::run(target, &flags, out).await,
            Self::Release(flags) => release::run(target, &flags, out).await,
            Self::Pin(flags) => pin::run(target, &flags, out).await,
            Self::Unpin(flags) => unpin::run(target, &flags, out).await,
            Self::Window(flags) => window::run(target, flags, out).await,
            Self::PlanRun(flags) => plan_run::run(target, flags, out).await,
            Self::Reconcile(flags) => reconcile::run(target, &flags, out).await,
            Self::Completion(flags) => completion::run(&flags, out),
            Self::Man(flags) => man::run(Arguments::command(), &flags, out),
            Self::Version(flags) => version::run(target, &flags, out).await,
        }
    }
}
