//! Measures how long a bundle of manifests takes to parse, with our reader and with serde-saphyr.
//!
//! `parse ours|serde-saphyr|both MIB FILE...`: concatenates the files, repeatedly, until the bundle has MIB mebibytes;
//! parses it several times, alternating between the readers; prints the median and the fastest time. With one reader,
//! the process shows the memory peak of that reader.

use std::error::Error;
use std::time::{Duration, Instant};

use muster_sync::yaml::{self, Document};
use serde_json::Value;

const ROUNDS: usize = 9;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [reader, size, files @ ..] = arguments.as_slice() else {
        return Err("usage: parse ours|serde-saphyr|both MIB FILE...".into());
    };
    let bundle = bundle(files, size.parse::<usize>()? << 20)?;
    let readers: Vec<Reader> = READERS
        .iter()
        .filter(|(name, _)| reader == "both" || reader == name)
        .copied()
        .collect();
    let mut times = vec![Vec::new(); readers.len()];
    let mut objects = Vec::new();
    for _ in 0..ROUNDS {
        for (at, (_, read)) in readers.iter().enumerate() {
            let start = Instant::now();
            let read = read(&bundle)?;
            times[at].push(start.elapsed());
            objects.push(read.len());
        }
    }
    objects.dedup();
    println!("{} bytes, documents: {objects:?}", bundle.len());
    for ((name, _), mut times) in readers.iter().zip(times) {
        times.sort();
        let fastest = times.first().copied().unwrap_or_default();
        println!(
            "{name}: median {:?}, fastest {fastest:?}, {}",
            times[ROUNDS / 2],
            speed(&bundle, times[ROUNDS / 2])
        );
    }
    Ok(())
}

type Reader = (&'static str, fn(&str) -> Result<Vec<Value>, Box<dyn Error>>);

const READERS: &[Reader] = &[("ours", ours), ("serde-saphyr", serde_saphyr)];

fn ours(text: &str) -> Result<Vec<Value>, Box<dyn Error>> {
    let documents = yaml::documents("bundle.yaml", text.as_bytes())?;
    Ok(documents.iter().map(Document::value).collect::<Result<_, _>>()?)
}

fn serde_saphyr(text: &str) -> Result<Vec<Value>, Box<dyn Error>> {
    let options = serde_saphyr::options! { budget: None };
    Ok(serde_saphyr::from_multiple_with_options(text, options)?)
}

/// The files in turn, each after a `---`, until the bundle is large enough.
fn bundle(files: &[String], size: usize) -> Result<String, Box<dyn Error>> {
    let texts = files
        .iter()
        .map(std::fs::read_to_string)
        .collect::<Result<Vec<_>, _>>()?;
    if texts.iter().all(String::is_empty) {
        return Err("the files are empty".into());
    }
    let mut bundle = String::new();
    for text in texts.iter().cycle() {
        if bundle.len() >= size {
            break;
        }
        bundle.push_str("---\n");
        bundle.push_str(text);
        bundle.push('\n');
    }
    Ok(bundle)
}

fn speed(bundle: &str, time: Duration) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let mib = bundle.len() as f64 / f64::from(1 << 20);
    format!("{:.1} MiB/s", mib / time.as_secs_f64())
}
