//! Fan-out and fan-in: many activities at once, on as many hosts as there are, and their results together.
//!
//! ```text
//! cargo run --example fan_out
//! ```

#![allow(clippy::print_stdout, reason = "an example prints")]

use dauer::{Activity, ActivityContext, Orchestration, OrchestrationContext, Result};
use futures::future::try_join_all;

const CHAPTERS: Activity<String, Vec<String>> = Activity::new("chapters");
const COUNT_WORDS: Activity<String, usize> = Activity::new("count_words");
const COUNT_BOOK: Orchestration<String, usize> = Orchestration::new("count_book");

/// `try_join_all` is the one of the `futures` crate. It gives the results in the order of the chapters, whichever was
/// counted first, and the first failure as soon as there is one.
async fn count_book(ctx: OrchestrationContext, title: String) -> Result<usize> {
    let chapters = ctx.call(CHAPTERS, &title).await?;
    let counts = try_join_all(chapters.iter().map(|chapter| ctx.call(COUNT_WORDS, chapter))).await?;
    Ok(counts.into_iter().sum())
}

async fn chapters(_: ActivityContext, title: String) -> Result<Vec<String>> {
    println!("open {title}");
    Ok((1..=100).map(|number| format!("{title}, chapter {number}")).collect())
}

async fn count_words(_: ActivityContext, chapter: String) -> Result<usize> {
    Ok(chapter.split_whitespace().count())
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let hub = dauer::open(&url)?;
    let worker = hub
        .worker()
        .orchestration(COUNT_BOOK, count_book)
        .activity(CHAPTERS, chapters)
        .activity(COUNT_WORDS, count_words)
        .build()?;
    tokio::spawn(worker.run(std::future::pending()));

    let book = hub.client().start(COUNT_BOOK, &"Durable Tales".to_owned()).await?;
    println!("words: {}", book.output().await?);
    Ok(())
}
