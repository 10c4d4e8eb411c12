//! The HTTP side: whether the server lives and can work, its figures, and what a scaler asks.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::StreamExt;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use dauer_core::HubName;
use dauer_core::model::Kind;
use dauer_store::Refused;

use crate::gate::{Gate, Refusal};
use crate::hubs::Hubs;
use crate::incoming::{self, Counted};
use crate::metrics;
use crate::options::{Limits, PROBE_MAX};

/// The content type of Prometheus' text format.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the answers are made of.
#[derive(Clone)]
pub(crate) struct Figures {
    pub(crate) hubs: Arc<Hubs>,
    pub(crate) gate: Gate,
}

/// Serves HTTP until `close`, then finishes the requests that are open.
pub(crate) async fn serve(
    listener: TcpListener,
    figures: Figures,
    limits: &Limits,
    close: impl Future<Output = ()> + Send,
) {
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(limits.handshake);
    let service = TowerToHyperService::new(router(figures));
    let mut incoming = pin!(incoming::http_connections(listener, limits));
    let (tell, closing) = watch::channel(false);
    let (mut open, mut close) = (JoinSet::new(), pin!(close));
    loop {
        let stream = tokio::select! {
            biased;
            () = &mut close => break,
            Some(_) = open.join_next() => continue,
            stream = incoming.next() => stream,
        };
        match stream {
            Some(Ok(stream)) => {
                let connection = protocol.serve_connection(TokioIo::new(stream), service.clone());
                open.spawn(until_closed(connection, closing.clone()));
            }
            // A client beyond the limit, or one that could not be accepted.
            Some(Err(_)) => {}
            None => break,
        }
    }
    tell.send_replace(true);
    while open.join_next().await.is_some() {}
}

type Connection = http1::Connection<TokioIo<Counted>, TowerToHyperService<Router>>;

/// Serves one connection. A client that breaks off, or is too slow, ends it: that is no concern of others.
async fn until_closed(connection: Connection, mut closing: watch::Receiver<bool>) {
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = closing.wait_for(|closing| *closing) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// All that is served over HTTP.
fn router(figures: Figures) -> Router {
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
async fn unready(Figures { hubs, .. }: &Figures) -> Option<String> {
    if hubs.is_stopping() {
        return Some("the server is stopping".to_owned());
    }
    if !hubs.is_open() {
        return Some("the store is still being opened".to_owned());
    }
    if let Some(reason) = hubs.failure() {
        return Some(reason);
    }
    match tokio::time::timeout(PROBE_MAX, answers(hubs)).await {
        Ok(answered) => answered.err(),
        Err(_) => Some("the store does not answer".to_owned()),
    }
}

/// Reads from the store; from no hub in particular, whose number is limited.
async fn answers(hubs: &Hubs) -> Result<(), String> {
    let store = hubs.store().await.map_err(|status| status.message().to_owned())?;
    let answer = store.has_hub(&HubName::default()).await;
    answer.map(drop).map_err(|refused| dauer_hub::with_causes(&refused))
}

/// The figures of all hubs, by their names.
async fn prometheus(State(figures): State<Figures>, headers: HeaderMap) -> Response {
    match figures.gate.admit_to_all(authorization(&headers)) {
        Ok(()) => ([(header::CONTENT_TYPE, PROMETHEUS)], metrics::text(&figures.hubs)).into_response(),
        Err(refusal) => refused(&refusal),
    }
}

fn authorization(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok())
}

/// How much work there is in a hub, for whoever decides how many workers there are to be.
async fn scale(State(figures): State<Figures>, RawQuery(query): RawQuery, headers: HeaderMap) -> Response {
    // Names of hubs are letters, digits and hyphens: nothing in them is ever escaped.
    let query = query.unwrap_or_default();
    let name = query.split('&').find_map(|pair| pair.strip_prefix("hub="));
    match figures.gate.admit(authorization(&headers), name.map(str::as_bytes)) {
        Ok(hub) => counted(&figures, &hub).await,
        Err(refusal) => refused(&refusal),
    }
}

async fn counted(Figures { hubs, gate }: &Figures, name: &HubName) -> Response {
    let counted = async {
        let store = hubs.store().await.map_err(|status| status.message().to_owned())?;
        let told = |refused: Refused| dauer_hub::with_causes(&refused);
        // A hub that the server is set up with is known before anything was started in it.
        if gate.hubs().is_none() && !store.has_hub(name).await.map_err(told)? {
            return Ok(None);
        }
        store.hub(name.clone()).manage().scale().await.map(Some).map_err(told)
    };
    match counted.await {
        Ok(None) => refused(&Refusal::NoHub(name.clone())),
        Ok(Some(scale)) => {
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
        Refusal::NotForAll => {
            (StatusCode::FORBIDDEN, "give a token that is for all task hubs, `*` in the file".into())
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
