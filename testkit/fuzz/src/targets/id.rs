//! Ids and names. The rules are written here a second time, from the documentation: the two must agree on every text.

use dauer_core::ids::{InvalidName, check_name};
use dauer_core::limits::{HUB_NAME_CHARS_MAX, HUB_NAME_CHARS_MIN, INSTANCE_ID_CHARS_MAX, NAME_BYTES_MAX};
use dauer_core::{ExecutionId, HostId, HubName, InstanceId};

use crate::Verdict;

/// The kinds; the first byte of an input chooses one.
pub(crate) const KINDS: [&str; 5] = ["instance id", "hub name", "host id", "name", "execution id"];

/// Accepted exactly when the documentation says so; else an error that names what is wrong, and the limit.
pub(crate) fn run(bytes: &[u8]) -> Verdict {
    let (kind, text) = bytes.split_first().map_or((0, bytes), |(kind, text)| (usize::from(*kind), text));
    let kind = KINDS[kind % KINDS.len()];
    let Ok(text) = std::str::from_utf8(text) else { return Verdict::refused("not text") };
    let accepted = match kind {
        "instance id" => instance(text),
        "hub name" => hub(text),
        "host id" => {
            let id = HostId::new(text);
            if let Ok(id) = &id {
                assert!(id.as_str() == text && id.to_string() == text);
            }
            agreed(text, id.err(), at_most_bytes(text))
        }
        "name" => agreed(text, check_name("event name", text).err(), at_most_bytes(text)),
        _ => execution(text),
    };
    if accepted { Verdict::accepted(kind) } else { Verdict::refused(kind) }
}

fn instance(text: &str) -> bool {
    let id = InstanceId::new(text);
    if let Ok(id) = &id {
        assert!(id.as_str() == text && id.to_string() == text);
        assert_eq!(InstanceId::new(id.to_string()).as_ref(), Ok(id));
        let entity = text.strip_prefix('@').and_then(|rest| rest.find('@').map(|end| &rest[..end]));
        let entity = entity.filter(|name| !name.is_empty());
        assert_eq!(id.entity_name(), entity);
        assert_eq!(id.check_orchestration().is_ok(), entity.is_none());
    }
    let length = text.chars().count();
    let good = (1..=INSTANCE_ID_CHARS_MAX).contains(&length) && !text.chars().any(char::is_control);
    agreed(text, id.err(), good)
}

fn hub(text: &str) -> bool {
    let name = HubName::new(text);
    if let Ok(name) = &name {
        assert!(name.as_str() == text && name.to_string() == text);
    }
    let letters = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    let good = letters && first && (HUB_NAME_CHARS_MIN..=HUB_NAME_CHARS_MAX).contains(&text.len());
    agreed(text, name.err(), good)
}

fn execution(text: &str) -> bool {
    match ExecutionId::parse(text) {
        Some(id) => {
            assert_eq!(id.to_string(), text);
            true
        }
        None => {
            let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            assert!(text.len() != 32 || !text.bytes().all(hex), "'{text}' is an execution id");
            false
        }
    }
}

fn at_most_bytes(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// Whether it was accepted; that is what the documentation says, and an error is true.
fn agreed(text: &str, error: Option<InvalidName>, good: bool) -> bool {
    let Some(error) = error else {
        assert!(good, "{text:?} is accepted against the rules");
        return true;
    };
    assert!(!good, "{text:?} is refused against the rules: {error}");
    let said = error.to_string();
    match error {
        InvalidName::Empty { field } => assert!(text.is_empty() && said.starts_with(field)),
        InvalidName::TooLong { field, length, limit, .. } => {
            assert!(length > limit && said.starts_with(field), "{said}");
            assert!(said.contains(&length.to_string()) && said.contains(&limit.to_string()), "{said}");
        }
        InvalidName::TooShort { field, length, limit } => {
            assert!(length < limit && said.starts_with(field), "{said}");
            assert!(said.contains(&length.to_string()) && said.contains(&limit.to_string()), "{said}");
        }
        InvalidName::Character { field, character, position, allowed } => {
            assert_eq!(text.chars().nth(position), Some(character), "{said}");
            assert!(said.starts_with(field) && said.ends_with(allowed), "{said}");
        }
        other => panic!("an error that this target does not know: {other}"),
    }
    false
}
