//! At every moment at most one process may act, whatever happens to processes, to the API server, and to the Lease.

use std::time::Duration;

use muster_apiserver::fault::{Failure, Fault, RuleId};
use muster_controllers::{lease::Leadership, runtime::Jitter};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;

use super::support::{Bed, pass};

const PROCESSES: usize = 3;
const ROUNDS: usize = 150;

/// A process: a candidate, then the leader, then it loses the lease and starts again.
struct Process {
    /// The right of its last term; kept after its death, because a killed process is the same as one that is only late.
    right: Arc<Mutex<Option<Leadership>>>,
    running: Option<AbortOnDropHandle<()>>,
}

impl Process {
    fn start(&mut self, bed: &Bed, name: &str) {
        let (candidate, right) = (bed.candidate(name), Arc::clone(&self.right));
        self.running = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            let mut term = candidate.stand().await;
            *right.lock() = Some(term.leadership());
            term.keep().await;
        })));
    }

    fn may_act(&self) -> bool {
        self.right
            .lock()
            .as_ref()
            .is_some_and(|right| right.check().is_ok())
    }
}

struct Dice(Jitter);

impl Dice {
    /// A number below `sides`.
    fn roll(&self, sides: u32) -> u32 {
        u32::from_str_radix(&self.0.tag(), 16).unwrap() % sides
    }
}

#[tokio::test(start_paused = true)]
async fn at_most_one_acts() {
    let seed = std::env::var("MUSTER_SEED")
        .ok()
        .map(|seed| seed.parse().unwrap());
    for seed in seed.map_or(1..=2, |seed| seed..=seed) {
        println!("MUSTER_SEED={seed}");
        history(seed).await;
    }
}

async fn history(seed: u64) {
    let (bed, dice) = (Bed::new(), Dice(Jitter::seeded(seed)));
    let mut processes: Vec<Process> = Vec::new();
    for number in 0..PROCESSES {
        let mut process = Process {
            right: Arc::default(),
            running: None,
        };
        process.start(&bed, &number.to_string());
        processes.push(process);
    }
    let mut trouble: Vec<RuleId> = Vec::new();
    let (mut led, mut changes, mut last) = (0, 0, None);
    for _ in 0..ROUNDS {
        happen(&bed, &dice, &mut processes, &mut trouble).await;
        for _ in 0..dice.roll(80) {
            pass(Duration::from_millis(u64::from(dice.roll(500)))).await;
            let acting: Vec<usize> = (0..PROCESSES).filter(|n| processes[*n].may_act()).collect();
            assert!(acting.len() <= 1, "seed {seed}: {acting:?} may act at once");
            led += acting.len();
            if let [one] = acting[..]
                && last != Some(one)
            {
                changes += 1;
                last = Some(one);
            }
        }
    }
    println!("{led} looks with a leader, {changes} changes");
    assert!(led > 1_000 && changes > 5, "seed {seed}: nothing happened");
}

/// One random event.
async fn happen(bed: &Bed, dice: &Dice, processes: &mut [Process], trouble: &mut Vec<RuleId>) {
    let number = dice.roll(3) as usize;
    let name = number.to_string();
    match dice.roll(9) {
        0 | 1 => processes[number].running = None,
        2..=4 => {
            for (number, process) in processes.iter_mut().enumerate() {
                if process
                    .running
                    .as_ref()
                    .is_none_or(AbortOnDropHandle::is_finished)
                {
                    process.start(bed, &number.to_string());
                }
            }
        }
        5 => {
            let faults = [
                Fault::Refuse,
                Fault::DropResponse,
                Fault::Status(Failure::Unavailable),
                Fault::Delay(Duration::from_secs(4)),
            ];
            trouble.push(bed.fail(&name, faults[dice.roll(4) as usize].clone()));
        }
        6 | 7 => trouble.drain(..).for_each(|rule| bed.api.faults().remove(rule)),
        _ => {
            // The Lease may not exist.
            if bed
                .leases()
                .get_opt(super::support::LEASE)
                .await
                .unwrap()
                .is_some()
            {
                bed.edit(serde_json::json!({"metadata": {"annotations": {"round": bed.api.revision().to_string()}}}))
                    .await;
            }
        }
    }
}
