//! The one wait of a session: for what it wins, for mail, for due times, and for the end.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use dauer_store::{Env, Next, Refused, Steady, Until};

use super::desk::{Desk, Look, Looked, Step};

/// Carries out [`Work::next`](dauer_store::Work::next). `look` looks once: what it wins goes to the desk, as from any write.
///
/// # Errors
/// Those of `look`; and [`Refused::Unknown`] after a write of which no one knows whether it has won something.
pub async fn next<L>(desk: &Desk, until: Until<'_>, look: impl Fn(Look) -> L) -> Result<Next, Refused>
where
    L: Future<Output = Result<Looked, Refused>>,
{
    let mut looked_last = false;
    loop {
        let ends = match until {
            Until::Once => true,
            Until::At(env, at) => env.steady() >= at,
        };
        let step = match until {
            Until::Once if !looked_last => Step::Look(desk.last_look()),
            _ => match desk.step(looked_last) {
                Step::Look(_) | Step::Wait(_) if ends => Step::Look(desk.last_look()),
                step => step,
            },
        };
        match step {
            Step::Return(next) => return Ok(next),
            Step::Fail(refused) => return Err(refused),
            Step::Look(what) => {
                looked_last |= ends;
                let looking = Looking { desk, what, ended: false };
                looking.end(look(what).await?);
            }
            Step::Wait(due) => {
                // `Once` never waits.
                if let Until::At(env, at) = until {
                    changed(desk, env, at, due).await;
                }
            }
        }
    }
}

/// A look that has begun. One that is refused, or dropped with the call that waits, is made again.
struct Looking<'d> {
    desk: &'d Desk,
    what: Look,
    ended: bool,
}

impl Looking<'_> {
    fn end(mut self, looked: Looked) {
        self.ended = true;
        self.desk.looked(looked);
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.desk.look_failed(self.what);
        }
    }
}

/// Ready when the desk has changed, something is due, or the end has come.
async fn changed(desk: &Desk, env: &dyn Env, end: Steady, due: Option<Duration>) {
    let wake = due.map_or(end, |due| env.steady().after(due).min(end));
    let mut sleep = env.sleep_until(wake);
    poll_fn(|context| {
        let slept = sleep.as_mut().poll(context);
        if slept.is_ready() { Poll::Ready(()) } else { desk.poll_change(context) }
    })
    .await;
}
