//! Compiles the protocol with protox, so that no `protoc` has to be installed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto/durable_task.proto");
    let descriptors = protox::compile(["durable_task.proto"], ["proto"])?;
    // Ordered maps: tags and properties must encode to the same bytes every time, because message identities and
    // the simulator's traces are computed from them.
    prost_build::Config::new().btree_map(["."]).compile_fds(descriptors)?;
    Ok(())
}
