//! Prints an explanation: the chain of reasons, and what to do next.

use muster_dashboard::{Check, Choice, PlanView, Step, Why};

use crate::{
    flags::View,
    output::{self, Out},
};

/// Prints an explanation.
pub(crate) fn print(why: &Why, view: View, out: &Out) -> anyhow::Result<()> {
    match view {
        View::Json => out.json(why),
        View::Table => Ok(out.lines(&why_lines(why, out.width()))?),
    }
}

/// The explanation as lines that fit the width; commands are never wrapped, so that they can be copied.
pub(crate) fn why_lines(why: &Why, width: usize) -> Vec<String> {
    blocks(why, width).concat()
}

/// The same in blocks: the lines about one thing belong together.
pub(crate) fn blocks(why: &Why, width: usize) -> Vec<Vec<String>> {
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
        blocks.extend(steps.iter().map(|step| step_lines(step, width)));
    } else {
        blocks.extend(checks.iter().map(|check| check_lines(check, width)));
    }
    if let Some(next) = next {
        blocks.push(advice(&format!("Next: {next}"), command.as_deref(), width));
    }
    if let Some(Choice { what, command }) = otherwise {
        blocks.push(advice(&format!("Or: {what}"), command.as_deref(), width));
    }
    blocks
}

/// Advice, with the command on its own line below.
pub(crate) fn advice(words: &str, command: Option<&str>, width: usize) -> Vec<String> {
    let colon = if command.is_some() { ":" } else { "" };
    let mut lines = output::wrapped(&format!("{words}{colon}"), width);
    lines.extend(command.map(|command| format!("  {command}")));
    lines
}

fn step_lines(step: &Step, width: usize) -> Vec<String> {
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

/// One check: on one line if it passes, else with the finding below.
fn check_lines(check: &Check, width: usize) -> Vec<String> {
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

/// The text unchanged if it fits after the indentation, else wrapped.
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
