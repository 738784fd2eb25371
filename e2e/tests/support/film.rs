//! A terminal session as an animated SVG: the content of the screen, and for how long. No script, no embedded font.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use svg::{
    Document, Node,
    node::{
        Text,
        element::{Definitions, Description, Group, Rectangle, Style, TSpan, Text as Line, Title, Use},
    },
};

/// Width of a character and height of a line, in SVG units.
const CHARACTER: f32 = 8.4;
const LINE: f32 = 18.0;
/// The margin around the text.
const MARGIN: f32 = 14.0;
const GROUND: &str = "#10151c";
const INK: &str = "#d5dbe3";

/// Adjacent characters with the same style.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub text: String,
    pub colour: Option<&'static str>,
    pub is_bold: bool,
}

/// The content of the screen, line by line, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub lines: Vec<Vec<Run>>,
    pub lasts: Duration,
}

impl Frame {
    /// Captures the screen of a terminal.
    pub(crate) fn of(screen: &vt100::Screen) -> Self {
        let (rows, columns) = screen.size();
        let lines = (0..rows).map(|row| {
            let mut runs: Vec<Run> = Vec::new();
            for column in 0..columns {
                let Some(cell) = screen.cell(row, column) else {
                    continue;
                };
                let text = if cell.has_contents() { cell.contents() } else { " " };
                let (colour, is_bold) = (colour(cell.fgcolor()), cell.bold());
                match runs.last_mut() {
                    Some(last) if (last.colour, last.is_bold) == (colour, is_bold) => {
                        last.text.push_str(text);
                    }
                    _ => runs.push(Run {
                        text: text.to_owned(),
                        colour,
                        is_bold,
                    }),
                }
            }
            while let Some(last) = runs.last_mut() {
                last.text.truncate(last.text.trim_end().len());
                if !last.text.is_empty() {
                    break;
                }
                runs.pop();
            }
            runs
        });
        Self {
            lines: lines.collect(),
            lasts: Duration::ZERO,
        }
    }

    /// The text without colors.
    pub(crate) fn text(&self) -> String {
        let line = |runs: &Vec<Run>| runs.iter().map(|run| run.text.as_str()).collect::<String>();
        self.lines.iter().map(line).collect::<Vec<String>>().join("\n")
    }
}

const fn colour(colour: vt100::Color) -> Option<&'static str> {
    match colour {
        vt100::Color::Idx(1 | 9) => Some("#ff7b72"),
        vt100::Color::Idx(2 | 10) => Some("#56d364"),
        vt100::Color::Idx(3 | 11) => Some("#e3b341"),
        vt100::Color::Idx(5 | 13) => Some("#d2a8ff"),
        vt100::Color::Idx(_) | vt100::Color::Default | vt100::Color::Rgb(..) => None,
    }
}

/// The SVG. `still` is the frame for viewers who prefer no motion.
pub(crate) fn picture(frames: &[Frame], still: usize, title: &str, description: &str) -> String {
    let columns = frames
        .iter()
        .flat_map(|frame| &frame.lines)
        .map(|line| length(line))
        .max()
        .unwrap_or(0);
    let rows = frames.iter().map(|frame| frame.lines.len()).max().unwrap_or(0);
    let width = CHARACTER.mul_add(count(columns), 2.0 * MARGIN);
    let height = LINE.mul_add(count(rows), 2.0 * MARGIN);
    let all: f32 = frames.iter().map(|frame| frame.lasts.as_secs_f32()).sum();
    let mut style = format!(
        "text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:{INK};white-space:pre}}.f{{visibility:hidden;animation:{all:.1}s step-end infinite}}"
    );
    // Lines recur in many frames: each is written once.
    let mut known: BTreeMap<&[Run], usize> = BTreeMap::new();
    let mut lines = Definitions::new();
    let mut shown = Vec::new();
    let mut began = 0.0;
    for (place, frame) in frames.iter().enumerate() {
        let mut group = Group::new().set("class", "f").set("id", format!("f{place}"));
        for (row, runs) in frame
            .lines
            .iter()
            .enumerate()
            .filter(|(_, runs)| !runs.is_empty())
        {
            let next = known.len();
            let number = *known.entry(runs).or_insert_with(|| {
                lines.append(line(runs).set("id", format!("l{next}")));
                next
            });
            let at = LINE.mul_add(count(row) + 0.8, MARGIN);
            group.append(
                Use::new()
                    .set("href", format!("#l{number}"))
                    .set("y", format!("{at:.1}")),
            );
        }
        let ends = began + frame.lasts.as_secs_f32();
        let (from, to) = (100.0 * began / all, 100.0 * ends / all);
        // Writing to a String cannot fail.
        let _ = write!(
            style,
            "#f{place}{{animation-name:k{place}}}@keyframes k{place}{{0%{{visibility:hidden}}{from:.2}%{{visibility:visible}}{to:.2}%{{visibility:hidden}}}}"
        );
        shown.push(group);
        began = ends;
    }
    let _ = write!(
        style,
        "@media(prefers-reduced-motion:reduce){{.f{{animation:none}}#f{still}{{visibility:visible}}}}"
    );
    let ground = Rectangle::new()
        .set("width", "100%")
        .set("height", "100%")
        .set("rx", 8)
        .set("fill", GROUND);
    let mut document = Document::new()
        .set("viewBox", format!("0 0 {width:.0} {height:.0}"))
        .set("role", "img")
        .add(Title::new(title))
        .add(Description::new().add(Text::new(description)))
        .add(Style::new(style))
        .add(lines)
        .add(ground);
    for group in shown {
        document.append(group);
    }
    // A line break between two parts of a line would be rendered as a blank.
    document.to_string().replace('\n', "")
}

fn line(runs: &[Run]) -> Line {
    let mut line = Line::new("").set("x", MARGIN).set("xml:space", "preserve");
    for run in runs {
        let mut span = TSpan::new(&run.text);
        if let Some(colour) = run.colour {
            span.assign("fill", colour);
        }
        if run.is_bold {
            span.assign("font-weight", "bold");
        }
        line.append(span);
    }
    line
}

fn length(line: &[Run]) -> usize {
    line.iter().map(|run| run.text.chars().count()).sum()
}

fn count(number: usize) -> f32 {
    f32::from(u16::try_from(number).unwrap_or(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_shows_each_frame_in_its_time_and_nothing_that_runs() {
        let mut terminal = vt100::Parser::new(3, 40, 0);
        let mut frames = Vec::new();
        for chunk in [
            "$ muster why\r\n",
            "\u{1b}[31m✗\u{1b}[0m <script>alert(1)</script>\r\n",
        ] {
            terminal.process(chunk.as_bytes());
            let mut frame = Frame::of(terminal.screen());
            frame.lasts = Duration::from_secs(1);
            frames.push(frame);
        }
        assert_eq!(frames[1].lines[1][0].colour, Some("#ff7b72"));
        let picture = picture(&frames, 1, "a title", "what is shown");
        for part in [
            "&lt;script&gt;alert(1)",
            "@keyframes k1{0%{visibility:hidden}50.00%{visibility:visible}100.00%",
            "#f1{visibility:visible}}",
            "what is shown",
        ] {
            assert!(picture.contains(part), "{part}: {picture}");
        }
        assert!(!picture.contains("<script"), "{picture}");
        assert_eq!(picture.matches("muster why").count(), 1, "a line is written once");
    }
}
