//! Promise: `api/crds/*.yaml` are what the types say.

use std::{collections::BTreeMap, fs, path::PathBuf};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crds")
}

/// With `MUSTER_GENERATE=1` the files are written instead of compared, as `cargo xtask generate` does.
#[test]
fn committed_files_equal_the_types() {
    let generated: BTreeMap<String, String> = muster_api::crds::generated().into_iter().collect();
    if std::env::var_os("MUSTER_GENERATE").is_some() {
        fs::create_dir_all(folder()).unwrap();
        for (file, text) in &generated {
            fs::write(folder().join(file), text).unwrap();
        }
    }
    let committed: BTreeMap<String, String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
        })
        .collect();
    assert_eq!(
        committed.keys().collect::<Vec<_>>(),
        generated.keys().collect::<Vec<_>>(),
        "files: run `cargo xtask generate`"
    );
    for (file, text) in &generated {
        assert_eq!(&committed[file], text, "{file}: run `cargo xtask generate`");
    }
}
