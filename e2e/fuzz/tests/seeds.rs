//! Promise: every law holds for the seeds, and for inputs that a fuzzer has found.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::path::Path;

use muster_fuzz::{LAWS, corpus};

/// Inputs that once broke a law or a program: `regressions/TARGET/<what it was>`.
fn regressions(target: &str) -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("regressions")
        .join(target);
    let Ok(entries) = directory.read_dir() else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .map(|path| (path.display().to_string(), std::fs::read(path).unwrap()))
        .collect()
}

#[test]
fn hold() {
    let mut seeds = corpus::seeds(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap();
    assert_eq!(seeds.len(), LAWS.len());
    for (target, law) in LAWS {
        let seeds = seeds.remove(target).unwrap();
        assert!(seeds.len() >= 10, "{target} has {} seeds", seeds.len());
        let old = regressions(target);
        println!("{target}: {} seeds, {} regressions", seeds.len(), old.len());
        for seed in &seeds {
            law(seed);
        }
        for (path, bytes) in old {
            println!("{path}");
            law(&bytes);
        }
    }
}
