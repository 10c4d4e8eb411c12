//! The helper: a process with sessions of its own, that does what it is asked, one thing at a time.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use dauer_sqlite::SqliteStore;
use dauer_store::{HubName, SessionId, Timestamp, Until, Work};

use super::codec::{Wire, bytes_of};
use super::{ASKS, Ask, FILE, SOCKET, receive, send};
use crate::support::{clock, options, run};

/// Serves until the test hangs up, in a process that was started for it; answers whether it was.
pub(crate) fn serve_if_helper() -> bool {
    let (Ok(socket), Ok(file)) = (std::env::var(SOCKET), std::env::var(FILE)) else { return false };
    let mut stream = UnixStream::connect(socket).expect("the test listens");
    let clock = clock();
    let store = SqliteStore::open(file, options(&clock)).expect("the file opens");
    let mut sessions: BTreeMap<u128, Arc<dyn Work>> = BTreeMap::new();
    while let Ok(request) = receive(&mut stream) {
        let mut input = &request[..];
        let ask = ASKS[usize::read_from(&mut input)];
        let session = SessionId::read_from(&mut input).0;
        // All processes have the test's clock.
        clock.set(Timestamp::read_from(&mut input));
        let answer = run(async {
            if ask == Ask::Attach {
                let hub = HubName::new(String::read_from(&mut input)).expect("a valid name");
                let attached = store.hub(hub).attach(Wire::read_from(&mut input)).await;
                return bytes_of(&attached.map(|work| drop(sessions.insert(session, work))));
            }
            let work = sessions.get(&session).expect("an attached session");
            answer(&**work, ask, input).await
        });
        send(&mut stream, &answer).expect("the test waits for the answer");
    }
    store.close();
    true
}

async fn answer(work: &dyn Work, ask: Ask, mut input: &[u8]) -> Vec<u8> {
    let input = &mut input;
    match ask {
        Ask::Attach => panic!("answered before"),
        Ask::Credit => {
            work.credit(Wire::read_from(input));
            bytes_of(&())
        }
        Ask::Next => bytes_of(&work.next(Until::Once).await),
        Ask::Recall => {
            let (first, last) = (Wire::read_from(input), Wire::read_from(input));
            bytes_of(&work.recall(first, last).await)
        }
        Ask::LoadHistory => {
            let (fence, from, max) = (Wire::read_from(input), Wire::read_from(input), Wire::read_from(input));
            bytes_of(&work.load_history(&fence, from, max).await)
        }
        Ask::CommitTurns => bytes_of(&work.commit_turns(Wire::read_from(input)).await),
        Ask::CompleteActivities => bytes_of(&work.complete_activities(Wire::read_from(input)).await),
        Ask::Renew => bytes_of(&work.renew().await),
        Ask::Release => bytes_of(&work.release(Wire::read_from(input)).await),
        Ask::Adopt => bytes_of(&work.adopt(Wire::read_from(input)).await),
        Ask::Died => bytes_of(&work.died(Wire::read_from(input)).await),
        Ask::Trial => bytes_of(&work.trial(Wire::read_from(input)).await),
        Ask::Mail => bytes_of(&work.mail(Wire::read_from(input)).await),
        Ask::Detach => bytes_of(&work.detach().await),
    }
}
