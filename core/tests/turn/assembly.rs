//! Behaviour 29: answers that come in chunks.
#![allow(deprecated, reason = "the SDKs that split answers still use the fields")]

use dauer_core::limits::TurnLimits;
use dauer_core::turn::Answer;
use dauer_core::workitem::{Assembled, Assembly};
use dauer_proto::{OrchestratorAction, OrchestratorResponse};

use crate::support::Run;
use crate::support::make::*;

fn chunk(
    index: i32,
    partial: bool,
    actions: impl IntoIterator<Item = OrchestratorAction>,
) -> OrchestratorResponse {
    OrchestratorResponse {
        instance_id: "i".into(),
        actions: actions.into_iter().collect(),
        is_partial: partial,
        chunk_index: Some(index),
        ..OrchestratorResponse::default()
    }
}

fn pieces() -> [OrchestratorResponse; 3] {
    [chunk(0, true, [task(1, "a")]), chunk(1, true, [task(2, "b")]), chunk(2, false, [completed(3, "x")])]
}

fn add(assembly: &mut Assembly, response: &OrchestratorResponse) -> Option<Answer> {
    match assembly.add(response.clone(), &TurnLimits::default()).unwrap() {
        Assembled::Waiting => None,
        Assembled::Whole(answer) => Some(answer),
        Assembled::HistoryWanted => panic!("nobody asked for history"),
    }
}

#[test]
fn behaviour_29_chunks_are_applied_once_when_all_are_there() {
    let whole = pieces().into_iter().flat_map(|piece| piece.actions).collect::<Vec<_>>();
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut assembly = Assembly::default();
        let [first, second, third] = order.map(|index: usize| pieces()[index].clone());
        assert!(add(&mut assembly, &first).is_none(), "{order:?}");
        assert!(add(&mut assembly, &first).is_none(), "a repeated chunk counts once");
        assert!(add(&mut assembly, &second).is_none(), "{order:?}");
        let answer = add(&mut assembly, &third).expect("the last missing chunk completes the answer");
        assert_eq!(answer.actions, whole, "in the order of the chunks, however they came: {order:?}");
    }
}

#[test]
fn behaviour_29_an_answer_in_one_piece_is_whole_at_once() {
    let response = OrchestratorResponse {
        actions: vec![task(1, "a")],
        custom_status: Some(String::new()),
        ..OrchestratorResponse::default()
    };
    let answer = add(&mut Assembly::default(), &response).unwrap();
    assert_eq!((answer.actions, answer.custom_status), (response.actions, Some(String::new())));
    // And so is one that says it is the first and last chunk.
    assert!(add(&mut Assembly::default(), &chunk(0, false, [])).is_some());
}

#[test]
fn behaviour_29_custom_status_and_trace_may_be_on_any_chunk() {
    let with =
        |response, status: &str| OrchestratorResponse { custom_status: Some(status.into()), ..response };
    let [first, second, third] = pieces();
    let mut assembly = Assembly::default();
    add(&mut assembly, &with(first.clone(), "early"));
    add(&mut assembly, &second);
    assert_eq!(add(&mut assembly, &third).unwrap().custom_status.as_deref(), Some("early"));
    let mut assembly = Assembly::default();
    add(&mut assembly, &with(first, "early"));
    add(&mut assembly, &second);
    assert_eq!(add(&mut assembly, &with(third, "late")).unwrap().custom_status.as_deref(), Some("late"));
}

#[test]
fn behaviour_29_chunks_without_an_index_follow_each_other() {
    let unnumbered = |response: OrchestratorResponse| OrchestratorResponse { chunk_index: None, ..response };
    let [first, second, third] = pieces().map(unnumbered);
    let mut assembly = Assembly::default();
    assert!(add(&mut assembly, &first).is_none());
    assert!(add(&mut assembly, &second).is_none());
    let ids: Vec<_> = add(&mut assembly, &third).unwrap().actions.iter().map(|action| action.id).collect();
    assert_eq!(ids, [1, 2, 3]);
}

#[test]
fn behaviour_29_chunks_that_do_not_fit_together_are_named() {
    let limits = TurnLimits::default();
    let refused = |responses: &[OrchestratorResponse]| {
        let mut assembly = Assembly::default();
        let (last, before) = responses.split_last().unwrap();
        for response in before {
            assembly.add(response.clone(), &limits).unwrap();
        }
        assembly.add(last.clone(), &limits).unwrap_err().reason
    };
    assert!(refused(&[chunk(-1, true, [])]).contains("chunk index is -1"));
    assert!(refused(&[chunk(3, false, []), chunk(2, false, [])]).contains("both claim to be the last"));
    assert!(refused(&[chunk(1, false, []), chunk(2, true, [])]).contains("chunk 2 comes after the last, 1"));
    assert!(refused(&[chunk(2, true, []), chunk(1, false, [])]).contains("there is a chunk 2"));
}

#[test]
fn behaviour_29_chunks_together_keep_to_the_limit_of_one_turn() {
    let limits = TurnLimits { actions_per_turn: 2, ..TurnLimits::default() };
    let mut assembly = Assembly::default();
    assembly.add(chunk(0, true, [task(1, "a"), task(2, "b")]), &limits).unwrap();
    let reason = assembly.add(chunk(1, true, [task(3, "c")]), &limits).unwrap_err().reason;
    assert!(reason.starts_with("actions of one turn: 3, at most 2 are allowed"), "{reason}");
    assert!(
        Assembly::default().add(chunk(i32::MAX, true, []), &limits).is_err(),
        "an endless row of empty chunks"
    );
    let refused = Assembly::default().add(chunk(3, true, []), &limits).unwrap_err().reason;
    assert!(refused.starts_with("actions of one turn: 3, at most 2 are allowed"), "{refused}");
    assert!(Assembly::default().add(chunk(2, true, []), &limits).is_ok(), "one for each action, and an end");
}

/// The same plan is then sent again with its past: nothing was committed, so nothing has to be undone.
#[test]
fn behaviour_29_a_worker_may_ask_for_the_history_instead() {
    let response = OrchestratorResponse { requires_history: true, ..OrchestratorResponse::default() };
    let mut assembly = Assembly::default();
    add(&mut assembly, &pieces()[0]);
    let asked = assembly.add(response, &TurnLimits::default()).unwrap();
    assert!(matches!(asked, Assembled::HistoryWanted), "{asked:?}");
    // What had come before is forgotten: the worker begins anew.
    assert!(
        add(&mut assembly, &chunk(0, false, [task(9, "z")])).is_some_and(|answer| answer.actions.len() == 1)
    );
}

/// The assembled answer gives the checkpoint that the same answer in one piece gives.
#[test]
fn behaviour_29_a_chunked_turn_is_the_same_turn() {
    let mut assembly = Assembly::default();
    let mut answers = pieces().into_iter().rev().filter_map(|piece| add(&mut assembly, &piece));
    let answer = answers.next().unwrap();
    let chunked = Run::start("order", None).answer(answer).checkpoint;
    let at_once = Run::start("order", None).turn([task(1, "a"), task(2, "b"), completed(3, "x")]).checkpoint;
    assert_eq!(chunked, at_once);
}
