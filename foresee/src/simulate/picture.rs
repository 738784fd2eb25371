//! A result as rows and columns: what text and image share.

use muster_dashboard::{Shape, fold_names};
use muster_rollout::Millis;

use super::story::{Story, Track, time};

/// Up to this number, each cluster has its own row.
const ALONE: usize = 24;
/// The most rows that are readable at a glance.
const LINES: usize = 40;

/// A chart of the result.
pub(crate) struct Chart {
    pub rows: Vec<Row>,
    /// The labels of the axis, by column.
    pub ticks: Vec<(usize, String)>,
}

/// A row of the chart.
pub(crate) struct Row {
    /// The stage, if it is the first row of one.
    pub heading: Option<String>,
    /// Name of the cluster, or of the clusters.
    pub title: String,
    /// A shape per column.
    pub cells: Vec<Shape>,
}

impl Chart {
    /// Draws it with this number of columns, the last of which is the end.
    pub(crate) fn of(story: &Story, columns: usize) -> Self {
        let columns = columns.max(2);
        let groups = groups(story, columns);
        let staged = story.clusters.iter().any(|track| track.stage.is_some());
        let mut rows: Vec<Row> = Vec::new();
        let mut last = None;
        for group in &groups {
            let stage = group.first().map(|track| track.stage.clone());
            let heading = stage.clone().filter(|_| staged && last != stage);
            last = stage;
            rows.push(Row {
                heading: heading.map(|stage| stage.unwrap_or_else(|| "(no stage)".to_owned())),
                title: title(group),
                cells: (0..columns)
                    .map(|at| cell(group, story.took, at, columns))
                    .collect(),
            });
        }
        Self {
            rows,
            ticks: ticks(story.took, columns),
        }
    }

    /// The shapes that occur, in the order of the legend.
    pub(crate) fn legend(&self) -> Vec<Shape> {
        let occurs = |shape: &Shape| self.rows.iter().any(|row| row.cells.contains(shape));
        Shape::ALL.into_iter().filter(occurs).collect()
    }
}

/// Few clusters have a row each; many are grouped by stage, start and end.
fn groups(story: &Story, columns: usize) -> Vec<Vec<&Track>> {
    let mut tracks: Vec<&Track> = story.clusters.iter().collect();
    tracks.sort_by(|a, b| {
        let key = |track: &Track| (track.place, track.began().unwrap_or(Millis(u64::MAX)));
        key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
    });
    if tracks.len() <= ALONE {
        return tracks.into_iter().map(|track| vec![track]).collect();
    }
    let mut coarse = 1;
    loop {
        let width = (story.took.0 / u64::try_from(columns).unwrap_or(1)).max(1) * coarse;
        let mut sorted = tracks.clone();
        let key = |track: &&Track| {
            let began = track.began().map_or(u64::MAX, |at| at.0 / width);
            (track.place, began, track.last())
        };
        sorted.sort_by_key(key);
        let groups: Vec<Vec<&Track>> = sorted
            .chunk_by(|a, b| key(a) == key(b))
            .map(<[&Track]>::to_vec)
            .collect();
        if groups.len() <= LINES || width > story.took.0 {
            return groups;
        }
        coarse *= 2;
    }
}

/// The name, or the folded names, or the first of them and their number.
fn title(group: &[&Track]) -> String {
    const ROOM: usize = 26;
    let folded = fold_names(group.iter().map(|track| track.name.as_str()));
    let whole = folded.join(", ");
    match (folded.first(), group) {
        _ if whole.chars().count() <= ROOM => whole,
        (_, [first, ..]) => format!("{}, … ({})", first.name, group.len()),
        _ => whole,
    }
}

/// The shape of a column: the most notable one of its time span; in the last column the final one.
fn cell(group: &[&Track], took: Millis, at: usize, columns: usize) -> Shape {
    let at = u64::try_from(at).unwrap_or(0);
    let spans = u64::try_from(columns - 1).unwrap_or(1);
    let (from, to) = (took.0 * at / spans, took.0 * (at + 1) / spans);
    let last = at == spans;
    let shapes = group.iter().flat_map(|track| {
        let changes = track.changes.iter().enumerate();
        changes.filter_map(move |(place, (begin, reason))| {
            let end = track.changes.get(place + 1).map_or(u64::MAX, |(next, _)| next.0);
            let overlaps = if last {
                end == u64::MAX
            } else {
                begin.0 < to.max(from + 1) && end > from
            };
            overlaps.then(|| Shape::of(*reason))
        })
    });
    shapes
        .min_by_key(|shape| notable(*shape))
        .unwrap_or(Shape::NotSelected)
}

/// The shape of a group: failures and updates are visible, however short.
const fn notable(shape: Shape) -> u8 {
    match shape {
        Shape::Failed => 0,
        Shape::Updating => 1,
        Shape::WaitsForYou => 2,
        Shape::Unreachable | Shape::Unknown => 3,
        Shape::Held => 4,
        Shape::Waiting => 5,
        Shape::Ready => 6,
        Shape::NotSelected => 7,
    }
}

/// A round time about every twelfth column.
fn ticks(took: Millis, columns: usize) -> Vec<(usize, String)> {
    const EVERY: usize = 12;
    const ROUND: [u64; 14] = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200];
    let spans = u64::try_from(columns - 1).unwrap_or(1);
    let wanted = took.0 / 1000 / u64::try_from((columns / EVERY).max(1)).unwrap_or(1);
    let step = ROUND
        .into_iter()
        .find(|round| *round >= wanted)
        .unwrap_or_else(|| wanted.div_ceil(3600) * 3600);
    let count = took.0 / 1000 / step.max(1);
    let ticks = (0..=count).map(|number| {
        let at = number * step * 1000;
        let column = (at * spans).checked_div(took.0).unwrap_or(0);
        (usize::try_from(column).unwrap_or(0), time(Millis(at)))
    });
    ticks.collect()
}
