//! Tokens of activities. They outlive the server that issued them: every server that has the key of the hub can tell which
//! task an answer is for, and that the token was issued for it.
//!
//! A token is the text `t1.` and 96 digits: the id of the task, the epoch of its lease, the number of the dispatch, and a code
//! over all of it and the id of the instance. Turns have no such tokens: an answer to a turn of an earlier process is for other
//! messages and another time.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use dauer_core::{Epoch, HubKey, InstanceId, MessageId};

/// The form of the token. A later form has another begin, and old tokens are refused.
const FORM: &str = "t1.";

/// Bytes of the code: half of the hash, as is usual. Nothing of value is guarded by more than the hub's own access control.
const CODE_BYTES: usize = 16;

const ID_BYTES: usize = 16;
const NUMBER_BYTES: usize = 8;
const BODY_BYTES: usize = ID_BYTES + 2 * NUMBER_BYTES;

/// What a token names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sealed {
    pub(crate) task: MessageId,
    pub(crate) epoch: Epoch,
    /// Different for each dispatch of the task.
    pub(crate) dispatch: u64,
}

/// Makes and reads tokens with the key of one hub.
pub(crate) struct Seal {
    key: HubKey,
}

impl Seal {
    pub(crate) fn new(key: HubKey) -> Self {
        Self { key }
    }

    /// Whether a text has the form of such a token, whatever it contains.
    pub(crate) fn is_form(token: &str) -> bool {
        token.starts_with(FORM)
    }

    pub(crate) fn token(&self, instance: &InstanceId, sealed: Sealed) -> String {
        let body = body(sealed);
        let code = self.code(b"token", instance, &body).finalize().into_bytes();
        let bytes = body.iter().chain(code.iter().take(CODE_BYTES));
        bytes.fold(FORM.to_owned(), |text, byte| text + &format!("{byte:02x}"))
    }

    /// What the token names; `None` unless it was made with this key, for a task of this instance.
    pub(crate) fn open(&self, instance: &InstanceId, token: &str) -> Option<Sealed> {
        let bytes = unhex(token.strip_prefix(FORM)?)?;
        let (body, code) = bytes.split_at_checked(BODY_BYTES)?;
        if code.len() != CODE_BYTES {
            return None;
        }
        // In constant time.
        self.code(b"token", instance, body).verify_truncated_left(code).ok()?;
        let (task, numbers) = body.split_at_checked(ID_BYTES)?;
        let (epoch, dispatch) = numbers.split_at_checked(NUMBER_BYTES)?;
        let number = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_le_bytes);
        Some(Sealed {
            task: MessageId(task.try_into().ok()?),
            epoch: Epoch(number(epoch)?),
            dispatch: number(dispatch)?,
        })
    }

    /// The number by which a worker that names no tokens knows a task: the same in every server.
    pub(crate) fn number(&self, instance: &InstanceId, task: MessageId) -> i32 {
        let code = self.code(b"number", instance, &task.0).finalize().into_bytes();
        let [a, b, c, d, ..]: [u8; 32] = code.into();
        // Without the sign.
        i32::from_le_bytes([a, b, c, d & 0x7f])
    }

    fn code(&self, purpose: &[u8], instance: &InstanceId, body: &[u8]) -> Hmac<Sha256> {
        // A key that is shorter than a block of the hash is filled up with zeros, by definition.
        let mut block = [0; 64];
        block[..32].copy_from_slice(&self.key.0);
        let mut code = <Hmac<Sha256> as KeyInit>::new(&block.into());
        // The purpose and the body have one length each, so that no two texts are the same.
        code.update(purpose);
        code.update(body);
        code.update(instance.as_str().as_bytes());
        code
    }
}

fn body(sealed: Sealed) -> [u8; BODY_BYTES] {
    let mut body = [0; BODY_BYTES];
    let (task, numbers) = body.split_at_mut(ID_BYTES);
    let (epoch, dispatch) = numbers.split_at_mut(NUMBER_BYTES);
    task.copy_from_slice(&sealed.task.0);
    epoch.copy_from_slice(&sealed.epoch.0.to_le_bytes());
    dispatch.copy_from_slice(&sealed.dispatch.to_le_bytes());
    body
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if digits.len() != 2 * (BODY_BYTES + CODE_BYTES) {
        return None;
    }
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    digits.chunks(2).map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> Sealed {
        Sealed { task: MessageId([7; 16]), epoch: Epoch(3), dispatch: u64::MAX - 1 }
    }

    fn instance(text: &str) -> InstanceId {
        InstanceId::new(text).unwrap()
    }

    #[test]
    fn token_is_read_by_another_process_with_the_same_key() {
        let token = Seal::new(HubKey([1; 32])).token(&instance("order"), sealed());
        assert!(Seal::is_form(&token), "{token}");
        assert_eq!(Seal::new(HubKey([1; 32])).open(&instance("order"), &token), Some(sealed()));
    }

    #[test]
    fn token_of_another_key_instance_or_content_is_refused() {
        let seal = Seal::new(HubKey([1; 32]));
        let token = seal.token(&instance("order"), sealed());
        assert_eq!(Seal::new(HubKey([2; 32])).open(&instance("order"), &token), None);
        assert_eq!(seal.open(&instance("other"), &token), None);
        for at in FORM.len()..token.len() {
            let digit = if &token[at..=at] == "0" { "1" } else { "0" };
            let changed = format!("{}{digit}{}", &token[..at], &token[at + 1..]);
            assert_eq!(seal.open(&instance("order"), &changed), None, "digit {at}");
        }
        for text in ["", "t1.", "t1.zz", &token[..token.len() - 2], &format!("{token}00"), "t1.ä"] {
            assert_eq!(seal.open(&instance("order"), text), None, "{text}");
        }
    }

    #[test]
    fn number_of_a_task_is_the_same_everywhere_and_positive() {
        let seal = Seal::new(HubKey([1; 32]));
        let numbers: std::collections::BTreeSet<i32> =
            (0..100).map(|id| seal.number(&instance("order"), MessageId([id; 16]))).collect();
        assert!(numbers.len() == 100 && numbers.iter().all(|number| *number >= 0));
        let again = Seal::new(HubKey([1; 32])).number(&instance("order"), MessageId([0; 16]));
        assert!(numbers.contains(&again));
    }
}
