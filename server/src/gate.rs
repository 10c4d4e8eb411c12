//! Who comes in, and to which hub: decided before anything of the call is read.

use std::collections::BTreeSet;
use std::sync::Arc;

use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

use dauer_core::HubName;

use crate::auth::{Denied, Tokens};

/// The header that names the hub (behaviour 1).
const HUB_HEADER: &str = "taskhub";

/// The hub that a call is for, which its caller may use.
#[derive(Debug, Clone)]
pub(crate) struct Admitted(pub(crate) HubName);

/// Decides who comes in.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Rules>);

struct Rules {
    tokens: Option<Tokens>,
    hubs: Option<BTreeSet<HubName>>,
}

/// Why somebody does not come in.
#[derive(Debug)]
pub(crate) enum Refusal {
    Unauthenticated,
    Forbidden(HubName),
    /// The token is for single hubs, and this is about all of them.
    NotForAll,
    Invalid(dauer_core::ids::InvalidName),
    NoHub(HubName),
}

impl Gate {
    pub(crate) fn new(tokens: Option<Tokens>, hubs: Option<Vec<HubName>>) -> Self {
        let hubs = hubs.map(|hubs| hubs.into_iter().collect());
        Self(Arc::new(Rules { tokens, hubs }))
    }

    /// The hubs that there are, if that is settled.
    pub(crate) fn hubs(&self) -> Option<&BTreeSet<HubName>> {
        self.0.hubs.as_ref()
    }

    /// Admits a caller that asks about all hubs: with tokens set it needs one for all of them.
    pub(crate) fn admit_to_all(&self, authorization: Option<&str>) -> Result<(), Refusal> {
        match self.0.tokens.as_ref().map(|tokens| tokens.admit(authorization, None)) {
            None | Some(Ok(())) => Ok(()),
            Some(Err(Denied::OtherHub)) => Err(Refusal::NotForAll),
            Some(Err(Denied::Unknown)) => Err(Refusal::Unauthenticated),
        }
    }

    /// The hub, if the caller with that `authorization` header may use it. A name that is no text is an invalid one, never none.
    pub(crate) fn admit(&self, authorization: Option<&str>, hub: Option<&[u8]>) -> Result<HubName, Refusal> {
        // Clients that know nothing of hubs send an empty name, or none.
        let name = hub.filter(|name| !name.is_empty()).map(String::from_utf8_lossy);
        let name = name.map(HubName::new).transpose();
        if let Some(tokens) = &self.0.tokens {
            // A name that there cannot be is told only to those who may come in at all.
            let hub = name.as_ref().ok().cloned().flatten().unwrap_or_default();
            match tokens.admit(authorization, Some(&hub)) {
                Ok(()) => {}
                Err(Denied::OtherHub) if name.is_err() => {}
                Err(Denied::OtherHub) => return Err(Refusal::Forbidden(hub)),
                Err(Denied::Unknown) => return Err(Refusal::Unauthenticated),
            }
        }
        let name = name.map_err(Refusal::Invalid)?.unwrap_or_default();
        match &self.0.hubs {
            Some(hubs) if !hubs.contains(&name) => Err(Refusal::NoHub(name)),
            _ => Ok(name),
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unauthenticated => Self::unauthenticated(
                "give a token that the server knows, as `authorization: Bearer <token>`",
            ),
            Refusal::Forbidden(hub) => {
                Self::permission_denied(format!("the token is not for the task hub '{hub}'"))
            }
            Refusal::NotForAll => Self::permission_denied("the token is not for all task hubs"),
            Refusal::Invalid(name) => Self::invalid_argument(format!("the header {HUB_HEADER}: {name}")),
            Refusal::NoHub(hub) => Self::not_found(format!(
                "there is no task hub '{hub}'; use one that the server is set up with"
            )),
        }
    }
}

/// The text of a header. One that is no text is none that anybody could mean.
pub(crate) fn header<'m>(metadata: &'m MetadataMap, name: &str) -> Option<&'m str> {
    metadata.get(name).and_then(|value| value.to_str().ok())
}

/// Lets in every caller whose token is known, also for a hub that is not its own or not there. For calls that are about no
/// particular hub; all others ask [`crate::service::admitted`].
#[derive(Clone)]
pub(crate) struct AnyHub(pub(crate) Gate);

/// Why the caller may not use the hub that the call names.
#[derive(Debug, Clone)]
pub(crate) struct NotAdmitted(pub(crate) Status);

impl Interceptor for AnyHub {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata();
        let hub = metadata.get(HUB_HEADER).map(MetadataValue::as_encoded_bytes);
        match self.0.admit(header(metadata, "authorization"), hub) {
            Ok(hub) => _ = request.extensions_mut().insert(Admitted(hub)),
            Err(refusal @ (Refusal::NoHub(_) | Refusal::Forbidden(_))) => {
                request.extensions_mut().insert(NotAdmitted(refusal.into()));
            }
            Err(refusal) => return Err(refusal.into()),
        }
        Ok(request)
    }
}

impl Interceptor for Gate {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata();
        let hub = metadata.get(HUB_HEADER).map(MetadataValue::as_encoded_bytes);
        let hub = self.admit(header(metadata, "authorization"), hub)?;
        request.extensions_mut().insert(Admitted(hub));
        Ok(request)
    }
}
