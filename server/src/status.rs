//! Which status each refusal has on the wire, and what it says. Never what the caller sent as payload.

use tonic::Status;

use dauer_core::HubName;
use dauer_core::ids::InvalidName;
use dauer_core::send::InvalidRequest;
use dauer_hub::ClientError;
use dauer_proto::Invalid;
use dauer_store::Refused;

/// The status of a client's call that did not succeed.
pub(crate) fn of(error: ClientError) -> Status {
    match error {
        ClientError::Invalid(invalid) => request(&invalid),
        ClientError::Refused(refused) => refusal(&refused),
        ClientError::Absent(_) => Status::not_found(error.to_string()),
        ClientError::TimedOut(_) => Status::deadline_exceeded(error.to_string()),
        ClientError::NotFailed { .. }
        | ClientError::NotEnded { .. }
        | ClientError::NotStalled { .. }
        | ClientError::Engaged(_) => Status::failed_precondition(error.to_string()),
        ClientError::MovedOn(_) => Status::aborted(error.to_string()),
        ClientError::History { .. } => Status::data_loss(dauer_hub::with_causes(&error)),
        other => Status::internal(other.to_string()),
    }
}

/// The status of a request that breaks a rule.
pub(crate) fn request(invalid: &InvalidRequest) -> Status {
    Status::invalid_argument(invalid.to_string())
}

/// The status of a name that breaks a rule.
pub(crate) fn name(invalid: &InvalidName) -> Status {
    Status::invalid_argument(invalid.to_string())
}

/// The status of a message that makes no sense.
pub(crate) fn message(invalid: &Invalid) -> Status {
    Status::invalid_argument(invalid.to_string())
}

/// The status of what a store refused.
pub(crate) fn refusal(refused: &Refused) -> Status {
    let text = || dauer_hub::with_causes(refused);
    match refused {
        Refused::Fenced => Status::aborted("the instance has changed meanwhile; try again"),
        // The same call may be made again, which SDKs do by themselves.
        Refused::NotExecuted(_) => Status::unavailable(text()),
        // Whoever made it again might do it twice: that is for a person to decide.
        Refused::Unknown(_) => Status::unknown(text()),
        Refused::TooLarge(_) => Status::invalid_argument(text()),
        Refused::Exists(status) => Status::already_exists(format!(
            "orchestration instance already exists and is {status:?}; choose another id, or a policy that replaces it"
        )),
        Refused::Repeat => {
            Status::already_exists("the same request was carried out before; nothing is left to do")
        }
        Refused::Cursor(_) => Status::invalid_argument(
            "continuationToken is none that a page ended with; give the token of the last page, or none",
        ),
        Refused::Newer(_) => Status::failed_precondition(text()),
        Refused::Corrupt(_) => Status::data_loss(text()),
        _ => Status::internal(text()),
    }
}

/// What is not there yet.
pub(crate) fn entities() -> Status {
    Status::unimplemented(
        "this version of dauer has no entities yet; orchestrations and activities are all there",
    )
}

/// The task hub does not exist, so that nothing in it can be told anything.
pub(crate) fn no_hub(name: &HubName) -> Status {
    Status::not_found(format!("there is no task hub '{name}' yet; check its name, or start something in it"))
}

/// Nothing new is begun.
pub(crate) fn stopping() -> Status {
    Status::unavailable("the server is stopping; connect again")
}

/// A list in a request is too long.
pub(crate) fn too_many(field: &str, found: usize, limit: usize) -> Status {
    Status::invalid_argument(format!("{field} has {found} entries; at most {limit} are allowed"))
}
