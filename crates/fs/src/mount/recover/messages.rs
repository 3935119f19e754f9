//! The messages of a recovery to people.

use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::Outcome;
use crate::mount::beside::cut_off;
use crate::mount::report::shown;
use crate::remote::Remote;
use crate::store::{CopyId, Store};

/// The message to people about one file.
pub(super) fn line(path: &Path, outcome: &Result<Outcome, Errno>) -> Option<String> {
    let name = shown(path);
    Some(match outcome {
        Ok(Outcome::Nothing) => return None,
        Ok(Outcome::CopiedBack) => format!("{name}: copied back"),
        Ok(Outcome::Conflict(kept)) => {
            let kept = shown(kept);
            format!(
                "{name}: both sides changed, or a reboot may have torn it; the local version is {kept}"
            )
        }
        Ok(Outcome::Repaired(kept)) => cut_off(path, kept),
        Ok(Outcome::Held) => format!(
            "{name}: a program of the dead mount, or that mount itself, still has it open; end the program and umount, \
             then recover again"
        ),
        Ok(Outcome::Unresolved) => format!(
            "{name}: not copied back, for whether it was renamed is not known; a mount asks again by itself, \
             without a mount recover again"
        ),
        Err(why) => format!("{name}: not copied back: {}", why.desc()),
    })
}

/// A failure with what a person can do about it, where that is known.
pub(super) fn explained(
    remote: &Remote,
    store: &Store,
    id: CopyId,
    (path, why): (&Path, Errno),
    line: String,
) -> String {
    let Some(folder) = missing_folder(remote, path, why) else {
        return line;
    };
    let copy = match store.entry_of(id) {
        Ok(Some(entry)) => format!("; its content is {}", entry.copy.path().display()),
        _ => String::new(),
    };
    format!(
        "{line}: {}, then recover again{copy}",
        without_folder(&folder)
    )
}

/// The folder of a file that is not copied back, where the server lacks it.
pub(in crate::mount) fn missing_folder(
    remote: &Remote,
    path: &Path,
    why: Errno,
) -> Option<PathBuf> {
    let folder = path.parent().filter(|_| why == Errno::ENOENT)?;
    (remote.lstat(folder).err() == Some(Errno::ENOENT)).then(|| folder.to_owned())
}

/// Says which folder is missing, and what helps.
pub(in crate::mount) fn without_folder(folder: &Path) -> String {
    let which = match folder.as_os_str().is_empty() {
        true => "that is mounted".to_owned(),
        false => shown(folder),
    };
    format!("the folder {which} is missing on the server; make it there")
}
