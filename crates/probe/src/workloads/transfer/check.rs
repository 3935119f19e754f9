//! The proof that every file arrived: its bytes, its mode and its time, and nothing beside it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::files::One;
use super::folder::Folder;
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// Bytes compared at once.
const PIECE: usize = 1 << 20;

/// Compare what arrived with what was sent.
///
/// # Errors
/// `Failure::Failed` that names the first file that is missing, too much or not the same, and says how; or after a
/// signal.
pub fn arrived(folder: &Folder) -> Result<(), Failure> {
    let (source, destination) = (folder.source(), folder.destination());
    let mut buffers = (vec![0; PIECE], vec![0; PIECE]);
    for one in folder.files() {
        same(*one, &source, &destination, &mut buffers)?;
    }
    let failed = |error: io::Error| Failure::system(&destination.display().to_string(), &error);
    let count = fs::read_dir(&destination).map_err(failed)?.count();
    match count == folder.files().len() {
        true => Ok(()),
        false => Err(Failure::failed(format!(
            "{count} files are in the destination, and {} were sent",
            folder.files().len()
        ))),
    }
}

fn same(
    one: One,
    source: &Path,
    destination: &Path,
    buffers: &mut (Vec<u8>, Vec<u8>),
) -> Result<(), Failure> {
    let name = one.name();
    let failed = |error: io::Error| Failure::system(&format!("{name} as it arrived"), error);
    let mut arrived = File::open(destination.join(&name)).map_err(failed)?;
    let metadata = arrived.metadata().map_err(failed)?;
    let differs = |what: &str, is: &dyn std::fmt::Display, was: &dyn std::fmt::Display| {
        Err(Failure::failed(format!(
            "{name}: {what} is {is} where it arrived, and was {was}"
        )))
    };
    if metadata.len() != one.length {
        return differs("length in bytes", &metadata.len(), &one.length);
    }
    let mode = metadata.mode() & 0o7777;
    if mode != one.mode {
        return differs("mode", &format!("{mode:o}"), &format!("{:o}", one.mode));
    }
    let modified_ns = metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec();
    if modified_ns != one.modified_ns {
        return differs("time of change in ns", &modified_ns, &one.modified_ns);
    }
    let mut sent = File::open(source.join(&name)).map_err(failed)?;
    same_bytes(&mut sent, &mut arrived, buffers).map_or_else(
        |error| Err(failed(error)),
        |wrong| match wrong {
            None => Ok(()),
            Some(offset) => Err(Failure::failed(format!(
                "{name}: the byte at offset {offset} is not the one that was sent"
            ))),
        },
    )
}

/// Where two files differ first.
fn same_bytes(
    sent: &mut File,
    arrived: &mut File,
    (one, other): &mut (Vec<u8>, Vec<u8>),
) -> io::Result<Option<u64>> {
    let mut offset = 0;
    loop {
        if cancel::requested() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let length = fill(sent, one)?;
        let there = fill(arrived, other)?;
        if one[..length] != other[..there] {
            let mut pairs = one[..length].iter().zip(&other[..there]);
            let equal = pairs.position(|(one, other)| one != other);
            let place = equal.unwrap_or(length.min(there));
            return Ok(Some(offset + place as u64));
        }
        if length == 0 {
            return Ok(None);
        }
        offset += length as u64;
    }
}

/// Read until the buffer is full or the file ends.
fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(length) => filled += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
