//! Whether an id is among some others.

use crate::ids::MessageId;

/// So many are looked through one by one, and not put into memory of their own: most turns have one.
const FEW: usize = 8;

/// Some ids.
pub(super) enum Ids {
    Few([Option<MessageId>; FEW]),
    /// In order.
    Many(Vec<MessageId>),
}

impl Ids {
    pub(super) fn of(ids: impl ExactSizeIterator<Item = MessageId>) -> Self {
        if ids.len() > FEW {
            let mut many: Vec<MessageId> = ids.collect();
            many.sort_unstable();
            return Self::Many(many);
        }
        let mut few = [None; FEW];
        few.iter_mut().zip(ids).for_each(|(place, id)| *place = Some(id));
        Self::Few(few)
    }

    pub(super) fn has(&self, id: MessageId) -> bool {
        match self {
            Self::Few(few) => few.contains(&Some(id)),
            Self::Many(many) => many.binary_search(&id).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_are_found_alike() {
        for count in [0, 1, FEW, FEW + 1, 100] {
            // Not in order.
            let id = |number: usize| identity(number * 7 % 101);
            let ids = Ids::of((0..count).map(id));
            assert_eq!(matches!(ids, Ids::Many(_)), count > FEW);
            for number in 0..101 {
                assert_eq!(ids.has(id(number)), number < count, "{number} of {count}");
            }
        }
    }

    fn identity(number: usize) -> MessageId {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(number as u64).to_be_bytes());
        MessageId(bytes)
    }
}
