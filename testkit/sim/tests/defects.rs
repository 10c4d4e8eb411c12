//! How sharp the simulator is: stores that break a rule, and the seed that shows it.

mod support;

use dauer_memory::Defect;
use dauer_sim::{Config, run};
use support::setting;

#[test]
fn explore() {
    let seeds = setting("DAUER_SIM_SEEDS").unwrap_or(40);
    for defect in Defect::ALL {
        let config = Config { defect: Some(*defect), ..Config::default() };
        let found = (0..seeds).map(|seed| run(seed, &config)).find(|outcome| !outcome.violations.is_empty());
        match found {
            Some(outcome) => println!("{defect:?} seed {} {}", outcome.seed, outcome.violations[0]),
            None => println!("{defect:?} NOT FOUND"),
        }
    }
}
