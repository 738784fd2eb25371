//! `muster why`: the chain of reasons, down to what fails, and what to do next.

use std::ops::ControlFlow;

use anyhow::Context as _;
use muster_dashboard::{Check, Choice, Fleet, Objects, PlanView, Step, Why};
use muster_fleet as fleet;
use muster_fleet::{
    connect::{self, Target},
    missing, missing_cluster,
    name::{ModuleName, RolloutName},
};

use crate::{
    exit::DONE,
    flags::{View, WhyFlags},
    machines, nodes, output, show, zonerollout,
};

pub const EXAMPLES: &str = "\
Examples:
  muster why module/podinfo
  muster why podinfo --cluster eu-1   of one cluster
  muster why bootstrapmodule/base -w  as it changes
  muster why nodemodule/fabric --node n1 --context eu-1      of one node of that cluster
  muster why clusterupgrade/next --cluster eu-1             of one Cluster that gets a Kubernetes version
  muster why machine/web-md-0-x7k2p -n fleet                of a Machine that Cluster API updates in place
  muster why podinfo -o json | jq -r .command
  muster why zonerollout/ingester -n mimir            zones of a cluster: the one to look at is that of --context";

/// Explains a module, one cluster of it, or a ZoneRollout; once, or at each change.
pub async fn run(cluster: &Target, flags: &WhyFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    let module = match &flags.rollout {
        RolloutName::Module(module) if module.is_of_nodes() => {
            return nodes::why(&client, module, flags).await;
        }
        RolloutName::Module(module) => module,
        RolloutName::Zones(name) => return zonerollout::why(&client, &namespace, name, flags).await,
        RolloutName::Machine(name) => return machines::why(&client, &namespace, name, flags).await,
    };
    if flags.node.is_some() {
        let what = module.to_string();
        anyhow::bail!(fleet::nodes::NodeError::NotNodes { what });
    }
    let answer = |objects: &Objects, fleet: &Fleet| {
        answer(objects, fleet, module, flags.cluster.as_deref(), &namespace)
    };
    if flags.watch {
        let mut live = output::Live::default();
        return show::watch(&client, &namespace, |snapshot| {
            let why = answer(&snapshot.objects, snapshot.fleet())?;
            live.show_blocks(&blocks(&why, output::width()));
            Ok(ControlFlow::Continue(()))
        })
        .await;
    }
    let objects = fleet::objects(&client, &namespace).await?;
    let why = answer(&objects, &Fleet::of(&objects))?;
    print(&why, flags.output)
}

/// Prints an answer.
pub fn print(why: &Why, view: View) -> anyhow::Result<u8> {
    match view {
        View::Json => output::text(&(serde_json::to_string_pretty(why)? + "\n"))?,
        View::Table => output::print(&lines(why, output::width())),
    }
    Ok(DONE)
}

fn answer(
    objects: &Objects,
    fleet: &Fleet,
    module: &ModuleName,
    cluster: Option<&str>,
    namespace: &str,
) -> anyhow::Result<Why> {
    let view = fleet
        .module(module.kind, &module.name)
        .with_context(|| missing(fleet, module, namespace))?;
    let Some(name) = cluster else {
        return Ok(muster_dashboard::why(view));
    };
    muster_dashboard::why_on(objects, fleet, &module.reference(), name)
        .with_context(|| missing_cluster(fleet, name, namespace))
}

/// The answer on lines that fit; a command that is to be typed next is never broken, so that it can be copied.
pub fn lines(why: &Why, width: usize) -> Vec<String> {
    blocks(why, width).concat()
}

/// The same in blocks: what is said of somebody belongs together.
pub fn blocks(why: &Why, width: usize) -> Vec<Vec<String>> {
    let Why {
        schema: _,
        headline,
        checks,
        steps,
        plan,
        next,
        command,
        otherwise,
    } = why;
    let mut blocks = vec![output::wrapped(headline, width)];
    if let Some(PlanView { line, run, class: _ }) = plan {
        let run = run.iter().map(|run| format!(" (run {run})"));
        blocks.push(output::wrapped(
            &format!("Plan: {line}{}", run.collect::<String>()),
            width,
        ));
    }
    if checks.is_empty() {
        blocks.extend(steps.iter().map(|step| told(step, width)));
    } else {
        blocks.extend(checks.iter().map(|check| looked_at(check, width)));
    }
    if let Some(next) = next {
        blocks.push(advice(&format!("Next: {next}"), command.as_deref(), width));
    }
    if let Some(Choice { what, command }) = otherwise {
        blocks.push(advice(&format!("Or: {what}"), command.as_deref(), width));
    }
    blocks
}

/// What can be done, and below it the command on a line of its own.
pub fn advice(words: &str, command: Option<&str>, width: usize) -> Vec<String> {
    let colon = if command.is_some() { ":" } else { "" };
    let mut lines = output::wrapped(&format!("{words}{colon}"), width);
    lines.extend(command.map(|command| format!("  {command}")));
    lines
}

fn told(step: &Step, width: usize) -> Vec<String> {
    let since = step.since.map_or_else(String::new, |since| {
        format!("  (since {})", since.strftime("%F %H:%M:%S UTC"))
    });
    let Step { who, reason, .. } = step;
    let mut lines = indented(
        &format!("{} {who}  {reason}{since}", step.shape.glyph()),
        2,
        width,
    );
    lines.extend(indented(&step.message, 6, width));
    lines
}

/// One link of the chain: what holds on one line, what is in the way with its words below.
fn looked_at(check: &Check, width: usize) -> Vec<String> {
    let Check {
        holds,
        shape,
        what,
        found,
    } = check;
    if *holds {
        return indented(&format!("✓ {what:<10} {found}"), 2, width);
    }
    let mut lines = indented(&format!("{} {what}", shape.glyph()), 2, width);
    lines.extend(indented(found, 6, width));
    lines
}

/// The text as it is if it fits behind so many blanks, else broken between words.
fn indented(text: &str, blanks: usize, width: usize) -> Vec<String> {
    let begin = " ".repeat(blanks);
    let room = width.saturating_sub(blanks).max(10);
    let lines = if text.chars().count() <= room && !text.is_empty() {
        vec![text.to_owned()]
    } else {
        output::wrapped(text, room)
    };
    lines.into_iter().map(|line| format!("{begin}{line}")).collect()
}
