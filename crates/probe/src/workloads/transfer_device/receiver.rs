//! The receiver, which is the measured process.

use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use super::Parameters;
use super::sender::{PATIENCE, Side};
use crate::workloads::transfer::folder::Folder;
use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_transfer::device::header::{Header, LENGTH};
use oscope_transfer::device::node::Device;
use oscope_transfer::device::{Incoming, Method};

/// Connect, and write every file into the folder's destination.
///
/// # Errors
/// `Failure::Failed`: the connection broke, or what came is not what the sender was to send.
pub fn receive(
    mut device: Device,
    address: SocketAddr,
    parameters: &Parameters,
    folder: &Folder,
) -> Result<Side, Failure> {
    let failed = |error: io::Error| Failure::system("receiving", &error);
    device.calls = 0;
    device
        .connect(address, PATIENCE, PATIENCE)
        .map_err(|error| Failure::system("connecting", &error))?;
    let mut come = Incoming::new(device, parameters.method, parameters.buffer as usize)
        .map_err(|error| Failure::system("mapping the area", &error))?;
    let destination = folder.destination();
    let mut side = Side::default();
    let mut header = [0; LENGTH];
    while come.fill(&mut header).map_err(failed)? {
        if cancel::requested() {
            return Err(Failure::failed("interrupted"));
        }
        let header = Header::decode(&header).map_err(failed)?;
        let one = folder.files().get(side.files as usize);
        let one = one.ok_or_else(|| Failure::failed("more files come than are sent"))?;
        receive_file(&header, &one.name(), &mut come, &destination)
            .map_err(|error| Failure::system(&one.name(), &error))?;
        side.files += 1;
        side.bytes += header.size;
    }
    // With the closing that follows, and the unmapping.
    let unmapping = u64::from(parameters.method == Method::Mmap);
    side.calls = come.device().calls + 1 + unmapping;
    drop(come);
    Ok(side)
}

fn receive_file(
    header: &Header,
    wanted: &str,
    come: &mut Incoming,
    destination: &Path,
) -> io::Result<()> {
    let mut name = vec![0; header.name];
    come.fill_whole(&mut name)?;
    if name != wanted.as_bytes() {
        return Err(io::Error::other("another file comes than is sent"));
    }
    let mut file = File::create_new(destination.join(wanted))?;
    let mut left = header.size;
    let mut writes = 0;
    while left > 0 {
        let there = come.next(left)?;
        if there.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let length = there.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.write_all(&there[..length])?;
        come.take(length);
        left -= length as u64;
        writes += 1;
    }
    // With its opening and closing.
    come.count(writes + 2);
    Ok(())
}
