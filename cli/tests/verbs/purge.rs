//! `dauer purge`: by id and by condition.

use crate::support::{Folder, dauer, stderr, stdout};
use crate::world::{IDS, fails, filled, json, record, succeeds};

fn count(folder: &Folder) -> usize {
    succeeds(&["list", "--all", "-o", "jsonl"], folder).lines().count()
}

#[test]
fn ended_instances_are_removed_by_their_ids() {
    let folder = filled("purge");
    assert_eq!(succeeds(&["purge", "done", "broken", "done"], &folder), "purged 2 instances\n");
    assert_eq!((record(&folder, "done"), record(&folder, "broken")), (None, None));
    let done = json(&succeeds(&["purge", "killed", "-o", "json"], &folder));
    assert_eq!(done, json(r#"{"dauer":1,"matching":1,"purged":1,"dryRun":false}"#));
    assert_eq!(count(&folder), IDS.len() - 3);
    fails(&["get", "done"], &folder, 3);
}

#[test]
fn nothing_is_removed_when_one_of_them_cannot_be() {
    let folder = filled("purge-all");
    let text = fails(&["purge", "done", "event"], &folder, 5);
    assert!(
        text.contains("the instance 'event' is Running, it has not ended; nothing was changed"),
        "{text}"
    );
    fails(&["purge", "done", "nobody"], &folder, 3);
    fails(&["purge", "done", ""], &folder, 2);
    assert_eq!(count(&folder), IDS.len());
}

#[test]
fn conditions_are_counted_first_and_carried_out_when_told() {
    let folder = filled("conditions");
    let output = dauer(&["purge", "--older-than", "0s"], &folder);
    let said = "nothing was removed: give --yes to remove them for good\n";
    assert_eq!((stdout(&output), stderr(&output)), ("would purge 3 instances\n", said));
    let dry = json(&succeeds(&["purge", "--status", "failed,completed", "-o", "json"], &folder));
    assert_eq!(dry, json(r#"{"dauer":1,"matching":2,"purged":0,"dryRun":true}"#));
    assert_eq!(count(&folder), IDS.len());

    for (options, purged) in [
        (&["--older-than", "1h"][..], 0),
        (&["--status", "completed", "--name", "sleep"], 0),
        (&["--tag", "zone=south"], 0),
        (&["--updated-to", "2020-01-01"], 0),
        (&["--tag", "zone=north", "--older-than", "0s"], 1),
        (&["--status", "failed"], 1),
        (&["--prefix", ""], 1),
    ] {
        let text = succeeds(&[&["purge", "--yes"], options].concat(), &folder);
        let expected = format!("purged {purged} instance{}\n", if purged == 1 { "" } else { "s" });
        assert_eq!(text, expected, "{options:?}");
    }
    assert_eq!(count(&folder), IDS.len() - 3, "what lives is never removed");
}

#[test]
fn many_are_removed_in_several_writes() {
    let folder = Folder::new("many");
    let live = crate::world::Live::on(&folder);
    let ids: Vec<String> = (0..250).map(|number| format!("many-{number}")).collect();
    for id in &ids {
        live.start_hello(id);
    }
    for id in &ids {
        live.wait(id, |record| record.status.is_ended());
    }
    live.stop();
    assert_eq!(succeeds(&["purge", "--prefix", "many-", "--yes"], &folder), "purged 250 instances\n");
    assert_eq!(count(&folder), 0);
}

#[test]
fn a_call_that_makes_no_sense_removes_nothing() {
    let folder = filled("nonsense");
    let cases: [(&[&str], &str); 6] = [
        (&["purge", "done", "--status", "failed"], "give ids or conditions, not both"),
        (&["purge", "done", "--older-than", "1h", "--yes"], "give ids or conditions, not both"),
        (&["purge"], "give the ids to remove, or conditions"),
        (&["purge", "--yes"], "give the ids to remove, or conditions"),
        (&["purge", "--status", "running", "--yes"], "only ended instances can be removed"),
        (&["purge", "--older-than", "yesterday", "--yes"], "is no duration"),
    ];
    for (arguments, says) in cases {
        let text = fails(arguments, &folder, 2);
        assert!(text.contains(says), "{text}");
    }
    assert_eq!(count(&folder), IDS.len());
}
