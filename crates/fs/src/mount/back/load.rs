//! What is to be copied back, if anything.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use nix::errno::Errno;

use crate::blocks::Blocks;
use crate::errno::errno;
use crate::mount::Shared;
use crate::mount::beside::beside;
use crate::mount::file::{FileNode, Noted, digest};
use crate::remote::{Attributes, Changed, Unsettled, Version};
use crate::store::{Copy, Digest};

/// What is being copied back, from where to where.
pub(in crate::mount) struct Load {
    pub(in crate::mount) copy: Copy,
    pub(in crate::mount) base: Option<Version>,
    pub(in crate::mount) unsettled: Option<Unsettled>,
    pub(in crate::mount) path: PathBuf,
    /// The name that it has here: that of its conflict copy differs.
    pub(in crate::mount) name: PathBuf,
    pub(in crate::mount) attributes: Attributes,
    /// It has other names, whose file it has to stay.
    pub(in crate::mount) linked: bool,
    /// This mount knows all of these names.
    pub(in crate::mount) linked_here: bool,
    pub(in crate::mount) noted: Noted,
    pub(in crate::mount) digest: Digest,
    /// The content by block, and what of it the base has otherwise, where that is known and less than half.
    pub(in crate::mount) blocks: Option<Arc<Blocks>>,
    pub(in crate::mount) changed: Option<Vec<Range<u64>>>,
    /// The server has it, and is only to sync it.
    pub(in crate::mount) again: bool,
}

impl Load {
    /// What differs from the base.
    pub(super) fn changed(&self) -> Option<Changed<'_>> {
        let (blocks, ranges) = (self.blocks.as_deref()?, self.changed.as_deref()?);
        Some(Changed {
            ranges,
            kept: self.base?.size.min(blocks.size()),
            blocks,
        })
    }
}

/// What a file's state says of its copy.
struct KnownContent {
    before: Option<Noted>,
    acknowledged: Option<Digest>,
    /// A coarse clock, or a page that was mapped and written to before, shows no change of times.
    unseen: bool,
    diverted: Option<PathBuf>,
    clean: bool,
    resync: bool,
}

impl KnownContent {
    fn of(file: &FileNode, durable: bool) -> Self {
        let state = file.state();
        Self {
            before: state.noted,
            acknowledged: state.acknowledged,
            unseen: state.backing.is_some() && state.acknowledged.is_some(),
            diverted: state.diverted.clone(),
            clean: !state.journalled,
            resync: durable && state.is_unsynced(),
        }
    }
}

impl Shared {
    /// What has to be sent; `None` if the server has it, or the file has no name.
    pub(super) fn load(
        &self,
        ino: u64,
        file: &FileNode,
        copy: &Copy,
        durable: bool,
    ) -> Result<Option<Load>, Errno> {
        let Some(name) = self.tree().path(ino) else {
            return Ok(None);
        };
        let name = self.resolved_name(name)?;
        let (shown, names) = {
            let tree = self.tree();
            (tree.attributes(ino), tree.names(ino))
        };
        let (attributes, _) = shown.ok_or(Errno::ESTALE)?;
        let links = attributes.more.map_or(1, |more| more.links);
        let noted = file.look(copy).map_err(errno)?;
        let known = KnownContent::of(file, durable);
        let unchanged = known.before == Some(noted);
        let looks_same = known.clean || (unchanged && !known.unseen);
        if looks_same && !known.resync {
            return Ok(None);
        }
        let blocks = Blocks::of(copy.file()).map_err(errno)?;
        let digest = digest(copy, blocks.as_ref())?;
        let same = (known.before.is_none() || unchanged) && known.acknowledged == Some(digest);
        if same && !known.resync {
            file.state().noted = Some(noted);
            return Ok(None);
        }
        let moved = self.follow_move(ino, file, &name);
        let again = (looks_same || same) && !moved;
        let (base, unsettled, old) = self.base_of(ino, file);
        Ok(Some(Load {
            copy: copy.clone(),
            base,
            changed: blocks
                .as_ref()
                .zip(old.as_deref())
                .and_then(|(new, old)| few_changes(new, old)),
            blocks: blocks.map(Arc::new),
            // The copy equals what the server has, so its digest is the server's.
            unsettled: unsettled.map(|read| Unsettled {
                content: read.content.or(again.then_some(digest)),
                ..read
            }),
            linked: (names > 1 || links > 1) && known.diverted.is_none(),
            path: beside(&name, known.diverted),
            name,
            attributes,
            linked_here: names > 1,
            noted,
            digest,
            again,
        }))
    }

    /// The version that is to be replaced, what else is known of it, and its content by block.
    fn base_of(
        &self,
        ino: u64,
        file: &FileNode,
    ) -> (Option<Version>, Option<Unsettled>, Option<Arc<Blocks>>) {
        let displaced_from = self.tree().displaced_from(ino);
        let mut state = file.state();
        if state.diverted.is_none() && displaced_from.is_some() {
            // The base is of the name that it has lost.
            state.rebase(None, None);
            (state.content, state.displaced_from) = (None, displaced_from);
        }
        (state.base, state.unsettled(), state.known_blocks())
    }
}

/// What differs, if that is less than half of what is to be there.
fn few_changes(new: &Blocks, old: &Blocks) -> Option<Vec<Range<u64>>> {
    let ranges = new.changed_since(old);
    let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    (bytes < new.size() / 2).then_some(ranges)
}
