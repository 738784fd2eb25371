//! Randomness as an argument: the only source of it in this crate, seeded in tests.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// Spreads periods so that a fleet does not act in step. Clones share one sequence.
#[derive(Clone)]
pub struct Jitter(Arc<Mutex<StdRng>>);

impl Jitter {
    /// The same seed gives the same sequence.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    /// Seeded by the operating system.
    pub fn from_system() -> Self {
        Self(Arc::new(Mutex::new(rand::make_rng())))
    }

    /// `period` ± `fraction` of it (0.1 is ± 10 %).
    pub fn spread(&self, period: Duration, fraction: f64) -> Duration {
        let offset: f64 = self.0.lock().random_range(-1.0..=1.0);
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
}
