//! Every call of the protocol, for success and for each of its errors. The descriptor says which there are: one that is
//! not in the table fails.

#![allow(clippy::unwrap_used)] // What is not there fails the test.

mod every;
mod find;
mod history;
mod hubs;
mod operate;
mod purge;
mod send;
mod start;
mod wait;
mod work;

use std::collections::BTreeSet;

use prost::Message;
use prost_types::FileDescriptorSet;

use crate::support::{Client, Running};

/// A server, and a client of it.
struct Fixture {
    server: Running,
    client: Client,
}

impl Fixture {
    async fn new() -> Self {
        let server = Running::start().await;
        let client = server.client().await;
        Self { server, client }
    }
}

/// The calls of the protocol, each with the test that makes it.
macro_rules! table {
    ($($name:literal => $module:ident::$function:ident,)*) => {
        const TABLE: &[&str] = &[$($name),*];

        mod calls {
            $(
                #[tokio::test]
                async fn $function() {
                    let fixture = super::Fixture::new().await;
                    super::$module::$function(&fixture).await;
                    fixture.server.stop().await.unwrap();
                }
            )*
        }
    };
}

table! {
    "Hello" => work::hello,
    "StartInstance" => start::start_instance,
    "GetInstance" => wait::get_instance,
    "RewindInstance" => operate::rewind_instance,
    "RestartInstance" => operate::restart_instance,
    "WaitForInstanceStart" => wait::wait_for_instance_start,
    "WaitForInstanceCompletion" => wait::wait_for_instance_completion,
    "RaiseEvent" => send::raise_event,
    "TerminateInstance" => send::terminate_instance,
    "SuspendInstance" => send::suspend_instance,
    "ResumeInstance" => send::resume_instance,
    "QueryInstances" => find::query_instances,
    "ListInstanceIds" => find::list_instance_ids,
    "PurgeInstances" => purge::purge_instances,
    "GetWorkItems" => work::get_work_items,
    "CompleteActivityTask" => work::complete_activity_task,
    "CompleteOrchestratorTask" => work::complete_orchestrator_task,
    "CompleteEntityTask" => work::complete_entity_task,
    "StreamInstanceHistory" => history::stream_instance_history,
    "CreateTaskHub" => hubs::create_task_hub,
    "DeleteTaskHub" => hubs::delete_task_hub,
    "SignalEntity" => work::signal_entity,
    "GetEntity" => work::get_entity,
    "QueryEntities" => work::query_entities,
    "CleanEntityStorage" => work::clean_entity_storage,
    "AbandonTaskActivityWorkItem" => work::abandon_task_activity_work_item,
    "AbandonTaskOrchestratorWorkItem" => work::abandon_task_orchestrator_work_item,
    "AbandonTaskEntityWorkItem" => work::abandon_task_entity_work_item,
    "SkipGracefulOrchestrationTerminations" => operate::skip_graceful_orchestration_terminations,
}

/// The calls that the descriptor has.
fn described() -> Vec<String> {
    let set = FileDescriptorSet::decode(dauer_proto::FILE_DESCRIPTORS).unwrap();
    let services = set.file.into_iter().flat_map(|file| file.service);
    let ours = services.filter(|service| service.name() == dauer_rpc::SERVICE_NAME);
    ours.flat_map(|service| service.method).map(|method| method.name().to_owned()).collect()
}

#[test]
fn every_call_of_the_protocol_is_in_the_table() {
    let described = described();
    assert!(!described.is_empty());
    let (there, tested): (BTreeSet<_>, BTreeSet<_>) =
        (described.iter().map(String::as_str).collect(), TABLE.iter().copied().collect());
    assert_eq!(there, tested);
}
