//! A rollout over time, drawn: a bar for each cluster.

use jiff::Timestamp;
use maud::{Markup, html};

use super::parts;
use crate::{Bar, Timeline};

/// Bars that are drawn.
const MOST: usize = 60;
/// Pixels: of a name, of the time, of a row, and of a bar of which only the end is known.
const NAMES: f64 = 130.0;
const WIDTH: f64 = 640.0;
const ROW: usize = 18;
const LEAST: f64 = 4.0;
/// Characters of a name that fit.
const NAME: usize = 18;

pub fn draw(timeline: &Timeline) -> Markup {
    let Timeline { from, to, bars } = timeline;
    let bars = bars.get(..MOST).unwrap_or(bars);
    let height = (bars.len() + 1) * ROW;
    let total = seconds(*from, *to).max(1.0);
    let place = |at: Timestamp| NAMES + WIDTH * (seconds(*from, at) / total).clamp(0.0, 1.0);
    html! {
        p.faint { "From " (parts::time(*from)) " to " (parts::time(*to)) ". Of a cluster that is done the end is marked." }
        svg.chart viewBox=(format!("0 0 {} {height}", NAMES + WIDTH + 10.0)) role="img" aria-label="When each cluster changed; the same stands in the table of clusters" {
            line.axis x1=(NAMES) y1="0" x2=(NAMES) y2=(height) {}
            @for (row, bar) in bars.iter().enumerate() { (drawn(bar, row * ROW, *to, place)) }
        }
        @if timeline.bars.len() > MOST { p { "and " (timeline.bars.len() - MOST) " more" } }
    }
}

fn drawn(bar: &Bar, top: usize, end: Timestamp, place: impl Fn(Timestamp) -> f64) -> Markup {
    let (left, right) = (place(bar.from), place(bar.to.unwrap_or(end)));
    let width = (right - left).max(LEAST);
    let left = left.min(NAMES + WIDTH - LEAST);
    let name: String = bar.cluster.chars().take(NAME).collect();
    let until = bar.to.map_or_else(|| "now".to_owned(), |to| to.to_string());
    html! {
        g {
            title { (parts::text(&bar.cluster)) ": " (bar.shape.word()) ", " (bar.from) " to " (until) }
            text x="0" y=(top + 13) { (parts::text(&name)) }
            rect.(parts::class(bar.shape)) x=(format!("{left:.1}")) y=(top + 4) width=(format!("{width:.1}")) height="10" rx="2" {}
            text x=(format!("{:.1}", (left + width + 3.0).min(NAMES + WIDTH))) y=(top + 13) { (bar.shape.glyph()) }
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "a place in a picture")]
fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_millis() as f64 / 1000.0
}
