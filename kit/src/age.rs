//! Ages in the format of kubectl.

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Formats an age given in seconds, in one or two units: `45s`, `5m30s`, `12m`, `3h20m`, `5d7h`, `2y100d`, as
/// apimachinery's `HumanDuration` does. A negative age (clock skew) is `0s`.
pub fn human(seconds: i64) -> String {
    match seconds.max(0) {
        seconds if seconds < 2 * MINUTE => format!("{seconds}s"),
        seconds if seconds < 10 * MINUTE => two(seconds, (MINUTE, 'm'), (1, 's')),
        seconds if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        seconds if seconds < 8 * HOUR => two(seconds, (HOUR, 'h'), (MINUTE, 'm')),
        seconds if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        seconds if seconds < 8 * DAY => two(seconds, (DAY, 'd'), (HOUR, 'h')),
        seconds if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        seconds if seconds < 8 * YEAR => two(seconds, (YEAR, 'y'), (DAY, 'd')),
        seconds => format!("{}y", seconds / YEAR),
    }
}

/// Formats two units; the smaller one is left out if it is zero.
fn two(seconds: i64, (large, its): (i64, char), (small, of_small): (i64, char)) -> String {
    let rest = seconds % large / small;
    let rest = if rest == 0 {
        String::new()
    } else {
        format!("{rest}{of_small}")
    };
    format!("{}{its}{rest}", seconds / large)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What kubectl prints at each boundary.
    #[test]
    fn ages_are_as_kubectl_writes_them() {
        for (seconds, expected) in [
            (-5, "0s"),
            (119, "119s"),
            (2 * MINUTE, "2m"),
            (2 * MINUTE + 1, "2m1s"),
            (10 * MINUTE - 1, "9m59s"),
            (10 * MINUTE + 59, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (8 * HOUR - 1, "7h59m"),
            (8 * HOUR + 59 * MINUTE, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (8 * DAY - 1, "7d23h"),
            (8 * DAY + 23 * HOUR, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (3 * YEAR + 5 * DAY, "3y5d"),
            (9 * YEAR + 300 * DAY, "9y"),
        ] {
            assert_eq!(human(seconds), expected, "{seconds}");
        }
    }
}
