//! The connection's bytes, by either method: what is between a file and the device.

use std::io;

use clap::ValueEnum;
use serde::Deserialize;

use super::node::{Device, Whole};
use super::uapi::AREA;

/// How data come to the device and from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub enum Method {
    /// `write` and `read`: the method that OS Project 2 calls fcntl.
    Fcntl,
    /// The mapped area, with an ioctl for each part.
    Mmap,
}

/// What goes out: filled first, then sent at once.
#[derive(Debug)]
pub struct Outgoing {
    device: Device,
    /// With `fcntl`; empty with `mmap`, where the area is filled.
    buffer: Vec<u8>,
    filled: usize,
    sent: usize,
}

impl Outgoing {
    /// By a device that is connected. `buffer` bytes go by one `write`.
    ///
    /// # Errors
    /// Those of mmap(2), such as `ENOMEM`: the area cannot be mapped.
    pub fn new(mut device: Device, method: Method, buffer: usize) -> io::Result<Self> {
        let buffer = room(&mut device, method, buffer)?;
        Ok(Self {
            device,
            buffer,
            filled: 0,
            sent: 0,
        })
    }

    /// Where the next bytes go; never empty.
    ///
    /// # Errors
    /// As for [`Outgoing::flush`].
    pub fn room(&mut self) -> io::Result<&mut [u8]> {
        if self.filled == self.all().len() {
            self.flush()?;
        }
        let filled = self.filled;
        Ok(&mut self.all()[filled..])
    }

    /// So many bytes of the room are filled.
    pub fn advance(&mut self, length: usize) {
        self.filled += length;
    }

    /// Put bytes in the room, sending as it fills.
    ///
    /// # Errors
    /// As for [`Outgoing::flush`].
    pub fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = self.room()?;
            let length = room.len().min(bytes.len());
            room[..length].copy_from_slice(&bytes[..length]);
            self.advance(length);
            bytes = &bytes[length..];
        }
        Ok(())
    }

    /// Send what was filled.
    ///
    /// # Errors
    /// Those of send(2), such as `ECONNRESET`: the receiver is gone, or makes no progress.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.filled {
            let gone = match self.buffer.is_empty() {
                true => self.device.send_area(self.sent, self.filled - self.sent)?,
                false => self.device.write(&self.buffer[self.sent..self.filled])?,
            };
            self.sent += gone;
        }
        (self.filled, self.sent) = (0, 0);
        Ok(())
    }

    /// The device, with what is left sent.
    ///
    /// # Errors
    /// As for [`Outgoing::flush`].
    pub fn into_device(mut self) -> io::Result<Device> {
        self.flush()?;
        Ok(self.device)
    }

    /// Count a call that was made on a file.
    pub fn count(&mut self, calls: u64) {
        self.device.calls += calls;
    }

    fn all(&mut self) -> &mut [u8] {
        match self.buffer.is_empty() {
            true => self.device.area(),
            false => &mut self.buffer,
        }
    }
}

/// The buffer that the calls of a method take; empty where it is the device's area, mapped here.
fn room(device: &mut Device, method: Method, bytes: usize) -> io::Result<Vec<u8>> {
    match method {
        Method::Fcntl => Ok(vec![0; bytes]),
        Method::Mmap => {
            device.map()?;
            Ok(Vec::new())
        }
    }
}

/// What comes in: received as it comes, then taken piece by piece.
#[derive(Debug)]
pub struct Incoming {
    device: Device,
    /// With `fcntl`; empty with `mmap`, where the area is received into.
    buffer: Vec<u8>,
    taken: usize,
    filled: usize,
}

impl Incoming {
    /// By a device that is connected. At most `buffer` bytes come by one `read`.
    ///
    /// # Errors
    /// Those of mmap(2), such as `ENOMEM`: the area cannot be mapped.
    pub fn new(mut device: Device, method: Method, buffer: usize) -> io::Result<Self> {
        let buffer = room(&mut device, method, buffer)?;
        Ok(Self {
            device,
            buffer,
            taken: 0,
            filled: 0,
        })
    }

    /// The next bytes, received if there are none; empty at the end. `sure`: so many will surely come.
    ///
    /// # Errors
    /// Those of recv(2), such as `ECONNRESET`: the sender is gone, or makes no progress.
    pub fn next(&mut self, sure: u64) -> io::Result<&[u8]> {
        if self.taken == self.filled {
            self.taken = 0;
            self.filled = 0;
            self.filled = match self.buffer.is_empty() {
                true if sure == 0 => self.device.receive_area(AREA, Whole::Any)?,
                // Woken once instead of for each piece that comes.
                true => self
                    .device
                    .receive_area(sure.min(AREA as u64) as usize, Whole::All)?,
                false => self.device.read(&mut self.buffer)?,
            };
        }
        let (taken, filled) = (self.taken, self.filled);
        Ok(match self.buffer.is_empty() {
            true => &self.device.area()[taken..filled],
            false => &self.buffer[taken..filled],
        })
    }

    /// So many of the bytes were taken.
    pub fn take(&mut self, length: usize) {
        self.taken += length;
    }

    /// Fill `bytes`. Whether the stream went on: at its end nothing is filled.
    ///
    /// # Errors
    /// As for [`Incoming::next`]; the stream ends in the middle.
    pub fn fill(&mut self, bytes: &mut [u8]) -> io::Result<bool> {
        let mut done = 0;
        while done < bytes.len() {
            let there = self.next(0)?;
            if there.is_empty() {
                return match done {
                    0 => Ok(false),
                    _ => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
            let length = there.len().min(bytes.len() - done);
            bytes[done..done + length].copy_from_slice(&there[..length]);
            self.take(length);
            done += length;
        }
        Ok(true)
    }

    /// Fill `bytes`, of which all must come.
    ///
    /// # Errors
    /// As for [`Incoming::next`]; the stream ends before.
    pub fn fill_whole(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        match self.fill(bytes)? {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Count a call that was made on a file.
    pub fn count(&mut self, calls: u64) {
        self.device.calls += calls;
    }
}
