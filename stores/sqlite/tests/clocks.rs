//! Clocks that are wrong and are put right, beside others that were right all the time.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::support::build::{host, start};
use crate::support::claims::{Claims, want};
use crate::support::{Folder, clock, options, run};
use dauer_sqlite::{Options, SqliteStore};
use dauer_store::{Clock, HubName, Timestamp};

const LEASE: Duration = Duration::from_secs(10);
const HOUR: i64 = 60 * 60 * 1_000;

/// A clock that somebody may set, on a machine where no time passes.
struct Wrong(AtomicI64);

impl Clock for Wrong {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }

    fn steady(&self) -> Timestamp {
        Timestamp(0)
    }
}

/// Found by the storm of clocks: a host that was started with a clock an hour behind, which was then put right, took
/// the file's time an hour ahead with it, and everyone lost what they held.
#[test]
fn a_clock_that_was_behind_and_is_put_right_ends_no_lease() {
    let (folder, right) = (Folder::new(), clock());
    let wrong = Arc::new(Wrong(AtomicI64::new(right.now().0 - HOUR)));
    let living = SqliteStore::open(folder.file(), options(&right)).unwrap();
    let other = Options { clock: wrong.clone(), ..options(&right) };
    let other = SqliteStore::open(folder.file(), other).unwrap();
    run(async {
        let (here, there) = (living.hub(HubName::default()), other.hub(HubName::default()));
        assert!(here.create(vec![start("a")]).await.remove(0).is_ok());
        let holder = here.attach(host(1, LEASE)).await.unwrap();
        assert_eq!(holder.claim_turns(want(1)).await.unwrap().len(), 1);
        let taker = there.attach(host(2, LEASE)).await.unwrap();
        wrong.0.store(right.now().0 - HOUR / 2, Ordering::SeqCst);
        taker.renew().await.unwrap();
        wrong.0.store(right.now().0, Ordering::SeqCst);
        taker.renew().await.unwrap();
        assert!(taker.claim_turns(want(1)).await.unwrap().is_empty(), "it was taken from one that lives");
        // A clock that is ahead is believed: nobody can tell it from one that is right.
        wrong.0.store(right.now().0 + HOUR, Ordering::SeqCst);
        taker.renew().await.unwrap();
        assert_eq!(taker.claim_turns(want(1)).await.unwrap().len(), 1);
    });
}
