//! The management cluster's API server: muster's own, or a kube-apiserver on its etcd.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{processes::Servers, servers::USERS};

/// The name of the server in kubeconfigs and logs.
pub(super) const NAME: &str = "management";

/// The group with all permissions.
const MASTERS: &str = "system:masters";

pub(super) enum Management {
    /// muster's own API server, in a process of this program.
    Embedded(Servers),
    /// kube-apiserver, etcd and kube-controller-manager.
    Real(Real),
}

/// A kube-apiserver, and the length of its audit log that was already counted.
pub(super) struct Real {
    fleet: muster_real::Fleet,
    log: PathBuf,
    counted: u64,
}

impl Management {
    /// Starts the server, and writes kubeconfigs for the administrator and for each user into the directory.
    pub(super) async fn start(directory: &Path, is_real: bool) -> anyhow::Result<Self> {
        if !is_real {
            return Ok(Self::Embedded(
                Servers::start(directory, &[NAME.to_owned()]).await?,
            ));
        }
        let planes = directory.join("planes");
        let fleet = tokio::task::spawn_blocking(move || {
            let mut fleet = muster_real::Fleet::start(&planes, muster_real::Plan::default())?;
            fleet.add(&[NAME.to_owned()])?;
            anyhow::Ok(fleet)
        })
        .await??;
        let plane = fleet.plane(NAME)?;
        fs::copy(plane.kubeconfig(), directory.join(format!("{NAME}.kubeconfig")))?;
        for user in USERS {
            let kubeconfig = plane.kubeconfig_of(user, &[MASTERS])?;
            fs::write(directory.join(format!("{NAME}.{user}.kubeconfig")), kubeconfig)?;
        }
        let log = plane.audit_log();
        Ok(Self::Real(Real {
            fleet,
            log,
            counted: 0,
        }))
    }

    /// The processes to measure: kube-apiserver and etcd for a real one.
    pub(super) fn pids(&self) -> anyhow::Result<Vec<u32>> {
        match self {
            Self::Embedded(servers) => Ok(servers.pid().into_iter().collect()),
            Self::Real(real) => Ok(vec![
                real.fleet.pid("etcd")?,
                real.fleet.pid(&format!("{NAME}-apiserver"))?,
            ]),
        }
    }

    /// The writes since the previous call, by resource and user, without Leases.
    pub(super) async fn writes(&mut self) -> anyhow::Result<BTreeMap<String, usize>> {
        match self {
            Self::Embedded(servers) => servers.writes().await,
            Self::Real(real) => real.writes(),
        }
    }
}

impl Real {
    fn writes(&mut self) -> anyhow::Result<BTreeMap<String, usize>> {
        let mut log = File::open(&self.log)?;
        log.seek(SeekFrom::Start(self.counted))?;
        let mut text = String::new();
        log.read_to_string(&mut text)?;
        // The last line may still be incomplete.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.counted += u64::try_from(whole)?;
        let mut counts = BTreeMap::new();
        for line in text.get(..whole).unwrap_or_default().lines() {
            if let Some(what) = write(&serde_json::from_str(line)?) {
                *counts.entry(what).or_default() += 1;
            }
        }
        Ok(counts)
    }
}

/// The resource and user of an audit log entry, if it is a write by muster or by this program.
fn write(entry: &Value) -> Option<String> {
    let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str);
    let is_done = text("/stage")? == "ResponseComplete";
    let is_write = matches!(text("/verb")?, "create" | "update" | "patch" | "delete");
    let resource = text("/objectRef/resource")?;
    let sub = text("/objectRef/subresource").map(|sub| format!("/{sub}"));
    let counts = is_done && is_write && resource != "leases";
    counts.then(|| {
        let user = text("/user/username").unwrap_or_default();
        format!("{resource}{} by the {user}", sub.unwrap_or_default())
    })
}
