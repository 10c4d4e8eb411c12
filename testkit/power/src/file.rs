//! One file of the simulated disk: what the programs see of it, what is durable, and what lies between.

use std::collections::BTreeMap;

use dauer_sim::random::Random;

/// What a disk writes as a whole, or not at all.
pub(crate) const SECTOR: usize = 512;

/// What becomes of the changes that were not made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// All are gone.
    All,
    /// None is: as if only the process had been killed.
    Nothing,
    /// Each write is gone, whole or torn into sectors of which each is there or gone, by chance: any part of them may
    /// have survived, later ones without earlier ones.
    Some,
}

/// What becomes of one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lost,
    Kept,
    Torn,
}

/// The content of a sector after one write.
#[derive(Debug, Clone)]
struct Version {
    write: u64,
    content: [u8; SECTOR],
}

/// The content that a sector may have after a power loss besides the durable one.
#[derive(Debug, Default)]
struct Sector {
    versions: Vec<Version>,
    /// A sync has failed since it was last written: the system takes it for clean and never writes it again, unless the
    /// program does.
    forsaken: bool,
}

/// One file.
#[derive(Debug, Default)]
pub(crate) struct File {
    /// As programs see it.
    seen: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeMap<usize, Sector>,
    /// The sizes since the last sync.
    sizes: Vec<usize>,
    writes: u64,
}

impl File {
    /// As programs see it.
    pub(crate) fn seen(&self) -> &[u8] {
        &self.seen
    }

    /// Whether anything could be lost.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || self.sizes.iter().any(|size| *size != self.durable.len())
    }

    /// Bytes are written.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.seen.len() < end {
            self.seen.resize(end, 0);
        }
        self.seen[offset..end].copy_from_slice(bytes);
        self.changed(offset, end);
    }

    /// The file has another size.
    pub(crate) fn cut(&mut self, size: usize) {
        let before = self.seen.len();
        self.seen.resize(size, 0);
        // What was there and is written again later is zeros in between.
        self.changed(size.min(before), before.max(size));
    }

    fn changed(&mut self, from: usize, to: usize) {
        self.writes += 1;
        self.sizes.push(self.seen.len());
        for number in from / SECTOR..to.div_ceil(SECTOR) {
            let version = Version { write: self.writes, content: sector(&self.seen, number) };
            let place = self.dirty.entry(number).or_default();
            place.forsaken = false;
            place.versions.push(version);
        }
    }

    /// All is durable, but for what an earlier failure has forsaken.
    pub(crate) fn sync(&mut self) {
        self.durable.resize(self.seen.len(), 0);
        let durable = &mut self.durable;
        self.dirty.retain(|number, place| {
            if !place.forsaken
                && let Some(last) = place.versions.last()
            {
                put(durable, *number, &last.content);
            }
            place.forsaken
        });
        self.sizes.clear();
    }

    /// A sync failed. Nothing is durable, and the system forgets what it had to write.
    pub(crate) fn sync_failed(&mut self) {
        self.dirty.values_mut().for_each(|place| place.forsaken = true);
    }

    /// What is left after a power loss.
    pub(crate) fn after(&self, loss: Loss, random: &mut Random) -> Vec<u8> {
        match loss {
            Loss::All => self.durable.clone(),
            Loss::Nothing => self.seen.clone(),
            Loss::Some => self.mixture(random),
        }
    }

    fn mixture(&self, random: &mut Random) -> Vec<u8> {
        let mut fates = BTreeMap::new();
        let writes = self.dirty.values().flat_map(|place| &place.versions).map(|version| version.write);
        for write in writes {
            fates.entry(write).or_insert_with(|| random.pick(&[Fate::Lost, Fate::Kept, Fate::Torn]));
        }
        let mut sizes = vec![self.durable.len()];
        sizes.extend(&self.sizes);
        // Mostly the last one: with a smaller size, whatever lies behind it is gone anyway.
        let last = sizes[sizes.len() - 1];
        let size = if random.chance(5_000) { last } else { sizes[random.index(sizes.len())] };
        let mut content = self.durable.clone();
        content.resize(content.len().max(size), 0);
        for (number, place) in &self.dirty {
            let mut survived = None;
            for version in &place.versions {
                let there = match fates.get(&version.write) {
                    Some(Fate::Kept) => true,
                    Some(Fate::Torn) => random.chance(5_000),
                    Some(Fate::Lost) | None => false,
                };
                survived = if there { Some(version) } else { survived };
            }
            if let Some(version) = survived {
                put(&mut content, *number, &version.content);
            }
        }
        content.resize(size, 0);
        content
    }
}

/// A sector, filled up with zeros.
fn sector(content: &[u8], number: usize) -> [u8; SECTOR] {
    let mut sector = [0; SECTOR];
    let from = (number * SECTOR).min(content.len());
    let part = &content[from..content.len().min(from + SECTOR)];
    sector[..part.len()].copy_from_slice(part);
    sector
}

/// Puts a sector in its place, as far as the content reaches.
fn put(content: &mut [u8], number: usize, sector: &[u8; SECTOR]) {
    let from = (number * SECTOR).min(content.len());
    let to = content.len().min(from + SECTOR);
    content[from..to].copy_from_slice(&sector[..to - from]);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn random(seed: u64) -> Random {
        Random::new(seed)
    }

    #[test]
    fn what_is_synced_stays_and_what_is_not_may_go() {
        let mut file = File::default();
        file.write(0, &[1; 1_000]);
        assert!(file.is_dirty());
        file.sync();
        assert!(!file.is_dirty());
        file.write(1_000, &[2; 500]);
        assert_eq!(file.after(Loss::All, &mut random(1)), vec![1; 1_000]);
        assert_eq!(file.after(Loss::Nothing, &mut random(1)).len(), 1_500);
        for seed in 0..100 {
            let left = file.after(Loss::Some, &mut random(seed));
            assert!(left.len() == 1_000 || left.len() == 1_500);
            assert!(left[..1_000].iter().all(|byte| *byte == 1), "seed {seed}: what was durable is gone");
        }
    }

    #[test]
    fn a_write_is_torn_at_sectors_and_later_ones_survive_earlier_ones() {
        let mut file = File::default();
        file.write(0, &[9; 4 * SECTOR]);
        file.sync();
        file.write(0, &[1; 2 * SECTOR]);
        file.write(2 * SECTOR, &[2; 2 * SECTOR]);
        let mut seen = BTreeSet::new();
        for seed in 0..400 {
            let left = file.after(Loss::Some, &mut random(seed));
            for sector in left.chunks(SECTOR) {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "half a sector was written");
            }
            seen.insert([left[0], left[SECTOR], left[2 * SECTOR], left[3 * SECTOR]]);
        }
        // Every sector is as it was or as it became, in all sixteen combinations.
        assert_eq!(seen.len(), 16, "{seen:?}");
    }

    #[test]
    fn a_sector_is_always_as_it_was_at_some_moment() {
        let mut file = File::default();
        file.write(0, &[0; SECTOR]);
        file.sync();
        file.write(0, &[1; 10]);
        file.write(10, &[1; 10]);
        let mut sums = BTreeSet::new();
        for seed in 0..200 {
            let left = file.after(Loss::Some, &mut random(seed));
            assert!(left[0] == 1 || left[10] == 0, "the second write without the first in one sector");
            sums.insert(left.iter().map(|byte| u32::from(*byte)).sum::<u32>());
        }
        assert_eq!(sums, BTreeSet::from([0, 10, 20]));
    }

    #[test]
    fn what_a_failed_sync_forsook_is_not_made_durable_by_the_next() {
        let mut file = File::default();
        file.write(0, &[1; 2 * SECTOR]);
        file.sync_failed();
        file.write(SECTOR, &[2; SECTOR]);
        file.sync();
        let left = file.after(Loss::All, &mut random(1));
        assert_eq!((left.len(), left[0], left[SECTOR]), (2 * SECTOR, 0, 2));
        assert_eq!(file.after(Loss::Nothing, &mut random(1))[0], 1);
        file.write(0, &[3; SECTOR]);
        file.sync();
        assert_eq!(file.after(Loss::All, &mut random(1))[0], 3, "written again, it is durable");
    }

    #[test]
    fn a_file_that_was_cut_and_grew_again_has_zeros_between() {
        let mut file = File::default();
        file.write(0, &[1; 3 * SECTOR]);
        file.sync();
        file.cut(10);
        file.write(2 * SECTOR, &[2; SECTOR]);
        assert_eq!(file.seen()[SECTOR], 0);
        assert_eq!(file.after(Loss::All, &mut random(1)), vec![1; 3 * SECTOR]);
        file.sync();
        let left = file.after(Loss::All, &mut random(1));
        assert_eq!((left[9], left[10], left[SECTOR], left[2 * SECTOR]), (1, 0, 0, 2));
    }
}
