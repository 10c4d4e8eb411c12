//! What rustc says to somebody who writes a handler or a call wrongly: the sentence that helps must be there, at the line of
//! the mistake. The programs are in `testkit/outside/planted/signatures`. A name that is registered twice is no matter of types: it is an error of
//! `build()`, tested in `sdk/tests/trouble.rs`.

#![cfg(unix)]
#![allow(clippy::unwrap_used)] // Also in what the tests share.

use std::collections::BTreeMap;

use dauer_outside::Outside;

/// The program, the line that is blamed, and what must be said about it.
const CASES: &[(&str, &str, &[&str])] = &[
    ("activity_missing_context", "price", &["function is expected to take 2 arguments, but it takes 1"]),
    (
        "activity_with_orchestration_context",
        "price",
        &[
            "expected function signature `fn(ActivityContext, String) -> _`",
            "found function signature `fn(OrchestrationContext, String) -> _`",
        ],
    ),
    (
        "activity_wrong_input",
        "price",
        &[
            "expected function signature `fn(ActivityContext, String) -> _`",
            "found function signature `fn(ActivityContext, u32) -> _`",
        ],
    ),
    ("borrowed_capture", "prices", &["may outlive borrowed value `prices`", "use the `move` keyword"]),
    (
        "call_not_awaited",
        "ctx.call",
        &["a call does nothing until it is awaited; use .start() to schedule it now"],
    ),
    ("call_of_another_type", "&name", &["expected `&u32`, found `&String`"]),
    (
        "input_not_readable",
        "shop",
        &["`Order` must implement `serde::Deserialize` and `u32` `serde::Serialize`"],
    ),
    (
        "input_not_serializable",
        "ctx.call",
        &[
            "the trait bound `Order: serde::Serialize` is not satisfied",
            "consider adding `#[derive(serde::Serialize)]` to your `Order` type",
        ],
    ),
    ("missing_context", "greet", &[EXPECTED, "`fn(String) -> impl Future"]),
    ("not_async", "greet", &[EXPECTED, "is not an orchestration from `String` to `u32`"]),
    ("not_send", "greet", &[EXPECTED, "its future must be `Send`: hold no `Rc`"]),
    ("wrong_continue", "count", &["or `-> Result<ControlFlow<u32, u32>>` when it continues as new"]),
    ("wrong_input", "greet", &[EXPECTED, "is not an orchestration from `String` to `u32`"]),
    ("wrong_output", "greet", &[EXPECTED, "is not an orchestration from `String` to `u32`"]),
];

/// What is said at the line of an orchestration that does not fit its name.
const EXPECTED: &str = "expected `async fn(OrchestrationContext, String) -> Result<u32>`";

/// All that rustc says about each program, as a user sees it.
fn compiled() -> BTreeMap<String, String> {
    let project = Outside::new().unwrap().project("signatures").unwrap();
    for entry in std::fs::read_dir(dauer_tidy::root().join("testkit/outside/planted/signatures")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        project.write(&format!("src/bin/{name}"), &std::fs::read_to_string(&path).unwrap()).unwrap();
    }
    project.manifest("dauer = { path = \"../dauer/sdk\" }\n").unwrap();
    let check = ["check", "--quiet", "--bins", "--keep-going", "--message-format=json"];
    let output = project.command("cargo").args(check).output().unwrap();
    let mut said: BTreeMap<String, String> = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        let Some(text) = message["message"]["rendered"].as_str() else { continue };
        let program = message["target"]["name"].as_str().unwrap().to_owned();
        said.entry(program).or_default().push_str(text);
    }
    assert!(!said.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn a_wrong_signature_is_explained() {
    let said = compiled();
    for (program, blamed, sentences) in CASES {
        let text = said.get(*program).unwrap_or_else(|| panic!("{program} was compiled without a word"));
        let shown = |line: &str| line.contains(" | ") && line.contains(blamed);
        assert!(text.lines().any(shown), "{program}: `{blamed}` is not shown:\n{text}");
        for sentence in *sentences {
            assert!(text.contains(sentence), "{program}: `{sentence}` is not said:\n{text}");
        }
    }
    let tested: Vec<_> = CASES.iter().map(|(program, ..)| *program).collect();
    let untested: Vec<_> = said.keys().filter(|program| !tested.contains(&program.as_str())).collect();
    assert!(untested.is_empty(), "programs without an expectation: {untested:?}");
}
