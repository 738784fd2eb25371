//! `muster rollout status`: follows a rollout until it is done or has failed.

use std::{ops::ControlFlow, time::Duration};

use anyhow::bail;
use clap::Args;
use kube::Client;
use muster_controllers::runtime::Clock;
use muster_dashboard::{Fleet, Tree};
use muster_fleet as fleet;
use muster_fleet::{
    name::ModuleName,
    status::{Followed, Follower, News},
};

use crate::{
    exit::{FAILED, INTERRUPTED, code},
    flags::{View, duration},
    output::{Live, Out, Unwritten, When},
    show, tree,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  muster rollout status module/podinfo
  muster rollout status module/podinfo --tag v1.2.0 --timeout 20m     in a pipeline, after the push
  muster rollout status module/podinfo --no-watch
  muster rollout status module/podinfo -o json | jq -r .result";

/// Follow a rollout until it is done or has failed
///
/// With -o json one object at the end: `schema` (`status/v1`), module, result (Complete, Failed, Aborted, Paused,
/// TimedOut, or Progressing with --no-watch), version, message and summary (clusters by state).
///
/// Exit codes: 0 done, 1 failed or not done in time, 2 could not find out, 130 interrupted.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct StatusFlags {
    /// module/NAME, bootstrapmodule/NAME, nodemodule/NAME or clusterupgrade/NAME
    pub module: ModuleName,
    /// Print the current status only, and do not follow
    #[arg(long)]
    pub no_watch: bool,
    /// Wait until the module has this tag, then follow: for a commit that is not synced yet, even one that adds the
    /// module
    #[arg(long)]
    pub tag: Option<String>,
    /// Give up after this time; exit code 1
    #[arg(long, value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Output format: table at each change, or json at the end
    #[arg(short, long, value_enum, default_value_t = View::Table)]
    pub output: View,
}

/// Prints each change until the rollout needs no more waiting, or the current status.
pub(crate) async fn run(
    client: &Client,
    namespace: &str,
    flags: &StatusFlags,
    out: &Out,
) -> anyhow::Result<u8> {
    let mut shown = Shown {
        out,
        live: out.live(),
        follower: Follower::new(Followed {
            module: &flags.module,
            namespace,
            tag: flags.tag.as_deref(),
            is_once: flags.no_watch,
        }),
        is_silent: flags.output == View::Json,
    };
    let timeout = flags.timeout.unwrap_or(Duration::MAX);
    let ended = tokio::select! {
        ended = tokio::time::timeout(timeout, follow(client, namespace, flags, &mut shown)) => ended,
        // If the signal cannot be handled, it ends the process as usual.
        Ok(()) = tokio::signal::ctrl_c() => {
            complain!(out, "the rollout continues in the cluster");
            return Ok(INTERRUPTED);
        }
    };
    // Timed out.
    let is_done = ended.ok().transpose()?;
    match flags.output {
        View::Json => {
            out.json(&shown.follower.end(is_done))?;
        }
        View::Table if is_done.is_none() && !shown.follower.is_found() => say!(
            out,
            "{} did not appear in namespace {namespace} within {}s: is its commit pushed, and does its Kustomization apply it? See kubectl get \
             gitrepositories,kustomizations -A",
            flags.module,
            timeout.as_secs()
        )?,
        View::Table if is_done.is_none() => say!(
            out,
            "{} is not done after {}s; the rollout continues in the cluster",
            flags.module,
            timeout.as_secs()
        )?,
        View::Table => {}
    }
    Ok(is_done.map_or(FAILED, code))
}

/// Until the module is ready or stalled. On a terminal its tree is redrawn at each change; into a pipe a line is
/// printed per change.
async fn follow(
    client: &Client,
    namespace: &str,
    flags: &StatusFlags,
    shown: &mut Shown<'_>,
) -> anyhow::Result<bool> {
    let out = shown.out;
    if flags.module.is_of_nodes() && flags.tag.is_some() {
        bail!(
            "--tag is for modules: a NodeModule is rolled out as soon as it is applied; next: muster rollout status {}",
            flags.module
        );
    }
    if flags.no_watch {
        let fleet = fleet::read_fleet(client, namespace, &flags.module).await?;
        return Ok(shown.read(&fleet)?.break_value() == Some(true));
    }
    if flags.module.is_of_nodes() {
        return fleet::nodes::watch_nodes(client, out, |_, fleet| shown.read(fleet)).await;
    }
    show::watch(client, namespace, out, |snapshot| shown.read(snapshot.fleet())).await
}

/// Prints changes.
struct Shown<'a> {
    out: &'a Out,
    live: Live,
    follower: Follower<'a>,
    /// Prints nothing before the end.
    is_silent: bool,
}

impl Shown<'_> {
    /// Prints changes; ends with the result once the rollout makes no more progress on its own.
    fn read(&mut self, fleet: &Fleet) -> anyhow::Result<ControlFlow<bool>> {
        let news = self.follower.read(fleet, self.out.is_terminal())?;
        let next = news.ended.map_or(ControlFlow::Continue(()), ControlFlow::Break);
        if !self.is_silent {
            self.show(news)?;
        }
        Ok(next)
    }

    fn show(&mut self, news: News<'_>) -> Result<(), Unwritten> {
        if let Some(view) = news.drawn {
            let now = When::Ago(Clock::system().now());
            let lines = tree::tree_lines(&Tree::module(view).root, self.out.width(), now);
            self.live.show(lines)?;
        }
        self.out.lines(&news.lines)?;
        if let Some(text) = news.message {
            say!(self.out, "{text}")?;
            // Lines above stay on the terminal.
            self.live = self.out.live();
        }
        Ok(())
    }
}
