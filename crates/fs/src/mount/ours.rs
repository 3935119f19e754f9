//! What the server has instead of the base, but is of our own making: left by a copying back of which no answer came.

use nix::errno::Errno;

use crate::log;
use crate::remote::{Attributes, Kind, PutError, Version};
use crate::store::Digest;

use super::Shared;
use super::back::Load;
use super::beside::{Ours, cut_off, save_theirs};
use super::file::FileNode;
use super::filling::left_by_filling;
use super::report::unwritten;

/// What the server has, and its digest where that is known.
type Found = (Version, Option<Digest>);

impl Shared {
    /// Whether what is there, which is not the base, may be replaced after all: it is of our own making, or is saved
    /// beside.
    ///
    /// # Errors
    /// `EIO`, `EACCES`: the server does not say what is there.
    pub(super) fn takes_over(
        &self,
        file: &FileNode,
        load: &Load,
        there: Option<Attributes>,
    ) -> Result<bool, Errno> {
        let (sending, sent) = {
            let state = file.state();
            (state.sending, state.sent)
        };
        let found = match there {
            // An earlier copying back left it, of which no answer came.
            Some(there) if sending == Some(there.version()) => Some((there.version(), sent)),
            Some(there) if load.linked && sending.is_some() => self.saved(file, load, &there)?,
            Some(there) => self.was_filled(file, load, &there)?,
            None => None,
        };
        let Some((version, content)) = found else {
            return Ok(false);
        };
        {
            let mut state = file.state();
            state.rebase(Some(version), None);
            (state.content, state.acknowledged) = (content, None);
            // Once: who finds another's change again and again does not save it each time.
            (state.sending, state.sent) = (None, None);
        }
        if let Err(why) = self.store.mark_found(&load.copy, version, content) {
            unwritten(&load.path, why);
        }
        Ok(true)
    }

    /// Before another version is sent than the last, of which no answer came: the server must say whether it has that
    /// one. Written over here, it would count as another's change.
    ///
    /// # Errors
    /// `PutError::Conflict`: what is there is not the base. `PutError::Errno`: the server does not say what is there.
    pub(super) fn settle_sending(
        &self,
        file: &FileNode,
        load: &Load,
        next: Version,
    ) -> Result<(), PutError> {
        let (sending, sent, content) = {
            let state = file.state();
            (state.sending, state.sent, state.content)
        };
        let same = (sending, sent) == (Some(next), Some(load.digest));
        if sending.is_none() || same {
            return Ok(());
        }
        let there = match self.remote.lstat(&load.path) {
            Ok(there) => there,
            Err(Errno::ENOENT) => return Ok(()),
            Err(why) => return Err(PutError::Errno(why)),
        };
        // Of the same size and second as the base only its content shows it.
        let may_hide = sending == Some(there.version()) && sent.is_some() && sent != content;
        let is_sent = || -> Result<bool, Errno> {
            let found = self.remote.digest(&load.path)?;
            Ok(found.map(|found| found.1) == sent)
        };
        match load.base != Some(there.version()) || (may_hide && is_sent()?) {
            true => Err(PutError::Conflict(Some(there))),
            false => Ok(()),
        }
    }

    /// The version and digest of what is there if a filling that was cut off left it.
    fn was_filled(
        &self,
        file: &FileNode,
        load: &Load,
        there: &Attributes,
    ) -> Result<Option<Found>, Errno> {
        let filling = file.state().filling;
        let found = match (filling, load.base) {
            (Some(sent), Some(_)) => {
                left_by_filling(&self.remote, &load.path, there, load.copy.file(), sent)?
            }
            _ => None,
        };
        Ok(found.map(|(version, content)| (version, Some(content))))
    }

    /// A writing in place of a linked file ended without an answer, and what is there now is neither the old nor the
    /// new: saves it beside unless it is ours, so that ours may be written over it; `None` if it could not be saved.
    ///
    /// # Errors
    /// EIO: the server does not say.
    fn saved(
        &self,
        file: &FileNode,
        load: &Load,
        there: &Attributes,
    ) -> Result<Option<Found>, Errno> {
        if there.kind != Kind::File {
            return Ok(None);
        }
        let ours = Ours {
            copy: load.copy.file(),
            sent: file.state().filling,
        };
        match save_theirs(&self.remote, &self.store, &load.path, there, &ours) {
            Err(Errno::EIO) => Err(Errno::EIO),
            Err(_) => Ok(None),
            Ok(((version, content), kept)) => {
                if let Some(kept) = kept {
                    log::note(&cut_off(&load.path, &kept));
                }
                Ok(Some((version, Some(content))))
            }
        }
    }
}
