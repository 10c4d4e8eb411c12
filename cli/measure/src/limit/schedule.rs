//! In which order, and in which transactions, the store wrote what it wrote: read from its file after a run.
//!
//! The history lies in the order in which turns were committed, and every row has the time of its transaction. Where
//! several transactions fell into one millisecond, the largest are cut until there are as many as there were. Claims
//! leave no trace: as many as there were are put into the transactions after the first starts, where hosts did not wait yet. All
//! other instances were claimed in the write that started them.

use std::collections::BTreeMap;
use std::path::Path;

use super::sample::{unknown, unusable};
use crate::Error;
use crate::sequence::Tags;

/// The phases that come before the first turn.
pub(super) const START: usize = 0;
pub(super) const CLAIM: usize = 1;
/// A start that is claimed in the same write.
pub(super) const TAKEN: usize = 2;
pub(super) const TURN_1: usize = 3;

pub(super) fn is_start(phase: usize) -> bool {
    phase == START || phase == TAKEN
}

/// An instance, by its place among those that were started, and which phase of it.
pub(super) type Step = (usize, usize);

/// What the store did.
pub(crate) struct Schedule {
    /// By place: the id of the instance.
    pub(super) ids: Vec<String>,
    /// By place: its tags.
    pub(super) tags: Vec<Tags>,
    /// The transactions.
    pub(super) batches: Vec<Vec<Step>>,
}

impl Schedule {
    /// Reads it from the file of a run that is over, which took so many commits and claims, and gave its instances these tags.
    pub(crate) fn read(
        file: &Path,
        (commits, claims): (u64, u64),
        mut tags_by_id: BTreeMap<String, Tags>,
    ) -> Result<Self, Error> {
        let db = dauer_sqlite::bare::connect(file).map_err(unusable)?;
        let mut find = db.prepare("SELECT key, created, id FROM instances ORDER BY key")?;
        let mut places = BTreeMap::new();
        let (mut ids, mut tags, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        let mut rows = find.query([])?;
        while let Some(row) = rows.next()? {
            let key: i64 = row.get(0)?;
            places.insert(key, ids.len());
            starts.push((row.get(1)?, ids.len()));
            let id: String = row.get(2)?;
            tags.push(tags_by_id.remove(&id).ok_or_else(|| unknown("an instance that was not started"))?);
            ids.push(id);
        }
        let mut find = db.prepare("SELECT at, instance FROM history ORDER BY key")?;
        let mut rows = find.query([])?;
        let mut turns = Vec::new();
        while let Some(row) = rows.next()? {
            let place = places.get(&row.get::<_, i64>(1)?);
            turns.push((row.get(0)?, *place.ok_or_else(|| unknown("a history without an instance"))?));
        }
        Ok(Self { ids, tags, batches: batches(&starts, &turns, (commits, claims)) })
    }
}

/// The transactions, from starts and turns in the order in which they were written, each with its time.
fn batches(starts: &[(i64, usize)], turns: &[(i64, usize)], (commits, claims): (u64, u64)) -> Vec<Vec<Step>> {
    let mut phases = vec![TURN_1; starts.len()];
    let claimed = usize::try_from(claims).unwrap_or(usize::MAX).min(starts.len());
    let start = |place: usize| if place < claimed { START } else { TAKEN };
    let mut steps: Vec<(i64, Step)> =
        starts.iter().map(|(at, place)| (*at, (*place, start(*place)))).collect();
    for (at, place) in turns {
        if let Some(phase) = phases.get_mut(*place) {
            steps.push((*at, (*place, *phase)));
            *phase += 1;
        }
    }
    // Stable: what was written at the same time stays in the order of its table.
    steps.sort_by_key(|(at, _)| *at);
    let mut batches: Vec<Vec<Step>> = steps
        .chunk_by(|left, right| left.0 == right.0)
        .map(|same| same.iter().map(|step| step.1).collect())
        .collect();
    cut(&mut batches, commits);
    claim(&mut batches, claimed);
    batches
}

/// Halves the largest until there are so many.
fn cut(batches: &mut Vec<Vec<Step>>, commits: u64) {
    // The largest part of each batch, and its place, the largest last; what is one step cannot be cut.
    let mut sizes: std::collections::BTreeSet<(usize, usize)> =
        batches.iter().enumerate().map(|(place, batch)| (batch.len(), place)).collect();
    let mut parts: BTreeMap<usize, usize> = BTreeMap::new();
    let mut count = batches.len() as u64;
    while count < commits
        && let Some((size, place)) = sizes.pop_last()
        && size > 1
    {
        let part = parts.entry(place).or_insert(1);
        *part += 1;
        count += 1;
        sizes.insert((batches[place].len().div_ceil(*part), place));
    }
    let whole = std::mem::take(batches);
    for (place, batch) in whole.into_iter().enumerate() {
        let part = parts.get(&place).copied().unwrap_or(1);
        // So many parts of nearly equal size, none of them empty.
        let (mut rest, length) = (batch.as_slice(), batch.len());
        for number in 0..part {
            let size = length * (number + 1) / part - length * number / part;
            let (first, behind) = rest.split_at(size);
            rest = behind;
            if !first.is_empty() {
                batches.push(first.to_vec());
            }
        }
    }
}

/// Adds a claim for each of the first so many instances: in the transaction after its start, or where its first turn is at the
/// latest.
fn claim(batches: &mut [Vec<Step>], instances: usize) {
    let (mut started, mut turned) = (vec![None; instances], vec![None; instances]);
    for (number, batch) in batches.iter().enumerate() {
        for (place, phase) in batch.iter().filter(|(place, _)| *place < instances) {
            match *phase {
                START => started[*place] = Some(number),
                TURN_1 => turned[*place] = Some(number),
                _ => {}
            }
        }
    }
    let mut claims: BTreeMap<usize, Vec<Step>> = BTreeMap::new();
    for place in 0..instances {
        if let (Some(start), Some(turn)) = (started[place], turned[place]) {
            claims.entry((start + 1).min(turn)).or_default().push((place, CLAIM));
        }
    }
    for (number, claims) in claims {
        // Before the turns, behind the starts: one of each may be about the same instance.
        let at =
            batches[number].iter().position(|(_, phase)| !is_start(*phase)).unwrap_or(batches[number].len());
        batches[number].splice(at..at, claims);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every phase of every instance, once, each after the one before: so many turns.
    fn check(batches: &[Vec<Step>], (instances, claims): (usize, usize), turns: usize) {
        let mut next: Vec<usize> =
            (0..instances).map(|place| if place < claims { START } else { TAKEN }).collect();
        for (place, phase) in batches.iter().flatten() {
            assert_eq!(next[*place], *phase, "{batches:?}");
            next[*place] = if *phase == CLAIM { TURN_1 } else { phase + 1 };
        }
        assert!(next.iter().all(|next| *next == TURN_1 + turns), "{batches:?}");
    }

    #[test]
    fn a_transaction_is_what_has_the_same_time() {
        let starts = [(10, 0), (10, 1), (14, 2)];
        let turns = [(13, 1), (13, 0), (15, 0), (16, 2), (17, 1), (17, 2)];
        let found = batches(&starts, &turns, (6, 2));
        let expected: [&[Step]; 6] = [
            &[(0, START), (1, START)],
            &[(0, CLAIM), (1, CLAIM), (1, TURN_1), (0, TURN_1)],
            &[(2, TAKEN)],
            &[(0, TURN_1 + 1)],
            &[(2, TURN_1)],
            &[(1, TURN_1 + 1), (2, TURN_1 + 1)],
        ];
        assert_eq!(found, expected);
        check(&found, (3, 2), 2);
    }

    #[test]
    fn too_few_times_are_cut_into_as_many_transactions() {
        let starts: Vec<_> = (0..100).map(|place| (1, place)).collect();
        let turns: Vec<_> = (0..300).map(|turn| (if turn < 200 { 2 } else { 3 }, turn % 100)).collect();
        for commits in [3, 4, 10, 57, 400] {
            let found = batches(&starts, &turns, (commits, 60));
            assert_eq!(found.len() as u64, commits);
            assert!(found.iter().all(|batch| !batch.is_empty()));
            check(&found, (100, 60), 3);
            let turns = |batch: &Vec<Step>| batch.iter().filter(|step| step.1 != CLAIM).count();
            let sizes: Vec<usize> = found.iter().map(turns).collect();
            let (most, least) = (sizes.iter().max().unwrap(), sizes.iter().min().unwrap());
            assert!(*most <= 2 * least + 1, "{commits}: {sizes:?}");
        }
        // More transactions than there are steps: those that wrote nothing which can be seen.
        assert_eq!(batches(&starts[..1], &turns[..1], (9, 9)).len(), 2);
    }
}
