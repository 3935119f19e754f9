//! What there is to send, and what the receiver wants of it.

use std::os::unix::ffi::OsStrExt;

use super::Sender;
use crate::names::{self, Clash};
use crate::options::DigestKind;
use crate::source::Source;
use crate::stop::Stop;
use crate::wire::{Entry, FilePlan, Frame, PART, SPARSE};

/// Refuse names that no receiver takes, and names that cannot all be had at once.
///
/// # Errors
/// [`Stop`] about the first such name, with the paths of what would have it.
pub fn check(files: &[Source]) -> Result<(), Stop> {
    for file in files {
        names::check(&file.name).map_err(|reason| Stop::file(&file.name, reason))?;
    }
    names::check_together(files.iter().map(|file| (&file.name[..], file.is_folder())))
        .map_err(|clash| clashing(files, clash))
}

fn clashing(files: &[Source], clash: Clash) -> Stop {
    let (name, reason) = clash.explained();
    let is_below = |file: &Source| file.name.len() > name.len() && file.name.starts_with(name);
    let has_it = |file: &&Source| match clash {
        Clash::Twice(_) => file.name == name,
        Clash::FileAndFolder(_) => {
            file.name == name || is_below(file) && file.name[name.len()] == b'/'
        }
    };
    let paths: Vec<_> = files
        .iter()
        .filter(has_it)
        .take(2)
        .map(|file| names::shown(file.path.as_os_str().as_bytes()))
        .collect();
    let paths = format!(": {}", paths.join(" and "));
    Stop::refused(name, reason.followed_by(&paths))
}

impl Sender<'_, '_> {
    /// Name all files, in frames of limited size.
    pub(super) fn manifest(&mut self, files: &[Source]) -> Result<(), Stop> {
        let mut part = Vec::new();
        let mut size = 0;
        for file in files {
            part.push(file.entry());
            size += file.name.len() + 32;
            if size >= PART {
                self.link.put(&Frame::Entries(std::mem::take(&mut part)))?;
                size = 0;
            }
        }
        self.link.put(&Frame::Entries(part))?;
        self.link.put(&Frame::EntriesEnd(files.len() as u64))?;
        self.link.flush()
    }

    /// Hear what the receiver wants of each.
    pub(super) fn plan(&mut self, files: &[Source]) -> Result<Vec<FilePlan>, Stop> {
        match self.link.next()? {
            Frame::Hello(kind) if kind == self.digest => {}
            Frame::Hello(DigestKind::None) => {
                self.digest = DigestKind::None;
                self.meter
                    .note("the receiver does not verify: no digests are sent");
            }
            _ => return Err(self.link.damaged()),
        }
        self.link.resumes = self.digest != DigestKind::None;
        let mut plan = Vec::with_capacity(files.len());
        while plan.len() < files.len() {
            match self.link.next()? {
                Frame::Plan(steps) => plan.extend(steps.into_iter().map(FilePlan::from)),
                _ => return Err(self.link.damaged()),
            }
        }
        let possible = plan.len() == files.len()
            && files.iter().zip(&plan).all(|(file, planned)| {
                // Nothing else is opened.
                let is_regular = file.leads_to.is_none() && !file.is_folder();
                let is_there = is_regular && self.digest != DigestKind::None;
                match planned {
                    FilePlan::Whole => true,
                    FilePlan::From(at) => is_there && *at <= file.size,
                    FilePlan::Have(_) => is_there,
                }
            });
        if !possible {
            return Err(self.link.damaged());
        }
        Ok(plan)
    }
}

impl Source {
    /// Its line in the manifest.
    fn entry(&self) -> Entry<'_> {
        Entry {
            name: &self.name,
            size: self.size,
            mode: self.mode | if self.sparse { SPARSE } else { 0 },
            mtime_ns: self.mtime_ns,
        }
    }
}
