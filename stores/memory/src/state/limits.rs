//! Limits, unless a defect ignores them.

use dauer_store::{Checkpoint, Message, Refused};
use dauer_store_kit::judge;

use super::State;
use crate::defect::Defect;

impl State {
    pub(super) fn check_message(&self, message: &Message) -> Result<(), Refused> {
        self.unless_ignored(judge::check_message(&self.limits, self.now(), message))
    }

    pub(super) fn check_limits(&self, checkpoint: &Checkpoint) -> Result<(), Refused> {
        self.unless_ignored(judge::check_checkpoint(&self.limits, self.now(), checkpoint))
    }

    fn unless_ignored(&self, checked: Result<(), Refused>) -> Result<(), Refused> {
        if self.broken(Defect::LimitIgnored) { Ok(()) } else { checked }
    }
}
