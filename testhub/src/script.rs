//! Answers that are known beforehand.

use dauer_proto::TaskFailureDetails;
use dauer_replay::Failure;
use serde::Serialize;

/// What an activity answers, call by call.
///
/// A call is one that the orchestration makes: every attempt of a retried call is a call of its own, but one that runs
/// again after a crash is still the same call and gets the same answer.
///
/// ```
/// use dauer_testhub::Script;
/// use dauer_replay::Failure;
///
/// // Two failures, then 10, then 20 for all further calls.
/// let script = Script::new().fail(Failure::new("Down", "no answer")).times(2).ok(10).ok(20).always();
/// # let _: Script<i32> = script;
/// ```
#[derive(Debug, Clone)]
#[must_use = "a script does nothing until it is given to `TestHub::script`"]
pub struct Script<O> {
    steps: Vec<Step<O>>,
    always: bool,
}

#[derive(Debug, Clone)]
struct Step<O> {
    answer: Result<O, Failure>,
    calls: usize,
}

impl<O> Default for Script<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O> Script<O> {
    /// A script without an answer.
    ///
    /// ```
    /// # use dauer_testhub::Script;
    /// let nothing: Script<u32> = Script::new();
    /// ```
    pub fn new() -> Self {
        Self { steps: Vec::new(), always: false }
    }

    /// The next call gives this.
    ///
    /// ```
    /// # use dauer_testhub::Script;
    /// let prices = Script::new().ok(10).ok(20);
    /// # let _: Script<i32> = prices;
    /// ```
    pub fn ok(self, output: O) -> Self {
        self.then(Ok(output))
    }

    /// The next call fails like this.
    ///
    /// ```
    /// # use dauer_testhub::Script;
    /// # use dauer_replay::Failure;
    /// let down: Script<u32> = Script::new().fail(Failure::new("Down", "no answer"));
    /// ```
    pub fn fail(self, failure: Failure) -> Self {
        self.then(Err(failure))
    }

    /// The last answer counts for so many calls. Without an answer before it, it says nothing.
    ///
    /// ```
    /// # use dauer_testhub::Script;
    /// # use dauer_replay::Failure;
    /// let twice_down = Script::new().fail(Failure::new("Down", "no answer")).times(2).ok(10);
    /// # let _: Script<i32> = twice_down;
    /// ```
    pub fn times(mut self, calls: usize) -> Self {
        if let Some(last) = self.steps.last_mut() {
            last.calls = calls;
        }
        self
    }

    /// The last answer counts for all further calls. Without it a call beyond the script fails the test.
    ///
    /// ```
    /// # use dauer_testhub::Script;
    /// let ten = Script::new().ok(10).always();
    /// # let _: Script<i32> = ten;
    /// ```
    pub fn always(mut self) -> Self {
        self.always = true;
        self
    }

    fn then(mut self, answer: Result<O, Failure>) -> Self {
        self.steps.push(Step { answer, calls: 1 });
        self
    }
}

/// A script without its type.
pub(crate) struct Written {
    steps: Vec<(Result<String, TaskFailureDetails>, usize)>,
    always: bool,
}

impl Written {
    pub(crate) fn new<O: Serialize>(script: Script<O>) -> Result<Self, serde_json::Error> {
        let write = |step: Step<O>| {
            let answer = match step.answer {
                Ok(output) => Ok(serde_json::to_string(&output)?),
                Err(failure) => Err(TaskFailureDetails::from(failure)),
            };
            Ok((answer, step.calls))
        };
        let steps = script.steps.into_iter().map(write).collect::<Result<_, serde_json::Error>>()?;
        Ok(Self { steps, always: script.always })
    }

    /// The answer to the call of that number, counted from 0.
    pub(crate) fn answer(&self, call: usize) -> Option<Result<String, TaskFailureDetails>> {
        let mut before = 0;
        for (answer, calls) in &self.steps {
            before += calls;
            if call < before {
                return Some(answer.clone());
            }
        }
        self.steps.last().filter(|_| self.always).map(|(answer, _)| answer.clone())
    }

    /// How many calls it has an answer for.
    pub(crate) fn len(&self) -> usize {
        self.steps.iter().map(|(_, calls)| calls).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(script: Script<u32>, calls: usize) -> Vec<String> {
        let written = Written::new(script).unwrap();
        let answer = |call| match written.answer(call) {
            None => "none".to_owned(),
            Some(Ok(output)) => output,
            Some(Err(details)) => details.error_type,
        };
        (0..calls).map(answer).collect()
    }

    #[test]
    fn answers_come_in_the_order_they_were_written() {
        let down = Failure::new("Down", "");
        let script = Script::new().fail(down).times(2).ok(10);
        assert_eq!(answers(script.clone(), 4), ["Down", "Down", "10", "none"]);
        assert_eq!(answers(script.always(), 5), ["Down", "Down", "10", "10", "10"]);
    }

    #[test]
    fn a_script_of_nothing_has_no_answer() {
        assert_eq!(answers(Script::new().times(3).always(), 1), ["none"]);
        assert_eq!(answers(Script::new().ok(1).times(0).ok(2), 2), ["2", "none"]);
    }
}
