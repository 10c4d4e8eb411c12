//! Options that several verbs share: which instances are meant.

use std::sync::Arc;

use clap::{Args, ValueEnum};
use dauer::{Record, Status, Timestamp};
use dauer_store::{Query, Tags};

use crate::time::parse_time;

/// A status as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum StatusName {
    /// Created, not yet run.
    Pending,
    /// Has run and not ended.
    Running,
    /// Waits to be resumed.
    Suspended,
    /// Ended with an output.
    Completed,
    /// Ended with a failure.
    Failed,
    /// Ended from outside.
    Terminated,
    /// Ended by its own decision to cancel.
    Canceled,
}

impl From<StatusName> for Status {
    fn from(name: StatusName) -> Self {
        match name {
            StatusName::Pending => Self::Pending,
            StatusName::Running => Self::Running,
            StatusName::Suspended => Self::Suspended,
            StatusName::Completed => Self::Completed,
            StatusName::Failed => Self::Failed,
            StatusName::Terminated => Self::Terminated,
            StatusName::Canceled => Self::Canceled,
        }
    }
}

/// Which instances are meant. All conditions hold together.
#[derive(Args, Clone)]
pub(super) struct Filter {
    /// In one of these statuses: `--status failed,terminated`.
    #[arg(long, value_name = "STATUS", value_enum, value_delimiter = ',', ignore_case = true)]
    status: Vec<StatusName>,
    /// Of this orchestration.
    #[arg(long)]
    name: Option<String>,
    /// With an id that begins so.
    #[arg(long)]
    prefix: Option<String>,
    /// With this tag; given several times, with all of them.
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = parse_tag)]
    tags: Vec<(String, String)>,
    /// Created at this time or later: 2026-12-24T18:00:00Z, or -2h for the last two hours.
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    created_from: Option<Timestamp>,
    /// Created before this time.
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    created_to: Option<Timestamp>,
    /// Changed at this time or later.
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    updated_from: Option<Timestamp>,
    /// Not changed since this time.
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    updated_to: Option<Timestamp>,
    /// Children of this instance.
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
}

impl Filter {
    /// Whether nothing is asked for.
    pub(super) fn is_empty(&self) -> bool {
        let times = [self.created_from, self.created_to, self.updated_from, self.updated_to];
        let words = [&self.name, &self.prefix, &self.parent];
        self.status.is_empty()
            && self.tags.is_empty()
            && times.iter().all(Option::is_none)
            && words.iter().all(|word| word.is_none())
    }

    /// What the store is asked.
    pub(super) fn query(&self) -> Query {
        Query {
            statuses: self.statuses(),
            created_from: self.created_from,
            created_to: self.created_to,
            name: self.name.as_deref().map(Arc::from),
            prefix: self.prefix.as_deref().map(Arc::from),
            tags: self.tags.iter().cloned().collect::<Tags>(),
            ..Query::default()
        }
    }

    pub(super) fn statuses(&self) -> Vec<Status> {
        self.status.iter().copied().map(Status::from).collect()
    }

    /// What the store is not asked: it has no index for it.
    pub(super) fn admits(&self, record: &Record) -> bool {
        let updated = record.times.updated;
        let parent = record.parent.as_ref().map(|parent| parent.instance.as_str());
        self.updated_from.is_none_or(|from| updated >= from)
            && self.updated_to.is_none_or(|to| updated < to)
            && self.parent.as_deref().is_none_or(|wanted| parent == Some(wanted))
    }
}

/// Reads a tag.
pub(super) fn parse_tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("use KEY=VALUE, like zone=north".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_have_a_key_and_a_value() {
        assert_eq!(parse_tag("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(parse_tag("a="), Ok(("a".to_owned(), String::new())));
        assert!(parse_tag("a").is_err() && parse_tag("=b").is_err());
    }
}
