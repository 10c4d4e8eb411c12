//! What is generated from the services is committed, as the messages are in `dauer-proto`. Here it is generated once more: it
//! must be the same. `DAUER_BLESS=1` writes it.

use std::error::Error;
use std::path::{Path, PathBuf};

/// The service of the protocol, whose messages are the types of `dauer-proto`; and the one beside it.
fn generate(into: &Path) -> Result<(), Box<dyn Error>> {
    let files = (["durable_task.proto", "answers.proto"], ["../proto/proto", "proto"]);
    let descriptors = protox::compile(files.0, files.1)?;
    let mut service = tonic_prost_build::configure()
        .out_dir(into)
        .build_transport(false)
        .codec_path("crate::codec::Strict")
        .client_mod_attribute(".", r#"#[cfg(feature = "client")]"#)
        .server_mod_attribute(".", r#"#[cfg(feature = "server")]"#);
    // There is no package whose path would stand for all of them.
    let whole = |file: &&prost_types::FileDescriptorProto| file.package().is_empty();
    for file in descriptors.file.iter().filter(whole) {
        let messages = file.message_type.iter().filter_map(|message| message.name.as_deref());
        for name in messages.chain(file.enum_type.iter().filter_map(|kind| kind.name.as_deref())) {
            service = service.extern_path(format!(".{name}"), format!("::dauer_proto::wire::{name}"));
        }
    }
    service.compile_fds(descriptors)?;
    Ok(())
}

#[test]
fn what_is_committed_is_what_the_services_say() -> Result<(), Box<dyn Error>> {
    let fresh = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rpc-generated");
    std::fs::create_dir_all(&fresh)?;
    generate(&fresh)?;
    for (made, kept) in [("_.rs", "service.rs"), ("dauer.rs", "answers.rs")] {
        let made = std::fs::read_to_string(fresh.join(made))?;
        let kept = Path::new("src/generated").join(kept);
        if std::env::var_os("DAUER_BLESS").is_some() {
            std::fs::write(&kept, &made)?;
        }
        let same = std::fs::read_to_string(&kept).is_ok_and(|kept| kept == made);
        assert!(same, "{} is not what the services say; run this test with DAUER_BLESS=1", kept.display());
    }
    Ok(())
}
