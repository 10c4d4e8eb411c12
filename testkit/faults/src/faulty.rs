//! The interceptor that disturbs calls and hints as a plan decides.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use dauer_store::{Cause, Changes, Credit, Env, Refused, SessionId, Work};

use crate::call::{Answer, Call, Op};
use crate::hints::disturb;
use crate::interceptor::{Destination, Interceptor};
use crate::plan::{Act, Fate, Plan, Struck};

/// Disturbs calls and hints as a plan decides.
///
/// Credit that is delayed takes effect when its time has come, or with the next call of its session, which it must not
/// come after.
pub struct Faulty {
    plan: Arc<dyn Plan>,
    env: Option<Arc<dyn Env>>,
    late: Arc<LateCredit>,
}

/// Credit that has not reached its session yet: the latest for each, with a number that tells it from others.
#[derive(Default)]
struct LateCredit(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    credits: BTreeMap<SessionId, (u64, Credit)>,
    count: u64,
}

impl LateCredit {
    /// A panic while the lock was held leaves whole entries.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, session: SessionId, credit: Credit) -> u64 {
        let mut waiting = self.lock();
        waiting.count += 1;
        let number = waiting.count;
        waiting.credits.insert(session, (number, credit));
        number
    }

    /// Takes the credit of a session: whichever waits, or only the one of that number.
    fn take(&self, session: SessionId, only: Option<u64>) -> Option<Credit> {
        let mut waiting = self.lock();
        let (number, _) = waiting.credits.get(&session)?;
        if only.is_some_and(|only| only != *number) {
            return None;
        }
        waiting.credits.remove(&session).map(|(_, credit)| credit)
    }
}

impl Faulty {
    /// An interceptor with that plan. Without an environment a delay of any length gives way to other tasks once, and
    /// delayed credit waits for the next call of its session.
    #[must_use]
    pub fn new(plan: Arc<dyn Plan>) -> Self {
        Self { plan, env: None, late: Arc::default() }
    }

    /// Delays sleep there.
    #[must_use]
    pub fn with_env(self, env: Arc<dyn Env>) -> Self {
        Self { env: Some(env), ..self }
    }

    /// What happens to the call: nothing, where the plan asks for the impossible.
    fn fate(&self, call: &Call) -> Fate {
        let fate = self.plan.fate(call);
        if fate.impossible(call.op()).is_some() { Fate::PASS } else { fate }
    }

    async fn pause(&self, delay: Duration) {
        match &self.env {
            _ if delay.is_zero() => {}
            Some(env) => env.sleep(delay).await,
            None => give_way().await,
        }
    }

    /// Makes the credit count that was set before this call.
    fn settle(&self, to: &Destination<'_>) {
        if let Some(session) = to.session()
            && let Some(credit) = self.late.take(session.session(), None)
        {
            session.credit(credit);
        }
    }

    async fn carry_out(&self, call: Call, to: &Destination<'_>) -> Answer {
        self.settle(to);
        to.carry_out(call).await
    }

    /// The answer as the act makes it; `None` for none.
    async fn act(&self, act: Act, call: Call, to: &Destination<'_>) -> Option<Answer> {
        let op = call.op();
        match act {
            Act::Pass => Some(self.carry_out(call, to).await),
            Act::Refuse => call.refuse(&not_executed(op)),
            Act::LoseRequest => call.refuse(&unknown(op)),
            Act::LoseAnswer => {
                let refused = call.refuse(&unknown(op));
                drop(self.carry_out(call, to).await);
                refused
            }
            Act::Withhold => {
                drop(self.carry_out(call, to).await);
                None
            }
            Act::Twice => {
                drop(self.carry_out(call.clone(), to).await);
                Some(to.carry_out(call).await)
            }
        }
    }
}

#[async_trait]
impl Interceptor for Faulty {
    async fn call(&self, call: Call, to: Destination<'_>) -> Answer {
        let (op, fate) = (call.op(), self.fate(&call));
        if fate == Fate::PASS {
            return self.carry_out(call, &to).await;
        }
        self.pause(fate.before).await;
        let answer = self.act(fate.act, call, &to).await;
        self.pause(fate.after).await;
        self.plan.struck(Struck { op, fate });
        match answer {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    fn credit(&self, credit: Credit, to: &Arc<dyn Work>) {
        let session = to.session();
        // It replaces what has not arrived yet.
        drop(self.late.take(session, None));
        let fate = self.fate(&Call::Credit { credit: credit.clone() });
        if fate.before.is_zero() {
            if fate.act == Act::Twice {
                to.credit(credit.clone());
            }
            to.credit(credit);
        } else {
            let number = self.late.put(session, credit);
            if let Some(env) = &self.env {
                // The session must not live longer for it.
                let (late, to, due) = (Arc::clone(&self.late), Arc::downgrade(to), env.sleep(fate.before));
                env.spawn(Box::pin(async move {
                    due.await;
                    if let (Some(credit), Some(to)) = (late.take(session, Some(number)), to.upgrade()) {
                        to.credit(credit);
                    }
                }));
            }
        }
        if fate != Fate::PASS {
            self.plan.struck(Struck { op: Op::Credit, fate });
        }
    }

    fn changes(&self, changes: Changes) -> Changes {
        disturb(changes, Arc::clone(&self.plan))
    }
}

fn not_executed(op: Op) -> Refused {
    Refused::NotExecuted(Cause::new(format!("injected fault: {op} was not executed")))
}

fn unknown(op: Op) -> Refused {
    Refused::Unknown(Cause::new(format!("injected fault: the answer of {op} was lost")))
}

/// Pending once, ready the next time.
async fn give_way() {
    let mut waited = false;
    poll_fn(|context| {
        if waited {
            return Poll::Ready(());
        }
        waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
