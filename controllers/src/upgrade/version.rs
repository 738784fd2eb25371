//! Kubernetes versions, compared by major, minor and patch: suffixes of distributions do not affect the order.

use std::fmt;

/// A version without its suffix: `v1.34.2` for `v1.34.2-eks-1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The major version.
    pub major: u32,
    /// The minor version.
    pub minor: u32,
    /// The patch version.
    pub patch: u32,
}

impl Version {
    /// Parses `v1.34.2`, with or without the v, ignoring a suffix after `-` or `+`. `None`: invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let bare = text.strip_prefix('v').unwrap_or(text);
        let bare = bare.split(['-', '+']).next()?;
        let mut parts = bare.split('.').map(number);
        let version = Self {
            major: parts.next()??,
            minor: parts.next()??,
            patch: parts.next()??,
        };
        parts.next().is_none().then_some(version)
    }

    /// The newest minor version that Kubernetes allows as the next step, if the target is further away than that.
    pub fn first_step_to(self, target: Self) -> Option<String> {
        let next = self.minor.saturating_add(1);
        let far = target.major != self.major || target.minor > next;
        far.then(|| format!("v{}.{next}", self.major))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor, patch } = self;
        write!(f, "v{major}.{minor}.{patch}")
    }
}

fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_distribution_appends_is_no_part_of_a_version() {
        let check = |text: &str, expect: Option<&str>| {
            let read = Version::parse(text).map(|version| version.to_string());
            assert_eq!(read.as_deref(), expect, "{text}");
        };
        check("v1.34.2", Some("v1.34.2"));
        check("1.34.2", Some("v1.34.2"));
        check("v1.34.2-eks-1", Some("v1.34.2"));
        check("v1.34.2+k3s1", Some("v1.34.2"));
        for no_version in [
            "",
            "v1.34",
            "v1.34.",
            "v1.34.2.1",
            "v1.+34.2",
            "latest",
            "v-1.34.2",
        ] {
            check(no_version, None);
        }
    }

    #[test]
    fn one_minor_version_is_one_step() {
        let check = |from: &str, to: &str, expect: Option<&str>| {
            let [from, to] = [from, to].map(|text| Version::parse(text).unwrap());
            assert_eq!(from.first_step_to(to).as_deref(), expect, "{from} to {to}");
        };
        check("v1.33.9", "v1.34.2", None);
        check("v1.34.0", "v1.34.2", None);
        check("v1.32.9", "v1.34.2", Some("v1.33"));
        check("v1.32.9", "v2.0.0", Some("v1.33"));
    }
}
