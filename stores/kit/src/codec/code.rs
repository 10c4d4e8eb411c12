//! The codes of statuses, kinds and reasons. They are part of the format: no code changes its meaning.

use dauer_store::{DropReason, Kind, Status, TroubleKind};

use super::{Read, Unreadable};

/// The code of a kind of work.
#[must_use]
pub fn kind_code(kind: Kind) -> u32 {
    match kind {
        Kind::Orchestration => 1,
        Kind::Entity => 2,
        Kind::Activity => 3,
    }
}

/// The kind of work with that code.
pub fn kind_of(code: u32) -> Read<Kind> {
    Ok(match code {
        1 => Kind::Orchestration,
        2 => Kind::Entity,
        3 => Kind::Activity,
        _ => return Err(Unreadable::of("a kind of work")),
    })
}

/// The code of a status.
#[must_use]
pub fn status_code(status: Status) -> u32 {
    match status {
        Status::Pending => 1,
        Status::Running => 2,
        Status::Suspended => 3,
        Status::Completed => 4,
        Status::Failed => 5,
        Status::Terminated => 6,
        Status::Canceled => 7,
    }
}

/// The status with that code.
pub fn status_of(code: u32) -> Read<Status> {
    Ok(match code {
        1 => Status::Pending,
        2 => Status::Running,
        3 => Status::Suspended,
        4 => Status::Completed,
        5 => Status::Failed,
        6 => Status::Terminated,
        7 => Status::Canceled,
        _ => return Err(Unreadable::of("a status")),
    })
}

/// The code of a drop reason. 0 would be a reason without a code; a test below excludes it.
#[must_use]
pub fn reason_code(reason: DropReason) -> u32 {
    match reason {
        DropReason::Absent => 1,
        DropReason::Ended => 2,
        DropReason::OtherExecution => 3,
        DropReason::NotOpen => 4,
        DropReason::Repeat => 5,
        DropReason::Running => 6,
        DropReason::NotHeld => 7,
        DropReason::Withdrawn => 8,
        DropReason::PutOff => 9,
        DropReason::Overtaken => 10,
        DropReason::Obeyed => 11,
        _ => 0,
    }
}

/// The drop reason with that code.
pub fn reason_of(code: u32) -> Read<DropReason> {
    let known = DropReason::ALL.into_iter().find(|reason| code != 0 && reason_code(*reason) == code);
    known.ok_or_else(|| Unreadable::of("a reason for a drop"))
}

const TROUBLES: [TroubleKind; 8] = [
    TroubleKind::Mismatch,
    TroubleKind::Panic,
    TroubleKind::UnknownName,
    TroubleKind::Undecodable,
    TroubleKind::NotDurable,
    TroubleKind::InvalidAnswer,
    TroubleKind::TooLarge,
    TroubleKind::HostDied,
];

/// Its position in the list above, from 1.
pub(super) fn trouble_code(kind: TroubleKind) -> u32 {
    (1..).zip(TROUBLES).find(|(_, known)| *known == kind).map_or(0, |(code, _)| code)
}

pub(super) fn trouble_of(code: u32) -> Read<TroubleKind> {
    let known = (1..).zip(TROUBLES).find(|(known, _)| *known == code);
    known.map(|(_, kind)| kind).ok_or_else(|| Unreadable::of("a kind of trouble"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_codes_round_trip() {
        for reason in DropReason::ALL {
            assert_eq!(reason_of(reason_code(reason)).unwrap(), reason);
        }
        assert!(reason_of(0).is_err());
    }

    #[test]
    fn trouble_codes_round_trip() {
        for kind in TROUBLES {
            assert_eq!(trouble_of(trouble_code(kind)).unwrap(), kind);
        }
        assert!(trouble_of(0).is_err());
    }
}
