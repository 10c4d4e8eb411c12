//! The HTTP side: whether the server lives and can work, its figures, and what a scaler asks.

use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use dauer_core::model::Kind;
use dauer_core::{HubName, InstanceId};

use crate::gate::{Gate, Refusal};
use crate::hubs::Hubs;
use crate::metrics;
use crate::options::PROBE_MAX;

/// The content type of Prometheus' text format.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the answers are made of.
#[derive(Clone)]
pub(crate) struct Figures {
    pub(crate) hubs: Arc<Hubs>,
    pub(crate) gate: Gate,
}

/// All that is served over HTTP.
pub(crate) fn router(figures: Figures) -> Router {
    Router::new()
        .route("/healthz", get(async || "alive\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(prometheus))
        .route("/api/v1/scale", get(scale))
        .with_state(figures)
}

/// Whether work can be done here: the store answers, and no host has given up.
async fn ready(State(figures): State<Figures>) -> Response {
    match unready(&figures).await {
        None => "ready\n".into_response(),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

/// Why no work can be done here.
async fn unready(Figures { hubs, gate }: &Figures) -> Option<String> {
    if hubs.is_stopping() {
        return Some("the server is stopping".to_owned());
    }
    if !hubs.is_open() {
        return Some("the store is still being opened".to_owned());
    }
    if let Some(reason) = hubs.failure() {
        return Some(reason);
    }
    let any = gate.hubs().and_then(|hubs| hubs.first().cloned()).unwrap_or_default();
    match tokio::time::timeout(PROBE_MAX, answers(hubs, &any)).await {
        Ok(answered) => answered.err(),
        Err(_) => Some("the store does not answer".to_owned()),
    }
}

/// Asks the store for an instance, whether it is there or not.
async fn answers(hubs: &Hubs, hub: &HubName) -> Result<(), String> {
    let hub = hubs.get(hub).await.map_err(|status| status.message().to_owned())?;
    let probe = InstanceId::new("probe").map_err(|invalid| invalid.to_string())?;
    let answer = hub.client.hub().get(vec![probe]).await;
    answer.map(drop).map_err(|refused| dauer_hub::with_causes(&refused))
}

async fn prometheus(State(figures): State<Figures>) -> Response {
    ([(header::CONTENT_TYPE, PROMETHEUS)], metrics::text(&figures.hubs)).into_response()
}

/// How much work there is in a hub, for whoever decides how many workers there are to be.
async fn scale(State(figures): State<Figures>, RawQuery(query): RawQuery, headers: HeaderMap) -> Response {
    // Names of hubs are letters, digits and hyphens: nothing in them is ever escaped.
    let query = query.unwrap_or_default();
    let name = query.split('&').find_map(|pair| pair.strip_prefix("hub="));
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    match figures.gate.admit(authorization, name) {
        Ok(hub) => counted(&figures.hubs, &hub).await,
        Err(refusal) => refused(&refusal),
    }
}

async fn counted(hubs: &Hubs, name: &HubName) -> Response {
    let counted = async {
        let hub = hubs.get(name).await.map_err(|status| status.message().to_owned())?;
        hub.client.hub().scale().await.map_err(|refused| dauer_hub::with_causes(&refused))
    };
    match counted.await {
        Ok(scale) => {
            let by_kind = |counts: &std::collections::BTreeMap<Kind, usize>| {
                let of = |kind| counts.get(&kind).copied().unwrap_or_default();
                let [turns, entities, activities] =
                    [Kind::Orchestration, Kind::Entity, Kind::Activity].map(of);
                format!(r#"{{"orchestrations":{turns},"entities":{entities},"activities":{activities}}}"#)
            };
            let (ready, held) = (by_kind(&scale.ready), by_kind(&scale.held));
            json(StatusCode::OK, format!(r#"{{"hub":"{name}","ready":{ready},"held":{held}}}"#))
        }
        Err(reason) => json(StatusCode::SERVICE_UNAVAILABLE, error(&reason)),
    }
}

fn refused(refusal: &Refusal) -> Response {
    let (code, text) = match refusal {
        Refusal::Unauthenticated => {
            (StatusCode::UNAUTHORIZED, "give a token, as `Authorization: Bearer <token>`".into())
        }
        Refusal::Forbidden(hub) => {
            (StatusCode::FORBIDDEN, format!("the token is not for the task hub '{hub}'"))
        }
        Refusal::Invalid(name) => (StatusCode::BAD_REQUEST, name.to_string()),
        Refusal::NoHub(hub) => (StatusCode::NOT_FOUND, format!("there is no task hub '{hub}'")),
    };
    json(code, error(&text))
}

fn error(text: &str) -> String {
    format!(r#"{{"error":{}}}"#, serde_json::Value::from(text))
}

fn json(code: StatusCode, body: String) -> Response {
    (code, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
