//! A fault in each write of the controller and of the agents, of three kinds: the final state is the same.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use muster_e2e::{
    bed::Blow,
    scenario::crash_points::{Ending, Story, judge, run_story},
    seed,
};

/// As many as this machine has cores, and memory for.
const THREADS: usize = 2;

/// A separate run: one thread, paused time.
fn run(story: Story, strike: Option<(usize, Blow)>) -> Ending {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(run_story(story, strike))
}

/// What is wrong with a run with a fault.
fn fault(story: Story, clean: &Ending, strike: (usize, Blow)) -> Option<String> {
    let (number, blow) = strike;
    let faults = match catch_unwind(AssertUnwindSafe(|| run(story, Some(strike)))) {
        Ok(ending) => (judge(clean, &ending), ending.struck),
        Err(panic) => {
            let words = panic.downcast_ref::<String>().cloned();
            (vec![words.unwrap_or_default()], None)
        }
    };
    let (faults, struck) = faults;
    let struck = struck.unwrap_or_default();
    (!faults.is_empty()).then(|| format!("{story:?} {number} {blow:?} {struck}\n{}", faults.join("\n")))
}

/// Runs one story with a fault at each of the given places, on all threads, and reports what went wrong.
fn strike(story: Story, clean: &Ending, strikes: &[(usize, Blow)]) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut faults = Vec::new();
        while let Some(strike) = strikes.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = fault(story, clean, *strike);
            if let Some(fault) = &found {
                println!("{fault}");
            }
            faults.extend(found);
        }
        faults
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    })
}

/// The clean run, which determines the number of requests.
fn clean(story: Story) -> Ending {
    let clean = run(story, None);
    assert_eq!(clean.breaches, [""; 0]);
    assert!(
        clean.numbered >= clean.noted && clean.noted > 10,
        "{story:?}: {} numbered, {} noted",
        clean.numbered,
        clean.noted
    );
    println!(
        "{story:?}: N = {}, requests that are no reads: {}",
        clean.numbered, clean.noted
    );
    clean
}

/// Two faults, different ones each time: in the rollout, and in one of the other stories.
#[test]
fn at_some_places() {
    let seed = seed();
    println!("seed {seed}");
    let others = &Story::ALL[1..];
    let other = others[usize::try_from(seed % others.len() as u64).unwrap()];
    std::thread::scope(|scope| {
        let threads = [Story::Rollout, other].map(|story| scope.spawn(move || sampled(story, seed)));
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

fn sampled(story: Story, seed: u64) {
    let clean = clean(story);
    let places = clean.numbered * Blow::ALL.len();
    let place = usize::try_from(seed / 4 % places as u64).unwrap();
    let (number, blow) = (place / Blow::ALL.len(), Blow::ALL[place % Blow::ALL.len()]);
    let fault = fault(story, &clean, (number, blow));
    assert_eq!(fault, None, "{story:?} {number} {blow:?}");
}

/// All faults.
fn everywhere(story: Story) {
    let began = Instant::now();
    let clean = clean(story);
    let strikes: Vec<(usize, Blow)> = (0..clean.numbered)
        .flat_map(|number| Blow::ALL.map(|blow| (number, blow)))
        .collect();
    let faults = strike(story, &clean, &strikes);
    println!(
        "{story:?}: {} runs in {:.0?}, {} went wrong",
        strikes.len(),
        began.elapsed(),
        faults.len()
    );
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

/// One test per story.
macro_rules! stories {
    ($($name:ident $story:ident),* $(,)?) => {
        mod all {
            $(#[test]
            #[ignore = "long: cargo xtask long"]
            fn $name() {
                super::everywhere(super::Story::$story);
            })*
        }
    };
}

stories! {
    rollout Rollout,
    values Values,
    deselection Deselection,
    deletion Deletion,
    bootstrap Bootstrap,
}
