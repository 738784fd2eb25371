//! The content that a row requests, and its validation against the node's configuration before anything is written.

use std::{collections::BTreeSet, fmt, net::SocketAddr, time::Duration};

use globset::GlobBuilder;
use serde::{Deserialize, Serialize};

use crate::{
    config::Config,
    duration,
    host::{Account, Host},
    outcome::{RefusalProblem, RowRefusal},
    paths,
    piece::Piece,
    sealed::hash,
    secrets::Secrets,
};

/// Maximum total size of all contents of a row, as for a NodeModule.
pub const MAX_CONTENT: usize = 256 * 1024;
/// Maximum number of files, reloads, and checks of each kind in a row.
pub const MAX_ENTRIES: usize = 256;
/// Permission bits that a file may have: no setuid, setgid and sticky bits.
const MODES: u32 = 0o777;

/// A row of the node: the content of one NodeModule.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Assignment {
    /// The name of the NodeModule.
    pub name: String,
    /// The name of the NodeRevision, for display.
    #[serde(default)]
    pub revision: String,
    /// Hash of the content for this node, verified by the caller.
    pub digest: String,
    /// Number of the assignment: it increases with each one.
    pub token: u64,
    /// Increases when another try of the same content is requested.
    #[serde(default)]
    pub attempt: u64,
    /// Whether the row is being deleted: `content.on_delete` says what happens to its files.
    #[serde(default)]
    pub deleting: bool,
    /// The requested content.
    pub content: Content,
}

/// Files and the checks that confirm them. All variables except secrets are substituted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Content {
    /// Written in this order.
    pub files: Vec<File>,
    /// Reloaders of the node's configuration, run in this order after a change.
    pub reload: Vec<String>,
    /// The checks that must succeed for the change to be confirmed.
    pub checks: Checks,
    /// Time after the reload in which checks are ignored; absent: 10s.
    pub settle: Option<String>,
    /// How long all checks must succeed without interruption; absent: 15s.
    pub hold_for: Option<String>,
    /// Timeout of the change, from the first write; absent: 2m.
    pub confirm_within: Option<String>,
    /// What happens to the files when the row is deleted.
    pub on_delete: OnDelete,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct File {
    /// The absolute path.
    pub path: String,
    /// Permission bits in octal; absent: 0644.
    pub mode: Option<String>,
    /// Name of the owner; absent: root.
    pub owner: Option<String>,
    /// Name of the group; absent: root.
    pub group: Option<String>,
    /// Whether the file exists.
    pub state: FileState,
    /// The content; empty if the state is Absent.
    pub content: Vec<Piece>,
}

/// Whether a file exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum FileState {
    /// The file exists with the content.
    #[default]
    Present,
    /// The file does not exist.
    Absent,
}

/// What happens to the files of a row that is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum OnDelete {
    /// The files stay as they are, and the originals are deleted.
    #[default]
    Orphan,
    /// The originals are restored, as a change like any other.
    Restore,
}

/// The checks that confirm a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Checks {
    /// Names of network interfaces, and globs over them: each must match one, and all matching interfaces must be up.
    pub interfaces: Vec<String>,
    /// Addresses and ports that must respond; a refused connection is a response.
    pub tcp: Vec<String>,
    /// Services of the node's configuration, whose program must succeed.
    pub services: Vec<String>,
    /// Whether the node's API server must respond.
    pub api_server: bool,
}

/// Identifies a try: a try with the same key is not repeated after it failed because of the revision.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Key {
    /// Hash of the content; a deleted row has a different one.
    pub digest: String,
    /// Number of the assignment.
    pub token: u64,
    /// Number of the try.
    pub attempt: u64,
    /// Hash of the definitions in the node's configuration that the content names.
    pub definitions: String,
}

/// A change that the node's configuration allows.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub row: String,
    pub key: Key,
    pub files: Vec<DesiredFile>,
    pub procedure: Procedure,
    pub secrets: Secrets,
}

/// The steps around the swap of files; they are stored with the plan, so that a restore after a restart can use them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Procedure {
    pub reload: Vec<String>,
    pub checks: Checks,
    pub settle: Duration,
    pub hold_for: Duration,
    pub confirm_within: Duration,
}

/// A desired file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DesiredFile {
    pub path: String,
    pub target: Target,
}

/// The desired state of a path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Target {
    Absent,
    Present { content: Filled, attributes: Attributes },
}

/// Owner and permissions of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Attributes {
    /// Permission bits.
    pub mode: u32,
    /// The user ID of the owner.
    pub uid: u32,
    /// The group ID.
    pub gid: u32,
}

impl Attributes {
    /// Used instead of IDs: the user and the group of the agent.
    pub const KEEP: u32 = u32::MAX;
    /// Attributes of files in the agent's own directory.
    pub const PRIVATE: Self = Self {
        mode: 0o600,
        uid: Self::KEEP,
        gid: Self::KEEP,
    };
}

/// Content that contains secrets: never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Filled(pub Vec<u8>);

impl fmt::Debug for Filled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

impl Assignment {
    /// The requested change with its secrets, if the node's configuration allows all of it.
    pub(crate) fn admit(&self, config: &Config, host: &dyn Host) -> Result<Change, RowRefusal> {
        self.check_sizes()?;
        let content = &self.content;
        let procedure = procedure(content, config)?;
        let mut secrets = Secrets::default();
        let mut files = Vec::new();
        let mut paths: BTreeSet<&str> = BTreeSet::new();
        for (number, file) in content.files.iter().enumerate() {
            let admitted = desired_file(file, config, host, &mut secrets);
            files.push(admitted.map_err(|refusal| refusal.below(&format!("files[{number}]")))?);
            if let Some(other) = paths.iter().find(|path| paths::conflict(path, &file.path)) {
                let problem = format!("{:?} is listed with {other:?}", file.path);
                return Err(RowRefusal::invalid(format!("files[{number}].path"), problem));
            }
            paths.insert(&file.path);
        }
        let mut key = Key {
            digest: self.digest.clone(),
            token: self.token,
            attempt: self.attempt,
            definitions: definitions(content, config, &secrets),
        };
        if self.deleting {
            files.clear();
            key.digest = hash(&[b"deleted", self.digest.as_bytes()]);
        }
        Ok(Change {
            row: self.name.clone(),
            key,
            files,
            procedure,
            secrets,
        })
    }

    fn check_sizes(&self) -> Result<(), RowRefusal> {
        let Content {
            files,
            reload,
            checks,
            ..
        } = &self.content;
        let counts = [
            ("files", files.len()),
            ("reload", reload.len()),
            ("checks.interfaces", checks.interfaces.len()),
            ("checks.tcp", checks.tcp.len()),
            ("checks.services", checks.services.len()),
        ];
        if let Some((field, count)) = counts.into_iter().find(|(_, count)| *count > MAX_ENTRIES) {
            let problem = format!("{count} entries are more than {MAX_ENTRIES}");
            return Err(RowRefusal::invalid(field, problem));
        }
        let bytes: usize = files.iter().flat_map(|file| &file.content).map(Piece::len).sum();
        if bytes > MAX_CONTENT {
            let problem = format!("{bytes} bytes of content are more than {MAX_CONTENT}");
            return Err(RowRefusal::invalid("files", problem));
        }
        // The stored part of a row must fit a slot of the journal.
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        let short = |text: &str| !text.is_empty() && text.len() <= 253 && text.bytes().all(plain);
        if !short(&self.name) || !short(&self.digest) {
            return Err(RowRefusal::invalid(
                "name",
                "name and digest have 1 to 253 plain characters",
            ));
        }
        Ok(())
    }
}

/// The hash of all definitions that the content names: if one of them changes, known bad content may be tried again.
fn definitions(content: &Content, config: &Config, secrets: &Secrets) -> String {
    let programs = |names: &[String], programs: &std::collections::BTreeMap<_, crate::config::Program>| {
        let used: Vec<_> = names.iter().map(|name| (name, programs.get(name))).collect();
        serde_json::to_vec(&used).unwrap_or_default()
    };
    let server = content.checks.api_server.then_some(config.server.as_ref());
    hash(&[
        &programs(&content.reload, &config.reloaders),
        &programs(&content.checks.services, &config.services),
        &serde_json::to_vec(&server).unwrap_or_default(),
        secrets.hash().as_bytes(),
    ])
}

fn procedure(content: &Content, config: &Config) -> Result<Procedure, RowRefusal> {
    let mut reloads = Duration::ZERO;
    for (number, name) in content.reload.iter().enumerate() {
        let unknown = || {
            RowRefusal::not_allowed(
                format!("reload[{number}]"),
                name,
                "the node's configuration defines no such reloader",
            )
        };
        reloads += config.reloaders.get(name).ok_or_else(unknown)?.timeout;
    }
    check_checks(&content.checks, config)?;
    let settle = span("settle", content.settle.as_deref(), 10)?;
    let hold_for = span("holdFor", content.hold_for.as_deref(), 15)?;
    let confirm_within = span("confirmWithin", content.confirm_within.as_deref(), 120)?;
    if reloads + settle + hold_for >= confirm_within {
        let problem = format!(
            "{confirm_within:?} is not longer than the timeouts of the reloaders ({reloads:?}), settle ({settle:?}) and holdFor ({hold_for:?})"
        );
        return Err(RowRefusal::invalid("confirmWithin", problem));
    }
    Ok(Procedure {
        reload: content.reload.clone(),
        checks: content.checks.clone(),
        settle,
        hold_for,
        confirm_within,
    })
}

/// A duration of at most a day; absent: this number of seconds.
fn span(field: &str, text: Option<&str>, absent: u64) -> Result<Duration, RowRefusal> {
    let Some(text) = text else {
        return Ok(Duration::from_secs(absent));
    };
    duration::parse(text)
        .filter(|span| *span <= Duration::from_hours(24))
        .ok_or_else(|| {
            RowRefusal::invalid(
                field,
                format!("{text:?} is not a span of at most 24h, such as 10s"),
            )
        })
}

fn check_checks(checks: &Checks, config: &Config) -> Result<(), RowRefusal> {
    for (number, pattern) in checks.interfaces.iter().enumerate() {
        glob(pattern)
            .map_err(|problem| RowRefusal::invalid(format!("checks.interfaces[{number}]"), problem))?;
    }
    for (number, text) in checks.tcp.iter().enumerate() {
        let field = format!("checks.tcp[{number}]");
        let Ok(target) = text.parse::<SocketAddr>() else {
            let problem = format!("{text:?} is not an address and a port, such as 10.0.0.1:179");
            return Err(RowRefusal::invalid(field, problem));
        };
        if !config.allows_target(target) {
            return Err(RowRefusal::not_allowed(
                field,
                text,
                "it is not in the checkTargets of the node's configuration",
            ));
        }
    }
    for (number, name) in checks.services.iter().enumerate() {
        if !config.services.contains_key(name) {
            let field = format!("checks.services[{number}]");
            return Err(RowRefusal::not_allowed(
                field,
                name,
                "the node's configuration defines no such service",
            ));
        }
    }
    if checks.api_server && config.server.is_none() {
        return Err(RowRefusal::not_allowed(
            "checks.apiServer",
            "true",
            "the node's configuration has no server",
        ));
    }
    Ok(())
}

/// The matcher for a pattern of interfaces; `*` does not match a slash.
pub(crate) fn glob(pattern: &str) -> Result<globset::GlobMatcher, String> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher())
        .map_err(|error| error.to_string())
}

fn desired_file(
    file: &File,
    config: &Config,
    host: &dyn Host,
    secrets: &mut Secrets,
) -> Result<DesiredFile, RowRefusal> {
    let path = &file.path;
    paths::check(path).map_err(|problem| RowRefusal::invalid("path", format!("{path:?} {problem}")))?;
    config
        .allows_path(path)
        .map_err(|why| RowRefusal::not_allowed("path", path, &why))?;
    let target = match file.state {
        FileState::Absent if file.content.is_empty() => Target::Absent,
        FileState::Absent => {
            return Err(RowRefusal::invalid(
                "content",
                "a file with state Absent must have no content",
            ));
        }
        FileState::Present => Target::Present {
            attributes: Attributes {
                mode: mode(file.mode.as_deref())?,
                uid: account("owner", file.owner.as_deref(), Account::User, host)?,
                gid: account("group", file.group.as_deref(), Account::Group, host)?,
            },
            content: Filled(secrets.fill(&file.content, config, host)?.into_bytes()),
        },
    };
    Ok(DesiredFile {
        path: path.clone(),
        target,
    })
}

fn mode(text: Option<&str>) -> Result<u32, RowRefusal> {
    let Some(text) = text else {
        return Ok(0o644);
    };
    let octal = text.bytes().all(|byte| byte.is_ascii_digit());
    let mode = u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| octal && *mode <= MODES);
    mode.ok_or_else(|| {
        RowRefusal::invalid("mode", format!("{text:?} is not an octal mode from 0000 to 0777"))
    })
}

fn account(field: &str, name: Option<&str>, kind: Account, host: &dyn Host) -> Result<u32, RowRefusal> {
    let name = name.unwrap_or("root");
    if name == "root" {
        return Ok(0);
    }
    let unknown = || RowRefusal {
        field: field.to_owned(),
        problem: RefusalProblem::NotOnNode(format!("{kind} {name:?}")),
    };
    host.account(kind, name).ok_or_else(unknown)
}
