//! Names of the clusters of the demo.

use std::fmt;

/// The name of a cluster of the demo: its region and a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    region: &'static str,
    number: u16,
}

impl Name {
    /// `dev` for the first, `prod` for all others.
    pub(crate) fn environment(&self) -> &'static str {
        if self.region == "dev" { "dev" } else { "prod" }
    }

    /// The cluster that runs, and is not in the fleet until the user enrolls it.
    pub(crate) const fn spare() -> Self {
        Self {
            region: "ap",
            number: 1,
        }
    }

    /// The labels that modules select by.
    pub(crate) fn labels(&self) -> [(&'static str, &'static str); 3] {
        let region = if self.region == "dev" { "eu" } else { self.region };
        let stage = if self.region == "dev" { "canary" } else { "fleet" };
        [("env", self.environment()), ("region", region), ("stage", stage)]
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.region, self.number)
    }
}

/// `dev-1`, then pairs by region: `eu-1`, `eu-2`, `us-1`, `us-2`, `eu-3`, …
pub(crate) fn names(count: u16) -> Vec<Name> {
    let rest = (0..count.saturating_sub(1)).map(|place| {
        let region = if (place / 2) % 2 == 0 { "eu" } else { "us" };
        Name {
            region,
            number: (place / 4) * 2 + place % 2 + 1,
        }
    });
    std::iter::once(Name {
        region: "dev",
        number: 1,
    })
    .chain(rest)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(count: u16, expect: &str) {
        let names: Vec<String> = names(count).iter().map(Name::to_string).collect();
        assert_eq!(names.join(" "), expect);
    }

    #[test]
    fn names_go_by_pairs() {
        check(5, "dev-1 eu-1 eu-2 us-1 us-2");
        check(1, "dev-1");
        check(8, "dev-1 eu-1 eu-2 us-1 us-2 eu-3 eu-4 us-3");
    }
}
