//! A saga: steps that are taken back, in reverse, when a later one fails.
//!
//! ```text
//! cargo run --example saga
//! ```

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use dauer::{
    Activity, ActivityContext, ClientError, Error, Orchestration, OrchestrationContext, Result, RetryPolicy,
};

const BOOK_FLIGHT: Activity<String, String> = Activity::new("book_flight");
const BOOK_HOTEL: Activity<String, String> = Activity::new("book_hotel");
const BOOK_CAR: Activity<String, String> = Activity::new("book_car");
const CANCEL: Activity<String, ()> = Activity::new("cancel");
const TRIP: Orchestration<String, Vec<String>> = Orchestration::new("trip");

/// What was booked is in a plain `Vec`: after a crash the replay fills it again from the history.
async fn trip(ctx: OrchestrationContext, to: String) -> Result<Vec<String>> {
    let mut booked = Vec::new();
    for step in [BOOK_FLIGHT, BOOK_HOTEL, BOOK_CAR] {
        match ctx.call(step, &to).await {
            Ok(booking) => booked.push(booking),
            Err(error) => {
                // A cancellation that fails is tried for a day: giving up would leave a booking that nobody wants.
                let patient = RetryPolicy::exponential(u32::MAX, Duration::from_secs(1))
                    .interval_max(Duration::from_secs(600))
                    .total(Duration::from_secs(24 * 60 * 60));
                for booking in booked.iter().rev() {
                    ctx.call(CANCEL, booking).retry(patient.clone()).await?;
                }
                return Err(error.into());
            }
        }
    }
    Ok(booked)
}

// An activity may run more than once, so real ones give the other side a key by which it knows a request that it has
// seen before: `ctx.uuid()` of the orchestration, handed on as part of the input, is the same in every attempt.
async fn book_flight(_: ActivityContext, to: String) -> Result<String> {
    println!("book a flight to {to}");
    Ok(format!("flight to {to}"))
}

async fn book_hotel(_: ActivityContext, to: String) -> Result<String> {
    println!("book a hotel in {to}");
    Ok(format!("hotel in {to}"))
}

async fn book_car(_: ActivityContext, to: String) -> Result<String> {
    println!("book a car in {to}");
    if to == "Venice" {
        return Err(Error::fatal("there are no cars in Venice"));
    }
    Ok(format!("car in {to}"))
}

async fn cancel(_: ActivityContext, booking: String) -> Result<()> {
    println!("cancel the {booking}");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let hub = dauer::open(&url)?;
    let worker = hub
        .worker()
        .orchestration(TRIP, trip)
        .activity(BOOK_FLIGHT, book_flight)
        .activity(BOOK_HOTEL, book_hotel)
        .activity(BOOK_CAR, book_car)
        .activity(CANCEL, cancel)
        .build()?;
    tokio::spawn(worker.run(std::future::pending()));

    for to in ["Rome", "Venice"] {
        let trip = hub.client().start(TRIP, &to.to_owned()).await?;
        match trip.output().await {
            Ok(booked) => println!("booked: {}", booked.join(", ")),
            Err(ClientError::Failed { source, .. }) => println!("not booked: {}", source.message),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
