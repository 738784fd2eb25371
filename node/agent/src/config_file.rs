//! The configuration of the node: a file on the host. The last one with which nothing was left to restore is kept, so
//! that unconfirmed changes can be restored after any edit of the file.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use muster_node::{Config, ConfigError};
use muster_sync::yaml::{self, YamlError};
use rustix::process::geteuid;
use thiserror::Error;
use tracing::warn;

/// The default path of the configuration.
pub const FILE: &str = "/etc/muster/node.yaml";
/// The file name of the kept configuration, in the agent's own directory.
const KEPT: &str = "node.yaml";
/// Maximum size of a configuration, in bytes.
const MAX: u64 = 1024 * 1024;

/// Why a configuration cannot be used.
#[derive(Debug, Error)]
pub enum ConfigFileError {
    /// The file cannot be read.
    #[error("{}: {error}", .file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// The file is too large.
    #[error("{} is larger than {MAX} bytes", .0.display())]
    TooLarge(PathBuf),
    /// Users other than root may write it, which would give them root access.
    #[error(
        "{file} is writable by users other than root: chown root:root {file}; chmod go-w {file}", file = .0.display()
    )]
    Writable(PathBuf),
    /// It is not valid YAML.
    #[error("{}: {error}", .file.display())]
    Yaml {
        /// The file.
        file: PathBuf,
        /// The error.
        error: YamlError,
    },
    /// A field is invalid.
    #[error("{}: {error}", .file.display())]
    Field {
        /// The file.
        file: PathBuf,
        /// The error.
        error: ConfigError,
    },
}

/// The configuration file, and the agent's directory that has the kept one.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    file: PathBuf,
    kept: PathBuf,
}

/// The action to run once nothing is left to restore.
pub type Settled = Box<dyn FnOnce() + Send>;

/// The result of reading the configuration.
pub struct Loaded {
    /// The configuration: from the file, or the kept one.
    pub config: Config,
    /// Prefixes of the kept configuration: a change below them may have to be restored.
    pub earlier: Vec<String>,
    /// Keeps this configuration. Must be called once nothing is left to restore.
    pub settled: Option<Settled>,
    /// Why the file cannot be used.
    pub problem: Option<ConfigFileError>,
}

impl ConfigFile {
    /// Uses this file; the last configuration is kept in `directory`.
    pub fn new(file: impl Into<PathBuf>, directory: &Path) -> Self {
        Self {
            file: file.into(),
            kept: directory.join(KEPT),
        }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.file
    }

    /// The text of the file.
    pub fn text(&self) -> Result<String, ConfigFileError> {
        checked_text(&self.file)
    }

    /// The configuration. Without a readable one nothing is allowed.
    pub fn load(&self) -> Loaded {
        let kept = self.kept();
        let earlier = kept
            .as_ref()
            .map(|kept| kept.prefixes.clone())
            .unwrap_or_default();
        match self.read() {
            Ok((config, text)) => Loaded {
                config,
                earlier,
                settled: Some(self.keeper(text)),
                problem: None,
            },
            Err(problem) => Loaded {
                config: kept.unwrap_or_default(),
                earlier,
                settled: None,
                problem: Some(problem),
            },
        }
    }

    fn read(&self) -> Result<(Config, String), ConfigFileError> {
        let text = self.text()?;
        Ok((parse(&self.file, &text)?, text))
    }

    /// The kept file was readable when it was written; one of another version may not be.
    fn kept(&self) -> Option<Config> {
        let text = fs::read_to_string(&self.kept).ok()?;
        parse(&self.kept, &text).ok()
    }

    fn keeper(&self, text: String) -> Settled {
        let kept = self.kept.clone();
        Box::new(move || {
            let is_kept = fs::read_to_string(&kept).is_ok_and(|kept| kept == text);
            if !is_kept && let Err(error) = crate::files::replace(&kept, text.as_bytes(), 0o600) {
                warn!(file = %kept.display(), %error, "the configuration could not be kept");
            }
        })
    }
}

/// Parses the text of a configuration; `file` is used in messages.
pub fn parse(file: &Path, text: &str) -> Result<Config, ConfigFileError> {
    let file = || file.to_owned();
    let value = yaml::to_json(text).map_err(|error| ConfigFileError::Yaml { file: file(), error })?;
    Config::parse(&value).map_err(|error| ConfigFileError::Field { file: file(), error })
}

fn checked_text(file: &Path) -> Result<String, ConfigFileError> {
    let failed = |error| ConfigFileError::Io {
        file: file.to_owned(),
        error,
    };
    let metadata = fs::metadata(file).map_err(failed)?;
    if metadata.len() > MAX {
        return Err(ConfigFileError::TooLarge(file.to_owned()));
    }
    let trusted = metadata.uid() == 0 || metadata.uid() == geteuid().as_raw();
    if !trusted || metadata.permissions().mode() & 0o022 != 0 {
        return Err(ConfigFileError::Writable(file.to_owned()));
    }
    fs::read_to_string(file).map_err(failed)
}
