//! The last step of a put: the temporary gets its name, or goes away.

use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::errno::Errno;

use super::{Putting, Stop};
use crate::remote::attributes::{Attributes, Stored};
use crate::remote::operations::{ask_rename, ask_replace, renamed};
use crate::remote::pipeline::RequestPipeline;
use crate::remote::request_error::RequestError;
use crate::remote::wire::{Status, kind};

impl Putting<'_> {
    /// Give it its name: its attributes then.
    pub(super) fn name_it(
        &self,
        pipeline: &mut RequestPipeline<'_>,
        temporary: &Path,
        made: Attributes,
    ) -> Result<Attributes, Stop> {
        pipeline.extend(self.limit);
        let to = self.order.path;
        let has = pipeline.extensions();
        // Whatever is there where nothing is known of it: nothing to compare.
        let compares = self.order.expected.is_some() || self.order.expect_nothing;
        let id = match has.exact && compares {
            true => ask_replace(pipeline, temporary, to, self.order.expected),
            false => ask_rename(pipeline, temporary, to),
        };
        // The name has changed its time of change, where the server reports that.
        let look = has.exact.then(|| pipeline.ask_path(kind::LSTAT, to));
        let done = renamed(pipeline, id, temporary, to, true);
        self.link.tell_folders(pipeline);
        match done {
            Err(RequestError::Errno(Errno::ECANCELED)) => {
                Err(Stop::Conflict(self.there(pipeline)?))
            }
            Err(trouble) => Err(Stop::RequestError(trouble)),
            Ok(()) => {
                let now = look.and_then(|id| pipeline.attributes(id).ok()?.ok());
                let ours = |now: &Attributes| now.version() == made.version();
                Ok(now.filter(ours).unwrap_or(made))
            }
        }
    }

    /// What is there, once more: it came after it was compared.
    fn there(
        &self,
        pipeline: &mut RequestPipeline<'_>,
    ) -> Result<Option<Attributes>, RequestError> {
        let id = pipeline.ask_path(kind::LSTAT, self.order.path);
        Ok(pipeline.attributes(id)?.ok())
    }

    /// After a connection that broke at the rename: whether it was done.
    ///
    /// To remove the temporary decides it: if it can be removed it was not renamed, and never will be; if it is gone,
    /// it was, unless an earlier removal was done without an answer. Then what has the name now decides.
    ///
    /// Weaker where the server gives names by a link, as its file system has no flags of a rename (NFS): if it is
    /// killed before it removes the temporary, the file has both names, and this says no. The next try finds its own
    /// content.
    ///
    /// # Errors
    /// EIO: the server does not say, or it has another version. What is there then is for the next try to judge.
    pub(super) fn was_named(&self, temporary: &Path, stored: &Stored) -> Result<bool, Errno> {
        let deadline = Instant::now() + self.limit;
        let mut asked_before = false;
        loop {
            let gone = self.link.session(deadline).map(|session| {
                let mut pipeline = RequestPipeline::new(&session, &self.link.target, deadline);
                let id = pipeline.ask_path(kind::REMOVE, temporary);
                let look = pipeline.ask_path(kind::LSTAT, self.order.path);
                let said = pipeline.status(id).and_then(|said| match said {
                    Err(Status::NoSuchFile) if asked_before => {
                        let there = pipeline.attributes(look)?;
                        let ours = |now: Attributes| now.version() == stored.attributes.version();
                        Ok(there.is_ok_and(ours).then_some(true))
                    }
                    Err(Status::NoSuchFile) => Ok(Some(true)),
                    Err(_) => Err(RequestError::Errno(Errno::EIO)),
                    Ok(()) => Ok(Some(false)),
                });
                if said == Err(RequestError::Late) {
                    session.late(self.limit);
                }
                said
            });
            let error = match gone {
                Ok(Ok(Some(named))) => return Ok(named),
                Ok(Ok(None)) => {
                    self.link.gone(temporary);
                    return Err(Errno::EIO);
                }
                Ok(Err(RequestError::Lost)) => {
                    asked_before = true;
                    continue;
                }
                Ok(Err(RequestError::Unsent)) => continue,
                Ok(Err(RequestError::Late | RequestError::Errno(_))) => Errno::EIO,
                Err(error) => error,
            };
            self.link.leave(temporary.to_owned());
            return Err(error);
        }
    }

    /// Remove the temporary, now or later.
    pub(super) fn discard(&self, pipeline: &mut RequestPipeline<'_>, temporary: PathBuf) {
        pipeline.extend(self.limit);
        let id = pipeline.ask_path(kind::REMOVE, &temporary);
        match pipeline.status(id) {
            Ok(Ok(()) | Err(Status::NoSuchFile)) => self.link.gone(&temporary),
            _ => self.link.leave(temporary),
        }
    }
}
