//! Sessions in other processes: the helper, which has them, and the fixture, which speaks to it through a socket.

mod codec;
mod fixture;
mod helper;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

pub(crate) use fixture::RemoteFixture;
pub(crate) use helper::serve_if_helper;

/// Names the socket for a process that a test started as its helper.
const SOCKET: &str = "DAUER_SQLITE_TEST_SOCKET";
/// Names the file.
const FILE: &str = "DAUER_SQLITE_TEST_FILE";

/// What a helper is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Attach,
    Credit,
    Next,
    Recall,
    LoadHistory,
    CommitTurns,
    CompleteActivities,
    Renew,
    Release,
    Adopt,
    Died,
    Trial,
    Mail,
    Detach,
}

const ASKS: [Ask; 14] = [
    Ask::Attach,
    Ask::Credit,
    Ask::Next,
    Ask::Recall,
    Ask::LoadHistory,
    Ask::CommitTurns,
    Ask::CompleteActivities,
    Ask::Renew,
    Ask::Release,
    Ask::Adopt,
    Ask::Died,
    Ask::Trial,
    Ask::Mail,
    Ask::Detach,
];

fn send(stream: &mut UnixStream, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(&(bytes.len() as u64).to_le_bytes())?;
    stream.write_all(bytes)
}

fn receive(stream: &mut UnixStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let mut bytes = vec![0; u64::from_le_bytes(length) as usize];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}
