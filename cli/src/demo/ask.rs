//! The question on the terminal.

use std::io::{self, Write};

use futures::channel::oneshot;

/// Asks until the answer is yes or no; `None` when nobody is there to answer.
///
/// On a thread of its own, which is left behind when nobody waits for the answer any more: a read from the terminal
/// cannot be called back.
pub(super) async fn yes_or_no(question: String) -> Option<bool> {
    let (answered, answer) = oneshot::channel();
    let asking = std::thread::Builder::new().name("dauer-ask".to_owned());
    let spawned = asking.spawn(move || {
        let _ = answered.send(read_answer(&question));
    });
    // Without a thread there is nobody to ask.
    spawned.ok()?;
    answer.await.ok().flatten()
}

fn read_answer(question: &str) -> Option<bool> {
    loop {
        let mut err = io::stderr();
        write!(err, "{question} [y/n] ").and_then(|()| err.flush()).ok()?;
        let mut line = String::new();
        if io::stdin().read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim() {
            "y" | "Y" | "yes" => return Some(true),
            "n" | "N" | "no" => return Some(false),
            _ => {}
        }
    }
}
