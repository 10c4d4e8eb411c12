//! Holds the `.proto` to the wire protocol of the SDKs in the field.
//!
//! `wire.txt` was made from the protocol's table, not from the `.proto`. The test compiles the `.proto`, writes every
//! rpc, message, field and enum value as one line of the same form, and compares: a renumbered, renamed, retyped,
//! added or lost line turns it red. It is a file to edit only when the protocol itself gains something.

#![allow(clippy::unwrap_used, reason = "clippy knows only #[test] functions as tests, not their helpers")]

use std::collections::BTreeSet;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, ServiceDescriptorProto,
};

const GOLDEN: &str = include_str!("wire.txt");

fn compiled() -> FileDescriptorProto {
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
    let set = protox::compile(["durable_task.proto"], [include]).unwrap();
    set.file.into_iter().find(|file| file.name() == "durable_task.proto").unwrap()
}

fn short(type_name: &str) -> &str {
    let name = type_name.trim_start_matches('.');
    name.strip_prefix("google.protobuf.").unwrap_or(name)
}

fn scalar(field: &FieldDescriptorProto) -> String {
    match field.r#type() {
        Type::String => "string".into(),
        Type::Int32 => "int32".into(),
        Type::Bool => "bool".into(),
        Type::Message | Type::Enum => short(field.type_name()).into(),
        other => format!("{other:?}"),
    }
}

fn type_of(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    if field.label() != Label::Repeated {
        return scalar(field);
    }
    let entry_name = field.type_name().rsplit('.').next().unwrap_or_default();
    let is_entry = |nested: &&DescriptorProto| {
        nested.name() == entry_name && nested.options.as_ref().is_some_and(|options| options.map_entry())
    };
    match message.nested_type.iter().find(is_entry) {
        Some(entry) => format!("map<{}, {}>", scalar(&entry.field[0]), scalar(&entry.field[1])),
        None => format!("repeated {}", scalar(field)),
    }
}

fn message_lines(message: &DescriptorProto, lines: &mut Vec<String>) {
    let name = message.name();
    lines.push(format!("message {name}"));
    for field in &message.field {
        let mut line = format!("{name}.{} = {} {}", field.name(), field.number(), type_of(message, field));
        if let Some(index) = field.oneof_index {
            line.push_str(&format!(" oneof {}", message.oneof_decl[index as usize].name()));
        }
        if field.options.as_ref().is_some_and(|options| options.deprecated()) {
            line.push_str(" deprecated");
        }
        lines.push(line);
    }
    for range in &message.reserved_range {
        lines.extend((range.start()..range.end()).map(|number| format!("{name} reserved {number}")));
    }
}

fn enum_lines(descriptor: &EnumDescriptorProto, lines: &mut Vec<String>) {
    let name = descriptor.name();
    lines.push(format!("enum {name}"));
    lines
        .extend(descriptor.value.iter().map(|value| format!("{name}.{} = {}", value.name(), value.number())));
}

fn service_lines(service: &ServiceDescriptorProto, lines: &mut Vec<String>) {
    for method in &service.method {
        let request = if method.client_streaming() { "stream " } else { "" };
        let response = if method.server_streaming() { "stream " } else { "" };
        lines.push(format!(
            "rpc {}({request}{}) returns ({response}{})",
            method.name(),
            short(method.input_type()),
            short(method.output_type())
        ));
    }
}

fn lines_of(file: &FileDescriptorProto) -> Vec<String> {
    let mut lines = Vec::new();
    file.service.iter().for_each(|service| service_lines(service, &mut lines));
    file.enum_type.iter().for_each(|descriptor| enum_lines(descriptor, &mut lines));
    file.message_type.iter().for_each(|message| message_lines(message, &mut lines));
    lines
}

/// Lines on one side only, `-` for those the `.proto` lacks and `+` for those it has too many.
fn differences(golden: &str, actual: &[String]) -> Vec<String> {
    let expected: BTreeSet<&str> = golden.lines().collect();
    let actual: BTreeSet<&str> = actual.iter().map(String::as_str).collect();
    let missing = expected.difference(&actual).map(|line| format!("- {line}"));
    let extra = actual.difference(&expected).map(|line| format!("+ {line}"));
    missing.chain(extra).collect()
}

#[test]
fn the_proto_is_the_wire_protocol() {
    let lines = lines_of(&compiled());
    assert_eq!(differences(GOLDEN, &lines), Vec::<String>::new());
    assert_eq!(lines.len(), GOLDEN.lines().count(), "a line occurs twice");
}

#[test]
fn grpc_paths_have_no_package() {
    let file = compiled();
    assert_eq!(file.package(), "");
    assert_eq!(file.syntax(), "proto3");
    let services: Vec<&str> = file.service.iter().map(ServiceDescriptorProto::name).collect();
    assert_eq!(services, ["TaskHubSidecarService"]);
}

/// Shows that the comparison can fail: one field renumbered, one retyped, one dropped.
#[test]
fn a_changed_field_is_found() {
    let mut file = compiled();
    let message = file.message_type.iter_mut().find(|m| m.name() == "TimerFiredEvent").unwrap();
    message.field[0].number = Some(7);
    message.field[1].r#type = Some(Type::Bool as i32);
    let dropped = file.service[0].method.pop().unwrap();

    let found = differences(GOLDEN, &lines_of(&file));

    assert!(found.contains(&"- TimerFiredEvent.fireAt = 1 Timestamp".to_owned()), "{found:?}");
    assert!(found.contains(&"+ TimerFiredEvent.timerId = 2 bool".to_owned()), "{found:?}");
    assert!(found.iter().any(|line| line.starts_with(&format!("- rpc {}(", dropped.name()))), "{found:?}");
}
