//! Suggests existing names that are similar to one that does not exist.

/// The least Jaro-Winkler similarity of a suggested name (1 is equal).
const ALIKE: f64 = 0.7;
/// The most names that are suggested.
const OFFERED: usize = 3;

/// Those of `names` that are similar to `wrong`, the most similar first; each once.
pub fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let alike = |name: &'a str| (strsim::jaro_winkler(wrong, name), name);
    let mut near: Vec<_> = names
        .into_iter()
        .map(alike)
        .filter(|(alike, _)| *alike >= ALIKE)
        .collect();
    near.sort_by(|(one, a), (other, b)| other.total_cmp(one).then(a.cmp(b)));
    near.dedup();
    near.into_iter().take(OFFERED).map(|(_, name)| name).collect()
}

/// ` (did you mean a, b?)`, or empty if no name is similar.
pub fn offer<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    match &nearest(wrong, names)[..] {
        [] => String::new(),
        near => format!(" (did you mean {}?)", near.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(wrong: &str, expect: &str) {
        let names = ["podinfo", "podinfo-canary", "ingress", "certs", "certs"];
        assert_eq!(offer(wrong, names), expect);
    }

    #[test]
    fn the_nearest_names_are_offered_and_no_strangers() {
        check("podinof", " (did you mean podinfo, podinfo-canary?)");
        check("cert", " (did you mean certs?)");
        check("zzz", "");
        check("", "");
    }
}
