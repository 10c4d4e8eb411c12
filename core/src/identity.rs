//! Message identity: the same thing sent again has the same id, so that it is recognised and applied once.
//!
//! The algorithm is part of the stored format. An id is the first 16 bytes of SHA-256 over a domain word and the
//! fields, each field preceded by its length as eight little-endian bytes, so that no two lists of fields collide.
//! The golden values at the end of this file must never change.

use sha2::{Digest, Sha256};

use crate::ids::{ExecutionId, InstanceId, MessageId, Revision};

/// What a schedule is about. Trace context is left out: it differs between attempts at the same turn.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The kind of action, e.g. `task` or `timer`.
    pub kind: &'static str,
    /// The instance it is sent to, or empty.
    pub target: &'a str,
    /// The name of the activity, orchestration, event or operation, or the time of a timer.
    pub name: &'a str,
    /// The version asked for.
    pub version: Option<&'a str>,
    /// The input.
    pub input: Option<&'a str>,
}

struct Hasher(Sha256);

impl Hasher {
    fn new(domain: &str) -> Self {
        Self(Sha256::new()).field(domain.as_bytes())
    }

    fn field(mut self, bytes: &[u8]) -> Self {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    /// Absent and empty are different: SDKs send empty inputs that must stay distinguishable (behaviour 26).
    fn optional(self, text: Option<&str>) -> Self {
        match text {
            None => self.field(&[0]),
            Some(text) => self.field(&[1]).field(text.as_bytes()),
        }
    }

    fn finish(self) -> [u8; 16] {
        let digest = self.0.finalize();
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        id
    }
}

/// The identity of something a turn schedules or sends.
///
/// `event_id` alone is no identity: a retried call may use one id for all attempts (behaviour 24), so `earlier`, the
/// number of schedules of that event id before this one in the same execution, is part of it.
#[must_use]
pub fn scheduled(
    sender: &InstanceId,
    execution: ExecutionId,
    event_id: i32,
    earlier: u32,
    subject: &Subject<'_>,
) -> MessageId {
    MessageId(
        Hasher::new("scheduled")
            .field(sender.as_str().as_bytes())
            .field(&execution.0.to_le_bytes())
            .field(&event_id.to_le_bytes())
            .field(&earlier.to_le_bytes())
            .field(subject.kind.as_bytes())
            .field(subject.target.as_bytes())
            .field(subject.name.as_bytes())
            .optional(subject.version)
            .optional(subject.input)
            .finish(),
    )
}

/// The identity of a client's message: its request id, bound to the instance it is for.
#[must_use]
pub fn requested(target: &InstanceId, request: u128) -> MessageId {
    let hasher = Hasher::new("requested").field(target.as_str().as_bytes());
    MessageId(hasher.field(&request.to_le_bytes()).finish())
}

/// The identity of a client's start that names no request. Equal starts of one instance share the first half
/// ([`MessageId::likeness`]); `draw` is random and tells them apart.
#[must_use]
pub fn alike(target: &InstanceId, content: &[u8], draw: u64) -> MessageId {
    let mut id = Hasher::new("alike").field(target.as_str().as_bytes()).field(content).finish();
    let (_, random) = id.split_at_mut(8);
    random.copy_from_slice(&draw.to_be_bytes());
    MessageId(id)
}

/// The identity of the answer to a task, child start or entity call, given by one execution of the answering side.
#[must_use]
pub fn answer(answers: MessageId, by: ExecutionId) -> MessageId {
    MessageId(Hasher::new("answer").field(&answers.0).field(&by.0.to_le_bytes()).finish())
}

/// The identity of the `ordinal`-th message that a turn sends of its own accord, e.g. a terminate to a child.
#[must_use]
pub fn derived(sender: &InstanceId, execution: ExecutionId, revision: Revision, ordinal: u32) -> MessageId {
    MessageId(
        Hasher::new("derived")
            .field(sender.as_str().as_bytes())
            .field(&execution.0.to_le_bytes())
            .field(&revision.0.to_le_bytes())
            .field(&ordinal.to_le_bytes())
            .finish(),
    )
}

/// The execution of a child, from the id of its start. That id has the parent's execution in it, which no other run has.
#[must_use]
pub fn execution_of(start: MessageId) -> ExecutionId {
    ExecutionId(u128::from_be_bytes(Hasher::new("execution").field(&start.0).finish()))
}

/// The execution of an entity that a message creates in a hub whose floor is at `floor`. The floor rises with every removal,
/// so that the same message never gives one execution twice.
#[must_use]
pub fn entity_execution(first: MessageId, floor: Revision) -> ExecutionId {
    let id = Hasher::new("entity execution").field(&first.0).field(&floor.0.to_le_bytes()).finish();
    ExecutionId(u128::from_be_bytes(id))
}

/// The execution that follows `current` by continue-as-new in the commit after `revision`.
#[must_use]
pub fn next_execution(instance: &InstanceId, current: ExecutionId, revision: Revision) -> ExecutionId {
    let id = Hasher::new("next execution")
        .field(instance.as_str().as_bytes())
        .field(&current.0.to_le_bytes())
        .field(&revision.0.to_le_bytes())
        .finish();
    ExecutionId(u128::from_be_bytes(id))
}

/// A digest of an event's name and data, to find carried-over events again.
#[must_use]
pub(crate) fn event_digest(name: &str, input: Option<&str>) -> [u8; 16] {
    Hasher::new("event").field(name.as_bytes()).optional(input).finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(text: &str) -> InstanceId {
        InstanceId::new(text).unwrap()
    }

    const TASK: Subject<'static> =
        Subject { kind: "task", target: "", name: "pay", version: Some("2"), input: Some("{\"amount\":7}") };
    const RUN: ExecutionId = ExecutionId(0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f);

    /// These values must never change: they are stored in every hub, and a message that was sent under an old value
    /// would not be recognised when it comes again.
    #[test]
    fn golden_values() {
        let start = requested(&id("order-7"), 42);
        let child =
            Subject { kind: "child", target: "order-7:0001", name: "ship", version: None, input: None };
        let timer =
            Subject { kind: "timer", name: "1700000060.000000000", version: None, input: None, ..TASK };
        let ids = [
            ("scheduled task", scheduled(&id("order-7"), RUN, 1, 0, &TASK).to_string()),
            ("scheduled task again", scheduled(&id("order-7"), RUN, 1, 1, &TASK).to_string()),
            ("scheduled child", scheduled(&id("order-7"), RUN, 2, 0, &child).to_string()),
            ("scheduled timer", scheduled(&id("order-7"), RUN, 0, 0, &timer).to_string()),
            (
                "unlock under -1",
                scheduled(&id("order-7"), RUN, -1, 0, &Subject { kind: "unlock", ..child }).to_string(),
            ),
            ("requested", start.to_string()),
            ("answer", answer(start, RUN).to_string()),
            ("derived", derived(&id("order-7"), RUN, Revision(3), 1).to_string()),
            ("execution of a start", execution_of(start).to_string()),
            ("next execution", next_execution(&id("order-7"), RUN, Revision(3)).to_string()),
            ("event digest", MessageId(event_digest("Paid", Some(""))).to_string()),
            ("event digest without data", MessageId(event_digest("Paid", None)).to_string()),
        ];
        // Computed by another implementation of the algorithm at the top of this file.
        let expected = [
            "c206b8a0b455dd9b1b4a3e6b822f29ec",
            "2002a2d9ff06afe87b73dfa1d21d73d9",
            "22de13c3c9cd37d3535c90dcc847fe23",
            "c49cb54488c205918e148f2e04ef41d9",
            "8479792e28eb91ee70a4ac9a8d6e8cc1",
            "2adfd641aca33b625f902cad55a78ae1",
            "0314b935912be47e7b4da8388fdb09ce",
            "adba8431d7a9aa655f8ce1c9eccfbceb",
            "fceea022c0d245515efb1520de8c0bb4",
            "2c46733a5423e1a6a6bca4d38803f324",
            "b4fd2a77166cda0a2566bf63ba0b3061",
            "9a1732a9d8437570b95a9e4cdb51c892",
        ];
        assert_eq!(ids.len(), expected.len());
        for ((what, id), expected) in ids.into_iter().zip(expected) {
            assert_eq!(id, expected, "{what}");
        }
    }

    #[derive(Debug, Clone, PartialEq)]
    struct Schedule {
        sender: String,
        execution: u128,
        event_id: i32,
        earlier: u32,
        kind: usize,
        target: String,
        name: String,
        version: Option<String>,
        input: Option<String>,
    }

    const KINDS: [&str; 4] = ["task", "timer", "child", "event"];

    impl Schedule {
        fn id(&self) -> MessageId {
            let subject = Subject {
                kind: KINDS[self.kind],
                target: &self.target,
                name: &self.name,
                version: self.version.as_deref(),
                input: self.input.as_deref(),
            };
            scheduled(&id(&self.sender), ExecutionId(self.execution), self.event_id, self.earlier, &subject)
        }
    }

    prop_compose! {
        // Short texts of few letters, so that fields often are equal, empty, or parts of each other.
        fn schedule()(
            sender in "[ab]{1,2}", execution in 0..2_u128, event_id in -1..2_i32, earlier in 0..2_u32,
            kind in 0..KINDS.len(), target in "[ab]{0,2}", name in "[ab]{0,2}",
            version in prop::option::of("[ab]{0,2}"), input in prop::option::of("[ab]{0,2}"),
        ) -> Schedule {
            Schedule { sender, execution, event_id, earlier, kind, target, name, version, input }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Where one field ends and the next begins is part of the identity: `ab` and nothing is not `a` and `b`.
        #[test]
        fn text_cannot_move_from_one_field_to_the_next(before in schedule(), text in "[ab]{1,6}", cut: [usize; 2]) {
            let [one, other] = cut.map(|cut| cut % (text.len() + 1));
            let parted = |at: usize| {
                Schedule { target: text[..at].into(), name: text[at..].into(), ..before.clone() }.id()
            };
            prop_assert_eq!(parted(one) == parted(other), one == other);
        }

        #[test]
        fn schedules_have_one_id_exactly_when_they_are_equal(one in schedule(), other in schedule()) {
            prop_assert_eq!(one.id() == other.id(), one == other);
        }

        #[test]
        fn changing_any_one_field_changes_the_id(before in schedule(), other in schedule()) {
            let changed = [
                Schedule { sender: other.sender + "x", ..before.clone() },
                Schedule { execution: before.execution + 1, ..before.clone() },
                Schedule { event_id: before.event_id + 1, ..before.clone() },
                Schedule { earlier: before.earlier + 1, ..before.clone() },
                Schedule { kind: (before.kind + 1) % KINDS.len(), ..before.clone() },
                Schedule { target: before.target.clone() + "x", ..before.clone() },
                Schedule { name: before.name.clone() + "x", ..before.clone() },
                Schedule { version: Some(before.version.clone().map_or(String::new(), |v| v + "x")), ..before.clone() },
                Schedule { input: Some(before.input.clone().map_or(String::new(), |i| i + "x")), ..before.clone() },
            ];
            for (field, schedule) in changed.iter().enumerate() {
                prop_assert_ne!(schedule.id(), before.id(), "field {}", field);
            }
        }

        #[test]
        fn no_two_kinds_of_identity_share_an_id(instance in "[ab]{1,2}", number: u64) {
            let (instance, run) = (id(&instance), ExecutionId(number.into()));
            let start = requested(&instance, number.into());
            let ids = std::collections::BTreeSet::from([
                start.0,
                answer(start, run).0,
                derived(&instance, run, Revision(number), 0).0,
                derived(&instance, run, Revision(number), 1).0,
                execution_of(start).0.to_be_bytes(),
                next_execution(&instance, run, Revision(number)).0.to_be_bytes(),
                scheduled(&instance, run, 0, 0, &TASK).0,
                event_digest(instance.as_str(), None),
            ]);
            prop_assert_eq!(ids.len(), 8);
        }
    }

    #[test]
    fn every_argument_of_the_other_identities_counts() {
        let (a, b) = (requested(&id("a"), 1), requested(&id("b"), 1));
        assert_ne!(a, b);
        assert_ne!(a, requested(&id("a"), 2));
        assert_ne!(answer(a, RUN), answer(b, RUN));
        assert_ne!(answer(a, RUN), answer(a, ExecutionId(1)));
        let sent = derived(&id("a"), RUN, Revision(1), 0);
        assert_ne!(sent, derived(&id("b"), RUN, Revision(1), 0));
        assert_ne!(sent, derived(&id("a"), ExecutionId(1), Revision(1), 0));
        assert_ne!(sent, derived(&id("a"), RUN, Revision(2), 0));
        assert_ne!(execution_of(a), execution_of(b));
        let next = next_execution(&id("a"), RUN, Revision(1));
        assert_ne!(next, next_execution(&id("b"), RUN, Revision(1)));
        assert_ne!(next, next_execution(&id("a"), ExecutionId(1), Revision(1)));
        assert_ne!(next, next_execution(&id("a"), RUN, Revision(2)));
        assert_ne!(event_digest("a", None), event_digest("b", None));
        assert_ne!(event_digest("a", Some("x")), event_digest("a", Some("y")));
    }
}
