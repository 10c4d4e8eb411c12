//! The demo of `dauer dev`, and the commands that it prints.

use dauer::{Orchestration, OrchestrationContext};

use crate::support::{Running, SOON, block_on};
use crate::texts::backquoted;
use crate::user::{User, stop};

/// The commands that the demo prints, in their order.
fn commands(said: &[String]) -> Vec<String> {
    let lines = said.iter().skip_while(|line| !line.starts_with("Look at it"));
    lines.filter_map(|line| line.strip_prefix("  ")).map(str::to_owned).collect()
}

fn start(user: &User, line: &str) -> Running {
    let mut demo = user.start(line);
    demo.until("rewind payment");
    demo
}

/// Runs a command until what it says has that.
fn until(user: &User, command: &str, word: &str) -> String {
    let began = std::time::Instant::now();
    loop {
        let said = user.run(command).unwrap_or_else(|said| panic!("{command}\n{said}"));
        if said.contains(word) {
            return said;
        }
        assert!(began.elapsed() < crate::support::SOON, "no '{word}': {said}");
    }
}

/// Not installed, as after `cargo run`: the printed commands still work. And what the commands did can be read, through the
/// server and in the file.
#[test]
fn demo_commands_work_as_printed() {
    let mut user = User::new("printed-demo");
    user.uninstall();
    let demo = start(&user, "$DAUER dev --demo");
    let printed = commands(&demo.said);
    assert_eq!(printed.len(), 4, "{:?}", demo.said);
    assert!(printed.iter().all(|line| line.starts_with(env!("CARGO_BIN_EXE_dauer"))), "{printed:?}");
    for command in &printed {
        user.run(command).unwrap_or_else(|said| panic!("{command}\n{said}"));
    }
    // In the file, and through the server, which has the same to say after a rewind as before it.
    let server = printed[0].split_once(" --store ").unwrap().1;
    for store in ["'.dauer/dauer.db?hub=demo'", server] {
        let payment = until(&user, &format!("$DAUER get payment --store {store}"), "completed");
        assert!(!payment.contains("1970") && !payment.contains("continuing as new"), "{payment}");
        let history = user.run(&format!("$DAUER history payment --store {store}")).unwrap();
        assert!(history.contains("ExecutionRewound"), "{history}");
        until(&user, &format!("$DAUER get approval --store {store}"), "order 7 is approved");
    }
    let file = user.run("$DAUER get payment --store '.dauer/dauer.db?hub=demo'").unwrap();
    assert!(file.contains("2, by rewinding"), "{file}");
    let hubs = user.run("$DAUER hubs --store .dauer/dauer.db -o id").unwrap();
    assert_eq!(hubs, "demo", "reading made no hub");
    let (status, said) = stop(demo);
    assert!(status.success(), "{said}");
}

/// What lives is there after `kill -9`, and goes on; a rewind goes through in the second run too.
#[test]
fn killed_demo_goes_on_with_its_instances() {
    let user = User::new("printed-killed");
    start(&user, "dauer dev --demo").kill();
    let demo = start(&user, "dauer dev --demo");
    let there = |id: &str| {
        let line = demo.said.iter().find(|line| line.starts_with(&format!("  {id} "))).unwrap();
        line.ends_with("(there already)")
    };
    assert!(there("approval") && there("reminder"), "{:?}", demo.said);
    assert!(!there("payment"), "it has failed, and is started again: {:?}", demo.said);
    let printed = commands(&demo.said);
    assert!(printed.iter().all(|line| line.starts_with("dauer ")), "{printed:?}");
    for command in &printed {
        user.run(command).unwrap_or_else(|said| panic!("{command}\n{said}"));
    }
    let get = |id: &str| printed[1].replace("approval", id);
    for id in ["approval", "packing", "payment", "reminder"] {
        until(&user, &get(id), "completed");
    }
    assert!(stop(demo).0.success());
    let audit = user.run("dauer audit .dauer/dauer.db").unwrap();
    assert!(audit.lines().last().unwrap().starts_with("clean: "), "{audit}");
}

/// After the README's first command, the first thing that a user types has no store: it is said where the demo's is.
#[test]
fn list_beside_a_demo_names_its_store_and_hub() {
    let user = User::new("printed-beside");
    let demo = start(&user, "dauer dev --demo");
    let said = user.run("dauer list").unwrap_err();
    let commands = backquoted(&said);
    assert!(commands.contains(&"dauer list --store .dauer/dauer.db".to_owned()), "{said}");
    let said = user.run("dauer list --store .dauer/dauer.db").unwrap();
    let commands = backquoted(&said);
    assert_eq!(commands, ["dauer list --store '.dauer/dauer.db?hub=demo'"], "{said}");
    assert!(user.run(&commands[0]).unwrap().contains("packing"));
    stop(demo);
}

/// The commands have ended the approval and the payment. The next demo in the folder starts both again.
#[test]
fn demo_commands_work_again_after_a_restart() {
    let user = User::new("printed-again");
    for run in 1..=3 {
        let demo = start(&user, "dauer dev --demo");
        let printed = commands(&demo.said);
        for command in &printed {
            user.run(command).unwrap_or_else(|said| panic!("run {run}: {command}\n{said}"));
        }
        for id in ["approval", "payment"] {
            until(&user, &printed[1].replace("approval", id), "completed");
        }
        assert!(stop(demo).0.success());
    }
}

/// A demo that was killed before its payment failed, or after it was rewound: the next one has a payment to rewind.
#[test]
fn demo_killed_before_the_failure_has_a_payment_to_rewind() {
    for rewound in [false, true] {
        let user = User::new(if rewound { "printed-rewound" } else { "printed-early" });
        leave_payment(&user, rewound);
        let demo = start(&user, "dauer dev --demo");
        let printed = commands(&demo.said);
        let payment = user.run(&printed[1].replace("approval", "payment")).unwrap();
        assert!(payment.contains("the bank declined the card"), "{payment}");
        for command in &printed {
            user.run(command).unwrap_or_else(|said| panic!("{command}\n{said}"));
        }
        until(&user, &printed[1].replace("approval", "payment"), "completed");
        assert!(stop(demo).0.success());
    }
}

/// Leaves a payment that has not ended in the folder, as a killed demo does.
fn leave_payment(user: &User, rewound: bool) {
    let folder = user.folder.0.join("home/.dauer");
    std::fs::create_dir_all(&folder).unwrap();
    let payment: Orchestration<u32, u32> = Orchestration::new("take-payment");
    block_on(async {
        let hub = dauer::open(&format!("sqlite:{}?hub=demo", folder.join("dauer.db").display())).unwrap();
        let handle = hub.client().start(payment, &40).id("payment").await.unwrap();
        if rewound {
            let fails =
                |_: OrchestrationContext, _: u32| async { Err::<u32, _>(dauer::Error::msg("no bank")) };
            let worker = hub.worker().orchestration(payment, fails).build().unwrap();
            let id = handle.id().clone();
            worker.run(async move { drop(handle.ended_within(SOON).await.unwrap()) }).await.unwrap();
            hub.client().raw().rewind(&id, None).await.unwrap();
        }
        hub.close().await;
    });
}

/// The address of `dauer dev` is told without a word of a port that is not taken.
#[test]
fn dev_names_a_port_as_taken_only_if_it_is() {
    let user = User::new("printed-port");
    let told = |port: u16| {
        let mut server = user.start(&format!("dauer dev --grpc 127.0.0.1:{port}"));
        server.until("Give the SDK this address: ");
        let (status, said) = stop(server);
        assert!(status.success(), "{said}");
        said.lines().find(|line| line.contains("Give the SDK")).unwrap().to_owned()
    };
    // The tests set a free port by DAUER_GRPC.
    assert!(told(0).starts_with("Give the SDK this address: 127.0.0.1:"));
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    assert!(told(port).starts_with(&format!("The port {port} is taken. Give the SDK this address: ")));
}
