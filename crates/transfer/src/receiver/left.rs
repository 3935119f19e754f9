//! Files that the sender leaves out, or that are there already.

use super::{Item, Receiver};
use crate::link::cut;
use crate::names;
use crate::outcome::{FileDone, LeftOut};
use crate::stop::Stop;
use crate::wire::Frame;

/// What comes next for a file.
pub enum Coming {
    /// Nothing: the one that is there is the sender's.
    Same,
    /// Nothing: the sender leaves it out, for this reason.
    Left(String),
    /// What is wanted of it.
    Contents,
}

impl Receiver<'_, '_> {
    /// What comes next for a file. No byte behind it is received.
    pub(super) fn coming(&mut self) -> Result<Coming, Stop> {
        let lean = std::mem::replace(&mut self.link.lean, true);
        let coming = match self.link.peek()? {
            Frame::Same => Coming::Same,
            Frame::Left(reason) => Coming::Left(reason.to_owned()),
            _ => Coming::Contents,
        };
        if !matches!(coming, Coming::Contents) {
            self.link.next()?;
        }
        self.link.lean = lean;
        Ok(coming)
    }

    /// The sender cannot send it. What is there of it stays.
    pub(super) fn leave(&mut self, item: &Item, index: usize, reason: &str) -> Option<FileDone> {
        let reason = names::shown(cut(reason).as_bytes());
        let left = LeftOut {
            name: names::shown(&item.name),
            reason: format!("the sender cannot send it: {reason}"),
        };
        self.meter.left(&left, item.size);
        self.left.insert(index);
        None
    }
}
