//! Pseudo-random numbers, the same for each seed (splitmix64).

pub(crate) struct Chance(pub u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound.max(1)).unwrap()).unwrap()
    }

    /// Returns true in the given number of a thousand cases.
    pub(crate) fn is(&mut self, of_thousand: usize) -> bool {
        self.below(1_000) < of_thousand
    }

    pub(crate) fn seconds(&mut self, bound: usize) -> jiff::SignedDuration {
        let millis = self.below(bound * 1_000);
        jiff::SignedDuration::from_millis(i64::try_from(millis).unwrap())
    }
}
