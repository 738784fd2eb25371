//! `muster rollout`: follow a rollout until it is done or has failed; what people say is in `pause` and `once`.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    time::Duration,
};

use anyhow::bail;
use clap::{Args, Subcommand};
use kube::Client;
use muster_api::{module::Summary, reasons::Reason};
use muster_controllers::runtime::Clock;
use muster_dashboard::{Cell, Fleet, ModuleView, Shape, Tree, listed};
use muster_fleet as fleet;
use muster_fleet::{
    connect::{self, Target},
    name::ModuleName,
    near,
};
use serde::Serialize;

use crate::{
    exit::{DONE, FAILED, INTERRUPTED},
    flags::{View, duration},
    history::{self, HistoryFlags},
    nodes::{self, NodesFlags},
    once::{self, RetryFlags, RevisionFlags, StageFlags, WithdrawFlags},
    output::{self, Live, Terminal, When},
    pause::{self, PauseFlags, ResumeFlags},
    show, tree,
    undo::{self, UndoFlags},
};

#[derive(Args, Debug)]
pub(crate) struct RolloutFlags {
    #[command(subcommand)]
    pub verb: RolloutVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RolloutVerb {
    /// Follow a rollout until it is done or has failed
    ///
    /// With -o json one object at the end: `schema` (`status/v1`), module, result (Complete, Failed, Aborted, Paused, TimedOut, or
    /// Progressing with --no-watch), version, message and summary (clusters by state).
    ///
    /// Exit codes: 0 done, 1 failed or not done in time, 2 could not find out, 130 interrupted.
    #[command(before_help = STATUS_EXAMPLES)]
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
pub(crate) struct StatusFlags {
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

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster rollout status module/podinfo
  muster rollout history module/podinfo
  muster rollout pause module/podinfo --for 2h --reason 'freeze until the release'
  muster rollout undo module/podinfo
  muster rollout status nodemodule/fabric --context eu-1      nodes of that cluster";

pub(crate) const STATUS_EXAMPLES: &str = "\
Examples:
  muster rollout status module/podinfo
  muster rollout status module/podinfo --tag v1.2.0 --timeout 20m     in a pipeline, after the push
  muster rollout status module/podinfo --no-watch
  muster rollout status module/podinfo -o json | jq -r .result";

/// Names on one line; more are counted.
const LISTED: usize = 3;

/// Runs a verb of `muster rollout`.
pub(crate) async fn run(cluster: &Target, flags: &RolloutFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    match &flags.verb {
        RolloutVerb::Status(flags) => status(&client, &namespace, flags).await,
        RolloutVerb::Pause(flags) => pause::pause(&client, &namespace, flags).await,
        RolloutVerb::Resume(flags) => pause::resume(&client, &namespace, flags).await,
        RolloutVerb::Approve(flags) => once::approve(&client, &namespace, flags, false).await,
        RolloutVerb::Promote(flags) => once::approve(&client, &namespace, flags, true).await,
        RolloutVerb::Abort(flags) => once::abort(&client, &namespace, flags).await,
        RolloutVerb::Retry(flags) => once::retry(&client, &namespace, flags).await,
        RolloutVerb::Withdraw(flags) => once::withdraw(&client, &namespace, flags).await,
        RolloutVerb::History(flags) => history::history(&client, &namespace, flags).await,
        RolloutVerb::Release(flags) => nodes::release(&client, flags).await,
        RolloutVerb::Abandon(flags) => nodes::abandon(&client, flags).await,
        RolloutVerb::Undo(flags) => undo::undo(&client, &namespace, flags).await,
    }
}

async fn status(client: &Client, namespace: &str, flags: &StatusFlags) -> anyhow::Result<u8> {
    let mut teller = Teller {
        is_silent: flags.output == View::Json,
        ..Teller::default()
    };
    let timeout = flags.timeout.unwrap_or(Duration::MAX);
    let ended = tokio::select! {
        ended = tokio::time::timeout(timeout, follow(client, namespace, flags, &mut teller)) => ended,
        // A signal that cannot be listened to ends the process by itself.
        Ok(()) = tokio::signal::ctrl_c() => {
            complain!("the rollout goes on in the cluster");
            return Ok(INTERRUPTED);
        }
    };
    // Not done in time.
    let code = ended.ok().transpose()?;
    match flags.output {
        View::Json => {
            output::text(&(serde_json::to_string_pretty(&teller.end(&flags.module, code))? + "\n"))?;
        }
        View::Table if code.is_none() && teller.seen.is_none() => say!(
            "{} did not appear in namespace {namespace} within {}s: is its commit pushed, and does its Kustomization apply it? See kubectl get \
             gitrepositories,kustomizations -A",
            flags.module,
            timeout.as_secs()
        ),
        View::Table if code.is_none() => say!(
            "{} is not done after {}s; the rollout goes on in the cluster",
            flags.module,
            timeout.as_secs()
        ),
        View::Table => {}
    }
    Ok(code.unwrap_or(FAILED))
}

/// Until the module is ready or stalled. On a terminal its tree is drawn again at each change; into a pipe goes a line for each change.
async fn follow(
    client: &Client,
    namespace: &str,
    flags: &StatusFlags,
    teller: &mut Teller,
) -> anyhow::Result<u8> {
    if flags.module.is_of_nodes() && flags.tag.is_some() {
        bail!(
            "--tag is for modules: a NodeModule is rolled out as soon as it is applied; next: muster rollout status {}",
            flags.module
        );
    }
    if flags.no_watch {
        let fleet = fleet::of(client, namespace, &flags.module).await?;
        return Ok(match teller.look(&fleet, namespace, flags)? {
            ControlFlow::Break(code) => code,
            ControlFlow::Continue(()) => FAILED,
        });
    }
    if flags.module.is_of_nodes() {
        return fleet::nodes::watch(client, &Terminal, |_, fleet| teller.look(fleet, namespace, flags)).await;
    }
    show::watch(client, namespace, |snapshot| {
        teller.look(snapshot.fleet(), namespace, flags)
    })
    .await
}

/// Where a rollout stood when it was followed no longer: `status/v1`.
#[derive(Serialize)]
struct End {
    schema: &'static str,
    module: String,
    result: Outcome,
    /// The version that the module asks for; null, as what follows, if it was never seen.
    version: Option<String>,
    message: Option<String>,
    summary: Option<Summary>,
}

/// How it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Outcome {
    Complete,
    Failed,
    Aborted,
    Paused,
    /// It goes on, and nobody waits any longer.
    TimedOut,
    /// It goes on, and nobody waits for it.
    Progressing,
}

impl Outcome {
    /// Of what was seen last; no exit code if the time was over.
    fn of(view: &ModuleView, code: Option<u8>) -> Self {
        match (code, view.stalled) {
            (Some(DONE), _) => Self::Complete,
            (Some(_), true) if view.reason == Reason::Aborted.as_str() => Self::Aborted,
            (Some(_), true) => Self::Failed,
            (Some(_), _) if view.is_all_skipped() => Self::Failed,
            (_, false) if view.reason == Reason::Paused.as_str() => Self::Paused,
            (Some(_), false) => Self::Progressing,
            (None, _) => Self::TimedOut,
        }
    }
}

/// What of a rollout was told.
#[derive(Default)]
struct Teller {
    live: Live,
    /// The word of each cluster.
    words: BTreeMap<String, String>,
    /// The messages of clusters that were told, in full.
    messages: BTreeSet<String>,
    /// What was said of the module as a whole.
    said: String,
    /// Nothing is told before the end.
    is_silent: bool,
    /// The module as it was seen last.
    seen: Option<ModuleView>,
}

impl Teller {
    /// Tells what is new; ends with the exit code once nothing moves by itself any more.
    fn look(
        &mut self,
        fleet: &Fleet,
        namespace: &str,
        flags: &StatusFlags,
    ) -> anyhow::Result<ControlFlow<u8>> {
        let StatusFlags {
            module,
            no_watch,
            tag,
            timeout: _,
            output: _,
        } = flags;
        let Some(view) = fleet.module(module.kind, &module.name) else {
            let (Some(tag), false, None) = (tag, *no_watch, &self.seen) else {
                bail!(fleet::missing(fleet, module, namespace));
            };
            self.say(awaited(fleet, module, namespace, tag));
            return Ok(ControlFlow::Continue(()));
        };
        self.seen = Some(view.clone());
        if let Some(tag) = tag.as_ref().filter(|tag| **tag != view.version) {
            if *no_watch {
                self.say(format!("{module} asks for {}, not for {tag}", view.version));
                return Ok(ControlFlow::Break(FAILED));
            }
            self.say(format!(
                "{module} asks for {}: waiting for a commit that names {tag} (is it committed, and pushed? --timeout ends the wait)",
                view.version
            ));
            return Ok(ControlFlow::Continue(()));
        }
        // Before the controller has seen the new spec, the words are about the old one.
        if !self.is_silent && (tag.is_none() || view.observed) {
            self.clusters(view);
        }
        let ended = ended(view);
        // What a gate reads changes while all clusters wait for the same.
        if ended.is_some() || *no_watch || view.reason == Reason::WaitingGate.as_str() {
            self.say(format!("{module} {}: {}", view.reason, self.rest(view)));
        }
        Ok(match ended {
            Some(code) => ControlFlow::Break(code),
            None => ControlFlow::Continue(()),
        })
    }

    /// The message of a module, without what was told of a cluster at its end: a long text stands once.
    fn rest<'a>(&self, view: &'a ModuleView) -> &'a str {
        if view.reason == Reason::WaitingGate.as_str() {
            return &view.message; // it changes again and again, and back
        }
        let told = view
            .cells
            .iter()
            .filter(|cell| self.messages.contains(&cell.message));
        let mut rests = told.filter_map(|cell| view.message.strip_suffix(&cell.message)?.strip_suffix(": "));
        rests.next().unwrap_or(&view.message)
    }

    /// Where it stands.
    fn end(&self, module: &ModuleName, code: Option<u8>) -> End {
        let view = self.seen.as_ref();
        End {
            schema: "status/v1",
            module: module.to_string(),
            result: view.map_or(Outcome::TimedOut, |view| Outcome::of(view, code)),
            version: view.map(|view| view.version.clone()),
            message: view.map(|view| view.message.clone()),
            summary: view.map(|view| view.summary.clone()),
        }
    }

    /// Once in a row.
    fn say(&mut self, text: String) {
        if self.said != text && !self.is_silent {
            say!("{text}");
            self.said = text;
            // What is above stays.
            self.live = Live::default();
        }
    }

    fn clusters(&mut self, view: &ModuleView) {
        if output::is_terminal() {
            let now = When::Ago(Clock::system().now());
            self.live
                .show(tree::lines(&Tree::module(view).root, output::width(), now));
        } else {
            self.changed(view);
        }
    }

    /// A line for each word that clusters have now and had not before; many that have the same in common share one.
    fn changed(&mut self, view: &ModuleView) {
        let mut alike: Vec<(&Cell, Vec<&str>)> = Vec::new();
        let told = |cell: &&Cell| !matches!(cell.shape, Shape::NotSelected | Shape::Unknown);
        for cell in view.cells.iter().filter(told) {
            if self.words.get(&cell.cluster) == Some(&cell.reason) {
                continue;
            }
            self.words.insert(cell.cluster.clone(), cell.reason.clone());
            let says = |cell: &Cell| {
                (
                    cell.shape,
                    cell.reason.clone(),
                    cell.version.clone(),
                    view.message_of(cell).to_owned(),
                )
            };
            match alike.iter_mut().find(|(first, _)| says(first) == says(cell)) {
                Some((_, names)) => names.push(&cell.cluster),
                None => alike.push((cell, vec![&cell.cluster])),
            }
        }
        for (cell, names) in alike {
            let version = cell.version.as_deref().unwrap_or("nothing");
            let message = view.message_of(cell);
            let colon = if message.is_empty() { "" } else { ": " };
            say!(
                "{} {} {} ({version}){colon}{message}",
                cell.shape.glyph(),
                listed(names, LISTED),
                cell.reason,
            );
            if !message.is_empty() {
                self.messages.insert(message.to_owned());
            }
        }
    }
}

/// What a module that does not exist yet is waited for with.
fn awaited(fleet: &Fleet, module: &ModuleName, namespace: &str, tag: &str) -> String {
    let twin = module
        .twin()
        .filter(|twin| fleet.module(twin.kind, &twin.name).is_some());
    let near = if let Some(twin) = twin {
        format!(" (did you mean {twin}?)")
    } else {
        let alike = fleet.modules.iter().filter(|view| view.kind == module.kind);
        near::offer(&module.name, alike.map(|view| view.name.as_str()))
    };
    format!(
        "there is no {module} in namespace {namespace} yet{near}: waiting for a commit that adds it at {tag} (is it committed, and pushed? --timeout \
         ends the wait)"
    )
}

/// The exit code, once nothing moves by itself any more.
fn ended(view: &ModuleView) -> Option<u8> {
    if !view.observed {
        return None;
    }
    match (view.ready.as_str(), view.stalled) {
        ("True", _) => Some(DONE),
        (_, true) => Some(FAILED),
        _ if view.is_all_skipped() => Some(FAILED),
        (_, false) => None,
    }
}
