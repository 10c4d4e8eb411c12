//! Compiles the protocol with protox, so that no `protoc` has to be installed.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto/durable_task.proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).open_file("durable_task.proto")?;
    // For the feature `json`, which reads names and types from here when it runs. Without source information, of which
    // only the generated comments are made.
    let reflected = Path::new(&std::env::var("OUT_DIR")?).join("descriptors.bin");
    std::fs::write(reflected, compiler.encode_file_descriptor_set())?;
    let descriptors = protox::compile(["durable_task.proto"], ["proto"])?;
    // Ordered maps: tags and properties must encode to the same bytes every time, because message identities and
    // the simulator's traces are computed from them.
    let mut config = prost_build::Config::new();
    config.btree_map(["."]);
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
