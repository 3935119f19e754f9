//! The key that both sides of a transfer have: 256 random bits, as 64 hexadecimal digits.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::unistd::geteuid;
use ring::rand::{SecureRandom, SystemRandom};

use super::temporary::temporary_in;
use oscope_sys::error::{Failure, errno_message};

/// Bytes of a key.
pub const LENGTH: usize = 32;

/// The sender's environment variable that may hold the key.
pub const VARIABLE: &str = "OSCOPE_TRANSFER_KEY";

/// Bytes that are read of a key file at most; more is no key.
const MOST_READ: u64 = 4096;

/// Where the sender may have the key from.
const REMEDY: &str = "the receiver prints it; or write the same 64 hexadecimal digits into a file of mode 600 on both \
    sides";

/// A key. It is never shown but by [`Key::text`].
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; LENGTH]);

impl fmt::Debug for Key {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.write_str("Key(..)")
    }
}

impl Key {
    /// A new key from the kernel's random numbers.
    ///
    /// # Errors
    /// `Failure::Failed` where getrandom(2) gives none.
    pub fn new() -> Result<Self, Failure> {
        let mut bytes = [0; LENGTH];
        SystemRandom::new()
            .fill(&mut bytes)
            .map_err(|_| Failure::failed("the kernel gives no random numbers for a key"))?;
        Ok(Self(bytes))
    }

    /// Read 64 hexadecimal digits; white space around them is ignored.
    ///
    /// # Errors
    /// `Failure::Request`: it is something else. A shorter password could be guessed from what the network sees, so
    /// none is taken.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let mut bytes = [0; LENGTH];
        hex::decode_to_slice(text.trim(), &mut bytes).map_err(|_| {
            Failure::usage("a key is 64 hexadecimal digits, and this is none").with_remedy(REMEDY)
        })?;
        Ok(Self(bytes))
    }

    /// Its 64 hexadecimal digits.
    pub fn text(&self) -> String {
        hex::encode(self.0)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; LENGTH] {
        &self.0
    }

    /// Read a key file, which only its owner may read: this user or root.
    ///
    /// # Errors
    /// `Failure::Request` if it is not there, not a plain file, or open to others, or if it has no key;
    /// `Failure::Failed` if it cannot be read.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        // A FIFO in its place is not waited for.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
            .map_err(|error| {
                Failure::usage(format!(
                    "the key file {shown}: {}",
                    oscope_sys::error::errno_message(&error)
                ))
                .with_remedy(REMEDY)
            })?;
        check_private(&file).map_err(|reason| {
            Failure::usage(format!("the key file {shown}: {reason}"))
                .with_remedy(format!("make it yours alone: chmod 600 {shown}"))
        })?;
        let mut text = String::new();
        file.take(MOST_READ)
            .read_to_string(&mut text)
            .map_err(|error| Failure::system(&format!("the key file {shown}"), &error))?;
        Self::parse(&text).map_err(|error| error.context(&format!("the key file {shown}")))
    }

    /// As [`Self::read`]; where nothing has the name, a file with a new key is made. Whether it was.
    ///
    /// # Errors
    /// As for [`Self::read`], or the file cannot be made.
    pub fn read_or_make(path: &Path) -> Result<(Self, bool), Failure> {
        // What is there is read, also in a folder where nothing can be made.
        if path.symlink_metadata().is_ok() {
            return Ok((Self::read(path)?, false));
        }
        let key = Self::new()?;
        match key.write_new(path) {
            Ok(()) => Ok((key, true)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Ok((Self::read(path)?, false))
            }
            Err(error) => Err(unmade(path, &error)),
        }
    }

    /// Make a file of mode 600 with this key, in place of nothing. It gets its name when it is whole: who reads it
    /// meanwhile finds no file.
    fn write_new(&self, path: &Path) -> io::Result<()> {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let mut file = temporary_in(folder, ".oscope-key-")?;
        writeln!(file, "{}", self.text())?;
        file.persist_noclobber(path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// Why a key file cannot be made. A place where none can be is a wrong request; a full disk is not.
fn unmade(path: &Path, error: &io::Error) -> Failure {
    let message = format!(
        "the key file {} cannot be made ({})",
        path.display(),
        errno_message(error)
    );
    let (failure, remedy) = match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EIO) => (
            Failure::failed(message),
            "free some space, or name a file elsewhere",
        ),
        _ => (
            Failure::usage(message),
            "name a file in a folder that is there, and that you can write into",
        ),
    };
    failure.with_remedy(remedy)
}

fn check_private(file: &File) -> Result<(), Failure> {
    let meta = file.metadata()?;
    let own = geteuid().as_raw();
    if !meta.is_file() {
        return Err(Failure::failed("not a plain file"));
    }
    if meta.uid() != own && meta.uid() != 0 {
        return Err(Failure::failed(format!("it is of user {}", meta.uid())));
    }
    if meta.mode() & 0o077 != 0 {
        return Err(Failure::failed(format!(
            "other users may use it (mode {:o})",
            meta.mode() & 0o777
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_printed() {
        let key = Key::new().expect("random numbers");
        assert_eq!(Key::parse(&format!(" {}\n", key.text())), Ok(key.clone()));
        assert_ne!(Key::new(), Ok(key.clone()));
        assert!(!format!("{key:?}").contains(&key.text()));
    }

    #[test]
    fn what_is_shorter_or_longer_or_no_number_is_no_key() {
        for text in [
            "",
            "password",
            &"a".repeat(63),
            &"a".repeat(65),
            &"g".repeat(64),
        ] {
            assert!(Key::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn of_several_that_make_a_key_file_all_have_one_key_and_nothing_else_is_left() {
        let folder = std::env::temp_dir().join(format!("oscope-keys-test-{}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        let path = folder.join("key");
        for _ in 0..200 {
            let found: Vec<_> = thread::scope(|scope| {
                let all: Vec<_> = (0..4)
                    .map(|_| scope.spawn(|| Key::read_or_make(&path)))
                    .collect();
                all.into_iter()
                    .map(|one| one.join().expect("no panic").expect("a key"))
                    .collect()
            });
            assert_eq!(found.iter().filter(|(_, made)| *made).count(), 1);
            assert!(found.iter().all(|(key, _)| *key == found[0].0));
            let mode = fs::metadata(&path).expect("a file").permissions().mode();
            assert_eq!(mode & 0o7777, 0o600);
            fs::remove_file(&path).expect("our own");
            assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0);
        }
        fs::remove_dir(&folder).expect("empty");
    }

    #[test]
    fn a_file_without_a_key_is_named() {
        let path = std::env::temp_dir().join(format!("oscope-no-key-test-{}", std::process::id()));
        fs::write(&path, "password").expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("our own");
        let error = Key::read(&path).expect_err("no key");
        let shown = path.display().to_string();
        assert!(error.to_string().contains(&shown), "{error}");
        fs::remove_file(&path).expect("the file can be removed");
    }

    #[test]
    fn a_key_file_that_others_can_read_is_refused() {
        let path = std::env::temp_dir().join(format!("oscope-key-test-{}", std::process::id()));
        let (key, made) = Key::read_or_make(&path).expect("a file");
        assert!(made);
        assert_eq!(Key::read_or_make(&path), Ok((key.clone(), false)));
        for mode in [0o640, 0o604, 0o620, 0o666] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("our own");
            let error = Key::read(&path).expect_err("others can use it");
            assert!(error.to_string().contains("other users"), "{error}");
        }
        fs::remove_file(&path).expect("the file can be removed");
    }
}
