//! The chart as text.

use muster_fleet::text;

use super::{picture::Chart, story::Story};

/// Spaces before and after the names.
const INDENT: usize = 2;

/// The maximum line width.
pub(crate) fn render_story(story: &Story, width: usize) -> String {
    // The names take the width that they need, at most a third.
    let names = Chart::of(story, 2).rows;
    let longest = names
        .iter()
        .map(|row| row.title.chars().count())
        .max()
        .unwrap_or(0);
    let room = longest.min(width / 3);
    let margin = INDENT + room + text::GAP;
    let picture = Chart::of(story, width.saturating_sub(margin));
    let mut lines = vec![axis(&picture.ticks, margin, width)];
    for row in &picture.rows {
        lines.extend(row.heading.clone());
        let cells: String = row.cells.iter().map(|shape| shape.glyph()).collect();
        let title = text::cut(&row.title, room);
        lines.push(format!(
            "{:INDENT$}{title:room$}{:gap$}{cells}",
            "",
            "",
            gap = text::GAP
        ));
    }
    let legend: Vec<String> = picture
        .legend()
        .into_iter()
        .map(|shape| format!("{} {}", shape.glyph(), shape.word()))
        .collect();
    lines.push(String::new());
    lines.push(legend.join("  "));
    lines.extend(text::wrapped(&story.verdict(), width));
    lines.push(story.totals());
    for opening in story.openings() {
        lines.extend(text::wrapped(&opening, width));
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join("\n") + "\n"
}

/// The times, each above its column; those that do not fit are omitted.
fn axis(ticks: &[(usize, String)], margin: usize, width: usize) -> String {
    let mut line = " ".repeat(margin);
    for (column, text) in ticks {
        let at = margin + column;
        let free = line.chars().count() < at || *column == 0;
        if free && at + text.chars().count() <= width {
            line.push_str(&" ".repeat(at - line.chars().count()));
            line.push_str(text);
        }
    }
    line
}
