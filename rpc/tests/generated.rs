//! What is generated from the services is committed, as the messages are in `dauer-proto`. Here it is generated once more: it
//! must be the same. `DAUER_BLESS=1` writes it.

use std::error::Error;
use std::path::{Path, PathBuf};

/// Generated files, with the names that they are committed under.
const GENERATED: [(&str, &str); 4] = [
    ("_.rs", "service.rs"),
    ("dauer.rs", "answers.rs"),
    ("dauer.management.v1.rs", "management.rs"),
    ("management.bin", "management.bin"),
];

/// The sources, and the folders that they are in.
const FILES: ([&str; 3], [&str; 2]) =
    (["durable_task.proto", "answers.proto", "management.proto"], ["../proto/proto", "proto"]);

/// The service of the protocol, whose messages are the types of `dauer-proto`; and those beside it.
fn generate(into: &Path) -> Result<(), Box<dyn Error>> {
    let descriptors = protox::compile(FILES.0, FILES.1)?;
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
    // For reflection. Its imports are in the descriptors of `dauer-proto`.
    let mut management = protox::Compiler::new(FILES.1)?;
    management.open_file("management.proto")?;
    std::fs::write(into.join("management.bin"), management.encode_file_descriptor_set())?;
    service.compile_fds(descriptors)?;
    Ok(())
}

#[test]
fn what_is_committed_is_what_the_services_say() -> Result<(), Box<dyn Error>> {
    let fresh = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("rpc-generated");
    std::fs::create_dir_all(&fresh)?;
    generate(&fresh)?;
    for (made, kept) in GENERATED {
        let made = std::fs::read(fresh.join(made))?;
        let kept = Path::new("src/generated").join(kept);
        if std::env::var_os("DAUER_BLESS").is_some() {
            std::fs::write(&kept, &made)?;
        }
        let same = std::fs::read(&kept).is_ok_and(|kept| kept == made);
        assert!(same, "{} is not what the services say; run this test with DAUER_BLESS=1", kept.display());
    }
    Ok(())
}
