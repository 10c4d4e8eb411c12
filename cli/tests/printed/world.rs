//! What the printed commands are about: stores with orders, files, and a worker.

use std::sync::atomic::{AtomicU32, Ordering};

use dauer::{
    Activity, ActivityContext, Event, Hub, InstanceId, Orchestration, OrchestrationContext, Result, Status,
};
use futures::FutureExt as _;
use futures::channel::oneshot;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::support::SOON;
use crate::user::User;

const HELLO: Orchestration<String, String> = Orchestration::new("hello");
const CHECKOUT: Orchestration<Value, Value> = Orchestration::new("checkout");
const CHARGE: Activity<Value, Value> = Activity::new("charge");
const APPROVED: Event<Value> = Event::new("approved");

/// The ids that texts name.
const IDS: [&str; 3] = ["order-1", "order-7", "order-8"];

/// The stores that texts name. The one of `dauer dev` comes first, as its name ends like that of another.
const STORES: [&str; 4] = [".dauer/dauer.db", "shop.db", "app.db", "dauer.db"];

/// Verbs that touch no store of the world.
const WITHOUT_STORE: [&str; 6] = ["bench", "completions", "dev", "help", "man", "serve"];

/// What the input of an order makes it do.
async fn checkout(ctx: OrchestrationContext, input: Value) -> Result<Value> {
    match input.as_str() {
        Some("waits") => Ok(ctx.event(APPROVED).await?),
        Some("fails") => Ok(ctx.call(CHARGE, &input).await?),
        Some("stalls") => panic!("there is no stock"),
        _ => Ok(input),
    }
}

struct Live {
    store: &'static str,
    hub: Hub,
    stop: oneshot::Sender<()>,
    running: JoinHandle<std::result::Result<(), dauer::Refused>>,
}

pub(crate) struct World {
    pub(crate) user: User,
    live: Vec<Live>,
    runtime: tokio::runtime::Runtime,
}

impl World {
    /// A user with the stores that a script names, each with all orders in the state that its verb needs.
    pub(crate) fn for_script(source: &str, script: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let user = User::new(&format!("printed-{source}-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build();
        let mut world = Self { user, live: Vec::new(), runtime: runtime.unwrap() };
        world.files();
        let verb = script.split_whitespace().nth(1).unwrap_or_default();
        if WITHOUT_STORE.contains(&verb) || verb.starts_with('-') {
            return world;
        }
        let stalled = verb == "retry";
        let status = match verb {
            "list" if script.contains("--status running") => Status::Running,
            "raise" | "suspend" | "resume" | "terminate" => Status::Running,
            "rewind" => Status::Failed,
            _ => Status::Completed,
        };
        let named = STORES.into_iter().find(|store| script.contains(store)).unwrap_or("dauer.db");
        world.open(named, status, stalled);
        world
    }

    /// The files that texts name.
    fn files(&self) {
        let write = |name: &str, text: &str| std::fs::write(self.home().join(name), text).unwrap();
        write("order.json", "{\"items\":[\"kettle\"]}");
        write("invoice.json", "{\"total\":40}");
        write("told.jsonl", "{\"dauer_journal\":1}\n");
        write("t.txt", "* 0123456789abcdef0123456789abcdef\n");
        write("dauer.toml", "store = \"sqlite:hub.db\"\n");
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        write("a.pem", &cert.pem());
        write("a.key", &signing_key.serialize_pem());
        std::fs::create_dir(self.home().join("man1")).unwrap();
    }

    fn home(&self) -> std::path::PathBuf {
        self.user.folder.0.join("home")
    }

    fn open(&mut self, store: &'static str, status: Status, stalled: bool) {
        let path = self.home().join(store);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _entered = self.runtime.enter();
        let hub = dauer::open(&format!("sqlite:{}", path.display())).unwrap();
        let fails = |_: ActivityContext, _: Value| async move { Err(dauer::Error::msg("the bank is away")) };
        let hello = |_: OrchestrationContext, name: String| async move { Ok(format!("Hello, {name}!")) };
        let worker = hub.worker().orchestration(CHECKOUT, checkout).orchestration(HELLO, hello);
        let worker = worker.activity(CHARGE, fails).build().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = self.runtime.spawn(worker.run(stopped.map(|_| ())));
        let input = match status {
            Status::Running => "waits",
            Status::Failed => "fails",
            _ if stalled => "stalls",
            _ => "done",
        };
        self.runtime.block_on(async {
            for id in IDS {
                hub.client().start(CHECKOUT, &Value::from(input)).id(id).await.unwrap();
            }
        });
        self.live.push(Live { store, hub, stop, running });
        for id in IDS {
            self.becomes(store, id, |record| match stalled {
                true => record.trouble.is_some(),
                false => record.status == status,
            });
        }
    }

    /// Waits until an instance stands so.
    pub(crate) fn settles(&self, store: &str, id: &str, status: Status) {
        self.becomes(store, id, |record| record.status == status);
    }

    fn becomes(&self, store: &str, id: &str, so: impl Fn(&dauer::Record) -> bool) {
        let live = self.live.iter().find(|live| live.store == store).unwrap();
        let id = InstanceId::new(id).unwrap();
        self.runtime.block_on(live.hub.client().raw().wait(&id, SOON, so)).unwrap();
    }

    pub(crate) fn end(self) {
        for live in self.live {
            drop(live.stop);
            self.runtime.block_on(async {
                live.running.await.unwrap().unwrap();
                live.hub.close().await;
            });
        }
    }
}
