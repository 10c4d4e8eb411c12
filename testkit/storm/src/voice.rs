//! What a worker tells its parent: one line per fact, on its standard output, each by a single write, so that whatever
//! was said before a kill has been said whole.

use std::fmt;
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use dauer::{ActivityContext, OrchestrationContext};

/// A point in the code of an orchestration that is reached once per execution.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Point {
    pub(crate) instance: String,
    pub(crate) execution: String,
    pub(crate) step: u32,
}

/// What happened in a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fact {
    /// Its host is about to run.
    Ready,
    /// The code of an orchestration went past a point that the history does not show: a turn was executed.
    Passed(Point),
    /// An activity began; the step is the id of its task.
    Begun(Point),
    /// An activity has its result.
    Finished(Point),
    /// The hub logged something, perhaps about an instance.
    Logged(String, Option<String>),
}

/// One fact with the time of the machine, which all processes share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) nanos: u128,
    pub(crate) fact: Fact,
}

/// Nanoseconds of the machine's clock.
pub(crate) fn nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, point) = match &self.fact {
            Fact::Ready => return write!(f, "ready\t{}", self.nanos),
            Fact::Logged(message, instance) => {
                let instance = instance.as_deref().unwrap_or_default();
                return write!(f, "logged\t{}\t{message}\t{instance}", self.nanos);
            }
            Fact::Passed(point) => ("passed", point),
            Fact::Begun(point) => ("begun", point),
            Fact::Finished(point) => ("finished", point),
        };
        let Point { instance, execution, step } = point;
        write!(f, "{word}\t{}\t{instance}\t{execution}\t{step}", self.nanos)
    }
}

impl Line {
    /// Reads a line; `None` when it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('\t');
        let (word, nanos) = (parts.next()?, parts.next()?.parse().ok()?);
        let mut point = || {
            let (instance, execution) = (parts.next()?.to_owned(), parts.next()?.to_owned());
            Some(Point { instance, execution, step: parts.next()?.parse().ok()? })
        };
        let fact = match word {
            "ready" => Fact::Ready,
            "passed" => Fact::Passed(point()?),
            "begun" => Fact::Begun(point()?),
            "finished" => Fact::Finished(point()?),
            "logged" => {
                let message = parts.next()?.to_owned();
                Fact::Logged(message, parts.next().filter(|name| !name.is_empty()).map(str::to_owned))
            }
            _ => return None,
        };
        Some(Self { nanos, fact })
    }
}

/// Tells the parent. Without one there is nobody to work for.
pub(crate) fn say(fact: Fact) {
    let line = format!("{}\n", Line { nanos: nanos(), fact });
    if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
        std::process::exit(1);
    }
}

/// Says that the code of an orchestration is at a step, unless it only remembers to have been there.
pub(crate) fn passed(context: &OrchestrationContext, step: u32) {
    if !context.is_replaying() {
        let (instance, execution) = (context.instance().to_string(), context.execution().to_string());
        say(Fact::Passed(Point { instance, execution, step }));
    }
}

/// The call that an activity carries out, as a point.
pub(crate) fn call(context: &ActivityContext) -> Point {
    let (instance, execution) = (context.instance().to_string(), context.execution().to_string());
    Point { instance, execution, step: context.task_id().unsigned_abs() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard() {
        let point = Point { instance: "i 1".into(), execution: "00ff".into(), step: 3 };
        let facts = [
            Fact::Ready,
            Fact::Passed(point.clone()),
            Fact::Begun(point.clone()),
            Fact::Finished(point),
            Fact::Logged("a turn was fenced".into(), Some("i 1".into())),
            Fact::Logged("the session was renewed".into(), None),
        ];
        for fact in facts {
            let line = Line { nanos: 17, fact };
            assert_eq!(Line::parse(&line.to_string()), Some(line));
        }
        for nonsense in ["", "passed", "passed\t1\ti", "begun\tx\ti\te\t1", "sang\t1"] {
            assert_eq!(Line::parse(nonsense), None, "{nonsense}");
        }
    }
}
