//! The process of API servers: `muster-bench servers FOLDER NAME...`.
//!
//! It writes `NAME.kubeconfig` and `NAME.USER.kubeconfig` for each user, prints `ready`, and answers each line of its input with the
//! writes since the line before, as JSON.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Context as _;
use muster_apiserver::{ApiServer, Login};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::usage;

/// The users whose requests are told apart; the administrator's are the bench's.
pub(super) const USERS: [&str; 2] = ["controller", "agent"];
/// Requests that are kept between two lines of input: none may be lost.
const REQUESTS: usize = 2_000_000;

/// Serves until the input ends.
pub(crate) async fn serve(folder: &Path, names: &[String]) -> anyhow::Result<()> {
    let mut servers = Vec::new();
    for name in names {
        let server = ApiServer::builder()
            .name(name)
            .log_limit(REQUESTS)
            .start()
            .await?;
        let kubeconfig = server.kubeconfig().context("the server does not listen")?;
        fs::write(folder.join(format!("{name}.kubeconfig")), kubeconfig)?;
        for user in USERS {
            let kubeconfig = server.kubeconfig_of(&server.issue(user)?, Login::Certificate);
            fs::write(
                folder.join(format!("{name}.{user}.kubeconfig")),
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
