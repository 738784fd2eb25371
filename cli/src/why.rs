//! `muster why`: the chain of reasons, down to what fails, and what to do next.

use std::ops::ControlFlow;

use anyhow::{Context as _, bail};
use muster_dashboard::{Fleet, Step, Why};

use crate::{
    DONE,
    args::{ClusterFlags, ModuleName, View, WhyFlags},
    connect,
    fleet::{self, missing},
    near, output,
};

pub const EXAMPLES: &str = "\
Examples:
  muster why module/podinfo
  muster why podinfo --cluster eu-1   of one cluster
  muster why bootstrapmodule/base -w  as it changes
  muster why podinfo -o json | jq -r .next";

/// Explains a module, or one cluster of it; once, or at each change.
pub async fn run(cluster: &ClusterFlags, flags: &WhyFlags) -> anyhow::Result<u8> {
    let (client, namespace) = connect::client(cluster).await?;
    let answer = |fleet: &Fleet| answer(fleet, &flags.module, flags.cluster.as_deref(), &namespace);
    if flags.watch {
        let mut live = output::Live::default();
        return fleet::watch(&client, &namespace, |snapshot| {
            live.show(lines(&answer(snapshot.fleet())?, output::width()));
            Ok(ControlFlow::Continue(()))
        })
        .await;
    }
    let why = answer(&fleet::read(&client, &namespace).await?)?;
    match flags.output {
        View::Json => say!("{}", serde_json::to_string_pretty(&why)?),
        View::Table => output::print(&lines(&why, output::width())),
    }
    Ok(DONE)
}

fn answer(fleet: &Fleet, module: &ModuleName, cluster: Option<&str>, namespace: &str) -> anyhow::Result<Why> {
    let view = fleet
        .module(module.kind, &module.name)
        .with_context(|| missing(fleet, module, namespace))?;
    if let Some(name) = cluster
        && view.cells.iter().all(|cell| cell.cluster != name)
    {
        let names = view.cells.iter().map(|cell| cell.cluster.as_str());
        bail!(
            "there is no cluster {name} in namespace {namespace}{}: see muster get clusters -n {namespace}",
            near::offer(name, names)
        );
    }
    Ok(muster_dashboard::why(view, cluster))
}

/// The answer on lines that fit; a command that is to be typed next is never broken, so that it can be copied.
pub fn lines(why: &Why, width: usize) -> Vec<String> {
    let Why {
        schema: _,
        headline,
        steps,
        next,
    } = why;
    let mut lines = output::wrapped(headline, width);
    for step in steps {
        let since = step.since.map_or_else(String::new, |since| {
            format!("  (since {})", since.strftime("%H:%M:%S UTC"))
        });
        let Step { who, reason, .. } = step;
        lines.extend(indented(
            &format!("{} {who}  {reason}{since}", step.shape.glyph()),
            2,
            width,
        ));
        lines.extend(indented(&step.message, 6, width));
    }
    if let Some(next) = next {
        let line = format!("Next: {next}");
        match why.command() {
            Some(_) => lines.push(line),
            None => lines.extend(output::wrapped(&line, width)),
        }
    }
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
