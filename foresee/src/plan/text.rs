//! A plan as text.

use muster_fleet::text;

use super::{
    model::{ModulePlan, Plan},
    words,
};

/// The most fields shown of one module.
const FIELDS: usize = 12;
/// The minimum width of lines.
const NARROWEST: usize = 40;

/// The maximum line width.
pub fn render_text(plan: &Plan, width: usize) -> String {
    let width = width.max(NARROWEST);
    let mut lines = Vec::new();
    for module in &plan.modules {
        lines.extend(of(module, width));
        lines.push(String::new());
    }
    for note in &plan.notes {
        lines.extend(entry("", note, width));
    }
    lines.extend(entry("", &plan.total(), width));
    lines.join("\n") + "\n"
}

fn of(module: &ModulePlan, width: usize) -> Vec<String> {
    let mut lines = entry("", &words::title(module), width);
    if let Some(revision) = words::revision(module) {
        lines.extend(entry("  revision: ", &revision, width));
    }
    lines.extend(entry("  ", &words::selects(module), width));
    for to in &module.moves {
        lines.extend(entry("  ", &words::moves(to), width));
    }
    for field in module.fields.iter().take(FIELDS) {
        lines.extend(entry("  ~ ", &words::field(field), width));
    }
    if let more @ 1.. = module.fields.len().saturating_sub(FIELDS) {
        lines.push(format!("  ~ and {more} more fields"));
    }
    if module.touched().is_empty() {
        lines.push("  nothing changes in the clusters".to_owned());
    } else {
        let order = words::order(&module.order).join(" → ");
        lines.extend(entry("  order: ", &order, width));
        for command in words::commands(module) {
            lines.extend(entry("  ⏸ ", &command, width));
        }
        if let Some(took) = module.took {
            lines.extend(entry("  ", &words::took(took), width));
        }
    }
    for object in module.objects.iter().take(words::OBJECTS) {
        lines.extend(entry("  ", &words::object(object), width));
    }
    if let more @ 1.. = module.objects.len().saturating_sub(words::OBJECTS) {
        lines.push(format!("  and {more} more changes of objects (-o json has them)"));
    }
    for skipped in &module.skipped {
        let who = words::who(&skipped.clusters);
        let colon = if skipped.message.is_empty() { "" } else { ": " };
        let text = format!(
            "{who} {}: {}{colon}{}",
            skipped.reason, skipped.outcome, skipped.message
        );
        lines.extend(entry("  ! ", &text, width));
    }
    for warning in &module.warnings {
        lines.extend(entry("  ! ", warning, width));
    }
    lines
}

/// Text after a heading, on as many lines as it takes.
fn entry(before: &str, text: &str, width: usize) -> Vec<String> {
    let margin = before.chars().count();
    let lines = text::wrapped(text, width.saturating_sub(margin));
    let lines = lines.into_iter().enumerate().map(|(place, line)| match place {
        0 => format!("{before}{line}"),
        _ => format!("{:margin$}{line}", ""),
    });
    lines.collect()
}
