#![allow(missing_docs)]
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]
#[path = "../tests/player/mod.rs"]
mod player;
fn main() {
    let first: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let runs: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    let full = std::env::args().nth(3).is_some();
    let mut t = player::Tally::default();
    for seed in first..first + runs {
        match player::play(seed) {
            Err(e) => println!(
                "{}",
                if full {
                    e
                } else {
                    e.lines().next().unwrap().to_owned()
                }
            ),
            Ok(x) => {
                t.steps += x.steps;
                t.deletions += x.deletions;
                t.evictions += x.evictions;
                t.downscales += x.downscales;
                t.conflicts += x.conflicts;
                t.kills += x.kills;
                t.condemned += x.condemned;
            }
        }
    }
    println!("{t:?}");
}
