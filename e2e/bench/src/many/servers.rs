//! The process of API servers: `muster-bench servers DIRECTORY NAME...`.
//!
//! It writes `NAME.kubeconfig` and `NAME.USER.kubeconfig` for each user, prints `ready`, and answers each line of
//! standard input with the writes since the previous line, as JSON.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Context as _;
use muster_apiserver::{ApiServer, Login};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::usage;

/// The users whose requests are counted separately; the administrator is the benchmark itself.
pub(super) const USERS: [&str; 2] = ["controller", "agent"];
/// Requests that are recorded between two lines of input: none may be dropped.
const REQUESTS: usize = 2_000_000;

/// Serves until standard input is closed.
pub(crate) async fn serve(directory: &Path, names: &[String]) -> anyhow::Result<()> {
    let mut servers = Vec::new();
    for name in names {
        let server = ApiServer::builder()
            .name(name)
            .log_limit(REQUESTS)
            .start()
            .await?;
        let kubeconfig = server.kubeconfig().context("the server does not listen")?;
        fs::write(directory.join(format!("{name}.kubeconfig")), kubeconfig)?;
        for user in USERS {
            let kubeconfig = server.kubeconfig_of(&server.issue(user)?, Login::Certificate);
            fs::write(
                directory.join(format!("{name}.{user}.kubeconfig")),
                kubeconfig.context("the server does not listen")?,
            )?;
        }
        servers.push(server);
    }
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while lines.next_line().await?.is_some() {
        let mut all = BTreeMap::<String, usize>::new();
        for server in &servers {
            for (what, count) in usage::writes(server.recorder())? {
                *all.entry(what).or_default() += count;
            }
            server.recorder().clear();
        }
        println!("{}", serde_json::to_string(&all)?);
    }
    Ok(())
}
