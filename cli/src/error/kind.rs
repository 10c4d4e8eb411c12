//! What the rows of the table of errors are made of.

/// What errors of one kind have in common.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// The stable code, as `-o json` prints it.
    pub(super) code: &'static str,
    /// The code of gRPC that a server answers with. The command itself has no use for it.
    pub(super) grpc: &'static str,
    /// The exit code.
    pub(super) exit: u8,
    /// What to do next, as `hint` completes it.
    pub(super) hint: &'static str,
    /// The errors: crate, type and variant.
    pub(super) errors: &'static [&'static str],
}

/// The exit codes, as the help explains them.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed, or an audit that is not clean
  2  the call makes no sense
  3  there is no such instance or task hub
  4  conflict: the id is taken, or the instance has moved on
  5  not in this state: it has ended already, or has not ended yet
  6  the instance that was waited for failed or was terminated
  7  waited too long
  8  the store cannot be used
130  interrupted by Ctrl-C";

pub(super) const FAILED: u8 = 1;
pub(super) const USAGE: u8 = 2;
pub(super) const NOT_FOUND: u8 = 3;
pub(super) const CONFLICT: u8 = 4;
pub(super) const STATE: u8 = 5;
pub(super) const ENDED_BADLY: u8 = 6;
pub(super) const TIMED_OUT: u8 = 7;
pub(super) const NO_STORE: u8 = 8;
