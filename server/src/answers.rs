//! Many answers over one call: what dauer's own workers use instead of a call for each.

use std::sync::Arc;

use futures::channel::mpsc;
use futures::future::FutureExt;
use futures::sink::SinkExt;
use futures::stream::{self, BoxStream, FuturesUnordered, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use dauer_rpc::{Answer, Answers, Brought, Executing, Resumed, Taken};

use crate::calls::work;
use crate::hub::Hub;
use crate::hubs::Hubs;
use crate::service::Calls;
use crate::status;

/// Answers of one call that are on their way to the store at once; no more are read until some have arrived. What workers
/// have in their hands at once is less.
const IN_FLIGHT_MAX: usize = 10_000;

/// Acknowledgements that wait to be read: each stands for all that arrived since the last.
const UNREAD_MAX: usize = 16;

#[tonic::async_trait]
impl Answers for Calls {
    type BringStream = BoxStream<'static, Result<Taken, Status>>;

    async fn bring(
        &self,
        request: Request<Streaming<Brought>>,
    ) -> Result<Response<Self::BringStream>, Status> {
        let hub = self.hub(&request).await?;
        let (tell, taken) = mpsc::channel(UNREAD_MAX);
        // Beside the call: what was brought is taken, whether or not somebody still listens.
        tokio::spawn(take(Arc::clone(&self.hubs), hub, request.into_inner(), tell));
        let mut ending = self.ending.clone();
        // The sender is gone with the server.
        let ended = async move { _ = ending.wait_for(|ended| *ended).await };
        let last = stream::once(async { Err(status::stopping()) });
        Ok(Response::new(taken.take_until(ended).chain(last).boxed()))
    }

    async fn resume(&self, request: Request<Executing>) -> Result<Response<Resumed>, Status> {
        let hub = self.hub(&request).await?;
        work::resume(&self.hubs, &hub, request.into_inner()).await.map(Response::new)
    }
}

/// Takes answers as they come, and tells which have arrived, many at a time.
async fn take(
    hubs: Arc<Hubs>,
    hub: Arc<Hub>,
    answers: Streaming<Brought>,
    mut tell: mpsc::Sender<Result<Taken, Status>>,
) {
    let mut answers = answers.fuse();
    let mut flying = FuturesUnordered::new();
    loop {
        let mut arrived = Vec::new();
        if flying.len() >= IN_FLIGHT_MAX {
            arrived.extend(flying.next().await);
        } else {
            futures::select_biased! {
                number = flying.select_next_some() => arrived.push(number),
                brought = answers.select_next_some() => match brought {
                    Ok(brought) => flying.push(taken(Arc::clone(&hubs), Arc::clone(&hub), brought)),
                    // It broke: what has come is taken all the same, and nothing more comes.
                    Err(status) => tracing::debug!(code = ?status.code(), "a stream of answers broke"),
                },
                complete => return,
            }
        }
        while let Some(Some(number)) = flying.next().now_or_never() {
            arrived.push(number);
        }
        let (mut numbers, mut not_taken) = (Vec::new(), None);
        for number in arrived {
            match number {
                Ok(number) => numbers.push(number),
                Err(status) => not_taken = Some(status),
            }
        }
        // A worker that has gone does not want to know.
        if !numbers.is_empty() {
            let _ = tell.send(Ok(Taken { numbers })).await;
        }
        if let Some(status) = not_taken {
            let _ = tell.send(Err(status)).await;
            return;
        }
    }
}

/// Takes one. Returns its number when the worker can forget it. An answer that is not taken ends the stream: the worker brings
/// it, and all that follow, by another call to the hub as it is then.
async fn taken(hubs: Arc<Hubs>, hub: Arc<Hub>, brought: Brought) -> Result<u64, Status> {
    match brought.answer {
        Some(Answer::Turn(response)) => hub.workers.complete_turn(response).await,
        Some(Answer::Activity(response)) => work::complete_activity(&hubs, &hub, response).await?,
        // Of a newer worker: nothing will ever come of it.
        None => {}
    }
    if hub.workers.is_closed() { Err(status::stopping()) } else { Ok(brought.number) }
}
