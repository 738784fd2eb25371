//! The programs that tests start: muster's own, from the directory of the tests, and kubectl.

use std::{path::PathBuf, process::Stdio};

use tokio::{io::AsyncWriteExt, process::Command};

/// The `muster` binary, from the directory of the tests.
pub fn muster() -> PathBuf {
    beside_the_tests("muster")
}

/// The node binary, from the directory of the tests.
pub fn node_agent() -> PathBuf {
    beside_the_tests("muster-node-agent")
}

fn beside_the_tests(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let binary = tests.ancestors().nth(2).unwrap().join(name);
    assert!(
        binary.is_file(),
        "run cargo build -p muster first: {} does not exist",
        binary.display()
    );
    binary
}

/// `kubectl apply --server-side -f -`.
pub async fn kubectl_apply(kubeconfig: &std::path::Path, manifests: &str) {
    let mut kubectl = Command::new("kubectl")
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["apply", "--server-side", "--field-manager=muster-cli", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = kubectl.stdin.take().unwrap();
    input.write_all(manifests.as_bytes()).await.unwrap();
    drop(input);
    let output = kubectl.wait_with_output().await.unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
