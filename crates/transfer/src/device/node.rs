//! One open device, and what is asked of it.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use memmap2::{MmapMut, MmapOptions};

use super::uapi::{self, AREA, Accept, Connect, Descriptor, Finish, Listen, Receive, Send};
use oscope_sys::cancel;
use oscope_sys::error::{Failure, errno_message};

/// The sender's device.
pub const SENDER: &str = "/dev/oscope_sender";
/// The receiver's device.
pub const RECEIVER: &str = "/dev/oscope_receiver";
/// What fixes a device that is not there.
pub const REMEDY: &str = "for a guest `oscope kernel build` builds the modules, then `oscope run transfer.device` \
    loads them in it; for this kernel: make -C kernel/modules, then insmod as root";

/// An open device: one connection, and the area if it is mapped.
#[derive(Debug)]
pub struct Device {
    file: File,
    area: Option<MmapMut>,
    /// Calls on the device that move data, and those that meet and part.
    pub calls: u64,
}

impl Device {
    /// Open the device at `path`.
    ///
    /// # Errors
    /// `Failure::Unavailable` where it is not there or not to be opened.
    pub fn open(path: &str) -> Result<Self, Failure> {
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .open(Path::new(path));
        let file = opened.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Failure::unavailable(
                format!("{path} is not there: the module is not loaded"),
                REMEDY,
            ),
            ErrorKind::PermissionDenied => {
                Failure::unavailable(format!("{path}: {}", errno_message(&error)), "run as root")
            }
            _ => Failure::system(path, &error),
        })?;
        Ok(Self {
            file,
            area: None,
            calls: 1,
        })
    }

    /// Map the whole area.
    ///
    /// # Errors
    /// Those of mmap(2): `ENOMEM` where there is no memory for it.
    pub fn map(&mut self) -> io::Result<()> {
        self.calls += 1;
        // SAFETY: the pages belong to this opener alone and can neither shrink nor vanish while the file is open; the
        // kernel changes them only within `receive_area`, which borrows the device exclusively.
        self.area = Some(unsafe { MmapOptions::new().len(AREA).map_mut(&self.file)? });
        Ok(())
    }

    /// The mapped area; empty if it is not mapped.
    pub fn area(&mut self) -> &mut [u8] {
        self.area.as_deref_mut().unwrap_or_default()
    }

    /// Sender: listen, and say where.
    ///
    /// # Errors
    /// Those of bind(2), such as `EADDRINUSE`; `EISCONN` where the device listens already.
    pub fn listen(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let mut command = Listen {
            size: size_of::<Listen>() as u64,
            flags: 0,
            endpoint: address.into(),
        };
        self.calls += 1;
        uapi::give(&self.file, &mut command)?;
        Ok(command.endpoint.address())
    }

    /// Sender: wait for the receiver, and say who came.
    ///
    /// # Errors
    /// `ETIMEDOUT` where nobody came within `limit`; `ENOTCONN` before `listen`; `EISCONN` after a first receiver.
    pub fn accept(&mut self, limit: Duration, stall: Duration) -> io::Result<SocketAddr> {
        let mut command = Accept {
            size: size_of::<Accept>() as u64,
            flags: 0,
            timeout_ms: milliseconds(limit),
            stall_ms: milliseconds(stall),
            peer: uapi::Endpoint::default(),
        };
        self.again(|file| uapi::give(file, &mut command))?;
        Ok(command.peer.address())
    }

    /// Receiver: connect to the sender.
    ///
    /// # Errors
    /// `ETIMEDOUT` where nobody answers within `limit`; `EISCONN` where the device is connected; those of connect(2),
    /// such as `ECONNREFUSED`.
    pub fn connect(
        &mut self,
        address: SocketAddr,
        limit: Duration,
        stall: Duration,
    ) -> io::Result<()> {
        let mut command = Connect {
            size: size_of::<Connect>() as u64,
            flags: 0,
            timeout_ms: milliseconds(limit),
            stall_ms: milliseconds(stall),
            endpoint: address.into(),
        };
        self.again(|file| uapi::give(file, &mut command))
            .map(|_| ())
    }

    /// Sender: say that nothing more comes, and wait until the receiver has read all and closed its device.
    ///
    /// # Errors
    /// The receiver gave up (`ECONNRESET`), or did not close in time.
    pub fn finish(&mut self, limit: Duration) -> io::Result<()> {
        let mut command = Finish {
            size: size_of::<Finish>() as u64,
            flags: 0,
            timeout_ms: milliseconds(limit),
            reserved: 0,
        };
        self.again(|file| uapi::give(file, &mut command))
            .map(|_| ())
    }

    /// Sender: send bytes from memory; how many went.
    ///
    /// # Errors
    /// Those of send(2), such as `ECONNRESET`; `ENOTCONN` without a receiver; `EPIPE` after `finish`.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.again(|mut file| file.write(bytes))
    }

    /// Sender: send a part of the area; how many bytes went.
    ///
    /// # Errors
    /// As for [`Self::write`]; `EINVAL` where the part is not within the area.
    pub fn send_area(&mut self, offset: usize, length: usize) -> io::Result<usize> {
        let mut command = Send {
            size: size_of::<Send>() as u64,
            flags: 0,
            offset: offset as u64,
            length: length as u64,
        };
        self.again(|file| uapi::give(file, &mut command))
    }

    /// Receiver: receive any number of bytes into memory; 0 at the end.
    ///
    /// # Errors
    /// Those of recv(2), such as `ECONNRESET`; `ENOTCONN` without a sender.
    pub fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.again(|mut file| file.read(bytes))
    }

    /// Receiver: receive into the area from its beginning, any number of bytes or, if `whole`, all of `length`; 0 at
    /// the end.
    ///
    /// # Errors
    /// As for [`Self::read`]; `EINVAL` where `length` is more than the area.
    pub fn receive_area(&mut self, length: usize, whole: Whole) -> io::Result<usize> {
        let mut command = Receive {
            size: size_of::<Receive>() as u64,
            flags: match whole {
                Whole::Any => 0,
                Whole::All => uapi::WHOLE,
            },
            offset: 0,
            length: length as u64,
        };
        self.again(|file| uapi::give(file, &mut command))
    }

    /// The page descriptor at an offset of the area.
    ///
    /// # Errors
    /// The kernel's; it needs `CAP_SYS_ADMIN`.
    pub fn describe(&self, offset: usize) -> io::Result<Descriptor> {
        let mut descriptor = Descriptor {
            size: size_of::<Descriptor>() as u64,
            offset: offset as u64,
            ..Descriptor::default()
        };
        uapi::give(&self.file, &mut descriptor)?;
        Ok(descriptor)
    }

    /// Do a call, and again after a signal that does not end this process.
    fn again(&mut self, mut call: impl FnMut(&File) -> io::Result<usize>) -> io::Result<usize> {
        loop {
            self.calls += 1;
            match call(&self.file) {
                Err(error) if error.kind() == ErrorKind::Interrupted && !cancel::requested() => {}
                answer => return answer,
            }
        }
    }
}

/// How much is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// For any data.
    Any,
    /// For all that was asked for, or the end.
    All,
}

/// As the kernel takes it: 0 would be its own default.
fn milliseconds(time: Duration) -> u64 {
    (time.as_millis() as u64).clamp(1, 600_000)
}
