//! Reading the big file: whole, for the first time and again, and at random places.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::big_file::{BLOCK, BigFile};
use super::operation::{Done, Operation, failed, interrupted};
use crate::clock::Clock;
use crate::disk::{content, residency};
use crate::shared_folder::{SharedFolder, System};
use crate::xor;
use oscope_sys::cancel;
use oscope_sys::error::Failure;

/// Places read at random in a repetition.
const READS: u64 = 1000;

/// `read-first`. Its bytes are compared with the server's by their fold.
pub struct First {
    file: BigFile,
    system: System,
}

impl First {
    /// Make the file.
    ///
    /// # Errors
    /// As for [`BigFile::make`].
    pub fn make(folder: &SharedFolder, system: System, size: u64) -> Result<Self, Failure> {
        let file = BigFile::make(folder, size)?;
        Ok(Self { file, system })
    }
}

impl Operation for First {
    fn files(&self) -> u64 {
        1
    }

    fn ready(&mut self, folder: &mut SharedFolder, _clock: &Clock) -> Result<(), Failure> {
        folder.renew_unless_new()?;
        if self.system == System::Local {
            residency::evict(&self.file.served)?;
        }
        Ok(())
    }

    fn act(&mut self, clock: &Clock) -> Result<Done, Failure> {
        self.file.read_whole(clock)
    }

    fn check(&mut self, _folder: &SharedFolder) -> Result<(), Failure> {
        self.file.compare()
    }
}

/// A file that the client has read whole since it has had its mount, or is to.
struct Known {
    file: BigFile,
    is_known: bool,
}

impl Known {
    fn make(folder: &SharedFolder, size: u64) -> Result<Self, Failure> {
        Ok(Self {
            file: BigFile::make(folder, size)?,
            is_known: false,
        })
    }

    /// Have the client read it, unless the last repetition ended well.
    fn ready(&mut self, folder: &mut SharedFolder, clock: &Clock) -> Result<(), Failure> {
        match std::mem::take(&mut self.is_known) {
            true => Ok(()),
            false => self.file.introduce(folder, clock),
        }
    }

    /// A repetition has ended well if the server's file is what it was.
    fn check(&mut self) -> Result<(), Failure> {
        self.file.compare()?;
        self.is_known = true;
        Ok(())
    }
}

/// `read-again`.
pub struct Again(Known);

impl Again {
    /// Make the file.
    ///
    /// # Errors
    /// As for [`BigFile::make`].
    pub fn make(folder: &SharedFolder, size: u64) -> Result<Self, Failure> {
        Known::make(folder, size).map(Self)
    }
}

impl Operation for Again {
    fn files(&self) -> u64 {
        1
    }

    fn ready(&mut self, folder: &mut SharedFolder, clock: &Clock) -> Result<(), Failure> {
        self.0.ready(folder, clock)
    }

    fn act(&mut self, clock: &Clock) -> Result<Done, Failure> {
        self.0.file.read_whole(clock)
    }

    fn check(&mut self, _folder: &SharedFolder) -> Result<(), Failure> {
        self.0.check()
    }
}

/// `read-random`.
pub struct Random {
    known: Known,
    /// Repetitions so far: each has places of its own.
    repetitions: u64,
    opened: Option<File>,
    /// Where each block begins, and the fold of what is there.
    places: Vec<(u64, u32)>,
}

impl Random {
    /// Make the file.
    ///
    /// # Errors
    /// As for [`BigFile::make`].
    pub fn make(folder: &SharedFolder, size: u64) -> Result<Self, Failure> {
        Ok(Self {
            known: Known::make(folder, size)?,
            repetitions: 0,
            opened: None,
            places: Vec::new(),
        })
    }

    fn choose(&mut self) {
        let first = self.repetitions * READS;
        self.repetitions += 1;
        let blocks = self.known.file.size / BLOCK;
        let mut block = [0; BLOCK as usize];
        self.places = (first..first + READS)
            .map(|number| {
                let offset = content::word(number) % blocks * BLOCK;
                content::fill(offset, &mut block);
                (offset, xor::fold(&block))
            })
            .collect();
    }
}

impl Operation for Random {
    fn files(&self) -> u64 {
        1
    }

    fn ready(&mut self, folder: &mut SharedFolder, clock: &Clock) -> Result<(), Failure> {
        // What is open keeps the folder from being unmounted.
        self.opened = None;
        self.known.ready(folder, clock)?;
        self.choose();
        let path = &self.known.file.mounted;
        let opened = File::open(path).map_err(|error| failed("opening", path, &error))?;
        self.opened = Some(opened);
        Ok(())
    }

    fn act(&mut self, _clock: &Clock) -> Result<Done, Failure> {
        let path = &self.known.file.mounted;
        let opened = self.opened.as_ref();
        let file = opened.ok_or_else(|| Failure::failed("the big file is not open"))?;
        let mut block = [0; BLOCK as usize];
        for (offset, wanted) in &self.places {
            if cancel::requested() {
                return Err(interrupted());
            }
            file.read_exact_at(&mut block, *offset)
                .map_err(|error| failed("reading", path, &error))?;
            let found = xor::fold(&block);
            if found != *wanted {
                return Err(Failure::failed(format!(
                    "{}: the block at byte {offset} was read as one of XOR {found:08x}, and is one of XOR {wanted:08x}",
                    path.display()
                )));
            }
        }
        Ok(Done {
            bytes: Some(READS * BLOCK),
            files: 1,
            ..Done::default()
        })
    }

    fn check(&mut self, _folder: &SharedFolder) -> Result<(), Failure> {
        self.opened = None;
        self.known.check()
    }
}
