//! Turn answers that workers without tokens still owe after their flight has ended.
//!
//! An answer without a token names only its instance. While a worker owes an answer to an earlier turn of an instance, the
//! next turn of that instance is not handed out: the late answer would be taken for the new turn's. This happens when a
//! host gives a turn up (its instance was replaced or purged, or its lease is lost), and when two workers had the same turn.

use std::collections::BTreeMap;

use dauer_core::InstanceId;
use dauer_store::Steady;

use crate::state::StreamId;

/// One answer that a worker owes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Debt {
    /// The token of the turn, which the worker may name all the same.
    token: String,
    stream: StreamId,
    /// The worker is taken to have lost the turn from this time on.
    until: Steady,
}

/// Instances with debts from which on those that have ended are looked for. Below, a sweep saves nothing.
const SWEPT_FROM: usize = 64;

/// The debts of all instances, each instance with at least one.
#[derive(Debug, Default)]
pub(crate) struct Debts {
    of: BTreeMap<InstanceId, Vec<Debt>>,
    /// How many instances the last sweep left.
    swept: usize,
}

impl Debts {
    /// The worker on `stream` has a turn that no flight waits for.
    pub(crate) fn add(&mut self, instance: InstanceId, token: &str, (stream, until): (StreamId, Steady)) {
        self.of.entry(instance).or_default().push(Debt { token: token.into(), stream, until });
    }

    /// Forgets the debts that have ended, of all instances: an instance that was purged is not asked about again. Does so
    /// only when twice as many instances have debts as after the last time, so that each addition costs little.
    pub(crate) fn sweep(&mut self, now: Steady) {
        if self.of.len() < SWEPT_FROM.max(2 * self.swept) {
            return;
        }
        self.of.values_mut().for_each(|debts| debts.retain(|debt| debt.until > now));
        self.of.retain(|_, debts| !debts.is_empty());
        self.swept = self.of.len();
    }

    /// The worker on `stream` has lost its connection: it may answer over another one until then.
    pub(crate) fn shorten(&mut self, stream: StreamId, until: Steady) {
        let debts = self.of.values_mut().flatten().filter(|debt| debt.stream == stream);
        debts.for_each(|debt| debt.until = debt.until.min(until));
    }

    /// An answer has come. Returns true when it pays a debt: the one of its token, or without a token the one that ends first.
    pub(crate) fn pay(&mut self, instance: &InstanceId, token: &str, now: Steady) -> bool {
        self.expire(instance, now);
        let Some(debts) = self.of.get_mut(instance) else { return false };
        let paid = debts.iter().enumerate().filter(|(_, debt)| token.is_empty() || debt.token == token);
        let Some((at, _)) = paid.min_by_key(|(_, debt)| debt.until) else { return false };
        debts.swap_remove(at);
        if debts.is_empty() {
            self.of.remove(instance);
        }
        true
    }

    /// The worker has given the turn back, and answers nothing. Returns true when it owed an answer to it.
    pub(crate) fn cancel(&mut self, token: &str) -> bool {
        let count = |of: &BTreeMap<_, Vec<Debt>>| of.values().map(Vec::len).sum::<usize>();
        let before = count(&self.of);
        self.of.values_mut().for_each(|debts| debts.retain(|debt| debt.token != token));
        let is_cancelled = count(&self.of) < before;
        self.of.retain(|_, debts| !debts.is_empty());
        is_cancelled
    }

    /// The time at which the last debt of an instance ends; `None` without debts.
    pub(crate) fn end(&mut self, instance: &InstanceId, now: Steady) -> Option<Steady> {
        self.expire(instance, now);
        self.of.get(instance)?.iter().map(|debt| debt.until).max()
    }

    fn expire(&mut self, instance: &InstanceId, now: Steady) {
        let Some(debts) = self.of.get_mut(instance) else { return };
        debts.retain(|debt| debt.until > now);
        if debts.is_empty() {
            self.of.remove(instance);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_debt_is_owed_no_more() {
        let (mut debts, id) = (Debts::default(), InstanceId::new("order").unwrap());
        let until = Steady::default().after(std::time::Duration::from_secs(60));
        debts.add(id.clone(), "first", (1, until));
        assert!(!debts.cancel("second"));
        assert_eq!(debts.end(&id, Steady::default()), Some(until));
        assert!(debts.cancel("first"));
        assert_eq!(debts.end(&id, Steady::default()), None);
    }

    #[test]
    fn ended_debts_of_purged_instances_are_forgotten() {
        let mut debts = Debts::default();
        let at = |second: u64| Steady::default().after(std::time::Duration::from_secs(second));
        for number in 0..10_000u64 {
            debts.sweep(at(number));
            let instance = InstanceId::new(format!("i{number}")).unwrap();
            debts.add(instance, "token", (1, at(number + 10)));
        }
        assert!(debts.of.len() <= 2 * SWEPT_FROM, "{} instances", debts.of.len());
        let last = InstanceId::new("i9999").unwrap();
        assert_eq!(debts.end(&last, at(10_000)), Some(at(10_009)), "a debt that goes on is kept");
    }
}
