//! Flags that the controller and the agent share.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use muster_controllers::{hosts::Host, lease::LeaseDuration};
use muster_operate::install::Sync;
use muster_sync::source::Limits;

use crate::{
    flags::{DoorAddress, door_address, duration, sync},
    logs::LogFormat,
};

#[derive(Args, Clone, Debug)]
pub(crate) struct ProcessFlags {
    /// What applies GitRepository and Kustomization objects
    #[arg(long, value_parser = sync(), default_value = "builtin", env = "MUSTER_SYNC")]
    pub sync: Sync,
    /// How often the copy of an assignment in a cluster is polled if it cannot be watched (± 10 %)
    #[arg(long, default_value = "20s", value_parser = duration, env = "MUSTER_PROXY_POLL_INTERVAL")]
    pub proxy_poll_interval: Duration,
    /// A kind that controlPlaneBindings and gates may read in addition to ConfigMap and Cluster, such as
    /// apps/v1/Deployment; may be repeated
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "APIVERSION/KIND",
        env = "MUSTER_BINDING_KINDS"
    )]
    pub binding_kinds: Vec<String>,
    /// Directory of the git mirrors
    #[arg(long, default_value = "/var/lib/muster", env = "MUSTER_DATA_DIR")]
    pub data_dir: PathBuf,
    /// Allow git sources over http and file, and gates over http
    #[arg(long, env = "MUSTER_ALLOW_INSECURE_SOURCES")]
    pub allow_insecure_sources: bool,
    /// Log format
    #[arg(long, value_enum, default_value_t = LogFormat::Text, env = "MUSTER_LOG_FORMAT")]
    pub log_format: LogFormat,
    /// Elect a leader through the Lease muster-controller (muster-agent for an agent) in the namespace; if false, this
    /// must be the only such process
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
    /// Lease duration, 1s to 10m: how long a failover takes at most
    #[arg(long, default_value = "15s", value_parser = super::lease_duration, env = "MUSTER_LEASE_DURATION")]
    pub lease_duration: LeaseDuration,
    /// Listen address of /metrics, /healthz and /readyz (plain HTTP, no authentication), such as 127.0.0.1:8080, or
    /// :8080 for all addresses; 0 or empty disables
    #[arg(
        long,
        default_value = "0",
        value_name = "ADDRESS:PORT",
        value_parser = door_address,
        env = "MUSTER_METRICS_ADDR"
    )]
    pub metrics_addr: DoorAddress,
    /// A host that rollout gates may query; may be repeated. Without any, gates that query over HTTP never pass
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "HOST[:PORT]",
        env = "MUSTER_GATE_HOSTS"
    )]
    pub gate_hosts: Vec<Host>,
    /// A proxy that a Secret (proxySecretRef) or a kubeconfig (proxy-url) may name; may be repeated. By default, none
    /// may. HTTPS_PROXY and NO_PROXY need no such flag
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "HOST[:PORT]",
        env = "MUSTER_PROXY_HOSTS"
    )]
    pub proxy_hosts: Vec<Host>,
    /// Record every rollout decision in this directory, for muster replay
    #[arg(long, value_name = "DIRECTORY", env = "MUSTER_RECORD_DECISIONS")]
    pub record_decisions: Option<PathBuf>,
    #[command(flatten)]
    pub git: GitFlags,
}

/// Limits per repository. An error about a limit names its flag.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Git limits")]
#[allow(clippy::struct_field_names, reason = "the names of the flags")]
pub struct GitFlags {
    /// Maximum bytes received by one fetch
    #[arg(long, default_value_t = Limits::default().bytes, env = "MUSTER_GIT_MAX_BYTES")]
    pub git_max_bytes: u64,
    /// Maximum bytes of a server's list of branches and tags
    #[arg(long, default_value_t = Limits::default().reference_bytes, env = "MUSTER_GIT_MAX_REFERENCE_BYTES")]
    pub git_max_reference_bytes: u64,
    /// Maximum bytes of a git object that is held in memory (a tree, or a delta)
    #[arg(long, default_value_t = Limits::default().object_bytes, env = "MUSTER_GIT_MAX_OBJECT_BYTES")]
    pub git_max_object_bytes: u64,
    /// Size of a git mirror, in bytes, up to which its unused objects are kept
    #[arg(long, default_value_t = Limits::default().spare_bytes, env = "MUSTER_GIT_SPARE_BYTES")]
    pub git_spare_bytes: u64,
    /// Maximum objects in one fetch, and entries walked in one commit
    #[arg(long, default_value_t = Limits::default().objects, env = "MUSTER_GIT_MAX_OBJECTS")]
    pub git_max_objects: usize,
    /// Maximum manifests below a path
    #[arg(long, default_value_t = Limits::default().files, env = "MUSTER_GIT_MAX_FILES")]
    pub git_max_files: usize,
    /// Maximum bytes of one manifest
    #[arg(long, default_value_t = Limits::default().file_bytes, env = "MUSTER_GIT_MAX_FILE_BYTES")]
    pub git_max_file_bytes: u64,
    /// Maximum bytes of all manifests below a path
    #[arg(long, default_value_t = Limits::default().total_bytes, env = "MUSTER_GIT_MAX_TOTAL_BYTES")]
    pub git_max_total_bytes: u64,
    /// Maximum directory depth
    #[arg(long, default_value_t = Limits::default().depth, env = "MUSTER_GIT_MAX_DEPTH")]
    pub git_max_depth: usize,
    /// Time limit of one fetch or listing of a repository, including its time in the queue
    #[arg(long, default_value = "1m", value_parser = duration, env = "MUSTER_GIT_TIMEOUT")]
    pub git_timeout: Duration,
    /// Maximum concurrent fetches from one host
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
