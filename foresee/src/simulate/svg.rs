//! The chart as a self-contained SVG image for light and dark backgrounds.

use muster_dashboard::Shape;
use muster_fleet::text;
use svg::{
    Document, Node as _,
    node::element::{Group, Line, Rectangle, Style, Text, Title},
};

use super::{
    picture::{Chart, Row},
    story::Story,
};

const WIDTH: usize = 1000;
const NAMES: usize = 200;
const EDGE: usize = 20;
const LINE: usize = 24;
const TOP: usize = 56;
/// Number of time columns.
const COLUMNS: usize = 121;
const CHARACTERS: usize = 120;

const STYLE: &str = "\
svg { background: #ffffff; color-scheme: light dark; }
text { font: 13px ui-sans-serif, system-ui, sans-serif; fill: #1f2328; }
.heading { font-weight: 600; }
.quiet { fill: #656d76; font-size: 12px; }
.grid { stroke: #d1d9e0; stroke-width: 1; }
.glyph { fill: #ffffff; font-size: 11px; }
.ready { fill: #1a7f37; } .updating { fill: #0969da; } .waiting { fill: #d1d9e0; } .failed { fill: #cf222e; }
.needed { fill: #0e7490; } .held { fill: #8250df; } .skipped { fill: #9a6700; } .none { fill: #f0f3f6; }
.glyph.waiting, .glyph.none { fill: #656d76; }
.glyph.ready, .glyph.updating, .glyph.failed, .glyph.needed, .glyph.held, .glyph.skipped { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  svg { background: #0d1117; }
  text { fill: #e6edf3; } .quiet { fill: #9198a1; } .grid { stroke: #30363d; }
  .ready { fill: #2ea043; } .updating { fill: #1f6feb; } .waiting { fill: #30363d; } .failed { fill: #da3633; }
  .needed { fill: #0c8599; } .held { fill: #8957e5; } .skipped { fill: #9e6a03; } .none { fill: #161b22; }
  .glyph.waiting, .glyph.none { fill: #9198a1; }
}";

/// Draws the chart.
pub(crate) fn render_svg(story: &Story) -> String {
    let picture = Chart::of(story, COLUMNS);
    let headings = picture.rows.iter().filter(|row| row.heading.is_some()).count();
    let bottom = TOP + (picture.rows.len() + headings) * LINE;
    let verdict = text::wrapped(&story.verdict(), CHARACTERS);
    let mut notes = vec![story.totals()];
    notes.extend(story.openings());
    let height = bottom + LINE * (verdict.len() + notes.len() + 2);
    let mut document = Document::new()
        .set("viewBox", (0, 0, WIDTH, height))
        .set("width", WIDTH)
        .set("height", height)
        .set("role", "img")
        .add(Title::new(story.verdict()))
        .add(Style::new(STYLE))
        .add(axis(&picture, bottom));
    let mut y = TOP;
    for row in &picture.rows {
        if let Some(heading) = &row.heading {
            document.append(label(EDGE, y + 17, "heading", heading));
            y += LINE;
        }
        document.append(line(row, y));
        y += LINE;
    }
    document.append(legend(&picture, bottom + LINE));
    for (number, words) in verdict.iter().enumerate() {
        document.append(label(EDGE, bottom + LINE * (number + 2) + 16, "heading", words));
    }
    for (number, words) in notes.iter().enumerate() {
        let y = bottom + LINE * (verdict.len() + number + 2) + 12;
        document.append(label(EDGE, y, "quiet", words));
    }
    format!("{document}\n")
}

/// The x position of a column.
fn column(at: usize) -> usize {
    EDGE + NAMES + at * (WIDTH - 2 * EDGE - NAMES) / COLUMNS
}

fn label(x: usize, y: usize, class: &str, text: &str) -> Text {
    Text::new(text).set("x", x).set("y", y).set("class", class)
}

fn axis(picture: &Chart, bottom: usize) -> Group {
    let mut axis = Group::new();
    let mut free = 0;
    for (at, text) in &picture.ticks {
        let x = column(*at);
        let line = Line::new().set("x1", x).set("x2", x);
        axis.append(line.set("y1", TOP - 8).set("y2", bottom).set("class", "grid"));
        if x >= free {
            axis.append(label(x, TOP - 16, "quiet", text));
            free = x + 48;
        }
    }
    axis
}

/// The name, and a bar for each span without a change.
fn line(row: &Row, y: usize) -> Group {
    const ROOM: usize = 28;
    let mut group = Group::new();
    let name = label(EDGE + 8, y + 17, "name", &text::cut(&row.title, ROOM));
    group.append(name.add(Title::new(row.title.as_str())));
    let mut at = 0;
    for run in row.cells.chunk_by(|a, b| a == b) {
        let Some(shape) = run.first().copied() else {
            continue;
        };
        let (from, to) = (column(at), column(at + run.len()));
        at += run.len();
        let bar = Rectangle::new().set("x", from).set("y", y + 3);
        let bar = bar.set("width", to - from).set("height", LINE - 6).set("rx", 2);
        let tooltip = format!("{}: {}", row.title, shape.word());
        group.append(bar.set("class", class(shape)).add(Title::new(tooltip)));
        if to - from >= 14 {
            let glyph = shape.glyph().to_string();
            group.append(label(
                from + 3,
                y + 16,
                &format!("glyph {}", class(shape)),
                &glyph,
            ));
        }
    }
    group
}

fn legend(picture: &Chart, y: usize) -> Group {
    const EACH: usize = 120;
    let mut legend = Group::new();
    for (number, shape) in picture.legend().into_iter().enumerate() {
        let x = EDGE + number * EACH;
        let patch = Rectangle::new().set("x", x).set("y", y).set("rx", 2);
        legend.append(
            patch
                .set("width", 16)
                .set("height", 16)
                .set("class", class(shape)),
        );
        let words = format!("{} {}", shape.glyph(), shape.word());
        legend.append(label(x + 22, y + 13, "quiet", &words));
    }
    legend
}

const fn class(shape: Shape) -> &'static str {
    match shape {
        Shape::Ready => "ready",
        Shape::Updating => "updating",
        Shape::Waiting => "waiting",
        Shape::WaitsForYou => "needed",
        Shape::Failed => "failed",
        Shape::Held => "held",
        Shape::Unreachable | Shape::Unknown => "skipped",
        Shape::NotSelected => "none",
    }
}
