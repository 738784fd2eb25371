//! Promise: the command tells its version without a cluster.

use std::process::Command;

#[test]
fn the_version_needs_no_cluster() {
    let output = Command::new(env!("CARGO_BIN_EXE_muster"))
        .args(["version", "--client"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, format!("muster {}\n", env!("CARGO_PKG_VERSION")));
    assert!(output.status.success());
}
