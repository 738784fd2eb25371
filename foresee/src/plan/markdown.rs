//! A plan as a comment on a pull request. What comes from manifests stands as it is written: no word of it is markup.

use std::fmt::Write as _;

use super::{
    model::{ModulePlan, Plan},
    words,
};

/// Characters that are markup somewhere, and a mention of somebody.
const MARKUP: &str = "\\`*_[]<>|#@~&!";

/// The comment.
pub fn draw(plan: &Plan) -> String {
    let mut text = String::new();
    for module in &plan.modules {
        // Writing into a text does not fail.
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
        lines.push("**nothing on the clusters changes**".to_owned());
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

/// A text on one line, without markup.
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
