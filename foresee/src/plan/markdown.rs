//! A plan as a comment on a pull request. Text from manifests is escaped: none of it is interpreted as markup.

use std::fmt::Write as _;

use super::{
    model::{ModulePlan, Plan},
    words,
};

/// Characters that are markup in some places, and mentions.
const MARKUP: &str = "\\`*_[]<>|#@~&!";

/// The comment.
pub fn render_markdown(plan: &Plan) -> String {
    let mut text = String::new();
    for module in &plan.modules {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "### {}\n", plain(&words::title(module)));
        for line in lines(module) {
            let _ = writeln!(text, "- {line}");
        }
        text.push('\n');
    }
    for note in &plan.notes {
        let _ = writeln!(text, "{}\n", plain(note));
    }
    let _ = writeln!(text, "**{}**", plain(&plan.total()));
    text
}

fn lines(module: &ModulePlan) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(words::revision(module).map(|revision| format!("revision {}", plain(&revision))));
    lines.push(plain(&words::selects(module)));
    lines.extend(module.moves.iter().map(|to| plain(&words::moves(to))));
    let fields = module.fields.iter().map(|field| plain(&words::field(field)));
    lines.extend(fields);
    if module.touched().is_empty() {
        lines.push("**nothing changes in the clusters**".to_owned());
    } else {
        let order: Vec<String> = words::order(&module.order)
            .iter()
            .enumerate()
            .map(|(place, step)| format!("\n  {}. {}", place + 1, plain(step)))
            .collect();
        lines.push(format!("order:{}", order.concat()));
        let commands = words::commands(module).into_iter();
        lines.extend(commands.map(|command| format!("⏸ {}", plain(&command))));
        lines.extend(module.took.map(words::took));
    }
    let objects = module.objects.iter().take(words::OBJECTS);
    lines.extend(objects.map(|object| plain(&words::object(object))));
    if let more @ 1.. = module.objects.len().saturating_sub(words::OBJECTS) {
        lines.push(format!("and {more} more changes of objects"));
    }
    for skipped in &module.skipped {
        let who = plain(&words::who(&skipped.clusters));
        let colon = if skipped.message.is_empty() { "" } else { ": " };
        lines.push(format!(
            "⚠ **{who} {}**: {}{colon}{}",
            skipped.reason,
            plain(&skipped.outcome),
            plain(&skipped.message)
        ));
    }
    let warnings = module.warnings.iter();
    lines.extend(warnings.map(|warning| format!("⚠ {}", plain(warning))));
    lines
}

/// Text on one line, with markup escaped.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for letter in text.chars() {
        match letter {
            '\n' | '\r' => plain.push(' '),
            letter if MARKUP.contains(letter) => plain.extend(['\\', letter]),
            letter => plain.push(letter),
        }
    }
    plain
}
