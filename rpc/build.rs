//! Generates the service from the `.proto` of `dauer-proto`, whose messages are the types of that crate; and the one beside it.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=../proto/proto/durable_task.proto");
    println!("cargo:rerun-if-changed=proto/answers.proto");
    let descriptors = protox::compile(["durable_task.proto", "answers.proto"], ["../proto/proto", "proto"])?;
    let mut service = tonic_prost_build::configure()
        .build_client(std::env::var_os("CARGO_FEATURE_CLIENT").is_some())
        .build_server(std::env::var_os("CARGO_FEATURE_SERVER").is_some())
        .build_transport(false)
        .codec_path("crate::codec::Strict");
    // There is no package whose path would stand for all of them.
    let messages =
        descriptors.file.iter().filter(|file| file.package.as_deref().unwrap_or_default().is_empty());
    for name in messages.flat_map(|file| &file.message_type).filter_map(|message| message.name.as_deref()) {
        service = service.extern_path(format!(".{name}"), format!("::dauer_proto::wire::{name}"));
    }
    let enums = descriptors.file.iter().filter(|file| file.package.as_deref().unwrap_or_default().is_empty());
    for name in enums.flat_map(|file| &file.enum_type).filter_map(|kind| kind.name.as_deref()) {
        service = service.extern_path(format!(".{name}"), format!("::dauer_proto::wire::{name}"));
    }
    service.compile_fds(descriptors)?;
    Ok(())
}
