//! The lease claims about the name of a host (lease-A32, lease-A34): its shape, and that it can be chosen. The numbers in
//! the names are those of `docs/CLAIMS.md`.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

use std::time::Duration;

use dauer::{HostId, HostOptions};
use dauer_store::DumpItem;

use crate::support::{Running, SOON};

/// The hosts that have a session now, as soon as there are so many.
async fn hosts(running: &Running, count: usize) -> Vec<String> {
    let look = async || {
        let items = running.hub.manage().dump(None).await.unwrap().items.into_iter();
        let hosts = items.filter_map(|item| match item {
            DumpItem::Session(session) => Some(session.host.as_str().to_owned()),
            _ => None,
        });
        hosts.collect::<Vec<_>>()
    };
    let found = tokio::time::timeout(SOON, async {
        loop {
            let found = look().await;
            if found.len() == count {
                return found;
            }
            tokio::task::yield_now().await;
        }
    });
    found.await.unwrap()
}

#[tokio::test]
async fn lease_a32_a_host_is_named_by_machine_process_and_chance() {
    let one = Running::start(|worker| worker);
    let two = Running::on(&one.hub, |worker| worker);
    let names = hosts(&one, 2).await;
    assert_ne!(names[0], names[1], "two workers of one process");
    for name in names {
        let parts: Vec<_> = name.rsplitn(3, '-').collect();
        let [random, process, machine] = parts[..] else { panic!("{name} has no three parts") };
        assert!(random.len() == 8 && random.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
        assert_eq!(process, std::process::id().to_string(), "{name}");
        assert!(!machine.is_empty(), "{name}");
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        assert!(name.len() <= 255 && name.chars().all(plain), "{name}");
    }
    two.stop().await;
    one.stop().await;
}

#[tokio::test]
async fn lease_a32_a34_name_and_lease_of_a_host_can_be_chosen() {
    let lease = Duration::from_secs(7 * 3600);
    let running = Running::start(|worker| {
        let options = HostOptions { lease, ..HostOptions::default() };
        worker.host_id(HostId::new("shop_1").unwrap()).options(options)
    });
    assert_eq!(hosts(&running, 1).await, ["shop_1"]);
    let items = running.hub.manage().dump(None).await.unwrap().items;
    let now = items.iter().find_map(|item| if let DumpItem::Now(now) = item { Some(*now) } else { None });
    let ends = items.iter().find_map(|item| match item {
        DumpItem::Session(session) => Some(session.expires_at),
        _ => None,
    });
    let left = ends.unwrap().since(now.unwrap());
    assert!(left > lease - SOON && left <= lease, "{left:?} are left of {lease:?}");
    running.stop().await;
}

#[test]
fn lease_a32_a_name_that_cannot_be_kept_is_refused() {
    assert!(HostId::new("x".repeat(255)).is_ok());
    assert!(HostId::new("x".repeat(256)).is_err(), "longer than 255 bytes");
    assert!(HostId::new("").is_err(), "empty");
    assert!(HostId::new("a\nb").is_err(), "with a line break");
}
