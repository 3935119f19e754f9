//! What is there is compared with what a put expects: the version, and the content where that cannot decide.

use nix::errno::Errno;

use super::{Putting, Stop};
use crate::digest::Digest;
use crate::remote::attributes::{Attributes, Kind, Put};
use crate::remote::content;
use crate::remote::pipeline::{RequestPipeline, StatusResult};
use crate::remote::request_error::RequestError;
use crate::remote::wire::Status;

/// What is there must be what the order expects.
pub fn judge(order: &Put<'_>, now: StatusResult<Attributes>) -> Result<(), Stop> {
    let now = match now {
        Ok(now) => Some(now),
        Err(Status::NoSuchFile) => None,
        // Whatever is there cannot be seen: the rename will tell.
        Err(_) => return Ok(()),
    };
    let expected = |now: &Attributes| match order.expected {
        Some(version) => now.kind == Kind::File && now.version() == version,
        None => true,
    };
    match now {
        None => Ok(()),
        Some(there) if !order.expect_nothing && expected(&there) => Ok(()),
        Some(_) => Err(Stop::Conflict(now)),
    }
}

/// The comparison of contents, where the version cannot decide.
pub enum Comparison {
    /// The version decides.
    Needless,
    /// What the content has to be is not known.
    Impossible,
    /// Asked: whether it has this size and digest.
    Asked(content::Question, (u64, Digest)),
}

impl Putting<'_> {
    /// Gather the question for the content of what is there, if that decides beside the version.
    pub(in crate::remote) fn ask_content(&self, pipeline: &mut RequestPipeline<'_>) -> Comparison {
        let (Some(version), Some(unsettled)) = (self.order.expected, self.order.unsettled) else {
            return Comparison::Needless;
        };
        let clock = &self.link.clock;
        let settled = |read| clock.can_trust(version.mtime, read);
        if version.size == 0 || unsettled.read.is_some_and(settled) {
            return Comparison::Needless;
        }
        match unsettled.content {
            Some(digest) => {
                let question = content::ask(pipeline, self.order.path, version.size);
                Comparison::Asked(question, (version.size, digest))
            }
            None => Comparison::Impossible,
        }
    }

    /// What is there has the version expected: it must have the content too, where the version cannot decide.
    pub(in crate::remote) fn judge_content(
        &self,
        pipeline: &mut RequestPipeline<'_>,
        there: StatusResult<Attributes>,
        comparison: Comparison,
    ) -> Result<(), Stop> {
        let Ok(there) = there else {
            return Ok(());
        };
        let same = match comparison {
            Comparison::Needless => true,
            Comparison::Impossible => false,
            Comparison::Asked(question, wanted) => {
                match content::holds(pipeline, question, self.order.path, wanted, self.limit) {
                    // It went away meanwhile, or may not be read: then it is unknown.
                    Err(RequestError::Errno(Errno::ENOENT | Errno::EACCES)) => false,
                    found => found?,
                }
            }
        };
        match same {
            true => Ok(()),
            false => Err(Stop::Conflict(Some(there))),
        }
    }
}
