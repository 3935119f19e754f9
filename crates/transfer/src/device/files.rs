//! What a device sends of what was found.

use std::collections::HashSet;
use std::mem;

use crate::names;
use crate::outcome::LeftOut;
use crate::sender::Opener;
use crate::source::Gathered;
use crate::wire::{FOLDER, KIND, LINK};
use oscope_sys::error::Failure;

/// Leave out links, folders without files, and files that cannot be opened: each header says how many files there are.
///
/// # Errors
/// `Failure::Failed` with `EMFILE`, `ENFILE` or `ENOMEM`: no file can be opened.
pub fn keep(found: &mut Gathered) -> Result<(), Failure> {
    let mut files = Vec::new();
    let mut filled = HashSet::new();
    let mut opener = Opener::default();
    // From the end, as a folder comes before what is in it.
    for source in mem::take(&mut found.files).into_iter().rev() {
        let reason = match source.mode & KIND {
            LINK => "a symbolic link, and a device sends files alone".to_owned(),
            FOLDER if filled.contains(&source.name) => continue,
            FOLDER => "a folder without files, and a device sends files alone".to_owned(),
            _ => match opener.open(&source, &mut 0) {
                Ok(_) => {
                    let mut folder = names::split(&source.name).0;
                    while !folder.is_empty() && filled.insert(folder.to_vec()) {
                        folder = names::split(folder).0;
                    }
                    files.push(source);
                    continue;
                }
                Err(stop) => match stop.leaves_out {
                    Some(why) => format!("{}: {}", why.0, why.1),
                    None => return Err(stop.error),
                },
            },
        };
        let name = names::shown(&source.name);
        found.left_out.push(LeftOut { name, reason });
    }
    files.reverse();
    found.files = files;
    Ok(())
}
