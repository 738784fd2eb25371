//! Checks after every scenario with processes: each decision of the controllers is recorded, and a replay yields the
//! same result.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::programs::muster;

/// The directory in which a controller records.
pub(crate) fn directory(bed: &Path, instance: &str) -> PathBuf {
    bed.join(format!("decisions-{instance}"))
}

/// What is wrong with a module's record, whichever controller wrote it.
pub(crate) fn problem(bed: &Path, namespace: &str, kind: &str, module: &str) -> Option<String> {
    let name = format!("{namespace}.{kind}.{module}.jsonl");
    let directories = fs::read_dir(bed).unwrap().map(|entry| entry.unwrap().path());
    let logs: Vec<PathBuf> = directories
        .map(|directory| directory.join(&name))
        .filter(|log| log.is_file())
        .collect();
    if logs.is_empty() {
        return Some(format!("no controller has recorded {name}"));
    }
    logs.iter().find_map(|log| replay(log))
}

fn replay(log: &Path) -> Option<String> {
    let output = Command::new(muster()).arg("replay").arg(log).output().unwrap();
    (!output.status.success()).then(|| {
        format!(
            "{}: {}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    })
}
