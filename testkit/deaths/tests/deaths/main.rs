//! Worker processes that die or are bad, on a file, restarted as a supervisor would. Short by default; with
//! `DAUER_DEATHS=full` the default settings of the library and the times of the issue.

mod deployments;
mod isolation;
mod support;
