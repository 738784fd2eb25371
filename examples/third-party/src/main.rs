//! `follow-the-sun round.json`, and `follow-the-sun --take-back round.json`.

use std::{fs, path::PathBuf};

use anyhow::Context;
use clap::Parser;
use follow_the_sun::{Round, roll, take_back};
use kube::Client;

/// Roll out a version to one cluster after another, in the order of their label `sun`.
#[derive(Parser)]
struct Arguments {
    /// What to roll out, and to which clusters: see round.json.
    round: PathBuf,
    /// Remove it again.
    #[arg(long)]
    take_back: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let file = &arguments.round;
    let text = fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?;
    let round: Round =
        serde_json::from_slice(&text).with_context(|| format!("{} is not a valid round", file.display()))?;
    let client = Client::try_default()
        .await
        .context("no management cluster is configured: set KUBECONFIG")?;
    if arguments.take_back {
        take_back(&client, &round).await?;
        println!("{} is removed", round.name);
    } else {
        let done = roll(&client, &round).await?;
        println!("{} is on {}", round.version, done.join(", "));
    }
    Ok(())
}
