//! The journal as a file: what is written is read, and what makes no sense is refused with its line.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use dauer_audit::{Action, ClientJournal, JournalWriter, Operation, Outcome};
use dauer_core::model::Status;
use dauer_core::{ExecutionId, InstanceId, MessageId, Timestamp, identity};

fn operation(action: Action, outcome: Outcome) -> Operation {
    Operation { instance: InstanceId::new("order \"1\"").unwrap(), action, outcome, at: Timestamp(7) }
}

fn journal() -> ClientJournal {
    let (message, execution) = (MessageId([0xab; 16]), ExecutionId(5));
    let ended = |execution, status, output: Option<&str>| Action::Ended {
        execution,
        status,
        output: output.map(str::to_owned),
    };
    let actions = vec![
        Action::Found,
        Action::Started { execution: identity::execution_of(message), start: message },
        Action::Started { execution, start: message },
        ended(None, Status::Completed, Some("{\"a\":\n\"ü\"}")),
        ended(Some(execution), Status::Failed, None),
        ended(None, Status::Terminated, None),
        ended(None, Status::Canceled, None),
        Action::Raised { message },
        Action::Terminated { message },
        Action::Answered { execution, answer: message },
        Action::Purged { execution },
    ];
    let both = [Outcome::Acknowledged, Outcome::Unknown];
    let operations = actions.iter().flat_map(|action| both.map(|outcome| operation(action.clone(), outcome)));
    ClientJournal { operations: operations.collect() }
}

#[test]
fn what_is_written_is_read() {
    let journal = journal();
    let mut file = Vec::new();
    let mut writer = JournalWriter::new(&mut file).unwrap();
    for operation in &journal.operations {
        writer.note(operation).unwrap();
    }
    assert_eq!(file.iter().filter(|byte| **byte == b'\n').count(), journal.operations.len() + 1);
    assert_eq!(ClientJournal::read(&file[..]).unwrap(), journal);
    // The last line need not end.
    file.pop();
    assert_eq!(ClientJournal::read(&file[..]).unwrap(), journal);
}

#[test]
fn a_request_stands_for_the_message_that_it_makes() {
    let text = "{\"dauer_journal\":1}\n\
        {\"at\":1,\"instance\":\"a\",\"did\":\"raise\",\"request\":\"0000000000000000000000000000002a\"}\n\
        {\"at\":1,\"instance\":\"a\",\"did\":\"start\"}\n";
    let journal = ClientJournal::read(text.as_bytes()).unwrap();
    let message = identity::requested(&InstanceId::new("a").unwrap(), 42);
    let actions: Vec<_> = journal.operations.into_iter().map(|operation| operation.action).collect();
    assert_eq!(actions, [Action::Raised { message }, Action::Found]);
}

#[test]
fn what_makes_no_sense_is_refused_with_its_line() {
    let id = "\"message\":\"000000000000000000000000000000ff\"";
    let cases = [
        ("", "line 1 is no head"),
        ("{\"at\":1}", "line 1 is no head"),
        ("{\"dauer_journal\":2}", "version 2"),
        ("{\"dauer_journal\":1}\n\n", "line 2 of the journal is no operation"),
        ("{\"dauer_journal\":1}\n{\"at\":1,\"instance\":\"a\",\"did\":\"found\"}\nnonsense", "line 3"),
        ("{\"dauer_journal\":1}\n{\"at\":1,\"instance\":\"a\",\"did\":\"fou", "line 2"),
        ("@{\"at\":1,\"instance\":\"a\",\"did\":\"dance\"}", "no operation"),
        ("@{\"at\":1,\"instance\":\"a\",\"did\":\"found\",\"extra\":1}", "no operation"),
        ("@{\"at\":1,\"instance\":\"\",\"did\":\"found\"}", "names no instance"),
        ("@{\"at\":1,\"instance\":\"a\",\"did\":\"raise\"}", "'message' is missing"),
        (
            "@{\"at\":1,\"instance\":\"a\",\"did\":\"raise\",\"message\":\"ff\"}",
            "'message' must be 32 hex digits",
        ),
        (
            "@{\"at\":1,\"instance\":\"a\",\"did\":\"raise\",\"request\":\"+0000000000000000000000000000001\"}",
            "'request' must be",
        ),
        ("@{\"at\":1,\"instance\":\"a\",\"did\":\"ended\"}", "'status' is missing"),
        ("@{\"at\":1,\"instance\":\"a\",\"did\":\"ended\",\"status\":\"running\"}", "'status' must be"),
        ("@{\"at\":1,\"instance\":\"a\",\"did\":\"purge\"}", "'execution' is missing"),
        ("@{\"at\":1,\"instance\":\"a\",\"did\":\"answer\",ID}", "'execution' is missing"),
        ("@{\"at\":1,\"instance\":\"a\",\"did\":\"found\",ID}", "'message' does not belong"),
        (
            "@{\"at\":1,\"instance\":\"a\",\"did\":\"raise\",ID,\"request\":\"000000000000000000000000000000ff\"}",
            "not both",
        ),
    ];
    for (text, says) in cases {
        let text = text.replace('@', "{\"dauer_journal\":1}\n").replace("ID", id);
        let error = ClientJournal::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(says), "{text}: {error}");
        assert!(error.contains("line "), "{error}");
    }
}

/// Spaces without end, of which nobody should read many.
struct Endless(usize);

impl std::io::Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        const MANY: usize = 256 * 1024 * 1024;
        self.0 += buffer.len();
        if self.0 > MANY {
            return Err(std::io::Error::other("too much was read"));
        }
        buffer.fill(b' ');
        Ok(buffer.len())
    }
}

#[test]
fn a_line_without_end_is_not_read_into_memory() {
    let error = ClientJournal::read(std::io::BufReader::new(Endless(0))).unwrap_err().to_string();
    assert!(error.starts_with("line 1 of the journal is longer than"), "{error}");
}
