//! Many answers over one call, for servers that know how: dauer's own. A call for each costs as much as the turn that it
//! answers. Whatever does not work out goes by the calls of the protocol, which every server knows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::{mpsc, oneshot};
use futures::future::FutureExt;
use futures::stream::StreamExt;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use dauer_rpc::{Answer, AnswersClient, Brought, Taken};
use dauer_store::Env;

use super::wire::Wire;
use crate::runtime::TokioEnv;

/// How long answers go by the protocol's own calls after the stream broke, before it is opened again.
const REST: Duration = Duration::from_secs(1);

/// Takes answers to the server.
#[derive(Clone)]
pub(super) struct Courier(mpsc::UnboundedSender<Parcel>);

struct Parcel {
    answer: Answer,
    /// Told that the server has it, or given it back.
    delivered: oneshot::Sender<Result<(), Answer>>,
}

impl Courier {
    /// One that works for as long as somebody may bring it something.
    pub(super) fn start(wire: &Arc<Wire>, env: &TokioEnv, channel: Channel) -> Self {
        let (give, parcels) = mpsc::unbounded();
        let round = Round { wire: Arc::clone(wire), service: AnswersClient::new(channel), parcels };
        env.spawn(round.run().boxed());
        Self(give)
    }

    /// Brings an answer; gives it back if it has to go another way.
    pub(super) async fn bring(&self, answer: Answer) -> Result<(), Answer> {
        let (delivered, outcome) = oneshot::channel();
        if let Err(refused) = self.0.unbounded_send(Parcel { answer, delivered }) {
            return Err(refused.into_inner().answer);
        }
        // The courier answers before it ends, unless the worker is gone and nobody waits for this.
        outcome.await.unwrap_or(Ok(()))
    }
}

/// The courier at work.
struct Round {
    wire: Arc<Wire>,
    service: AnswersClient<Channel>,
    parcels: mpsc::UnboundedReceiver<Parcel>,
}

/// What is under way, by its number.
type Pending = BTreeMap<u64, Parcel>;

impl Round {
    async fn run(mut self) {
        loop {
            // Nothing is opened before there is something to bring.
            let Some(first) = self.parcels.next().await else { return };
            let mut pending = Pending::new();
            let ended = self.deliver(first, &mut pending).await;
            pending.into_values().for_each(give_back);
            match ended {
                Ok(()) => return,
                Err(status) if status.code() == Code::Unimplemented => return self.refuse().await,
                Err(status) => {
                    tracing::debug!(code = ?status.code(), "the stream of answers broke; they go one by one for a while");
                }
            }
            let env = self.wire.env();
            let mut rest = env.sleep(REST).fuse();
            loop {
                futures::select_biased! {
                    () = rest => break,
                    parcel = self.parcels.select_next_some() => give_back(parcel),
                    complete => return,
                }
            }
        }
    }

    /// The server knows nothing of this: everything goes another way.
    async fn refuse(mut self) {
        while let Some(parcel) = self.parcels.next().await {
            give_back(parcel);
        }
    }

    /// Brings answers over one stream until it breaks, or nobody brings any more.
    async fn deliver(&mut self, first: Parcel, pending: &mut Pending) -> Result<(), Status> {
        let (send, brought) = mpsc::unbounded();
        let mut number = 0;
        let mut put = |parcel: Parcel, pending: &mut Pending| {
            number += 1;
            let answer = Some(parcel.answer.clone());
            pending.insert(number, parcel);
            send.unbounded_send(Brought { number, answer })
                .map_err(|_| Status::unavailable("the stream is gone"))
        };
        put(first, pending)?;
        let taken: Streaming<Taken> = self.service.bring(self.wire.request(brought)).await?.into_inner();
        let mut taken = taken.fuse();
        loop {
            futures::select_biased! {
                told = taken.next() => {
                    let told = told.unwrap_or_else(|| Err(Status::unavailable("the server closed the stream")))?;
                    for parcel in told.numbers.iter().filter_map(|number| pending.remove(number)) {
                        // Whoever brought it may have gone.
                        let _ = parcel.delivered.send(Ok(()));
                    }
                }
                parcel = self.parcels.next() => match parcel {
                    Some(parcel) => put(parcel, pending)?,
                    None => return Ok(()),
                },
            }
        }
    }
}

fn give_back(parcel: Parcel) {
    // Whoever brought it may have gone.
    let _ = parcel.delivered.send(Err(parcel.answer));
}

#[cfg(test)]
mod tests {
    use super::*;
    use dauer_proto::ActivityResponse;

    /// Nothing that cannot be brought in this way is kept: it goes by the calls of the protocol, which try again.
    #[tokio::test]
    async fn what_cannot_be_brought_is_given_back() {
        // A port that was free a moment ago.
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let wire = crate::remote::connect(&format!("http://{address}")).unwrap().wire().unwrap();
        let env = TokioEnv::new(wire.runtime.clone());
        let courier = Courier::start(&wire, &env, wire.channel());
        for task_id in 0..3 {
            let answer = Answer::Activity(ActivityResponse { task_id, ..ActivityResponse::default() });
            assert_eq!(courier.bring(answer.clone()).await, Err(answer), "also while it rests");
        }
    }
}
