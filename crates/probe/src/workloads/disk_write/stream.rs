//! Writing a file from its beginning, block by block, and saying how far that went.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Write};

use super::pattern::Pattern;
use oscope_sys::cancel;
use oscope_sys::error::{Failure, errno_message};

/// How much is written.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Bytes in all.
    pub total: u64,
    /// Bytes in a block; the last may be shorter.
    pub block_size: usize,
    /// Whether fdatasync(2) follows.
    pub flush: Flush,
}

/// What follows the last block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// Nothing.
    None,
    /// fdatasync(2).
    Data,
}

/// What was written.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that the kernel took.
    pub bytes: u64,
    /// Calls of write(2), those included that took a part of what they were given.
    pub calls: u64,
}

/// Why writing ended early.
#[derive(Debug)]
pub enum Stop {
    /// A signal asked to stop.
    Interrupted,
    /// write(2) failed.
    Write(io::Error),
    /// fdatasync(2) failed, all bytes taken.
    Flush(io::Error),
}

/// Write what is planned to `file`.
#[inline(always)]
pub fn write(file: &File, pattern: &mut Pattern, plan: &Plan) -> (Progress, Result<(), Stop>) {
    let mut progress = Progress::default();
    let mut result = Ok(());
    while result.is_ok() && progress.bytes < plan.total {
        let length = (plan.total - progress.bytes).min(plan.block_size as u64) as usize;
        let block = pattern.block(progress.bytes, length);
        result = write_block(file, block, &mut progress);
    }
    if result.is_ok() && plan.flush == Flush::Data {
        result = file.sync_data().map_err(Stop::Flush);
    }
    (progress, result)
}

/// Write the whole of `block`, however much of it the kernel takes at once.
#[inline(always)]
fn write_block(mut file: &File, mut block: &[u8], progress: &mut Progress) -> Result<(), Stop> {
    while !block.is_empty() {
        if cancel::requested() {
            return Err(Stop::Interrupted);
        }
        match file.write(block) {
            Ok(0) => return Err(Stop::Write(ErrorKind::WriteZero.into())),
            Ok(taken) => {
                progress.calls += 1;
                progress.bytes += taken as u64;
                block = &block[taken..];
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Stop::Write(error)),
        }
    }
    Ok(())
}

impl Stop {
    /// The failure to report of `name`: what stopped it, how much was written, and the file's `fate`.
    pub fn explain(
        &self,
        name: &str,
        plan: &Plan,
        progress: Progress,
        fate: impl fmt::Display,
    ) -> Failure {
        let Progress { bytes, .. } = progress;
        let total = plan.total;
        let (error, message) = match self {
            Self::Interrupted => {
                return Failure::failed(format!("interrupted while writing {name}: {fate}"));
            }
            Self::Write(error) => (
                error,
                format!(
                    "writing {name}: {}, after {bytes} of {total} bytes; {fate}",
                    errno_message(error)
                ),
            ),
            Self::Flush(error) => (
                error,
                format!(
                    "fdatasync of {name}: {}; the kernel took all {bytes} of {total} bytes, but the device may not \
                     have them; {fate}",
                    errno_message(error)
                ),
            ),
        };
        let remedy = match error.kind() {
            ErrorKind::StorageFull => "free some space, write less, or write elsewhere",
            ErrorKind::QuotaExceeded => "raise the quota, write less, or write elsewhere",
            ErrorKind::FileTooLarge => {
                "raise ulimit -f, write less, or use a file system with larger files"
            }
            _ => return Failure::failed(message).because_of(error),
        };
        Failure::unavailable(message, remedy).because_of(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(stop: &Stop) -> Failure {
        let plan = Plan {
            total: 4096,
            block_size: 512,
            flush: Flush::None,
        };
        let progress = Progress {
            bytes: 1024,
            calls: 2,
        };
        stop.explain("/a/file", &plan, progress, "it was removed")
    }

    fn error(number: i32) -> io::Error {
        io::Error::from_raw_os_error(number)
    }

    #[test]
    fn no_room_says_how_far_it_went_and_what_helps() {
        for (number, word) in [
            (libc::ENOSPC, "free some space"),
            (libc::EDQUOT, "quota"),
            (libc::EFBIG, "ulimit -f"),
        ] {
            match explained(&Stop::Write(error(number))) {
                Failure::Unavailable {
                    message,
                    remedy: Some(remedy),
                    ..
                } => {
                    assert!(message.starts_with("writing /a/file: "), "{message}");
                    assert!(
                        message.ends_with("after 1024 of 4096 bytes; it was removed"),
                        "{message}"
                    );
                    assert!(remedy.contains(word), "{remedy}");
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_device_error_is_a_failure_that_says_how_far_it_went() {
        let failure = explained(&Stop::Write(error(libc::EIO)));
        assert!(matches!(failure, Failure::Failed { .. }));
        assert!(failure.to_string().contains("1024 of 4096 bytes"));
        let failure = explained(&Stop::Flush(error(libc::EIO)));
        assert!(
            failure
                .to_string()
                .contains("may not have them; it was removed")
        );
    }

    #[test]
    fn blocks_are_written_one_a_call_with_a_short_last_one() {
        let file = crate::disk::scratch::unnamed("/var/tmp".as_ref()).unwrap();
        let plan = Plan {
            total: 10_000,
            block_size: 3000,
            flush: Flush::Data,
        };
        let (progress, result) = write(&file, &mut Pattern::new(3000), &plan);
        assert!(result.is_ok());
        let expected = Progress {
            bytes: 10_000,
            calls: 4,
        };
        assert_eq!(progress, expected);
        assert_eq!(file.metadata().unwrap().len(), 10_000);
    }

    /// A pipe that takes less than it is given, since nobody reads from it and it does not block.
    #[test]
    fn what_the_kernel_takes_in_parts_is_counted_so() {
        let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_NONBLOCK).unwrap();
        let plan = Plan {
            total: 1 << 20,
            block_size: 1 << 20,
            flush: Flush::None,
        };
        let (progress, result) = write(&writer.into(), &mut Pattern::new(1 << 20), &plan);
        assert_eq!((progress.bytes, progress.calls), (65536, 1));
        assert!(matches!(result, Err(Stop::Write(error)) if error.kind() == ErrorKind::WouldBlock));
        drop(reader);
    }
}
