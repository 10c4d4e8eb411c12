//! Reported deaths of workers (rule 9).

use dauer_store::{Deaths, Refused};

/// The deaths of an item after that of the process which held it. `runs_code` says whether that process executes user code,
/// `trial` whether a trial of the item was open.
#[must_use]
pub fn death_of_holder(deaths: Deaths, runs_code: bool, trial: bool) -> Deaths {
    deaths.after_trial(runs_code, trial && !planted!(Defect::TrialUncounted))
}

/// The deaths of an item after a worker's death that its holder reports. They are the same as before if the report is a
/// repeat. `known` has the deaths that the holder knew before this one, `trial` says whether a trial of the item is open.
///
/// # Errors
/// [`Refused::Fenced`] if the deaths of the item are neither `known` nor those after this death.
pub fn reported_death(deaths: Deaths, known: Deaths, trial: bool) -> Result<Deaths, Refused> {
    if deaths == known || planted!(Defect::ReportCountedTwice) {
        return Ok(death_of_holder(deaths, true, trial));
    }
    // The trial that was open then is closed now.
    let repeats = [false, true].iter().any(|trial| deaths == known.after_trial(true, *trial));
    if repeats { Ok(deaths) } else { Err(Refused::Fenced) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_death_counts_once() {
        let known = Deaths { workers: 2, servers: 1, trials: 1 };
        let plain = Deaths { workers: 3, ..known };
        let during_trial = Deaths { workers: 3, trials: 2, ..known };
        assert_eq!(reported_death(known, known, false).unwrap(), plain);
        assert_eq!(reported_death(known, known, true).unwrap(), during_trial);
        for trial in [false, true] {
            assert_eq!(reported_death(plain, known, trial).unwrap(), plain, "a repeat");
            assert_eq!(reported_death(during_trial, known, trial).unwrap(), during_trial, "a repeat");
        }
    }

    #[test]
    fn report_with_other_deaths_is_fenced() {
        let known = Deaths { workers: 2, servers: 1, trials: 1 };
        for deaths in [
            Deaths::default(),
            Deaths { servers: 2, ..known },
            Deaths { workers: 4, ..known },
            Deaths { workers: 3, trials: 3, ..known },
        ] {
            assert!(matches!(reported_death(deaths, known, true), Err(Refused::Fenced)), "{deaths:?}");
        }
    }
}
