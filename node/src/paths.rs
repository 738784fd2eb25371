//! Which paths the agent may write: those below a prefix of its configuration, except for paths that would give it more
//! access.

/// Paths that no configuration may allow, with everything below: the agent's own directories, credentials of the
/// kubelet, and files that are run automatically as root.
pub const REFUSED: &[&str] = &[
    "/dev",
    "/etc/anacrontab",
    "/etc/cron.allow",
    "/etc/cron.d",
    "/etc/cron.daily",
    "/etc/cron.deny",
    "/etc/cron.hourly",
    "/etc/cron.monthly",
    "/etc/cron.weekly",
    "/etc/crontab",
    "/etc/kubernetes",
    "/etc/muster",
    "/etc/sudo.conf",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/systemd/system",
    "/etc/systemd/system.attached",
    "/etc/systemd/system.control",
    "/etc/systemd/user",
    "/lib/systemd",
    "/proc",
    "/root",
    "/run/muster",
    "/run/systemd",
    "/sys",
    "/usr/lib/systemd",
    "/usr/local/lib/systemd",
    "/usr/local/share/systemd",
    "/usr/share/systemd",
    "/var/lib/kubelet",
    "/var/lib/muster",
    "/var/spool/anacron",
    "/var/spool/cron",
];

/// Prefix of temporary names beside targets during a change.
pub const RESERVED: &str = ".muster-";

/// Maximum length of a path: Linux's limit, with room for the names beside it.
pub const MAX_PATH: usize = 4_000;
/// Maximum length of a name in a path: the limit of file systems.
pub const MAX_NAME: usize = 255;

/// Why the form of a path is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// It is not absolute.
    #[error("is not absolute")]
    Relative,
    /// `.`, `..`, an empty name, or a slash at the end.
    #[error("contains an empty name, . or .., or ends with a slash")]
    NotPlain,
    /// It, or a name in it, is longer than the system allows.
    #[error("is too long")]
    TooLong,
    /// It contains a control character.
    #[error("contains a control character")]
    Control,
    /// It contains a name that is reserved for the agent.
    #[error("contains a name that begins with {RESERVED}, which is reserved for the agent")]
    Reserved,
}

/// Checks that a path has the only accepted form: absolute, with plain names, and unambiguous.
pub fn check(path: &str) -> Result<(), PathProblem> {
    let Some(names) = path.strip_prefix('/') else {
        return Err(PathProblem::Relative);
    };
    if path.len() > MAX_PATH {
        return Err(PathProblem::TooLong);
    }
    for name in names.split('/') {
        if matches!(name, "" | "." | "..") {
            return Err(PathProblem::NotPlain);
        }
        if name.len() > MAX_NAME {
            return Err(PathProblem::TooLong);
        }
        if name.chars().any(char::is_control) {
            return Err(PathProblem::Control);
        }
        if name.starts_with(RESERVED) {
            return Err(PathProblem::Reserved);
        }
    }
    Ok(())
}

/// Whether `path` is `directory` or below it.
pub fn is_within(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The entry of [`REFUSED`] that covers the path.
pub fn refused(path: &str) -> Option<&'static str> {
    REFUSED
        .iter()
        .find(|directory| is_within(path, directory))
        .copied()
}

/// Whether one of the paths equals the other or is a parent of it, so that two owners would conflict.
pub fn conflict(one: &str, other: &str) -> bool {
    is_within(one, other) || is_within(other, one)
}

/// Splits a path into directory and name.
pub(crate) fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some(pair) => pair,
        None => (".", path),
    }
}
