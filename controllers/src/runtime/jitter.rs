//! Randomness as a parameter: the only source of it in this crate, seeded in tests.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// Spreads periods so that a fleet does not act in lockstep. Clones share one sequence.
#[derive(Clone)]
pub struct Jitter {
    seed: u64,
    sequence: Arc<Mutex<StdRng>>,
}

impl Jitter {
    /// The same seed gives the same sequence.
    pub fn seeded(seed: u64) -> Self {
        Self {
            seed,
            sequence: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))),
        }
    }

    /// A separate sequence for `key`, a function of the seed and the key: draws from other sequences do not affect it.
    #[must_use]
    pub fn of(&self, key: &str) -> Self {
        // FNV-1a: any function that spreads well will do, if it is the same everywhere.
        let mixed = key
            .bytes()
            .fold(self.seed ^ 0xcbf2_9ce4_8422_2325, |mixed, byte| {
                (mixed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        Self::seeded(mixed)
    }

    /// Seeded by the operating system.
    pub fn from_system() -> Self {
        Self::seeded(rand::make_rng::<StdRng>().random())
    }

    /// Eight random hexadecimal digits, to make a name unique.
    pub fn tag(&self) -> String {
        let drawn: u32 = self.sequence.lock().random();
        format!("{drawn:08x}")
    }

    /// `period` ± `fraction` of it (0.1 is ± 10 %).
    pub fn spread(&self, period: Duration, fraction: f64) -> Duration {
        let offset: f64 = self.sequence.lock().random_range(-1.0..=1.0);
        period.mul_f64((1.0 + offset * fraction.clamp(0.0, 1.0)).max(0.0))
    }
}

impl fmt::Debug for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Jitter")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_sequence_within_its_bounds() {
        let (a, b) = (Jitter::seeded(7), Jitter::seeded(7));
        let period = Duration::from_secs(20);
        for _ in 0..1_000 {
            let drawn = a.spread(period, 0.1);
            assert_eq!(drawn, b.spread(period, 0.1));
            assert!(
                drawn >= Duration::from_secs(18) && drawn <= Duration::from_secs(22),
                "{drawn:?}"
            );
        }
    }

    #[test]
    fn the_sequence_of_a_key_is_its_own() {
        let (quiet, busy) = (Jitter::seeded(7), Jitter::seeded(7));
        let period = Duration::from_secs(20);
        for _ in 0..100 {
            busy.spread(period, 0.1);
        }
        let drawn = |jitter: &Jitter, key: &str| jitter.of(key).spread(period, 0.1);
        assert_eq!(drawn(&quiet, "eu-1"), drawn(&busy, "eu-1"));
        assert_ne!(drawn(&quiet, "eu-1"), drawn(&quiet, "eu-2"));
    }
}
