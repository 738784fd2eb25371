//! Which of two versions of one object is the later one.

/// Whether what a watch shows is as new as what was written. Versions are numbers that grow, and to be compared as such
/// (KEP-5504: in Kubernetes from 1.35 on by contract, before that by implementation); those of a server that does not count cannot be
/// compared, and count as new: its watch is as new soon.
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
