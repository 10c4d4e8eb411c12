//! Connections as they come, and no more than so many at once.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::{Stream, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::transport::server::{Connected, TcpConnectInfo};

/// A connection, counted for as long as it lives.
pub(crate) struct Counted {
    stream: TcpStream,
    _permit: OwnedSemaphorePermit,
}

/// The connections to a listener. Those beyond the limit are closed at once, so that their clients know.
pub(crate) fn connections(
    listener: TcpListener,
    max: usize,
) -> impl Stream<Item = Result<Counted, io::Error>> + Send {
    let room = Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS)));
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
        let counted = accepted.and_then(|(stream, _)| count(stream, &room));
        async move { Some(counted) }
    })
}

/// The pause after a connection that could not be accepted.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

fn count(stream: TcpStream, room: &Arc<Semaphore>) -> io::Result<Counted> {
    let Ok(permit) = Arc::clone(room).try_acquire_owned() else {
        tracing::warn!("a connection was closed: there are as many as are allowed");
        return Err(io::ErrorKind::ConnectionRefused.into());
    };
    // Answers are small and waited for.
    stream.set_nodelay(true)?;
    Ok(Counted { stream, _permit: permit })
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
        Pin::new(&mut self.stream).poll_read(context, buffer)
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
