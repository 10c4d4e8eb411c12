//! What is generated from the protocol is committed, so that whoever builds dauer need not build a compiler of protocols
//! first. Here it is generated once more: it must be the same. `DAUER_BLESS=1` writes it.

use std::error::Error;
use std::path::{Path, PathBuf};

/// Compiled with protox, so that no `protoc` has to be installed.
fn generate(into: &Path) -> Result<(), Box<dyn Error>> {
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).open_file("durable_task.proto")?;
    // For the feature `json`, which reads names and types from here when it runs. Without source information, of which
    // only the generated comments are made.
    std::fs::write(into.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;
    let descriptors = protox::compile(["durable_task.proto"], ["proto"])?;
    // Ordered maps: tags and properties must encode to the same bytes every time, because message identities and
    // the simulator's traces are computed from them.
    let mut config = prost_build::Config::new();
    config.out_dir(into).btree_map(["."]);
    // Every event has the size of the largest kind, and is moved a dozen times a turn: what is large and seldom there is
    // kept aside.
    for aside in [
        ".ExecutionStartedEvent.parentInstance",
        ".ExecutionStartedEvent.parentTraceContext",
        ".ExecutionRewoundEvent.parentInstance",
        ".ExecutionRewoundEvent.parentTraceContext",
        ".HistoryStateEvent.orchestrationState",
    ] {
        config.boxed(aside);
    }
    config.compile_fds(descriptors)?;
    Ok(())
}

#[test]
fn what_is_committed_is_what_the_protocol_says() -> Result<(), Box<dyn Error>> {
    let fresh = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("proto-generated");
    std::fs::create_dir_all(&fresh)?;
    generate(&fresh)?;
    for (made, kept) in [("_.rs", "wire.rs"), ("descriptors.bin", "descriptors.bin")] {
        let made = std::fs::read(fresh.join(made))?;
        let kept = Path::new("src/generated").join(kept);
        if std::env::var_os("DAUER_BLESS").is_some() {
            std::fs::write(&kept, &made)?;
        }
        let same = std::fs::read(&kept).is_ok_and(|kept| kept == made);
        assert!(same, "{} is not what the protocol says; run this test with DAUER_BLESS=1", kept.display());
    }
    Ok(())
}
