//! `muster-apiserver`: a Kubernetes API server on loopback until Ctrl-C.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use muster_apiserver::ApiServer;
use muster_apiserver::player::Speeds;

/// A Kubernetes API server in one process, on 127.0.0.1, with everything in memory.
#[derive(Parser)]
#[command(name = "muster-apiserver", version)]
struct Arguments {
    /// Port of the HTTPS listener; 0 selects a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Where to write the kubeconfig.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// Simulate the controllers, the scheduler and the kubelets of a cluster.
    #[arg(long)]
    workloads: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match serve(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            let mut source = error.source();
            while let Some(cause) = source {
                eprintln!("  because: {cause}");
                source = cause.source();
            }
            ExitCode::FAILURE
        }
    }
}

async fn serve(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let api = ApiServer::in_process()?;
    if arguments.workloads {
        api.play_workloads(Speeds::default());
    }
    let address = api.listen(arguments.port).await?;
    let kubeconfig = api.kubeconfig().ok_or("the HTTPS listener is not open")?;
    write_private(&arguments.kubeconfig, &kubeconfig)?;
    println!("serving on https://{address}");
    println!(
        "kubectl --kubeconfig {} get namespaces",
        arguments.kubeconfig.display()
    );
    tokio::signal::ctrl_c().await?;
    Ok(())
}

/// A kubeconfig has a private key: only its owner may read it.
fn write_private(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())
}
