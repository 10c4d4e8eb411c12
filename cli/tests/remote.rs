//! The verbs on a server: the same words as on a store, and what only a store can tell is told as that.

#![allow(clippy::unwrap_used)] // A test that cannot go on has failed.

mod support;

use std::process::Output;

use dauer::{Event, Orchestration, OrchestrationContext};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::Value;
use support::{Folder, Running, dauer, dauer_with, stderr, stdout};

const ASKS: Orchestration<u32, String> = Orchestration::new("asks");
const FAILS: Orchestration<u32, u32> = Orchestration::new("fails");
const GO: Event<String> = Event::new("go");

/// A server in a process of its own, a worker in this one, and a folder without any store.
struct World {
    server: Running,
    url: String,
    folder: Folder,
    /// Ends with this, and the worker with it.
    runtime: tokio::runtime::Runtime,
}

impl World {
    fn new(name: &str) -> Self {
        let world = Self::without_worker(name);
        world.connect_worker();
        world
    }

    fn without_worker(name: &str) -> Self {
        let folder = Folder::new(name);
        let arguments = ["serve", "--store", "memory:", "--grpc", "127.0.0.1:0", "--http", "off"];
        let mut server = Running::start(&arguments, &folder);
        server.until("grpc ");
        let url = server.said.last().unwrap().strip_prefix("grpc ").unwrap().to_owned();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { server, url, folder, runtime }
    }

    /// A worker, until the task ends.
    fn connect_worker(&self) -> tokio::task::AbortHandle {
        let _entered = self.runtime.enter();
        let asks = |ctx: OrchestrationContext, _: u32| async move {
            ctx.set_status(&"asking");
            Ok(ctx.event(GO).await?)
        };
        let fails = |_: OrchestrationContext, _: u32| async {
            Err::<u32, _>(dauer::Error::from(std::io::Error::other("broken")))
        };
        let hub = dauer::connect(&self.url).unwrap();
        let worker = hub.worker().orchestration(ASKS, asks).orchestration(FAILS, fails).build().unwrap();
        self.runtime.spawn(worker.run(std::future::pending())).abort_handle()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        dauer_with(arguments, &self.folder, "", &[("DAUER_STORE", &self.url)])
    }

    fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        stdout(&output).to_owned()
    }

    fn fails(&self, arguments: &[&str], code: i32) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        stderr(&output).to_owned()
    }

    /// Looks until an instance stands so.
    fn settles(&self, id: &str, status: &str) -> Value {
        let began = std::time::Instant::now();
        loop {
            let got = self.json(&["get", id]);
            if got["status"] == status {
                return got;
            }
            assert!(began.elapsed() < support::SOON, "it is not {status}: {got}");
        }
    }

    /// Looks until `get` says so.
    fn until_get(&self, id: &str, said: &str) {
        let began = std::time::Instant::now();
        loop {
            let text = self.succeeds(&["get", id]);
            if text.contains(said) {
                return;
            }
            assert!(began.elapsed() < support::SOON, "'{said}' is not said: {text}");
        }
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.succeeds(&[arguments, &["-o", "json"]].concat())).unwrap()
    }
}

#[test]
fn every_verb_works_on_a_server() {
    let world = World::new("remote-verbs");
    let started = world.json(&["start", "asks", "--id", "a1", "--input", "1", "--tag", "zone=north"]);
    assert_eq!((&started["id"], &started["created"]), (&"a1".into(), &Value::Null));
    assert!(world.fails(&["start", "asks", "--id", "a1"], 4).contains("exists"), "the id is taken");
    world.succeeds(&["raise", "a1", "go", "--data", "\"now\""]);
    for _ in 0..2 {
        // The same start again, by its request's id, is no start.
        let again =
            ["start", "asks", "--id", "a2", "--input", "1", "--reuse-policy", "never", "--request-id", "x"];
        assert_eq!(world.succeeds(&again), "a2\n");
    }
    world.succeeds(&["suspend", "a2", "--reason", "wait"]);
    world.succeeds(&["resume", "a2"]);
    world.succeeds(&["terminate", "a2", "--reason", "enough"]);
    assert!(
        world
            .fails(&["start", "fails", "--id", "f1", "--input", "1", "--wait", "--timeout", "60s"], 6)
            .contains("broken")
    );
    world.settles("a2", "terminated");
    let got = world.settles("a1", "completed");
    assert_eq!((&got["tags"]["zone"], &got["input"]), (&"north".into(), &1.into()));
    let (events, generation) = (got["historyEvents"].as_u64(), &got["generation"]);
    assert!(events.is_some_and(|events| events >= 4), "the management service tells them: {got}");
    assert_eq!((generation, &got["openTasks"]), (&0.into(), &serde_json::json!([])));
    let history = world.json(&["history", "a1"]);
    assert!(history["events"].as_array().unwrap().len() >= 4, "{history}");
    let listed = world.json(&["list"]);
    let ids: Vec<_> =
        listed["instances"].as_array().unwrap().iter().map(|each| each["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["f1", "a2", "a1"], "newest first, as from a store");
    assert_eq!(world.succeeds(&["list", "--oldest-first", "--limit", "1", "-o", "id"]), "a1\n");
    assert_eq!(world.succeeds(&["list", "--status", "failed", "-o", "id"]), "f1\n");
    world.succeeds(&["rewind", "f1"]);
    // Read again and again after the rewind, while it runs and when it has failed once more.
    let history = world.succeeds(&["history", "f1"]);
    assert!(history.contains("ExecutionRewound"), "{history}");
    world.settles("f1", "failed");
    world.succeeds(&["history", "f1"]);
    world.fails(&["rewind", "a1"], 5);
    assert_eq!(world.succeeds(&["restart", "a1", "--new-id", "a3"]), "a3\n");
    world.succeeds(&["restart", "a1"]);
    world.fails(&["purge", "a1"], 5);
    assert!(world.succeeds(&["purge", "--status", "terminated", "--yes"]).contains("purged 1 instance"));
    world.fails(&["get", "a2"], 3);
    world.fails(&["get", "nobody"], 3);
    assert!(world.folder.names().is_empty(), "no store was made: {:?}", world.folder.names());
    world.server.kill();
}

#[test]
fn what_only_a_store_can_tell_is_said_so() {
    let world = World::new("remote-only");
    assert!(world.fails(&["audit", &world.url], 2).contains("reads the store itself"));
    let shown = world.succeeds(&["start", "asks", "--id", "a1", "--input", "1"]);
    assert_eq!(shown, "a1\n");
    // One that has not begun has no events, whoever tells.
    world.settles("a1", "running");
    let text = world.succeeds(&["get", "a1"]);
    assert!(text.contains("waiting for") && !text.contains("0 events"), "{text}");
    world.server.kill();
}

/// The workers that are connected to the server, and not its own session, which stays when they have gone.
#[test]
fn connected_workers_are_counted_through_a_server() {
    let world = World::without_worker("remote-workers");
    let waited = world.run(&["start", "absent", "--id", "a1", "--wait", "--timeout", "1ms"]);
    let note = "note: no worker is connected to this store; it waits until one is\n";
    assert!(stderr(&waited).contains(note), "{}", stderr(&waited));
    let none = "; none is connected to this store";
    world.until_get("a1", none);
    assert!(world.succeeds(&["list"]).contains("; none is connected\n"));
    let worker = world.connect_worker();
    world.until_get("a1", "; 1 is connected and has not taken it");
    let other = world.connect_worker();
    world.until_get("a1", "; 2 are connected and none has taken it");
    assert_eq!(world.json(&["get", "a1"])["waitingFor"]["workers"], 2);
    let waited = world.run(&["start", "absent", "--id", "a2", "--wait", "--timeout", "1ms"]);
    assert!(!stderr(&waited).contains(note), "{}", stderr(&waited));
    worker.abort();
    other.abort();
    world.until_get("a1", none);
    world.server.kill();
}

/// 301 of 903 match: the server leaves the others out, and not the client after a page was cut.
#[test]
fn list_by_name_over_a_server_fills_its_limit() {
    const MATCHES: usize = 301;
    let world = World::new("remote-name");
    let start = async {
        let client = dauer::connect(&world.url).unwrap().client();
        let starts = (0..3 * MATCHES).map(|number| {
            let (name, client) = (["pick", "other", "third"][number % 3], client.clone());
            async move {
                let orchestration: Orchestration<u32, u32> = Orchestration::new(name);
                let start = client.start(orchestration, &1).id(format!("{name}-{number}"));
                start.tag("zone", name).await.map(drop)
            }
        });
        futures::stream::iter(starts).buffer_unordered(50).try_collect::<()>().await.unwrap();
    };
    world.runtime.block_on(start);
    for limit in [1, 100, 300, MATCHES] {
        for condition in [["--name", "pick"], ["--tag", "zone=pick"], ["--prefix", "pick"]] {
            let limit_text = limit.to_string();
            let arguments = [&["list", "--limit", &limit_text, "-o", "id"][..], &condition].concat();
            let ids = world.succeeds(&arguments);
            assert!(ids.lines().all(|id| id.starts_with("pick-")), "{ids}");
            assert_eq!(ids.lines().count(), limit, "{condition:?}");
        }
    }
    assert_eq!(world.succeeds(&["list", "--name", "pick", "--all", "-o", "id"]).lines().count(), MATCHES);
    // Page after page, by the cursor that each ends with, in both orders.
    for order in [&["--oldest-first"][..], &[]] {
        let (mut found, mut after) = (std::collections::BTreeSet::new(), None::<String>);
        loop {
            let mut arguments = [&["list", "--name", "pick", "--limit", "100"][..], order].concat();
            arguments.extend(after.as_ref().map(|after| ["--after", after]).iter().flatten());
            let page = world.json(&arguments);
            let ids = page["instances"].as_array().unwrap().iter().map(|each| each["id"].to_string());
            found.extend(ids);
            match page["next"].as_str() {
                Some(next) => after = Some(next.to_owned()),
                None => break,
            }
        }
        assert_eq!(found.len(), MATCHES, "{order:?}");
    }
    world.server.kill();
}

#[test]
fn a_server_that_is_not_there_is_told_with_what_to_do() {
    let folder = Folder::new("remote-nobody");
    // A port that was free a moment ago.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = dauer(&["get", "a1", "--store", &format!("http://{address}")], &folder);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(8), "{text}");
    assert!(
        text.contains(&address.to_string()) && text.contains("dauer serve") && text.contains("hint: "),
        "{text}"
    );
    let output = dauer(&["get", "a1", "--store", "http://"], &folder);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

/// The benchmark on a server: its figures, and what it cannot tell.
#[test]
fn a_server_is_measured() {
    let world = World::new("remote-bench");
    let address = world.url.strip_prefix("http://").unwrap();
    let size = ["--orchestrations", "100", "--activities", "3", "--window", "20", "--runs", "2", "--json"];
    let printed = world.succeeds(&[&["bench", "sequence", "--server", address][..], &size].concat());
    let figures: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((&figures["bench"], &figures["orchestrations"]), (&"sequence".into(), &100.into()));
    assert_eq!((&figures["audited"], &figures["commits"]), (&Value::Null, &Value::Null));
    assert!(figures["orchestrations_per_second"].as_f64().unwrap() > 0.0, "{figures}");
    assert_eq!(figures["runs"].as_array().unwrap().len(), 2);
    let listed = world.json(&["list", "--status", "completed", "--all"]);
    assert_eq!(listed["instances"].as_array().unwrap().len(), 200, "each run has instances of its own");
    world.server.kill();
}

/// Who signs a certificate for this machine, and the files of a server that has it: certificate, key, tokens.
fn protected(folder: &Folder) -> (String, [String; 3]) {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    let authority = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let trusted = params.self_signed(&authority).unwrap().pem();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &Issuer::new(params, authority)).unwrap().pem();
    let file = |name: &str, text: &str| {
        let path = folder.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let files = [
        file("certificate.pem", &certificate),
        file("key.pem", &key.serialize_pem()),
        file("tokens", "* 0123456789abcdef\n"),
    ];
    (file("trusted.pem", &trusted), files)
}

#[test]
fn a_server_behind_tls_is_reached_by_who_trusts_it_and_has_a_token() {
    let folder = Folder::new("tls");
    let (trusted, [certificate, key, tokens]) = protected(&folder);
    let arguments = ["serve", "--store", "memory:", "--grpc", "127.0.0.1:0", "--http", "off"];
    let protection = ["--tls-certificate", &certificate, "--tls-key", &key, "--tokens", &tokens];
    let mut server = Running::start(&[&arguments[..], &protection].concat(), &folder);
    server.until("grpc ");
    let address = server.said.last().unwrap().strip_prefix("grpc ").unwrap();
    let url = format!("https://localhost:{}", address.rsplit(':').next().unwrap());
    let list = |variables: &[(&str, &str)]| {
        let output = dauer_with(&["list"], &folder, "", &[&[("DAUER_STORE", &*url)], variables].concat());
        (output.status.code() == Some(0), stderr(&output).to_owned())
    };
    let (trust, token) = (("SSL_CERT_FILE", &*trusted), ("DAUER_TOKEN", "0123456789abcdef"));
    assert_eq!(list(&[trust, token]), (true, "no instance matches\n".to_owned()));
    let (listed, said) = list(&[trust, ("DAUER_TOKEN", "fedcba9876543210")]);
    assert!(!listed && said.contains("token"), "{said}");
    // It is not in the certificates of this machine.
    let (listed, said) = list(&[token]);
    assert!(!listed && said.contains("certificate"), "{said}");
    server.kill();
}
