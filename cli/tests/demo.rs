//! The demo, as a user runs it, stops it and kills it.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

mod support;

use std::time::Instant;

use dauer_audit::Snapshot;
use dauer_proto::{EventType, HistoryEvent};

use support::{Folder, Running, dauer, snapshot, stderr, stdout};

const OUTPUT: &str = "Output: payment 8001, 2070 g, approved by itself, tracking D02070";

fn count(lines: &[String], word: &str) -> usize {
    lines.iter().filter(|line| line.contains(word)).count()
}

#[test]
fn the_demo_shows_chain_fan_out_race_and_child() {
    let folder = Folder::new("memory");
    let began = Instant::now();
    let mut demo = Running::start(&["demo", "--store", "memory:"], &folder);
    demo.until("holds stock for order 1");
    assert!(began.elapsed().as_secs_f64() < 1.0, "there is something to see at once");
    let (status, said) = demo.end();
    let text = said.join("\n");
    assert!(status.success(), "{text}");
    let count = |word: &str| count(&said, word);
    // The chain, the try that fails and the one that does not, the fan-out.
    assert_eq!((count("holds stock"), count("packs the")), (1, 5), "{text}");
    assert_eq!((count("attempt 1"), count("tries again in 300 ms"), count("attempt 2")), (1, 1, 1), "{text}");
    // The wait before the retry, and the race that the timer wins; the child.
    assert_eq!((count("TimerCreated"), count("TimerFired"), count("EventRaised")), (2, 2, 0), "{text}");
    assert_eq!((count("TaskFailed"), count("SubOrchestrationInstanceCompleted")), (1, 1), "{text}");
    assert!(text.contains(OUTPUT), "{text}");
    assert_eq!(folder.names(), Vec::<String>::new(), "nothing is left of a store in memory");
}

#[test]
fn the_demo_lives_in_a_file_by_default_and_every_run_has_its_own_order() {
    let folder = Folder::new("default");
    for number in 1..=2 {
        let output = dauer(&["demo"], &folder);
        let text = stdout(&output);
        assert!(output.status.success(), "{text}");
        assert_eq!(stderr(&output), "", "nothing went wrong");
        assert!(text.contains(&format!("started order-{number}")) && !text.contains("continuing"), "{text}");
    }
    assert!(folder.file().is_file());
    assert!(!folder.0.join("dauer.db-wal").exists(), "the store was closed");
}

#[test]
fn a_store_that_is_none_is_refused_with_what_to_do() {
    let folder = Folder::new("none");
    let output = dauer(&["demo", "--store", "redis:"], &folder);
    assert_eq!(output.status.code(), Some(2));
    let first = "error: 'redis:' names no store; use sqlite:FILE, memory: or http://HOST:PORT\nhint: ";
    assert!(stderr(&output).starts_with(first), "{}", stderr(&output));
}

/// All events of the orders and of their children.
fn events(snapshot: &Snapshot) -> Vec<(String, HistoryEvent)> {
    let batches = snapshot.instances.values().flat_map(|dump| {
        dump.history.iter().map(|stored| (dump.id.to_string(), stored.batch.decode().unwrap()))
    });
    batches.flat_map(|(id, events)| events.into_iter().map(move |event| (id.clone(), event))).collect()
}

/// What the activities of these say when they run, as far as their results are recorded: in the history, or in the inbox.
/// A task that is not recorded is still there to be run.
fn recorded(snapshot: &Snapshot) -> Vec<String> {
    let open = |id: &str, event_id: i32| {
        snapshot
            .tasks
            .values()
            .any(|dump| dump.task.instance.as_str() == id && dump.task.event_id == event_id)
    };
    let mut recorded = Vec::new();
    for (id, event) in events(snapshot) {
        let Some(EventType::TaskScheduled(task)) = &event.event_type else { continue };
        if open(&id, event.event_id) {
            continue;
        }
        let input = task.input.as_deref().unwrap();
        recorded.push(match task.name.as_str() {
            "reserve" => format!("holds stock for order {input}"),
            "charge" => format!("attempt {}", if input.contains("\"attempt\":1") { 1 } else { 2 }),
            "pack" => format!("packs the {}", input.trim_matches('"')),
            "label" => format!("prints a label for {input} g"),
            other => panic!("{other} is no activity of the demo"),
        });
    }
    recorded
}

/// The steps whose results are in the history of the order.
fn steps_done(snapshot: &Snapshot) -> usize {
    let done = |event: &HistoryEvent| matches!(event.event_type, Some(EventType::TaskCompleted(_)));
    events(snapshot).iter().filter(|(id, event)| id == "order-1" && done(event)).count()
}

/// Runs the demo again on what another has left: it says where it goes on, and does nothing again that is recorded.
fn goes_on(folder: &Folder, recorded_min: usize) {
    let left = snapshot(folder);
    let (recorded, steps) = (recorded(&left), steps_done(&left));
    assert!(recorded.len() >= recorded_min, "only {recorded:?} is recorded");
    let output = dauer(&["demo"], folder);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    let says = match steps {
        0 => "continuing order-1 where it stopped: no step done".to_owned(),
        1 => "continuing order-1 where it stopped: 1 step done (reserve)".to_owned(),
        many => format!("continuing order-1 where it stopped: {many} steps done (reserve"),
    };
    assert!(text.contains(&says), "no '{says}' in\n{text}");
    for line in &recorded {
        assert!(!text.contains(line), "'{line}' is done again, although its result was recorded:\n{text}");
    }
    assert!(text.contains(OUTPUT), "{text}");
    let audit = dauer(&["audit", "dauer.db"], folder);
    assert!(audit.status.success(), "{}", stdout(&audit));
}

#[test]
fn killed_at_any_moment_it_goes_on_where_it_stopped() {
    // A line, and how many results are recorded at least when it is printed. An activity runs after its schedule is
    // durable, so everything before it is. An orchestration speaks before its turn is committed, and the results that the
    // turn brings along may be recorded only with it.
    let moments = [
        ("started order-1", 0),
        ("holds stock", 0),
        ("attempt 2", 2),
        ("packs the kettle", 3),
        ("waits for approval", 3),
        ("prints a label", 8),
    ];
    std::thread::scope(|scope| {
        for (number, (line, recorded_min)) in moments.into_iter().enumerate() {
            scope.spawn(move || {
                let folder = Folder::new(&format!("killed-{number}"));
                let mut demo = Running::start(&["demo"], &folder);
                demo.until(line);
                demo.kill();
                goes_on(&folder, recorded_min);
                // The order is finished now: the next demo begins another.
                let mut next = Running::start(&["demo"], &folder);
                next.until("order-");
                let said = next.kill().join("\n");
                assert!(said.contains("started order-2"), "{said}");
            });
        }
    });
}

#[cfg(unix)]
#[test]
fn told_to_stop_it_finishes_what_is_running_and_goes_on_later() {
    for signal in ["TERM", "INT"] {
        let folder = Folder::new(&format!("stopped-{signal}"));
        let mut demo = Running::start(&["demo"], &folder);
        demo.until("packs the tray");
        demo.signal(signal);
        let (status, said) = demo.end();
        let text = said.join("\n");
        assert_eq!(status.code(), Some(0), "{text}");
        let at =
            |word: &str| said.iter().position(|line| line.contains(word)).unwrap_or_else(|| panic!("{text}"));
        assert!(
            at("stops: finishes what is running") < at("drained: what was running is finished"),
            "{text}"
        );
        assert!(said.last().unwrap().contains("order-1 is not finished; run the same again"), "{text}");
        // All five were running, and all five are recorded.
        let packed =
            recorded(&snapshot(&folder)).into_iter().filter(|line| line.starts_with("packs the")).count();
        assert_eq!((count(&said, "packs the"), packed), (5, 5), "{text}");
        assert!(snapshot(&folder).sessions.is_empty(), "the host has left");
        goes_on(&folder, 8);
    }
}

#[test]
fn whoever_is_asked_decides() {
    let cases = [
        ("y", "Output: payment 8001, 2070 g, approved by you, tracking D02070", "client     approves"),
        ("maybe\nno", "Output: payment 8001 refunded, rejected by you", "gives payment 8001 back"),
    ];
    for (answer, output, line) in cases {
        let folder = Folder::new("asked");
        let mut demo = Running::start(&["demo", "--interactive", "--store", "memory:"], &folder);
        demo.until("waits for approval, and approves itself after 60 s");
        demo.answer(answer);
        let (status, said) = demo.end();
        let text = said.join("\n");
        assert!(status.success() && text.contains(output) && text.contains(line), "{text}");
        assert_eq!((count(&said, "EventRaised"), count(&said, "TimerFired")), (1, 1), "{text}");
    }
    let folder = Folder::new("nobody");
    // Nobody can be asked: the timer is left to decide.
    let mut demo = Running::start(&["demo", "--interactive"], &folder);
    demo.until("waits for approval");
    demo.hang_up();
    demo.until("gets no answer; the timer decides");
    demo.kill();
}
