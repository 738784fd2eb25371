//! Laws of a node's configuration: whatever is accepted allows only paths below its prefixes, and never one that would
//! let the agent be replaced; no program has a relative path.
//!
//! The bytes are the text of a configuration, then a line `---`, then paths, one per line.

use std::path::{Component, Path};

use muster_node::{Config, paths};
use muster_sync::yaml;

/// Pieces of interesting texts, for dictionaries and generators.
pub const TOKENS: &[&str] = &[
    "prefixes: [/etc/net]\n",
    "prefixes: [/]\n",
    "prefixes: [/etc, /var/lib]\n",
    "prefixes:\n- /etc\n- ",
    "reloaders: {a: {argv: [/bin/a], timeout: 1s}}\n",
    "services: {a: {argv: [/bin/a, -x], timeout: 9m}}\n",
    "reloaders: {a: {argv: [",
    "checkTargets: [\"10.0.0.0/8:179\"]\n",
    "checkTargets: [\"::/0:1\"]\n",
    "secrets: {a: /etc/a}\n",
    "server: https://10.0.0.1:6443\n",
    "server: https://[::1]:6443\n",
    "dialTimeout: 3s\n",
    "dialTries: -1\n",
    "---\n",
    "/etc/net/a\n",
    "/etc/net/../shadow\n",
    "/etc/sudoers.d/x\n",
    "/etc/cron.d/x\n",
    "/etc/systemd/system/x\n",
    "/var/lib/kubelet/x\n",
    "/root/x\n",
    "/etc/netx\n",
    "/etc/net\n",
    "//etc/net/a\n",
    "/etc/./net/a\n",
    "/",
    "..",
    "\0",
    "a",
];

/// Paths that a configuration can never allow, listed here independently.
const NEVER: [&str; 9] = [
    "/root",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/cron.d",
    "/etc/systemd/system",
    "/var/lib/kubelet",
    "/var/lib/muster",
    "/etc/kubernetes",
    "/proc",
];

/// The laws, for the bytes of a configuration and of paths.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (configuration, rest) = text.split_once("---\n").unwrap_or((&text, ""));
    let Ok(value) = yaml::to_json(configuration) else {
        return;
    };
    let Ok(config) = Config::parse(&value) else { return };
    for path in rest.lines() {
        let plain = paths::check(path).is_ok();
        assert!(!plain || is_plain(path), "{path:?} is taken to be plain");
        if plain && config.allows_path(path).is_ok() {
            let below = |prefix: &String| Path::new(path) != Path::new(prefix) && is_below(path, prefix);
            assert!(config.prefixes.iter().any(below), "{path:?} is below no prefix");
            let never = NEVER.iter().find(|directory| is_below(path, directory));
            assert!(never.is_none(), "{path:?} is allowed, and is within {never:?}");
        }
    }
    let programs = config.reloaders.values().chain(config.services.values());
    for program in programs {
        assert!(
            program.argv.first().is_some_and(|path| is_plain(path)),
            "{program:?} has no absolute path"
        );
        assert!(!program.timeout.is_zero(), "{program:?} is never killed");
    }
}

fn is_below(path: &str, directory: &str) -> bool {
    Path::new(path).starts_with(directory)
}

/// An absolute path whose components are all plain names.
fn is_plain(path: &str) -> bool {
    let parts: Vec<Component<'_>> = Path::new(path).components().collect();
    let names = parts
        .iter()
        .skip(1)
        .all(|part| matches!(part, Component::Normal(_)));
    parts.first() == Some(&Component::RootDir)
        && parts.len() > 1
        && names
        && !path.contains("//")
        && !path.contains("/./")
        && !path.ends_with(['/'])
        && !path.contains('\0')
}
