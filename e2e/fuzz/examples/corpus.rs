//! Writes the seeds and dictionaries of all fuzz targets into a directory: `DIR/TARGET/<number>`, `DIR/TARGET.dict`.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use muster_fuzz::corpus;

fn main() -> io::Result<()> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let directory: PathBuf = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from("corpus"), PathBuf::from);
    for (target, seeds) in corpus::seeds(&repository)? {
        std::fs::create_dir_all(directory.join(target))?;
        for (number, seed) in seeds.iter().enumerate() {
            std::fs::write(directory.join(target).join(format!("seed-{number:04}")), seed)?;
        }
        let words = corpus::dictionary(target).unwrap_or_default();
        if !words.is_empty() {
            std::fs::write(directory.join(format!("{target}.dict")), dictionary(words))?;
        }
        println!("{target}: {} seeds, {} words", seeds.len(), words.len());
    }
    Ok(())
}

/// One quoted token per line; bytes other than plain ASCII as hex escapes.
fn dictionary(words: &[&str]) -> String {
    let mut lines = String::new();
    for word in words {
        lines.push('"');
        for byte in word.bytes() {
            // Writing to a String cannot fail.
            let _ = match byte {
                b'"' | b'\\' => write!(lines, "\\{}", char::from(byte)),
                b' '..=b'~' => write!(lines, "{}", char::from(byte)),
                _ => write!(lines, "\\x{byte:02X}"),
            };
        }
        lines.push_str("\"\n");
    }
    lines
}
