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
    prost_build::Config::new().btree_map(["."]).compile_fds(descriptors)?;
    Ok(())
}
