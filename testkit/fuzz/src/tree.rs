//! Protobuf bytes as a tree, without knowing the message: so that a field can be changed and all lengths around it
//! still be right. Changing bytes alone breaks a length nine times in ten, and the decoder's first check sees it.

use dauer_core::model::FORMAT;

use crate::mutate;
use crate::random::Random;

/// How deep is looked. Deeper than any message of dauer's, and nothing to overflow a stack with.
const DEPTH_MAX: usize = 120;

/// The largest field number that is taken for one: text would otherwise often look like a message.
const FIELD_NUMBER_MAX: u64 = 256;

/// A field number and what is behind it.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    number: u64,
    value: Value,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Varint(u64),
    Eight([u8; 8]),
    Four([u8; 4]),
    Nested(Tree),
}

/// Bytes, read as what they look like.
#[derive(Debug, Clone)]
pub(crate) enum Tree {
    /// Text, or nothing that is known.
    Raw(Vec<u8>),
    /// Fields one after the other.
    Message(Vec<Field>),
    /// A format byte, then one message: a stored event.
    Stored(Box<Tree>),
    /// A format byte, then messages with their lengths before them: a stored batch.
    Batch(Vec<Tree>),
}

impl Tree {
    pub(crate) fn read(bytes: &[u8]) -> Self {
        read(bytes, 0)
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_to(&mut out);
        out
    }

    fn write_to(&self, out: &mut Vec<u8>) {
        match self {
            Self::Raw(bytes) => out.extend_from_slice(bytes),
            Self::Message(fields) => fields.iter().for_each(|field| field.write_to(out)),
            Self::Stored(message) => {
                out.push(FORMAT);
                message.write_to(out);
            }
            Self::Batch(messages) => {
                out.push(FORMAT);
                for message in messages {
                    delimited(&message.write(), out);
                }
            }
        }
    }

    /// Changes one part, chosen at random; `donor` is where a foreign part may come from.
    pub(crate) fn mutate(&mut self, random: &mut Random, donor: &Tree) {
        let parts = self.count();
        let chosen = random.below(parts);
        let mut left = chosen;
        self.change(&mut left, random, donor);
    }

    fn count(&self) -> usize {
        1 + match self {
            Self::Raw(_) => 0,
            Self::Stored(message) => message.count(),
            Self::Batch(messages) => messages.iter().map(Tree::count).sum(),
            Self::Message(fields) => fields.iter().map(|field| field.value.count()).sum(),
        }
    }

    /// Walks to the part that was chosen; true when it was here.
    fn change(&mut self, left: &mut usize, random: &mut Random, donor: &Tree) -> bool {
        if *left == 0 {
            self.change_here(random, donor);
            return true;
        }
        *left -= 1;
        match self {
            Self::Raw(_) => false,
            Self::Stored(message) => message.change(left, random, donor),
            Self::Batch(messages) => messages.iter_mut().any(|message| message.change(left, random, donor)),
            Self::Message(fields) => fields.iter_mut().any(|field| field.value.change(left, random, donor)),
        }
    }

    fn change_here(&mut self, random: &mut Random, donor: &Tree) {
        let foreign = donor.part(random).clone();
        match (self, foreign) {
            (Self::Raw(bytes), foreign) => mutate::change_bytes(bytes, random, &foreign.write()),
            (Self::Stored(message), foreign) => **message = foreign,
            (Self::Message(fields), Self::Message(theirs)) => change_list(fields, random, theirs),
            (Self::Message(fields), _) => change_list(fields, random, Vec::new()),
            (Self::Batch(messages), Self::Batch(theirs)) => change_list(messages, random, theirs),
            (Self::Batch(messages), other) => change_list(messages, random, vec![other]),
        }
    }

    /// A part at any depth.
    fn part(&self, random: &mut Random) -> &Tree {
        let below: Vec<&Tree> = match self {
            Self::Raw(_) => Vec::new(),
            Self::Stored(message) => vec![message],
            Self::Batch(messages) => messages.iter().collect(),
            Self::Message(fields) => fields.iter().filter_map(|field| field.value.nested()).collect(),
        };
        match random.pick(&below) {
            // Two times in three it goes further down: the interesting messages are the small ones.
            Some(below) if random.below(3) > 0 => below.part(random),
            _ => self,
        }
    }
}

/// Takes one away, doubles one, moves one, or adds some of `theirs`.
fn change_list<T: Clone>(list: &mut Vec<T>, random: &mut Random, theirs: Vec<T>) {
    let at = random.below(list.len());
    match random.below(5) {
        0 if !list.is_empty() => drop(list.remove(at)),
        1 if !list.is_empty() => list.insert(at, list[at].clone()),
        2 if !list.is_empty() => {
            let moved = list.remove(at);
            list.insert(random.below(list.len() + 1), moved);
        }
        3 => list.extend(theirs),
        _ => match random.pick(&theirs) {
            Some(one) if list.is_empty() || random.below(2) == 0 => list.insert(at, one.clone()),
            Some(one) => list[at] = one.clone(),
            None => list.truncate(at),
        },
    }
}

impl Value {
    fn count(&self) -> usize {
        self.nested().map_or(1, Tree::count)
    }

    fn nested(&self) -> Option<&Tree> {
        if let Self::Nested(tree) = self { Some(tree) } else { None }
    }

    fn change(&mut self, left: &mut usize, random: &mut Random, donor: &Tree) -> bool {
        if let Self::Nested(tree) = self {
            return tree.change(left, random, donor);
        }
        if *left > 0 {
            *left -= 1;
            return false;
        }
        match self {
            Self::Varint(number) => *number = mutate::change_number(*number, random),
            Self::Eight(bytes) => {
                *bytes = mutate::change_number(u64::from_le_bytes(*bytes), random).to_le_bytes()
            }
            Self::Four(bytes) => bytes[random.below(4)] = random.byte(),
            Self::Nested(_) => {}
        }
        true
    }
}

impl Field {
    fn write_to(&self, out: &mut Vec<u8>) {
        let key = |wire_type: u64| self.number << 3 | wire_type;
        match &self.value {
            Value::Varint(number) => {
                varint(key(0), out);
                varint(*number, out);
            }
            Value::Eight(bytes) => {
                varint(key(1), out);
                out.extend_from_slice(bytes);
            }
            Value::Nested(tree) => {
                varint(key(2), out);
                delimited(&tree.write(), out);
            }
            Value::Four(bytes) => {
                varint(key(5), out);
                out.extend_from_slice(bytes);
            }
        }
    }
}

fn varint(number: u64, out: &mut Vec<u8>) {
    prost::encoding::encode_varint(number, out);
}

fn delimited(bytes: &[u8], out: &mut Vec<u8>) {
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn read(bytes: &[u8], depth: usize) -> Tree {
    if depth >= DEPTH_MAX {
        return Tree::Raw(bytes.to_vec());
    }
    if let Some(fields) = fields(bytes, depth) {
        return Tree::Message(fields);
    }
    // No message begins with the format byte: it would be field 0.
    if let Some((&FORMAT, rest)) = bytes.split_first() {
        if let Some(fields) = fields(rest, depth) {
            return Tree::Stored(Box::new(Tree::Message(fields)));
        }
        if let Some(messages) = messages(rest, depth) {
            return Tree::Batch(messages);
        }
    }
    Tree::Raw(bytes.to_vec())
}

fn fields(mut rest: &[u8], depth: usize) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let key = prost::encoding::decode_varint(&mut rest).ok()?;
        let number = key >> 3;
        if number == 0 || number > FIELD_NUMBER_MAX {
            return None;
        }
        let value = match key & 7 {
            0 => Value::Varint(prost::encoding::decode_varint(&mut rest).ok()?),
            1 => Value::Eight(*take(&mut rest, 8)?.first_chunk()?),
            2 => Value::Nested(read(take_delimited(&mut rest)?, depth + 1)),
            5 => Value::Four(*take(&mut rest, 4)?.first_chunk()?),
            _ => return None,
        };
        fields.push(Field { number, value });
    }
    (!fields.is_empty()).then_some(fields)
}

fn messages(mut rest: &[u8], depth: usize) -> Option<Vec<Tree>> {
    let mut messages = Vec::new();
    while !rest.is_empty() {
        messages.push(read(take_delimited(&mut rest)?, depth + 1));
    }
    (!messages.is_empty()).then_some(messages)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(taken)
}

fn take_delimited<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = prost::encoding::decode_varint(rest).ok()?;
    take(rest, usize::try_from(length).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written_back() {
        for target in crate::targets::ALL {
            for input in crate::corpus::of(target) {
                assert_eq!(Tree::read(&input).write(), input, "{}", target.name);
            }
        }
    }

    #[test]
    fn a_batch_is_seen_as_its_events() {
        let history = crate::targets::by_name("history").unwrap();
        let seen = crate::corpus::of(&history);
        let batches = |tree: &Tree| format!("{tree:?}").matches("Batch(").count();
        assert!(seen.iter().any(|input| batches(&Tree::read(input)) > 1));
    }
}
