//! The helper: a process with sessions of its own, that does what it is asked, one thing at a time.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;

use futures::future::{Either, select};

use dauer_sqlite::{Call, Fault, Faults, SqliteStore};
use dauer_store::{HubName, SessionId, Timestamp, Work};

use super::codec::{Wire, bytes_of};
use super::{ASKS, Ask, FILE, SOCKET, receive, send};
use crate::support::{clock, options, run};

/// Serves until the test hangs up, in a process that was started for it; answers whether it was.
pub(crate) fn serve_if_helper() -> bool {
    let (Ok(socket), Ok(file)) = (std::env::var(SOCKET), std::env::var(FILE)) else { return false };
    let mut stream = UnixStream::connect(socket).expect("the test listens");
    let (clock, faults) = (clock(), Arc::<Faults>::default());
    let store = SqliteStore::open_faulty(file, options(&clock), faults.clone()).expect("the file opens");
    let mut sessions: BTreeMap<u128, Arc<dyn Work>> = BTreeMap::new();
    while let Ok(request) = receive(&mut stream) {
        let mut input = &request[..];
        let ask = ASKS[usize::read_from(&mut input)];
        let fault = Option::<u32>::read_from(&mut input);
        let session = SessionId::read_from(&mut input).0;
        // All processes have the test's clock.
        clock.set(Timestamp::read_from(&mut input));
        let answer = run(async {
            if ask == Ask::Attach {
                let hub = HubName::new(String::read_from(&mut input)).expect("a valid name");
                let attached = store.hub(hub).attach(Wire::read_from(&mut input)).await;
                return Some(bytes_of(&attached.map(|work| drop(sessions.insert(session, work)))));
            }
            let work = sessions.get(&session).expect("an attached session");
            let struck = fault.map(|fault| faults.plan(call_of(ask), FAULTS[fault as usize]));
            let call = pin!(answer(&**work, ask, input));
            match struck {
                // An answer that is withheld: the call is dropped, and the test is told that the fault has struck.
                Some(struck) if fault == Some(WITHHELD) => match select(call, struck).await {
                    Either::Left(_) => panic!("the answer should have been withheld"),
                    Either::Right(_) => None,
                },
                _ => Some(call.await),
            }
        });
        send(&mut stream, &bytes_of(&answer.map(Raw))).expect("the test waits for the answer");
    }
    store.close();
    true
}

/// The faults by number.
const FAULTS: [Fault; 4] =
    [Fault::NotExecuted, Fault::UnknownNotDone, Fault::UnknownDone, Fault::AnswerWithheld];
const WITHHELD: u32 = 3;

fn call_of(ask: Ask) -> Call {
    match ask {
        Ask::ClaimTurns => Call::ClaimTurns,
        Ask::CommitTurns => Call::CommitTurns,
        Ask::ClaimActivities => Call::ClaimActivities,
        Ask::CompleteActivities => Call::CompleteActivities,
        other => panic!("no fault is planned for {other:?}"),
    }
}

async fn answer(work: &dyn Work, ask: Ask, mut input: &[u8]) -> Vec<u8> {
    let input = &mut input;
    match ask {
        Ask::Attach => panic!("answered before"),
        Ask::ClaimTurns => bytes_of(&work.claim_turns(Wire::read_from(input)).await),
        Ask::LoadHistory => {
            let (fence, from, max) = (Wire::read_from(input), Wire::read_from(input), Wire::read_from(input));
            bytes_of(&work.load_history(&fence, from, max).await)
        }
        Ask::CommitTurns => bytes_of(&work.commit_turns(Wire::read_from(input)).await),
        Ask::ClaimActivities => bytes_of(&work.claim_activities(Wire::read_from(input)).await),
        Ask::CompleteActivities => bytes_of(&work.complete_activities(Wire::read_from(input)).await),
        Ask::Renew => bytes_of(&work.renew().await),
        Ask::Release => bytes_of(&work.release(Wire::read_from(input)).await),
        Ask::WaitingMail => bytes_of(&work.waiting_mail().await),
        Ask::Mail => bytes_of(&work.mail(Wire::read_from(input)).await),
        Ask::NextDue => bytes_of(&work.next_due(&Wire::read_from(input)).await),
        Ask::Detach => bytes_of(&work.detach().await),
    }
}

/// Bytes that are encoded already, and end the answer.
pub(crate) struct Raw(pub(crate) Vec<u8>);

impl Wire for Raw {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend(&self.0);
    }

    fn read_from(input: &mut &[u8]) -> Self {
        Self(std::mem::take(input).to_vec())
    }
}
