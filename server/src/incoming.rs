//! Connections as they come, no more than so many at once, and none whose client never says a word.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::options::Limits;

/// What every client of HTTP/2 says first has so many bytes, and so has what every client of TLS does.
const GREETING_BYTES: usize = 24;

/// A connection, counted for as long as it lives.
pub(crate) struct Counted {
    stream: TcpStream,
    greeting: Option<Greeting>,
    _permit: OwnedSemaphorePermit,
}

/// The first words of a client, until they have come: from then on the transport asks whether anyone is there.
struct Greeting {
    missing: usize,
    until: Pin<Box<Sleep>>,
}

/// The connections to a listener of gRPC. Those beyond the limit are closed at once, so that their clients know.
pub(crate) fn connections(
    listener: TcpListener,
    limits: &Limits,
) -> impl Stream<Item = Result<Counted, io::Error>> + Send + use<> {
    accepted(listener, limits, Some(limits.handshake))
}

/// The same for HTTP/1, whose transport has a time-out of its own for what comes first.
pub(crate) fn http_connections(
    listener: TcpListener,
    limits: &Limits,
) -> impl Stream<Item = Result<Counted, io::Error>> + Send + use<> {
    accepted(listener, limits, None)
}

fn accepted(
    listener: TcpListener,
    limits: &Limits,
    handshake: Option<Duration>,
) -> impl Stream<Item = Result<Counted, io::Error>> + Send + use<> {
    let room = Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS)));
    let accepted = futures::stream::unfold(listener, |listener| async move {
        let accepted = listener.accept().await;
        if let Err(error) = &accepted {
            // Out of files, most likely: trying again at once would only burn a core.
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
        Some((accepted, listener))
    });
    accepted.filter_map(move |accepted| {
        let counted = accepted.and_then(|(stream, _)| count(stream, &room, handshake));
        async move { Some(counted) }
    })
}

/// The pause after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

fn count(stream: TcpStream, room: &Arc<Semaphore>, handshake: Option<Duration>) -> io::Result<Counted> {
    let Ok(permit) = Arc::clone(room).try_acquire_owned() else {
        tracing::warn!("a connection was closed: there are as many as are allowed");
        return Err(io::ErrorKind::ConnectionRefused.into());
    };
    // Answers are small and waited for.
    stream.set_nodelay(true)?;
    let greeting =
        handshake.map(|time| Greeting { missing: GREETING_BYTES, until: Box::pin(tokio::time::sleep(time)) });
    Ok(Counted { stream, greeting, _permit: permit })
}

impl Connected for Counted {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some(greeting) = &mut self.greeting else { return read };
        greeting.missing = greeting.missing.saturating_sub(buffer.filled().len() - before);
        if greeting.missing == 0 {
            self.greeting = None;
        } else if greeting.until.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
