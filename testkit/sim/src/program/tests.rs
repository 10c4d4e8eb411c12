//! What is drawn, and what is said about it.

use std::collections::BTreeSet;

use super::draw::DEPTH;
use super::*;
use crate::random::Random;

fn id(text: &str) -> InstanceId {
    InstanceId::new(text).unwrap()
}

#[test]
fn every_kind_of_step_is_drawn() {
    let mut kinds = BTreeSet::new();
    for seed in 0..300 {
        let program = Program::draw(&mut Random::new(seed), DEPTH);
        for step in program.steps.iter().chain(&program.clone().endless().steps) {
            let text = format!("{step:?}");
            kinds.insert(text.split(['(', ' ']).next().unwrap_or_default().to_owned());
        }
    }
    let expected = [
        "Ask", "Call", "Children", "Collect", "Detach", "Fail", "FanOut", "Forever", "Race", "Retry",
        "Reuse", "Sleep", "Status", "Wait",
    ];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn half_of_all_programs_have_twenty_actions_or_more_and_children_go_three_deep() {
    let programs: Vec<Program> =
        (0..2_001).map(|seed| Program::draw(&mut Random::new(seed), DEPTH)).collect();
    let mut actions: Vec<usize> = programs.iter().map(Program::actions).collect();
    actions.sort_unstable();
    let median = actions[actions.len() / 2];
    assert!((18..=24).contains(&median), "the median is {median}");
    let depth = |id: &InstanceId| id.as_str().matches('.').count() / 3;
    let deepest =
        programs.iter().flat_map(|program| program.family(&id("a"))).map(|(id, _)| depth(&id)).max();
    // A child that is written otherwise may be the fourth.
    assert_eq!(deepest, Some(4));
}

#[test]
fn a_family_has_a_child_for_every_round_and_all_waits_are_demanded() {
    let child = Program::once(vec![Step::Wait(0)]);
    let steps = vec![
        Step::Wait(0),
        Step::Children(vec![child]),
        Step::Collect(1, 2),
        Step::Reuse { calls: Vec::new(), hunts: true },
    ];
    let program = Program { rounds: 2, tells: None, steps };
    let ids: Vec<String> = program.family(&id("a")).iter().map(|(id, _)| id.to_string()).collect();
    assert_eq!(ids, ["a", "a.0.1.0", "a.0.3.0", "a.0.3.1", "a.1.1.0", "a.1.3.0", "a.1.3.1"]);
    let demands: Vec<(String, Vec<i64>)> =
        program.demands(&id("a")).into_iter().map(|d| (d.instance.to_string(), d.values)).collect();
    let expected = [
        ("a".into(), vec![0, 1]),
        ("a".into(), vec![1_000, 1_001, 1_002, 1_003]),
        ("a.0.1.0".into(), vec![0]),
        ("a.1.1.0".into(), vec![0]),
    ];
    assert_eq!(demands, expected);
}

#[test]
fn a_child_knows_its_parent_by_its_id() {
    let child = child_id(&id("a.b"), 3, 1, 0).unwrap();
    assert_eq!(parent_of(&child), Some((id("a.b"), 3)));
    assert_eq!(parent_of(&id("a")), None);
}
