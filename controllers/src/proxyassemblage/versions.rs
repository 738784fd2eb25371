//! The order of muster versions: `MAJOR.MINOR.PATCH`, and before it `MAJOR.MINOR.PATCH-anything`.

/// Whether a version is before another. False if either cannot be parsed.
pub(crate) fn is_older(version: &str, than: &str) -> bool {
    match (parsed(version), parsed(than)) {
        (Some(version), Some(than)) => version < than,
        _ => false,
    }
}

/// The numbers of a version, and whether it is a release.
fn parsed(version: &str) -> Option<([u64; 3], bool)> {
    let (numbers, rest) = version
        .split_once('-')
        .map_or((version, None), |(numbers, rest)| (numbers, Some(rest)));
    let numbers: Vec<u64> = numbers
        .split('.')
        .map(|number| number.parse().ok())
        .collect::<Option<_>>()?;
    Some((numbers.try_into().ok()?, rest.is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_come_after_what_precedes_them() {
        for (older, newer) in [
            ("0.1.0", "0.1.1"),
            ("0.9.0", "0.10.0"),
            ("1.0.0-rc.1", "1.0.0"),
            ("0.9.9", "1.0.0-rc.1"),
        ] {
            assert!(
                is_older(older, newer) && !is_older(newer, older),
                "{older} {newer}"
            );
        }
        for (one, other) in [
            ("0.1.0", "0.1.0"),
            ("", "0.1.0"),
            ("nightly", "0.1.0"),
            ("0.1", "0.1.1"),
        ] {
            assert!(!is_older(one, other), "{one} {other}");
        }
    }
}
