//! Compares two resourceVersions of one object.

/// Whether what a watch shows is at least as new as what was written. Versions are increasing numbers that may be
/// compared (KEP-5504: guaranteed from Kubernetes 1.35 on, true in practice before). Versions that are not numbers
/// cannot be compared and count as new: such a server's watch catches up soon.
pub fn is_as_new(watched: Option<&str>, written: Option<&str>) -> bool {
    let number = |version: Option<&str>| version?.parse::<u64>().ok();
    match (number(watched), number(written)) {
        (Some(watched), Some(written)) => watched >= written,
        (None, _) | (_, None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let check = |watched: &str, written: &str, expect: bool| {
            assert_eq!(
                is_as_new(Some(watched), Some(written)),
                expect,
                "{watched} {written}"
            );
        };
        check("10", "9", true);
        check("9", "9", true);
        check("9", "10", false);
        check("a", "10", true);
        check("9", "b", true);
        assert!(is_as_new(None, Some("1")) && is_as_new(Some("1"), None));
    }
}
