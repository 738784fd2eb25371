//! What one row asks of this node, and the check of it against the node's configuration, before anything is written.

use std::{collections::BTreeSet, fmt, net::SocketAddr, time::Duration};

use globset::GlobBuilder;
use serde::{Deserialize, Serialize};

use crate::{
    config::Config,
    duration,
    host::{Account, Host},
    outcome::{Refusal, RefusalProblem},
    paths,
    piece::Piece,
    sealed::hash,
    secrets::Secrets,
};

/// Bytes of all contents of a row, as a NodeModule may have.
pub const MAX_CONTENT: usize = 256 * 1024;
/// Files, reloads, and checks of each kind of a row.
pub const MAX_ENTRIES: usize = 256;
/// Permission bits that a file may have: none that make a program run as its owner.
const MODES: u32 = 0o777;

/// A row of the node: one NodeModule's content for it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Assignment {
    /// The NodeModule.
    pub name: String,
    /// The NodeRevision, for people.
    #[serde(default)]
    pub revision: String,
    /// Hash of the content for this node. The caller has checked it.
    pub digest: String,
    /// Number of the assignment: it grows with each one.
    pub token: u64,
    /// Grows when another try of the same content is asked for.
    #[serde(default)]
    pub attempt: u64,
    /// Whether the row is on its way out: `content.on_delete` says what is done.
    #[serde(default)]
    pub deleting: bool,
    /// What is asked.
    pub content: Content,
}

/// Files and the checks that confirm them. All variables but secrets are filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Content {
    /// Written in this order.
    pub files: Vec<File>,
    /// Reloaders of the node's configuration, run in this order after a change.
    pub reload: Vec<String>,
    /// What has to hold for the change to stay.
    pub checks: Checks,
    /// Span after the reload in which no check counts; absent: 10s.
    pub settle: Option<String>,
    /// How long all checks have to hold without a failure; absent: 15s.
    pub hold_for: Option<String>,
    /// All of it, from the first write; absent: 2m.
    pub confirm_within: Option<String>,
    /// What becomes of the files of a row that is deleted.
    pub on_delete: OnDelete,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct File {
    /// Absolute.
    pub path: String,
    /// Permission bits in octal; absent: 0644.
    pub mode: Option<String>,
    /// Name of its owner; absent: root.
    pub owner: Option<String>,
    /// Name of its group; absent: root.
    pub group: Option<String>,
    /// Whether it is there.
    pub state: FileState,
    /// Its content; empty where the state is Absent.
    pub content: Vec<Piece>,
}

/// Whether a file is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum FileState {
    /// It is there with the content.
    #[default]
    Present,
    /// It is not there.
    Absent,
}

/// What becomes of the files of a row that is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum OnDelete {
    /// They stay as they are, and the originals are forgotten.
    #[default]
    Orphan,
    /// The originals come back, as a change like any other.
    Restore,
}

/// What has to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Checks {
    /// Names of network interfaces, and globs over them: each has to match one, and all that match have to be up.
    pub interfaces: Vec<String>,
    /// Addresses and ports that have to answer; a refused connection is an answer.
    pub tcp: Vec<String>,
    /// Services of the node's configuration, whose program has to succeed.
    pub services: Vec<String>,
    /// Whether the node's API server has to answer.
    pub api_server: bool,
}

/// What identifies a try: nothing of the same key is tried again once it failed for the revision's own reasons.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Key {
    /// Hash of the content; of a row that is deleted, another one.
    pub digest: String,
    /// Number of the assignment.
    pub token: u64,
    /// Number of the try.
    pub attempt: u64,
    /// Hash of what the content names in the node's configuration.
    pub definitions: String,
}

/// A change that the node's configuration allows.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub row: String,
    pub key: Key,
    pub files: Vec<Wanted>,
    pub procedure: Procedure,
    pub secrets: Secrets,
}

/// What surrounds the swap of files; it is kept with the plan, so that a restart can restore by it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Procedure {
    pub reload: Vec<String>,
    pub checks: Checks,
    pub settle: Duration,
    pub hold_for: Duration,
    pub confirm_within: Duration,
}

/// A file as it is wanted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    pub path: String,
    pub target: Target,
}

/// What a path is to have.
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
    /// Number of the owner.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
}

impl Attributes {
    /// Instead of a number: the user and the group that the agent runs as.
    pub const KEEP: u32 = u32::MAX;
    /// Files of the agent's own folder.
    pub const PRIVATE: Self = Self {
        mode: 0o600,
        uid: Self::KEEP,
        gid: Self::KEEP,
    };
}

/// Content with secrets in it: never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Filled(pub Vec<u8>);

impl fmt::Debug for Filled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

impl Assignment {
    /// The change that is asked for, secrets filled in, if the node's configuration allows all of it.
    pub(crate) fn admit(&self, config: &Config, host: &dyn Host) -> Result<Change, Refusal> {
        self.check_sizes()?;
        let content = &self.content;
        let procedure = procedure(content, config)?;
        let mut secrets = Secrets::default();
        let mut files = Vec::new();
        let mut paths: BTreeSet<&str> = BTreeSet::new();
        for (number, file) in content.files.iter().enumerate() {
            let admitted = wanted(file, config, host, &mut secrets);
            files.push(admitted.map_err(|refusal| refusal.below(&format!("files[{number}]")))?);
            if let Some(other) = paths.iter().find(|path| paths::conflict(path, &file.path)) {
                let problem = format!("{:?} is listed with {other:?}", file.path);
                return Err(Refusal::invalid(format!("files[{number}].path"), problem));
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

    fn check_sizes(&self) -> Result<(), Refusal> {
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
            return Err(Refusal::invalid(field, problem));
        }
        let bytes: usize = files.iter().flat_map(|file| &file.content).map(Piece::len).sum();
        if bytes > MAX_CONTENT {
            let problem = format!("{bytes} bytes of content are more than {MAX_CONTENT}");
            return Err(Refusal::invalid("files", problem));
        }
        // What is kept of a row has to fit a slot of the journal.
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        let short = |text: &str| !text.is_empty() && text.len() <= 253 && text.bytes().all(plain);
        if !short(&self.name) || !short(&self.digest) {
            return Err(Refusal::invalid(
                "name",
                "name and digest have 1 to 253 plain characters",
            ));
        }
        Ok(())
    }
}

/// The hash of everything that the content means by its names: where one of them changes, a known bad content may be tried again.
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

fn procedure(content: &Content, config: &Config) -> Result<Procedure, Refusal> {
    let mut reloads = Duration::ZERO;
    for (number, name) in content.reload.iter().enumerate() {
        let unknown = || {
            Refusal::not_allowed(
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
        return Err(Refusal::invalid("confirmWithin", problem));
    }
    Ok(Procedure {
        reload: content.reload.clone(),
        checks: content.checks.clone(),
        settle,
        hold_for,
        confirm_within,
    })
}

/// A span of at most a day; absent: so many seconds.
fn span(field: &str, text: Option<&str>, absent: u64) -> Result<Duration, Refusal> {
    let Some(text) = text else {
        return Ok(Duration::from_secs(absent));
    };
    duration::parse(text)
        .filter(|span| *span <= Duration::from_hours(24))
        .ok_or_else(|| {
            Refusal::invalid(
                field,
                format!("{text:?} is not a span of at most 24h, such as 10s"),
            )
        })
}

fn check_checks(checks: &Checks, config: &Config) -> Result<(), Refusal> {
    for (number, pattern) in checks.interfaces.iter().enumerate() {
        glob(pattern).map_err(|problem| Refusal::invalid(format!("checks.interfaces[{number}]"), problem))?;
    }
    for (number, text) in checks.tcp.iter().enumerate() {
        let field = format!("checks.tcp[{number}]");
        let Ok(target) = text.parse::<SocketAddr>() else {
            let problem = format!("{text:?} is not an address and a port, such as 10.0.0.1:179");
            return Err(Refusal::invalid(field, problem));
        };
        if !config.allows_target(target) {
            return Err(Refusal::not_allowed(
                field,
                text,
                "it is in none of the checkTargets of the node's configuration",
            ));
        }
    }
    for (number, name) in checks.services.iter().enumerate() {
        if !config.services.contains_key(name) {
            let field = format!("checks.services[{number}]");
            return Err(Refusal::not_allowed(
                field,
                name,
                "the node's configuration defines no such service",
            ));
        }
    }
    if checks.api_server && config.server.is_none() {
        return Err(Refusal::not_allowed(
            "checks.apiServer",
            "true",
            "the node's configuration has no server",
        ));
    }
    Ok(())
}

/// The matcher of a pattern of interfaces; `*` does not match a slash.
pub(crate) fn glob(pattern: &str) -> Result<globset::GlobMatcher, String> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher())
        .map_err(|error| error.to_string())
}

fn wanted(file: &File, config: &Config, host: &dyn Host, secrets: &mut Secrets) -> Result<Wanted, Refusal> {
    let path = &file.path;
    paths::check(path).map_err(|problem| Refusal::invalid("path", format!("{path:?} {problem}")))?;
    config
        .allows_path(path)
        .map_err(|why| Refusal::not_allowed("path", path, &why))?;
    let target = match file.state {
        FileState::Absent if file.content.is_empty() => Target::Absent,
        FileState::Absent => {
            return Err(Refusal::invalid(
                "content",
                "a file that is Absent has no content",
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
    Ok(Wanted {
        path: path.clone(),
        target,
    })
}

fn mode(text: Option<&str>) -> Result<u32, Refusal> {
    let Some(text) = text else {
        return Ok(0o644);
    };
    let octal = text.bytes().all(|byte| byte.is_ascii_digit());
    let mode = u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| octal && *mode <= MODES);
    mode.ok_or_else(|| Refusal::invalid("mode", format!("{text:?} is not an octal mode from 0000 to 0777")))
}

fn account(field: &str, name: Option<&str>, kind: Account, host: &dyn Host) -> Result<u32, Refusal> {
    let name = name.unwrap_or("root");
    if name == "root" {
        return Ok(0);
    }
    let unknown = || Refusal {
        field: field.to_owned(),
        problem: RefusalProblem::NotOnNode(format!("{kind} {name:?}")),
    };
    host.account(kind, name).ok_or_else(unknown)
}
