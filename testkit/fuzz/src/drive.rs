//! The loop: take an input, change it, give it to the target, note what became of it.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::random::Random;
use crate::targets::Target;
use crate::{Verdict, corpus, mutate, to_hex};

/// How many inputs that came to a new end are kept beside the corpus, to be changed further.
const KEPT_MAX: usize = 512;

/// An accepted input is kept, one time in so many, so that changes add up over generations.
const KEEP_ONE_IN: usize = 64;

/// What a run came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many inputs ended how.
    pub verdicts: BTreeMap<Verdict, u64>,
}

impl Tally {
    /// How many inputs were accepted.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.verdicts.iter().filter(|(verdict, _)| verdict.accepted).map(|(_, count)| count).sum()
    }

    /// How many inputs were refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.verdicts.values().sum::<u64>() - self.accepted()
    }

    /// How many inputs ended like this.
    #[must_use]
    pub fn count(&self, accepted: bool, what: &str) -> u64 {
        let here = |verdict: &Verdict| verdict.accepted == accepted && verdict.what == what;
        self.verdicts.iter().filter(|(verdict, _)| here(verdict)).map(|(_, count)| count).sum()
    }

    /// One line for each end.
    #[must_use]
    pub fn lines(&self) -> String {
        let line = |(verdict, count): (&Verdict, &u64)| {
            let how = if verdict.accepted { "accepted" } else { "refused" };
            format!("  {how} {count:>9}  {}\n", verdict.what)
        };
        self.verdicts.iter().map(line).collect()
    }
}

/// An input that broke a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The target.
    pub target: &'static str,
    /// Which iteration it was; `None` for one of the corpus.
    pub iteration: Option<u64>,
    /// The input.
    pub input: Vec<u8>,
    /// What the target said.
    pub message: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = self.iteration.map_or("in the corpus".to_owned(), |at| format!("at iteration {at}"));
        let (target, input, message) = (self.target, to_hex(&self.input), &self.message);
        write!(f, "{target}: a claim is broken {place}: {message}\ninput: {input}")
    }
}

/// Gives one input to a target.
///
/// # Errors
/// What the target panicked with.
pub fn once(target: &Target, input: &[u8]) -> Result<Verdict, String> {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).map_err(|panic| text_of(panic.as_ref()))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "(no message)".to_owned())
}

/// Runs a target over its corpus and then over so many changed inputs.
///
/// # Errors
/// The first input that broke a claim.
pub fn run(target: &Target, iterations: u64, seed: u64) -> Result<Tally, Box<Finding>> {
    let mut random = Random::new(seed);
    let mut tally = Tally::default();
    let mut pool = corpus::of(target);
    let fixed = pool.len();
    let found = |iteration, input: &[u8], message| {
        Box::new(Finding { target: target.name, iteration, input: input.to_vec(), message })
    };
    for input in &pool {
        let verdict = once(target, input).map_err(|message| found(None, input, message))?;
        *tally.verdicts.entry(verdict).or_default() += 1;
    }
    for iteration in 0..iterations {
        let from = &pool[random.below(pool.len())];
        let donor = &pool[random.below(pool.len())];
        let input = mutate::next(from, donor, &mut random);
        let verdict = once(target, &input).map_err(|message| found(Some(iteration), &input, message))?;
        let count = tally.verdicts.entry(verdict).or_default();
        *count += 1;
        // The first few of each end, and now and then one that was accepted.
        if *count <= 4 || verdict.accepted && random.below(KEEP_ONE_IN) == 0 {
            if pool.len() < fixed + KEPT_MAX {
                pool.push(input);
            } else {
                let replaced = fixed + random.below(KEPT_MAX);
                pool[replaced] = input;
            }
        }
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragile(input: &[u8]) -> Verdict {
        assert!(!input.windows(2).any(|pair| pair == b"me"), "the claim of this test");
        Verdict::refused("all else")
    }

    #[test]
    fn a_broken_claim_is_found_and_found_again_by_the_same_seed() {
        let target =
            Target { name: "fragile", about: "", run: fragile, ends: &[], corpus: || vec![b"nemo".to_vec()] };
        let finding = run(&target, 100_000, 1).unwrap_err();
        assert!(finding.message.contains("the claim of this test"), "{finding}");
        assert_eq!(once(&target, &finding.input).unwrap_err(), finding.message);
        assert_eq!(run(&target, 100_000, 1), Err(finding));
    }
}
