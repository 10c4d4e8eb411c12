//! When to ask the store for work: at a hint, when something is due, after something was finished, and otherwise ever
//! more rarely.

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use dauer_core::planted::{self, Bug};
use dauer_store::Steady;

use crate::options::DUE_TRUSTED;
use crate::session::Session;

/// A sleep; it gives the time until which it was asked for.
pub(crate) type Sleep = BoxFuture<'static, Steady>;

/// Whether a claim is wanted, under way, or put off.
pub(crate) struct Demand {
    wanted: bool,
    claiming: bool,
    sleeping_until: Option<Steady>,
    fruitless: u32,
    /// There was no room for more when last looked at.
    full: bool,
    /// How many items the claim under way asks for.
    asked: usize,
    /// The last claim was answered, and found less than it asked for.
    drained: bool,
}

impl Demand {
    pub(crate) fn new() -> Self {
        let (wanted, claiming, full, drained) = (true, false, false, false);
        Self { wanted, claiming, sleeping_until: None, fruitless: 0, full, asked: 0, drained }
    }

    /// Something may be ready.
    pub(crate) fn hint(&mut self) {
        self.wanted = true;
        self.fruitless = 0;
    }

    /// Room has become free: what was not taken for lack of it may be waiting.
    pub(crate) fn room(&mut self) {
        self.wanted |= self.full;
        self.full = false;
    }

    /// The sleep until then has ended. Says whether it was the one that counts: one that was overtaken by an earlier one
    /// asks for nothing. Each would otherwise go on beside the other for ever, one more for every timer that cut a
    /// sleep short.
    pub(crate) fn wake(&mut self, until: Steady) -> bool {
        let counts = self.sleeping_until == Some(until);
        if counts {
            self.sleeping_until = None;
            self.wanted = true;
        }
        counts
    }

    /// Whether to claim now, where there is room for so many; the caller does if so.
    pub(crate) fn begin(&mut self, room: usize) -> bool {
        self.full |= room == 0;
        let begin = self.wanted && !self.claiming && room > 0;
        if begin {
            self.wanted = false;
            self.claiming = true;
        }
        begin
    }

    /// The claim under way asks for so many.
    pub(crate) fn asks_for(&mut self, count: usize) {
        self.asked = count;
    }

    /// Whether a claim would be sent if there were room.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted && !self.claiming
    }

    /// Whether the last claim left nothing behind, as far as is known: it found less than it asked for.
    pub(crate) fn is_drained(&self) -> bool {
        self.drained
    }

    /// A claim that waited has brought something, and left nothing behind that nobody was told of.
    pub(crate) fn served(&mut self) {
        self.fruitless = 0;
    }

    /// A claim that waited was refused: one that asks is to find out.
    pub(crate) fn doubt(&mut self) {
        self.wanted = true;
        self.drained = false;
    }

    /// A claim has ended, with so many items if it was answered; where one brought something there may be more.
    pub(crate) fn end(&mut self, items: Option<usize>) {
        self.claiming = false;
        self.drained = items.is_some_and(|items| items < self.asked);
        if items.is_some_and(|items| items > 0) {
            self.hint();
        }
    }

    /// Nothing was ready. Gives a sleep until something is due by time, or until hints are no longer trusted; nothing
    /// when one that ends earlier is under way. A later one is overtaken.
    pub(crate) fn idle(&mut self, session: &Session, due: Option<Duration>) -> Option<Sleep> {
        self.fruitless += 1;
        let poll = session.retry_delay(self.fruitless).min(session.options.poll_max);
        if planted::is_on(Bug::NoPolling) && due.is_none() {
            return None;
        }
        // What is due by time is there at that time. Where it was not, time and again, the store's clock does not
        // move as this host's does, and asking at every tick would be a busy loop.
        let trusted = self.fruitless <= DUE_TRUSTED;
        let wait =
            due.filter(|due| trusted || *due > poll).map_or(poll, |due| due.min(session.options.poll_max));
        self.sleep(session, wait)
    }

    /// Something new is due after so long: perhaps before the sleep that is under way ends. Later than the next poll it is
    /// found by that.
    pub(crate) fn due(&mut self, session: &Session, after: Duration) -> Option<Sleep> {
        if after > session.options.poll_max { None } else { self.sleep(session, after) }
    }

    /// A sleep, unless one that ends earlier is under way.
    fn sleep(&mut self, session: &Session, wait: Duration) -> Option<Sleep> {
        let until = session.env.steady().after(wait);
        if self.sleeping_until.is_some_and(|earlier| earlier <= until) {
            return None;
        }
        self.sleeping_until = Some(until);
        Some(session.env.sleep_until(until).map(move |()| until).boxed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only then claims may be left in the store: where the store is in trouble, one that asks finds out, with its delays; and
    /// what was ready before is not to be overtaken by what becomes ready.
    #[test]
    fn all_was_found_once_a_claim_was_answered_with_less_than_it_asked_for() {
        let mut demand = Demand::new();
        assert!(!demand.is_drained(), "it has not asked");
        let mut answered = |asked: usize, items| {
            assert!(demand.begin(asked));
            demand.asks_for(asked);
            demand.end(items);
            let drained = demand.is_drained();
            demand.hint();
            drained
        };
        assert!(!answered(3, None), "it had no answer");
        assert!(!answered(3, Some(3)), "there may be more");
        assert!(answered(3, Some(2)));
        assert!(answered(3, Some(0)));
        assert!(!answered(3, None), "nobody knows");
        assert!(answered(1, Some(0)));
        demand.doubt();
        assert!(!demand.is_drained());
        assert!(demand.begin(1), "it asks at once");
    }
}
