//! Changing the big file: a block in its middle, or one more at its end.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;

use super::big_file::{BLOCK, BigFile, close};
use super::operation::{Done, Operation, failed, timed};
use crate::clock::Clock;
use crate::shared_folder::SharedFolder;
use oscope_sys::error::Failure;

/// Where the block goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Over what is in the middle of the file.
    Middle,
    /// After the file.
    End,
}

/// `change-block` and `append`.
pub struct Change {
    file: BigFile,
    place: Place,
    block: Vec<u8>,
}

impl Change {
    /// Make the file.
    ///
    /// # Errors
    /// As for [`BigFile::make`].
    pub fn make(folder: &SharedFolder, place: Place, size: u64) -> Result<Self, Failure> {
        Ok(Self {
            file: BigFile::make(folder, size)?,
            place,
            block: Vec::new(),
        })
    }

    fn offset(&self) -> u64 {
        let size = self.file.size;
        match self.place {
            Place::Middle => size / 2 / BLOCK * BLOCK,
            Place::End => size,
        }
    }

    fn open(&self) -> Result<File, Failure> {
        let path = &self.file.mounted;
        let mut options = OpenOptions::new();
        let options = match self.place {
            Place::Middle => options.read(true).write(true),
            Place::End => options.append(true),
        };
        options
            .open(path)
            .map_err(|error| failed("opening", path, &error))
    }
}

impl Operation for Change {
    fn files(&self) -> u64 {
        1
    }

    fn ready(&mut self, folder: &mut SharedFolder, clock: &Clock) -> Result<(), Failure> {
        self.file.introduce(folder, clock)?;
        self.block = self.file.next_block(self.offset()).to_vec();
        Ok(())
    }

    fn act(&mut self, clock: &Clock) -> Result<Done, Failure> {
        let path = &self.file.mounted;
        let (mut file, open_ns) = timed(clock, || self.open())?;
        match self.place {
            Place::Middle => file.write_all_at(&self.block, self.offset()),
            Place::End => file.write_all(&self.block),
        }
        .map_err(|error| failed("writing", path, &error))?;
        let (_, close_ns) = timed(clock, || {
            close(file).map_err(|error| failed("closing", path, &error))
        })?;
        Ok(Done {
            bytes: Some(BLOCK),
            files: 1,
            open_ns: Some(open_ns),
            close_ns: Some(close_ns),
        })
    }

    fn check(&mut self, _folder: &SharedFolder) -> Result<(), Failure> {
        self.file.compare()
    }
}
