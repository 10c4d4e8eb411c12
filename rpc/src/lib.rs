//! The gRPC service of the Durable Task protocol. Its messages are those of `dauer-proto`; its path is
//! `/TaskHubSidecarService/<Method>`, without a package, as every SDK has it.

pub mod codec;

#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub, rustdoc::all)]
mod generated {
    include!("generated/service.rs");
}

#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub, rustdoc::all)]
mod answers {
    include!("generated/answers.rs");
}

/// dauer's own management service (`proto/management.proto`): its messages, and the generated client and server.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub, rustdoc::all)]
pub mod management {
    include!("generated/management.rs");

    /// The management service as descriptors, for gRPC reflection.
    pub const FILE_DESCRIPTORS: &[u8] = include_bytes!("generated/management.bin");
}

#[cfg(feature = "client")]
pub use answers::answers_client::AnswersClient;
#[cfg(feature = "server")]
pub use answers::answers_server::{Answers, AnswersServer};
pub use answers::brought::Answer;
pub use answers::{Brought, ExecutedActivity, Executing, Resumed, Taken};
#[cfg(feature = "client")]
pub use generated::task_hub_sidecar_service_client::TaskHubSidecarServiceClient as ServiceClient;
#[cfg(feature = "server")]
pub use generated::task_hub_sidecar_service_server::{
    TaskHubSidecarService as Service, TaskHubSidecarServiceServer as ServiceServer,
};

/// The name that the service has on the wire, for health checks.
pub const SERVICE_NAME: &str = "TaskHubSidecarService";
