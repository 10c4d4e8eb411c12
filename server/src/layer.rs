//! Around every call: a bound on its time and on how many there are, and the code that SDKs expect for a message that is
//! too large.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Semaphore;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{HeaderValue, Request, Response};
use tonic::server::NamedService;
use tonic::{Code, Status};

/// Calls that take as long as what they wait for, and answers of workers, which must not fail (behaviour 8).
const UNTIMED: [&str; 10] = [
    "WaitForInstanceStart",
    "WaitForInstanceCompletion",
    "GetWorkItems",
    "StreamInstanceHistory",
    "CompleteActivityTask",
    "CompleteOrchestratorTask",
    "CompleteEntityTask",
    "Bring",
    // These wait for what is in flight.
    "CreateTaskHub",
    "DeleteTaskHub",
];

/// The header in which a caller says how long it waits.
const TIMEOUT_HEADER: &str = "grpc-timeout";

/// So much before the caller's time is over the call ends: tonic, which knows the time too, would call it cancelled, and SDKs
/// take only an exceeded deadline for one.
const TIMEOUT_AHEAD: Duration = Duration::from_millis(2);

/// The header, or trailer, with the code of a call's status.
const STATUS_HEADER: &str = "grpc-status";

/// Calls that carry answers of workers, which may be larger than all others.
const ANSWERS: [&str; 3] = ["CompleteActivityTask", "CompleteOrchestratorTask", "CompleteEntityTask"];

/// A service with bounds around it.
#[derive(Clone)]
pub(crate) struct Bounded<S> {
    inner: S,
    /// The same, for answers of workers.
    for_answers: S,
    time_max: Duration,
    calls: Arc<Semaphore>,
}

impl<S> Bounded<S> {
    pub(crate) fn new((inner, for_answers): (S, S), time_max: Duration, calls_max: usize) -> Self {
        let calls = Arc::new(Semaphore::new(calls_max.min(Semaphore::MAX_PERMITS)));
        Self { inner, for_answers, time_max, calls }
    }
}

impl<S: NamedService> NamedService for Bounded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Bounded<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // Both are always ready: they are the same, but for what they read.
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Ok(permit) = Arc::clone(&self.calls).try_acquire_owned() else {
            let status = Status::resource_exhausted("too many calls are open; try again later");
            return Box::pin(async move { Ok(status.into_http()) });
        };
        let method = request.uri().path().rsplit('/').next().unwrap_or_default();
        let own = (!UNTIMED.contains(&method)).then_some(self.time_max);
        let time_max = own.into_iter().chain(callers_time(&request)).min();
        let inner = if ANSWERS.contains(&method) { &mut self.for_answers } else { &mut self.inner };
        let answer = inner.call(request);
        Box::pin(async move {
            let _permit = permit;
            let answer = match time_max {
                None => answer.await,
                Some(time_max) => match tokio::time::timeout(time_max, answer).await {
                    Ok(answer) => answer,
                    Err(_) => {
                        let text =
                            format!("the call took longer than {:.1} s; try again", time_max.as_secs_f64());
                        Ok(Status::deadline_exceeded(text).into_http())
                    }
                },
            };
            answer.map(with_expected_code)
        })
    }
}

/// How long the caller waits, if it says so.
fn callers_time<B>(request: &Request<B>) -> Option<Duration> {
    let text = request.headers().get(TIMEOUT_HEADER)?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = number.parse().ok()?;
    let time = match unit {
        "H" => Duration::from_secs(number.checked_mul(3_600)?),
        "M" => Duration::from_secs(number.checked_mul(60)?),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    };
    Some(time.saturating_sub(TIMEOUT_AHEAD))
}

/// tonic calls a message that is too large out of range; every other server of gRPC, and so every SDK, calls it exhaustion.
fn with_expected_code(mut response: Response<Body>) -> Response<Body> {
    if let Some(code) = response.headers_mut().get_mut(STATUS_HEADER)
        && code.as_bytes() == number(Code::OutOfRange).as_bytes()
    {
        *code = number(Code::ResourceExhausted);
    }
    response
}

fn number(code: Code) -> HeaderValue {
    HeaderValue::from(code as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// Never answers.
    #[derive(Clone)]
    struct Silent;

    impl Service<Request<Body>> for Silent {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = std::future::Pending<Result<Response<Body>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            std::future::pending()
        }
    }

    fn request(method: &str) -> Request<Body> {
        Request::builder().uri(format!("/TaskHubSidecarService/{method}")).body(Body::empty()).unwrap()
    }

    fn code(response: &Response<Body>) -> Code {
        Code::from_bytes(response.headers()[STATUS_HEADER].as_bytes())
    }

    #[tokio::test(start_paused = true)]
    async fn calls_end_in_time_unless_they_wait_for_something() {
        let mut bounded = Bounded::new((Silent, Silent), Duration::from_secs(60), 10);
        let Ok(answer) = bounded.call(request("QueryInstances")).await;
        assert_eq!(code(&answer), Code::DeadlineExceeded);
        for method in UNTIMED {
            let hour = tokio::time::timeout(Duration::from_secs(3_600), bounded.call(request(method)));
            assert!(hour.await.is_err(), "{method}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_calls_are_open_than_allowed() {
        let mut bounded = Bounded::new((Silent, Silent), Duration::from_secs(60), 1);
        let first = bounded.call(request("GetInstance"));
        let Ok(second) = bounded.call(request("GetInstance")).await;
        assert_eq!(code(&second), Code::ResourceExhausted);
        drop(first);
        let Ok(third) = bounded.call(request("GetInstance")).await;
        assert_eq!(code(&third), Code::DeadlineExceeded, "there is room again");
    }

    #[test]
    fn a_callers_time_is_read_in_every_unit() {
        let time = |text: &str| {
            let request = Request::builder().header(TIMEOUT_HEADER, text).body(());
            callers_time(&request.unwrap_or_default())
        };
        let (second, ahead) = (Duration::from_secs(1), TIMEOUT_AHEAD);
        for (text, expected) in [
            ("1H", second * 3_600 - ahead),
            ("2M", second * 120 - ahead),
            ("3S", second * 3 - ahead),
            ("500m", second / 2 - ahead),
            ("5000000u", second * 5 - ahead),
            ("10n", Duration::ZERO),
        ] {
            assert_eq!(time(text), Some(expected), "{text}");
        }
        for text in ["", "S", "x1S", "1d", "99999999999999999999S"] {
            assert_eq!(time(text), None, "{text}");
        }
        assert_eq!(callers_time(&Request::new(())), None);
    }
}
