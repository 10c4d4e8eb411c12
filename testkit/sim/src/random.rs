//! The simulator's own random numbers: the same on every machine and in every version, for ever. A seed that once
//! found a bug must find it again, so no crate whose algorithm may change is used.

use std::time::Duration;

/// The golden ratio in 64 bits: the step of the generator that turns one seed into many.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// One step of splitmix64: spreads a counter over all bits.
fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(STEP);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stream of random numbers (xoshiro256**).
#[derive(Debug, Clone)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut counter = seed;
        Self { state: std::array::from_fn(|_| mix(&mut counter)) }
    }

    /// A stream of its own for each purpose, so that one more number drawn here changes nothing there.
    #[must_use]
    pub fn stream(seed: u64, purpose: u64) -> Self {
        let mut counter = purpose;
        Self::new(seed ^ mix(&mut counter))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number below `bound`; 0 when that is 0. The bias is far below what a simulation could notice.
    pub fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.bits()) * u128::from(bound);
        u64::try_from(product >> 64).unwrap_or_default()
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// An index into something of that length, which must not be 0.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or_default()
    }

    /// True in so many of ten thousand cases.
    pub fn chance(&mut self, of_ten_thousand: u32) -> bool {
        of_ten_thousand > 0 && self.below(10_000) < u64::from(of_ten_thousand)
    }

    /// One of these.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }

    /// A time of at most `max`, in whole milliseconds.
    pub fn duration(&mut self, max: Duration) -> Duration {
        let millis = u64::try_from(max.as_millis()).unwrap_or(u64::MAX - 1);
        Duration::from_millis(self.between(0, millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_never_changes() {
        // Written down once; if this fails, all stored seeds mean something else.
        let mut random = Random::new(1);
        let first: Vec<u64> = (0..3).map(|_| random.bits()).collect();
        assert_eq!(first, [0xb3f2_af6d_0fc7_10c5, 0x853b_5596_4736_4cea, 0x92f8_9756_082a_4514]);
    }

    #[test]
    fn numbers_stay_in_their_range_and_reach_its_ends() {
        let mut random = Random::new(7);
        let drawn: Vec<u64> = (0..1_000).map(|_| random.between(3, 6)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&3), Some(&6)));
        assert_eq!(random.below(0), 0);
        let hits = (0..10_000).filter(|_| random.chance(2_500)).count();
        assert!((2_200..2_800).contains(&hits), "{hits}");
    }

    #[test]
    fn streams_of_one_seed_differ() {
        assert_ne!(Random::stream(1, 1).bits(), Random::stream(1, 2).bits());
        assert_ne!(Random::stream(1, 1).bits(), Random::stream(2, 1).bits());
    }
}
