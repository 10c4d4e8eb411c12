//! Task hubs: which there are, and what is said of one that is not there.

use crate::support::{Folder, Running, dauer, dauer_with, stderr, stdout};
use crate::world::{fails, filled, json, succeeds};

/// A folder with a store that has instances in the hub `north` alone.
fn north(name: &str) -> Folder {
    let folder = Folder::new(name);
    let output = dauer(&["start", "hello", "--id", "n1", "--store", "dauer.db?hub=north"], &folder);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let notes = stderr(&output);
    assert!(notes.contains("note: there was no task hub 'north'; it is new"), "{notes}");
    folder
}

/// A server on the store of the folder, and its URL.
fn serve(folder: &Folder) -> (Running, String) {
    serve_with(&[], folder)
}

fn serve_with(more: &[&str], folder: &Folder) -> (Running, String) {
    let arguments = ["serve", "--store", "dauer.db", "--grpc", "127.0.0.1:0", "--http", "off"];
    let mut server = Running::start(&[&arguments[..], more].concat(), folder);
    server.until("grpc ");
    let url = server.said.last().unwrap().strip_prefix("grpc ").unwrap().to_owned();
    (server, url)
}

/// The URL of a hub.
fn hub(store: &str, name: &str) -> String {
    format!("{store}?hub={name}")
}

#[test]
fn hubs_are_listed_from_file_and_server() {
    let folder = north("hubs-listed");
    let (server, url) = serve(&folder);
    for store in ["dauer.db", &url] {
        assert_eq!(succeeds(&["hubs", "--store", store], &folder), "HUB    EMPTY\nnorth  no\n", "{store}");
        assert_eq!(succeeds(&["hubs", "--store", store, "-o", "id"], &folder), "north\n");
        let shown = json(&succeeds(&["hubs", "--store", store, "-o", "json"], &folder));
        assert_eq!(shown["hubs"], serde_json::json!([{"name": "north", "empty": false}]));
        let line = json(&succeeds(&["hubs", "--store", store, "-o", "jsonl"], &folder));
        assert_eq!((&line["name"], &line["dauer"]), (&"north".into(), &1.into()));
    }
    server.kill();
}

#[test]
fn unknown_hub_is_named_with_those_that_exist() {
    let folder = north("hubs-unknown");
    let (server, url) = serve(&folder);
    for store in ["dauer.db", &url] {
        let unknown = hub(store, "nroth");
        let verbs: [&[&str]; 5] =
            [&["list"], &["get", "n1"], &["history", "n1"], &["raise", "n1", "go"], &["purge", "n1"]];
        for verb in verbs {
            let text = fails(&[verb, &["--store", &unknown]].concat(), &folder, 3);
            let says = "error: there is no task hub 'nroth'; there are: north\nhint: ";
            assert!(text.starts_with(says) && text.contains(" hubs --store "), "{verb:?}: {text}");
        }
        let output = dauer(&["get", "n1", "--store", &unknown, "-o", "json"], &folder);
        assert_eq!(json(stderr(&output))["error"]["code"], "unknown_hub");
        assert_eq!(succeeds(&["hubs", "--store", store, "-o", "id"], &folder), "north\n", "{store}");
        // The one that is there is as always.
        assert_eq!(succeeds(&["list", "--store", &hub(store, "north"), "-o", "id"], &folder), "n1\n");
    }
    server.kill();
}

/// Every verb that reads, on a hub that is not there: neither the default one nor another comes into being.
#[test]
fn reading_creates_no_hub() {
    let folder = north("hubs-reading");
    let reads: [&[&str]; 6] =
        [&["list"], &["list", "--stalled"], &["get", "n1"], &["history", "n1"], &["purge", "n1"], &["hubs"]];
    for verb in reads {
        dauer(verb, &folder);
        assert_eq!(succeeds(&["hubs", "-o", "id"], &folder), "north\n", "{verb:?}");
    }
    dauer(&["audit", "dauer.db"], &folder);
    assert_eq!(succeeds(&["hubs", "-o", "id"], &folder), "north\n");
}

#[test]
fn empty_default_hub_names_the_hubs_that_are_not() {
    let folder = north("hubs-empty");
    let (server, url) = serve(&folder);
    for store in ["dauer.db", &url] {
        let output = dauer(&["list", "--store", store], &folder);
        assert_eq!((output.status.code(), stdout(&output)), (Some(0), ""));
        let said = stderr(&output);
        assert!(said.starts_with("the task hub 'default' is empty; not empty: 'north'; "), "{said}");
        assert!(said.contains(&format!(" list --store '{store}?hub=north'`")), "{said}");
        // Programs read stdout alone, and get no notes.
        let output = dauer(&["list", "--store", store, "-o", "id"], &folder);
        assert_eq!((stdout(&output), stderr(&output)), ("", ""));
    }
    // Where something is, a condition that nothing meets is no reason to look elsewhere.
    let filled = filled("hubs-filled");
    let output = dauer(&["list", "--name", "nobody"], &filled);
    assert_eq!(stderr(&output), "no instance matches\n");
    server.kill();
}

/// The trouble of an instance, as the store has it: over a server too.
#[test]
fn list_stalled_over_a_server_tells_the_trouble() {
    let folder = filled("hubs-stalled");
    let (server, url) = serve(&folder);
    let here = json(&succeeds(&["list", "--stalled", "-o", "json"], &folder));
    let there = json(&succeeds(&["list", "--stalled", "-o", "json", "--store", &url], &folder));
    assert_eq!(there["instances"], here["instances"]);
    assert_eq!(there["instances"].as_array().unwrap().len(), 1, "{there}");
    assert_eq!(there["instances"][0]["trouble"]["kind"], "UnknownName");
    let table = succeeds(&["list", "--stalled", "--store", &url], &folder);
    assert!(table.contains("stalled ") && table.contains("UnknownName: "), "{table}");
    server.kill();
}

/// A token lists only its own hub. Another hub that exists is not called unknown: the server's refusal is passed on.
#[test]
fn hub_of_another_token_is_denied_and_not_unknown() {
    let folder = north("hubs-token");
    dauer(&["start", "hello", "--id", "s1", "--store", "dauer.db?hub=south"], &folder);
    std::fs::write(folder.0.join("tokens"), "north 0123456789abcdef\nsouth fedcba9876543210\n").unwrap();
    let (server, url) = serve_with(&["--tokens", "tokens"], &folder);
    let run = |verb: &[&str], name: &str| {
        let store = hub(&url, name);
        let variables = [("DAUER_TOKEN", "0123456789abcdef"), ("DAUER_STORE", &*store)];
        let output = dauer_with(verb, &folder, "", &variables);
        (output.status.code(), stdout(&output).to_owned(), stderr(&output).to_owned())
    };
    assert_eq!(run(&["list", "-o", "id"], "north"), (Some(0), "n1\n".to_owned(), String::new()));
    for verb in [&["list"][..], &["get", "s1"], &["terminate", "s1"], &["start", "hello"]] {
        let (code, _, said) = run(verb, "south");
        assert_eq!(code, Some(8), "{verb:?}: {said}");
        assert!(said.contains("the token is not for the task hub 'south'"), "{verb:?}: {said}");
        assert!(!said.contains("there is no task hub"), "{verb:?}: {said}");
    }
    let (_, _, said) = run(&["list", "-o", "json"], "south");
    assert_eq!(json(&said)["error"]["code"], "denied");
    server.kill();
}

/// A server with a list of hubs: a start says the same of another hub as every verb does.
#[test]
fn hub_outside_the_servers_list_is_unknown_to_all_verbs() {
    let folder = north("hubs-fixed");
    let (server, url) = serve_with(&["--hubs", "north"], &folder);
    // The default hub is none of them either.
    for (store, name) in [(hub(&url, "south"), "south"), (hub(&url, "default"), "default"), (url, "default")]
    {
        let verbs: [&[&str]; 4] = [&["start", "hello"], &["list"], &["get", "n1"], &["terminate", "n1"]];
        for verb in verbs {
            let text = fails(&[verb, &["--store", &store]].concat(), &folder, 3);
            let says = format!("error: there is no task hub '{name}'; there are: north\nhint: ");
            assert!(text.starts_with(&says), "{verb:?}: {text}");
            let output = dauer(&[verb, &["--store", &store, "-o", "json"]].concat(), &folder);
            assert_eq!(json(stderr(&output))["error"]["code"], "unknown_hub", "{verb:?}");
        }
    }
    server.kill();
}

/// `?hub=default` means the same as no hub: on a store that does not have that hub, and when a start makes the store.
#[test]
fn default_hub_by_name_is_as_without_a_name() {
    let folder = north("hubs-default");
    let (server, url) = serve(&folder);
    for store in ["dauer.db", &url] {
        for verb in [&["list"][..], &["list", "-o", "json"], &["get", "n1"], &["terminate", "n1"]] {
            let run = |store: &str| {
                let output = dauer(&[verb, &["--store", store]].concat(), &folder);
                // The commands that are printed name the store as it was given, in quotes where a shell needs them.
                let said = stderr(&output).replace("?hub=default", "").replace('\'', "");
                (output.status.code(), stdout(&output).to_owned(), said)
            };
            assert_eq!(run(&hub(store, "default")), run(store), "{store} {verb:?}");
        }
    }
    let output = dauer(&["list", "--store", "dauer.db?hub=default"], &folder);
    assert!(stderr(&output).contains("`dauer list --store 'dauer.db?hub=north'`"), "{}", stderr(&output));
    server.kill();
    let notes = |name: &str, store: &str| {
        let output = dauer(&["start", "hello", "--store", store], &Folder::new(name));
        stderr(&output).replace("?hub=default", "")
    };
    assert_eq!(notes("hubs-new-named", "new.db?hub=default"), notes("hubs-new", "new.db"));
}
