//! Flags of the two processes of an installation.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use muster_controllers::{gates::GateHost, lease::LeaseDuration};
use muster_sync::source::Limits;

use super::duration;
use crate::{
    dashboard::BesideFlags,
    process::{self, DoorAddress},
};

/// Flags of `muster controller`.
#[derive(Args, Clone, Debug)]
pub struct ControllerFlags {
    #[command(flatten)]
    pub process: ProcessFlags,
    #[command(flatten)]
    pub dashboard: BesideFlags,
}

#[derive(Args, Clone, Debug)]
pub struct ProcessFlags {
    /// Who carries the Flux kinds out
    #[arg(long, value_enum, default_value_t = Sync::Builtin, env = "MUSTER_SYNC")]
    pub sync: Sync,
    /// How often a mirrored assemblage is read when it cannot be watched (± 10 %)
    #[arg(long, default_value = "20s", value_parser = duration, env = "MUSTER_PROXY_POLL_INTERVAL")]
    pub proxy_poll_interval: Duration,
    /// A kind that bindings, and conditions of gates, may read besides ConfigMap and Cluster, such as apps/v1/Deployment; may be repeated
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "APIVERSION/KIND",
        env = "MUSTER_BINDING_KINDS"
    )]
    pub binding_kinds: Vec<String>,
    /// Where git mirrors are kept
    #[arg(long, default_value = "/var/lib/muster", env = "MUSTER_DATA_DIR")]
    pub data_dir: PathBuf,
    /// Allow sources by http and file, and gates by http
    #[arg(long, env = "MUSTER_ALLOW_INSECURE_SOURCES")]
    pub allow_insecure_sources: bool,
    /// How log lines are written
    #[arg(long, value_enum, default_value_t = LogFormat::Text, env = "MUSTER_LOG_FORMAT")]
    pub log_format: LogFormat,
    /// Act only while holding the Lease muster-controller (of an agent: muster-agent) in the namespace; without, this must be
    /// the only such process
    #[arg(
        long,
        default_value_t = true,
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        env = "MUSTER_LEADER_ELECT"
    )]
    pub leader_elect: bool,
    /// How long the Lease lasts after its last renewal, 1s to 10m: another process takes over so long after this one fell silent
    #[arg(long, default_value = "15s", value_parser = process::lease_duration, env = "MUSTER_LEASE_DURATION")]
    pub lease_duration: LeaseDuration,
    /// Where /metrics, /healthz and /readyz are answered, without TLS and to everybody who can connect, such as 127.0.0.1:8080 or
    /// :8080 for all addresses; 0 or empty: nowhere
    #[arg(
        long,
        default_value = "0",
        value_name = "ADDRESS:PORT",
        value_parser = process::door_address,
        env = "MUSTER_METRICS_ADDR"
    )]
    pub metrics_addr: DoorAddress,
    /// A host that gates of rollouts may ask, at the port of its scheme or at this one; may be repeated. Without any, gates that ask
    /// by http never pass
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "HOST[:PORT]",
        env = "MUSTER_GATE_HOSTS"
    )]
    pub gate_hosts: Vec<GateHost>,
    /// Record every decision about a module in this folder, for muster replay (docs/operations.md says what that holds and costs)
    #[arg(long, value_name = "FOLDER", env = "MUSTER_RECORD_DECISIONS")]
    pub record_decisions: Option<PathBuf>,
    /// Tell the receivers of this file of rollouts (docs/notifications.md); of use to the controller only
    #[arg(long, value_name = "FILE", env = "MUSTER_NOTIFY_CONFIG")]
    pub notify_config: Option<PathBuf>,
    #[command(flatten)]
    pub git: GitFlags,
}

/// What a repository may cost. An error that meets a limit names its flag.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Limits of git")]
#[allow(clippy::struct_field_names, reason = "the names of the flags")]
pub struct GitFlags {
    /// Bytes received by one fetch
    #[arg(long, default_value_t = Limits::default().bytes, env = "MUSTER_GIT_MAX_BYTES")]
    pub git_max_bytes: u64,
    /// Bytes of the list of branches and tags that a server offers
    #[arg(long, default_value_t = Limits::default().reference_bytes, env = "MUSTER_GIT_MAX_REFERENCE_BYTES")]
    pub git_max_reference_bytes: u64,
    /// Bytes of one object that has to be held as a whole: a folder, or a file that comes as a difference
    #[arg(long, default_value_t = Limits::default().object_bytes, env = "MUSTER_GIT_MAX_OBJECT_BYTES")]
    pub git_max_object_bytes: u64,
    /// Bytes of one repository in the data directory before what no source names is taken out
    #[arg(long, default_value_t = Limits::default().spare_bytes, env = "MUSTER_GIT_SPARE_BYTES")]
    pub git_spare_bytes: u64,
    /// Objects in one fetch, and entries walked in one commit
    #[arg(long, default_value_t = Limits::default().objects, env = "MUSTER_GIT_MAX_OBJECTS")]
    pub git_max_objects: usize,
    /// Manifests below a path
    #[arg(long, default_value_t = Limits::default().files, env = "MUSTER_GIT_MAX_FILES")]
    pub git_max_files: usize,
    /// Bytes of one manifest
    #[arg(long, default_value_t = Limits::default().file_bytes, env = "MUSTER_GIT_MAX_FILE_BYTES")]
    pub git_max_file_bytes: u64,
    /// Bytes of all manifests of one path together
    #[arg(long, default_value_t = Limits::default().total_bytes, env = "MUSTER_GIT_MAX_TOTAL_BYTES")]
    pub git_max_total_bytes: u64,
    /// Folders within folders
    #[arg(long, default_value_t = Limits::default().depth, env = "MUSTER_GIT_MAX_DEPTH")]
    pub git_max_depth: usize,
    /// Total time of one look at a repository, waiting for its turn included
    #[arg(long, default_value = "1m", value_parser = duration, env = "MUSTER_GIT_TIMEOUT")]
    pub git_timeout: Duration,
    /// Fetches from one host at a time
    #[arg(long, default_value_t = Limits::default().per_host, env = "MUSTER_GIT_FETCHES_PER_HOST")]
    pub git_fetches_per_host: usize,
}

impl From<GitFlags> for Limits {
    fn from(flags: GitFlags) -> Self {
        let GitFlags {
            git_max_bytes: bytes,
            git_max_reference_bytes: reference_bytes,
            git_max_object_bytes: object_bytes,
            git_spare_bytes: spare_bytes,
            git_max_objects: objects,
            git_max_files: files,
            git_max_file_bytes: file_bytes,
            git_max_total_bytes: total_bytes,
            git_max_depth: depth,
            git_timeout: timeout,
            git_fetches_per_host: per_host,
        } = flags;
        Self {
            bytes,
            reference_bytes,
            object_bytes,
            spare_bytes,
            objects,
            files,
            file_bytes,
            total_bytes,
            depth,
            timeout,
            per_host,
        }
    }
}

/// Who carries the Flux kinds out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sync {
    /// muster itself
    Builtin,
    /// Flux: muster writes the Flux kinds and reads their status
    Flux,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}
