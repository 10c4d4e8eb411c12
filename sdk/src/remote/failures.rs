//! What the codes of a server mean.

use std::error::Error;

use tonic::{Code, ConnectError, Status, TimeoutExpired};

use dauer_hub::{RemoteError, with_causes};
use dauer_store::Cause;

/// Whether the call did not come to an end: the server is away, it closes, or the connection broke. Whatever the transport
/// itself says has a source; what a server says has none.
pub(super) fn is_lost(status: &Status) -> bool {
    status.code() == Code::Unavailable || status.code() == Code::DeadlineExceeded || status.source().is_some()
}

/// Whether the call cannot have reached the server: no connection stood.
pub(super) fn is_unsent(status: &Status) -> bool {
    has::<ConnectError>(status)
}

/// Whether the time that was given for the call is over.
pub(super) fn is_late(status: &Status) -> bool {
    status.code() == Code::DeadlineExceeded || has::<TimeoutExpired>(status)
}

fn has<E: Error + 'static>(status: &Status) -> bool {
    let mut next = status.source();
    while let Some(error) = next {
        if error.is::<E>() {
            return true;
        }
        next = error.source();
    }
    false
}

/// What a failed call is, where its code means nothing in particular.
pub(super) fn of(address: &str, status: &Status) -> RemoteError {
    let address = address.to_owned();
    let source = match status.source() {
        Some(source) => Cause::new(with_causes(source)),
        None => Cause::new(status.message().to_owned()),
    };
    match status.code() {
        _ if is_lost(status) => RemoteError::Unreachable { address, source },
        Code::Unauthenticated | Code::PermissionDenied => RemoteError::Denied { address, source },
        code => RemoteError::Failed { address, code: format!("{code:?}"), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_is_told_from_what_the_transport_says() {
        let broken = Status::from_error(Box::new(std::io::Error::other("reset by peer")));
        let unsent = Status::from_error(Box::new(ConnectError("refused".into())));
        let late = Status::from_error(Box::new(TimeoutExpired(())));
        for (status, lost, not_sent, in_time) in [
            (&broken, true, false, true),
            (&unsent, true, true, true),
            (&late, true, false, false),
            (&Status::unavailable("closing"), true, false, true),
            (&Status::deadline_exceeded("slow"), true, false, false),
            (&Status::not_found("no"), false, false, true),
            (&Status::internal("no"), false, false, true),
        ] {
            assert_eq!((is_lost(status), is_unsent(status)), (lost, not_sent), "{status:?}");
            assert_eq!(is_late(status), !in_time, "{status:?}");
        }
        let told = |status: &Status| of("http://here:1", status);
        assert!(matches!(told(&broken), RemoteError::Unreachable { .. }));
        assert!(matches!(told(&Status::unauthenticated("who")), RemoteError::Denied { .. }));
        assert!(matches!(told(&Status::permission_denied("you")), RemoteError::Denied { .. }));
        let failed = told(&Status::resource_exhausted("too much"));
        assert_eq!(
            with_causes(&failed),
            "the server http://here:1 answered ResourceExhausted; look at its log: too much"
        );
        assert!(with_causes(&told(&unsent)).contains("refused"), "{}", with_causes(&told(&unsent)));
    }
}
