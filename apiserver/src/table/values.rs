//! Formats values of cells.

use jiff::Timestamp;
use serde_json::Value;

use crate::jsonpath;

/// The time since a timestamp, as kubectl shows ages: `62s`, `5m3s`, `24h`, `3d4h`.
pub(super) fn age(since: &str, now: Timestamp) -> String {
    let Ok(since) = since.parse::<Timestamp>() else {
        return "<unknown>".to_owned();
    };
    human(now.as_second() - since.as_second())
}

/// Like `HumanDuration` of apimachinery.
fn human(seconds: i64) -> String {
    let with = |big: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 {
            format!("{big}{unit}")
        } else {
            format!("{big}{unit}{small}{small_unit}")
        }
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => with(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => with(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => with(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => with(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

pub(super) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default() // not counted yet: 0
}

pub(super) fn text_or(value: &Value, otherwise: &str) -> Value {
    value
        .as_str()
        .filter(|text| !text.is_empty())
        .unwrap_or(otherwise)
        .into()
}

pub(super) fn count_cell(value: &Value) -> Value {
    value
        .as_object()
        .map(serde_json::Map::len)
        .or_else(|| value.as_array().map(Vec::len))
        .unwrap_or(0)
        .into()
}

pub(super) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn joined(values: impl Iterator<Item = String>) -> Value {
    let all: Vec<String> = values.collect();
    if all.is_empty() {
        "<none>".into()
    } else {
        all.join(",").into()
    }
}

pub(super) fn selector_cell(selector: &Value) -> Value {
    let labels = selector
        .get("matchLabels")
        .unwrap_or(selector)
        .as_object()
        .into_iter()
        .flatten();
    joined(labels.map(|(key, value)| format!("{key}={}", jsonpath::cell_text(value))))
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn ages_read_as_kubectl_shows_them() {
        for (seconds, expect) in [
            (-5, "<invalid>"),
            (0, "0s"),
            (62, "62s"),
            (120, "2m"),
            (303, "5m3s"),
            (660, "11m"),
            (3 * 3600 + 60, "3h1m"),
            (86_400, "24h"),
            (2 * 86_400 + 3600, "2d1h"),
            (8 * 86_400, "8d"),
            (800 * 86_400, "2y70d"),
        ] {
            assert_eq!(human(seconds), expect, "{seconds}");
        }
    }
}
