//! `--watch`: the same again whenever it has changed. A terminal is drawn anew; elsewhere every change is a line.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use dauer::{InstanceId, Record};

use crate::output::{Common, Format};

/// How often to look: fast enough for whoever watches, and no burden for a store.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// From the upper left corner on, over what is there.
const HOME: &str = "\x1b[H";
/// Without the rest of what was there.
const ERASE_BELOW: &str = "\x1b[J";
/// Without the rest of what was on this line.
const ERASE_LINE: &str = "\x1b[K";

/// Whether the result is a picture that is drawn anew.
pub(super) fn redraws(common: &Common) -> bool {
    common.output.is_for_people() && io::stdout().is_terminal()
}

/// Draws a picture over the last one, without a moment in between in which there is none.
pub(super) fn draw(picture: &str) -> io::Result<()> {
    let mut screen = HOME.to_owned();
    for line in picture.lines() {
        screen.push_str(line);
        screen.push_str(ERASE_LINE);
        screen.push('\n');
    }
    screen.push_str(ERASE_BELOW);
    let out = &mut io::stdout().lock();
    out.write_all(screen.as_bytes())?;
    out.flush()
}

/// What is known of the instances that are watched.
#[derive(Default)]
pub(super) struct Known(BTreeMap<InstanceId, Record>);

impl Known {
    /// Those that are new or have changed since the last time. What is not among them any more is forgotten.
    pub(super) fn changed(&mut self, found: Vec<(InstanceId, Record)>) -> Vec<(InstanceId, Record)> {
        let mut before = std::mem::take(&mut self.0);
        let mut changed = Vec::new();
        for (id, record) in found {
            if before.remove(&id).as_ref() != Some(&record) {
                changed.push((id.clone(), record.clone()));
            }
            self.0.insert(id, record);
        }
        changed
    }
}

/// In which form each change is written, where it is not drawn: a document has no end, so there are only parts of one.
pub(super) fn part_of(format: Format) -> Format {
    match format {
        Format::Json => Format::Jsonl,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use dauer::ExecutionId;
    use dauer_core::MessageId;
    use dauer_core::model::{Kind, QueueKey};

    use super::*;

    #[test]
    fn only_what_changed_is_told() {
        let record = |length| {
            let queue = QueueKey::new(Kind::Orchestration, "order", None);
            let pending = Record::pending(queue, ExecutionId(1), MessageId([2; 16]));
            Record { history_len: length, ..pending }
        };
        let each = |id: &str, length| (InstanceId::new(id).unwrap(), record(length));
        let mut known = Known::default();
        let mut ids = |found: &[(InstanceId, Record)]| -> Vec<String> {
            known.changed(found.to_vec()).iter().map(|(id, _)| id.to_string()).collect()
        };
        assert_eq!(ids(&[each("a", 0), each("b", 0)]), ["a", "b"]);
        assert_eq!(ids(&[each("a", 0), each("b", 0)]), Vec::<String>::new());
        assert_eq!(ids(&[each("a", 0), each("b", 1)]), ["b"]);
        assert_eq!(ids(&[each("b", 1)]), Vec::<String>::new());
        assert_eq!(ids(&[each("a", 0), each("b", 1)]), ["a"], "it was gone and is there again");
    }
}
