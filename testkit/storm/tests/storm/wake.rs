//! The time from one process to another, small: that it is measured, not how long it is on a busy machine.

use crate::support::storm;

/// Results to be measured.
const SAMPLES: u64 = 40;

#[test]
fn a_result_of_one_process_wakes_the_instance_of_another() {
    let run = storm(&["wake", "--samples", &SAMPLES.to_string(), "--p50-ms-max", "5000"]);
    assert!(run.clean, "{}", run.text);
    assert_eq!(run.figures["verdict"], "in time");
    for name in ["result_to_turn", "turn_to_activity"] {
        assert_eq!(run.figures[name]["samples"], SAMPLES, "{}", run.text);
        let times =
            ["p50_ms", "p99_ms", "max_ms"].map(|each| run.figures[name][each].as_f64().unwrap_or(-1.0));
        assert!(0.0 < times[0] && times[0] <= times[1] && times[1] <= times[2], "{}", run.text);
    }
    // One answer for each instance.
    assert_eq!(run.figures["end_to_wait"]["samples"], SAMPLES / 5, "{}", run.text);
}

#[test]
fn a_time_that_is_not_kept_is_red() {
    let run = storm(&["wake", "--samples", "5", "--p50-ms-max", "0"]);
    assert!(!run.clean, "{}", run.text);
    assert_eq!(run.figures["verdict"], "RED: too late");
}
