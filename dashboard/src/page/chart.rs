//! A rollout over time as a chart: a bar for each cluster.

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use muster_kit::age;

use super::parts;
use crate::{Bar, Kind, Timeline};

/// Maximum number of bars drawn.
const MOST: usize = 60;
/// Units of the drawing, which is as wide as the page: the full width, and the width of a bar of which only the end is
/// known.
const WIDTH: f64 = 1000.0;
const LEAST: f64 = 8.0;

pub(super) fn draw(timeline: &Timeline, kind: Kind) -> Markup {
    let Timeline { from, to, bars } = timeline;
    let shown = bars.get(..MOST).unwrap_or(bars);
    let took = to.duration_since(*from);
    html! {
        div.chart {
            p.faint { "Began " (parts::time(*from)) ", " (format_duration(took)) " in all. Of a " (kind.unit()) " that is confirmed only the end time is known." }
            ol {
                li.axis aria-hidden="true" { span {} span.ticks { span { "0s" } span { (format_duration(took / 2)) } span { (format_duration(took)) } } span {} }
                @for bar in shown { (drawn(bar, *from, *to)) }
            }
            @if bars.len() > MOST { p { "and " (bars.len() - MOST) " more" } }
        }
    }
}

fn drawn(bar: &Bar, from: Timestamp, to: Timestamp) -> Markup {
    let total = seconds(from, to).max(1.0);
    let place = |at: Timestamp| WIDTH * (seconds(from, at) / total).clamp(0.0, 1.0);
    let (left, right) = (place(bar.from), place(bar.to.unwrap_or(to)));
    let width = (right - left).max(LEAST);
    let left = left.min(WIDTH - width);
    let end = bar.to.map_or_else(
        || "still changing".to_owned(),
        |to| format!("after {}", format_duration(to.duration_since(from))),
    );
    html! {
        li.(parts::class(bar.shape)) {
            span.name { (parts::text(&bar.cluster)) }
            svg viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" {
                rect x=(format!("{left:.1}")) y="0" width=(format!("{width:.1}")) height="10" {}
            }
            span.end { (parts::shape(bar.shape)) " " (end) }
        }
    }
}

fn format_duration(span: SignedDuration) -> String {
    age::human(span.as_secs())
}

#[allow(clippy::cast_precision_loss, reason = "a place in a picture")]
fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_millis() as f64 / 1000.0
}
