//! A small content that is written into an empty file of the server, in place, and what is left of that by a cut.

use std::fs::File;
use std::path::Path;

use nix::errno::Errno;

use crate::errno::errno;
use crate::remote::{Attributes, Kind, ONE_REQUEST, Remote, Version};
use crate::store::{self, Digest};

use super::same::{begins_with, fetched, in_memory};

/// Whether a content may be written into the file that is there: an empty one, filled by a single request, so that
/// others see it empty or whole. That saves a round trip of three, and spares the server's disk the flush of a rename
/// over a file (fs/ext4/namei.c, ext4_rename: ext4_alloc_da_blocks).
pub fn fills_empty(base: Option<Version>, size: u64) -> bool {
    base.is_some_and(|base| base.size == 0) && size <= ONE_REQUEST
}

/// The version of what the server has now (`there`), and its digest, if a filling that was cut off has left it: a
/// beginning of the copy, or all that was sent (`sent` is its digest) though the copy was changed since. The copy may
/// replace it: whoever wrote it, nothing is lost.
///
/// # Errors
/// EIO: the server does not say.
pub fn left_by_filling(
    remote: &Remote,
    path: &Path,
    there: &Attributes,
    copy: &File,
    sent: Digest,
) -> Result<Option<(Version, Digest)>, Errno> {
    if there.kind != Kind::File || there.size > ONE_REQUEST {
        return Ok(None);
    }
    let found = in_memory()?;
    let got = match fetched(remote, path, &found, there.size) {
        // Another was here since: it is longer, removed, or not for us to read.
        Err(Errno::EFBIG | Errno::ENOENT | Errno::EACCES) => return Ok(None),
        got => got?,
    };
    let content = store::digest(&found).map_err(errno)?;
    let ours = begins_with(copy, &found)? || content == sent;
    Ok(ours.then(|| (got.version(), content)))
}
