//! Stores with several task hubs.

use std::process::Output;

use dauer::OrchestrationContext;
use futures::FutureExt;
use futures::channel::oneshot;

use crate::support::{Folder, SOON, block_on, dauer, stdout};
use crate::{CHAIN, damage, fill, filled, journal, verdict, with_journal};

/// The verdicts of all hubs, as they were printed, and that of the whole.
fn verdicts(output: &Output) -> Vec<&str> {
    let is_verdict =
        |line: &&str| ["clean:", "NOT CLEAN:", "not checked: 0"].iter().any(|word| line.starts_with(word));
    stdout(output).lines().filter(|line| is_verdict(line) || line.starts_with("hub ")).collect()
}

#[test]
fn all_hubs_of_a_store_are_checked() {
    let folder = filled("hubs");
    let [north, south] = ["north", "south"].map(|hub| format!("{}?hub={hub}", folder.url()));
    block_on(fill(&north));
    // In one there is nothing any more.
    block_on(async {
        let hub = dauer::open(&south).unwrap();
        let worker =
            hub.worker().orchestration(CHAIN, |_: OrchestrationContext, n: u32| async move { Ok(n) });
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(worker.build().unwrap().run(stopped.map(|_| ())));
        let gone = hub.client().start(CHAIN, &1).await.unwrap();
        gone.output_within(SOON).await.unwrap();
        drop(stop);
        running.await.unwrap().unwrap();
        gone.purge().await.unwrap();
        hub.close().await;
    });
    let output = dauer(&["audit", "dauer.db", "--quiet"], &folder);
    let found = verdicts(&output);
    let whole = found.last().unwrap();
    assert_eq!((output.status.code(), found.len()), (Some(0), 7), "{}", stdout(&output));
    assert!(whole.starts_with("clean: 3 hubs, 14 instances, ") && whole.ends_with(" checks"), "{whole}");
    assert_eq!((found[0], found[2], found[4]), ("hub default", "hub north", "hub south"));
    assert!(found[1].starts_with("clean: 7 instances, ") && found[3] == found[1], "{found:?}");

    // What is wrong in any of them is wrong; who names a hub asks for that alone.
    damage(
        &folder,
        "DELETE FROM tasks WHERE instance IN
            (SELECT i.key FROM instances AS i JOIN hubs AS h ON h.key = i.hub WHERE h.name = 'north' AND i.id = 'task')",
    );
    let output = dauer(&["audit", "dauer.db", "--quiet"], &folder);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert_eq!(verdict(&output), "NOT CLEAN: 1 violation in 1 of 3 hubs");
    for (url, code, says) in [
        (&folder.url(), 1, "NOT CLEAN"),
        (&north, 1, "NOT CLEAN: 1 violation"),
        (&south, 1, "not checked: 0"),
    ] {
        let output = dauer(&["audit", url, "--quiet"], &folder);
        assert!(
            output.status.code() == Some(code) && verdict(&output).starts_with(says),
            "{}",
            stdout(&output)
        );
    }
    let output = dauer(&["audit", &format!("{}?hub=default", folder.url())], &folder);
    assert_eq!((output.status.code(), verdict(&output)), (Some(0), found[1]), "{}", stdout(&output));
}

#[test]
fn a_journal_is_about_one_hub() {
    let folder = filled("told");
    journal(&folder, &[]);
    let north = format!("{}?hub=north", folder.url());
    block_on(fill(&north));
    let lines = |output: &Output| -> Vec<String> {
        let durability = stdout(output).lines().filter(|line| line.starts_with("I4 ")).map(str::to_owned);
        durability.map(|line| line.split_whitespace().skip(2).take(2).collect::<Vec<_>>().join(" ")).collect()
    };
    let output = with_journal(&folder);
    assert_eq!(
        (output.status.code(), lines(&output)),
        (Some(0), vec!["9 clean".to_owned(), "0 not".to_owned()])
    );
    // Of a hub that is not there all that was told is lost, whoever else is there.
    let other = Folder::new("told-elsewhere");
    block_on(fill(&format!("{}?hub=north", other.url())));
    std::fs::copy(folder.0.join("journal"), other.0.join("journal")).unwrap();
    for url in [format!("{}?hub=nowhere", folder.url()), other.url()] {
        let output = dauer(&["audit", &url, "--journal", "journal"], &other);
        assert_eq!(output.status.code(), Some(1));
        assert!(verdict(&output).starts_with("NOT CLEAN: "), "{}", stdout(&output));
    }
}
