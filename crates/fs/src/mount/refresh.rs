//! Refresh: what is known of a file is believed no more, where somebody knows better (`oscope-fs refresh`).

use std::path::Path;

use nix::errno::Errno;
use serde::Serialize;

use super::Shared;

/// What a refresh did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Refreshed {
    /// Cached files that are compared with the server's, or fetched, when they are opened next.
    pub compared: usize,
    /// Files that are open or not yet copied back, and stay as they are.
    pub in_use: usize,
}

impl Shared {
    /// Has the server be asked about a path and all below it, relative to the mounted folder; an empty one is that.
    /// What is in use stays.
    ///
    /// # Errors
    /// The cache's disk has no room to write it down (`ENOSPC`), or cannot be written to.
    pub fn refresh_below(&self, path: &Path) -> Result<Refreshed, Errno> {
        let nodes = self.tree().expire_below(path);
        let in_use = nodes.iter().filter(|(_, in_use)| *in_use).count();
        let compared = self.store.distrust(path)?;
        for (ino, in_use) in nodes {
            // The pages of what is open are those of its copy.
            let offset = if in_use { -1 } else { 0 };
            self.invalidate(ino, offset, "what the kernel has of it may be shown longer");
        }
        Ok(Refreshed { compared, in_use })
    }
}
