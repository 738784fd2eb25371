//! A small set of clusters or revisions, by number.

/// A set of small numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Set(u8);

impl Set {
    /// The set with these bits.
    pub const fn bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Whether the set contains this number.
    pub const fn contains(self, at: usize) -> bool {
        self.0 & (1 << at) != 0
    }

    /// Adds a number. True if it was not in the set.
    pub fn insert(&mut self, at: usize) -> bool {
        let new = !self.contains(at);
        self.0 |= 1 << at;
        new
    }

    /// Removes a number. True if it was in the set.
    pub fn remove(&mut self, at: usize) -> bool {
        let was = self.contains(at);
        self.0 &= !(1 << at);
        was
    }

    /// The numbers, in order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..8).filter(move |at| self.contains(*at))
    }

    /// The size of the set.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}
