//! Files and folders that the command writes: checked before the work begins, so that a typo costs no transfer. A file
//! is written whole or not at all, and never in the place of a device, a FIFO or a symbolic link. The same rules as in
//! `oscope.model.atomic_write`.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use nix::fcntl::{AtFlags, FcntlArg, OFlag, fcntl};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{AccessFlags, faccessat, geteuid};
use tempfile::NamedTempFile;

use crate::temporary::temporary_in;
use oscope_sys::error::{Failure, errno_message};

/// What the name of a temporary file begins with.
const PREFIX: &str = ".oscope-";

/// What a database of SQLite begins with.
const DATABASE: &[u8; 16] = b"SQLite format 3\0";
/// Ends of the names of files that belong to one (https://www.sqlite.org/tempfiles.html).
const DATABASE_ENDS: [&str; 3] = ["-wal", "-shm", "-journal"];
/// How a program begins: an executable (elf(5)), or a script.
const PROGRAMS: [&[u8]; 2] = [b"\x7fELF", b"#!"];

/// Symbolic links that are followed at most.
const MOST_LINKS: usize = 40;

/// Where the figures go.
#[derive(Clone)]
pub enum Output {
    /// Standard output.
    Standard,
    /// A file, symbolic links resolved.
    File(PathBuf),
}

/// What `--json` names.
///
/// # Errors
/// `Failure::Request` if standard output is closed, the file is no regular one, or its folder cannot be written into.
pub fn json(text: OsString) -> Result<Output, Failure> {
    if text == "-" {
        let mode = fcntl(io::stdout().as_fd(), FcntlArg::F_GETFL);
        return match mode.map(OFlag::from_bits_truncate) {
            Ok(mode) if mode & OFlag::O_ACCMODE != OFlag::O_RDONLY => Ok(Output::Standard),
            _ => Err(
                Failure::usage("--json - is standard output, which is closed")
                    .with_remedy("name a file"),
            ),
        };
    }
    named("--json", &text, |path| {
        resolve_file(path, ", or - for standard output").map(Output::File)
    })
}

/// What `--into` names: a folder that is there, or can be made, also with those above it.
///
/// # Errors
/// `Failure::Request`: it cannot be written into, or cannot be made.
pub fn folder(text: OsString) -> Result<PathBuf, Failure> {
    named("--into", &text, |path| {
        let mut highest = path;
        for above in path
            .ancestors()
            .take_while(|each| !each.as_os_str().is_empty())
        {
            if above.symlink_metadata().is_ok() {
                break;
            }
            highest = above;
        }
        check_folder(highest)?;
        Ok(path.to_owned())
    })
}

/// Make a folder, and those above it that are missing. Only its owner may write into one that is made.
///
/// # Errors
/// `Failure::Failed` with the reason of mkdir(2), such as a file in its way, and the remedy to name another one.
pub fn make_folder(path: &Path) -> Result<(), Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o755).create(path);
    made.map_err(|error| {
        let why = errno_message(&error);
        Failure::failed(format!("{} cannot be made ({why})", path.display()))
            .with_remedy("name another folder")
    })
}

/// Write a file, whole or not at all. One that is replaced leaves its permissions to the new one.
///
/// # Errors
/// `Failure::Failed`: it is no regular file, or the kernel refuses, such as on a full disk. What was there stays.
pub fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let real = resolve_file(path, "")?;
    let written = temporary_in(parent(&real), PREFIX).and_then(|mut file| {
        file.write_all(content)?;
        give_permissions(&file, &real)?;
        Ok(file)
    });
    let file = written.map_err(|error| {
        let remedy = "check the folder, its permissions and its space";
        unusable(path, "written", remedy)(error)
    })?;
    file.persist(&real).map(drop).map_err(|error| {
        // Such as a file that is mounted, or that may not be changed (chattr +i): what was written is kept.
        let why = errno_message(&error.error);
        let failure = Failure::failed(format!("{} cannot be replaced ({why})", path.display()));
        match error.file.keep() {
            Ok((_, kept)) => failure.with_remedy(format!("its content is in {}", kept.display())),
            Err(_) => failure,
        }
    })
}

fn named<T>(
    option: &str,
    text: &OsString,
    parse: impl FnOnce(&Path) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if text.is_empty() {
        return Err(
            Failure::usage(format!("{option}: the name is empty")).with_remedy("name a file")
        );
    }
    parse(Path::new(text)).map_err(|error| {
        Failure::usage(format!("{option} {error}")).with_remedy(error.remedy().unwrap_or_default())
    })
}

/// Whether a file is a database of SQLite, or belongs to one: stores of runs are such, and what was measured would be
/// gone.
fn is_of_database(path: &Path) -> bool {
    let without = |end: &&str| path.to_str()?.strip_suffix(*end).map(Path::new);
    is_database(path) || DATABASE_ENDS.iter().filter_map(without).any(is_database)
}

/// See https://www.sqlite.org/fileformat.html, 1.3.
fn is_database(path: &Path) -> bool {
    begins(path, DATABASE)
}

/// Whether a file begins with some bytes. A FIFO would wait for its other end.
fn begins(path: &Path, start: &[u8]) -> bool {
    let mut found = vec![0; start.len()];
    path.is_file()
        && File::open(path)
            .and_then(|mut file| file.read_exact(&mut found))
            .is_ok()
        && found == start
}

/// The file that `path` names, symbolic links followed, if a regular file can be written there.
fn resolve_file(path: &Path, alternative: &str) -> Result<PathBuf, Failure> {
    let shown = path.display();
    let failed = |message: String, remedy: &str| {
        Failure::failed(message).with_remedy(format!("{remedy}{alternative}"))
    };
    let unusable = unusable(path, "written", "name another file");
    let found = stat(path).map_err(&unusable)?;
    let real = resolve(path).map_err(&unusable)?;
    if is_of_database(&real) {
        let message = format!("{shown} is a database, such as a store of runs");
        return Err(failed(message, "name another file"));
    }
    if PROGRAMS.iter().any(|start| begins(&real, start)) {
        return Err(failed(format!("{shown} is a program"), "name another file"));
    }
    let Some(found) = found else {
        check_parent(path, &real)?;
        return Ok(real);
    };
    if found.is_dir() {
        return Err(
            Failure::failed(format!("{shown} is a folder")).with_remedy("name a file in it")
        );
    }
    // A link below /proc/PID/fd leads to a file that may have no name.
    if !found.is_file() || !real.is_file() {
        let kind = found.file_type();
        let kind = match () {
            () if kind.is_char_device() || kind.is_block_device() => "a device",
            () if kind.is_fifo() => "a FIFO",
            () if kind.is_socket() => "a socket",
            () => "a file without a name",
        };
        let message = format!("{shown} is {kind}, not a regular file");
        return Err(failed(message, "name a regular file"));
    }
    if is_open_at(io::stdout().as_fd(), &found) || is_open_at(io::stderr().as_fd(), &found) {
        let message = format!("{shown} is where standard output or standard error goes");
        return Err(failed(message, "name another file"));
    }
    check_parent(path, &real)?;
    let above = parent(&real).metadata().map_err(&unusable)?;
    let may_write = faccessat(
        nix::fcntl::AT_FDCWD,
        &real,
        AccessFlags::W_OK,
        AtFlags::AT_EACCESS,
    )
    .is_ok();
    // A sticky folder lets only owners replace a file (rename(2)).
    let user = geteuid().as_raw();
    let may_rename = above.mode() & 0o1000 == 0 || [0, found.uid(), above.uid()].contains(&user);
    match may_write && may_rename {
        true => Ok(real),
        false => {
            Err(Failure::failed(format!("{shown} is not writable"))
                .with_remedy("name another file"))
        }
    }
}

/// Whether files can be written into the folder `path`, or it can be made.
fn check_folder(path: &Path) -> Result<(), Failure> {
    let unusable = unusable(path, "used", "name a folder");
    let found = stat(path).map_err(&unusable)?;
    let real = resolve(path).map_err(&unusable)?;
    match found {
        None => check_parent(path, &real),
        Some(found) if !found.is_dir() => {
            let message = format!("{} is not a folder", path.display());
            Err(Failure::failed(message).with_remedy("name a folder"))
        }
        Some(_) => check_access(path, &real),
    }
}

fn check_parent(path: &Path, real: &Path) -> Result<(), Failure> {
    let folder = parent(real);
    if folder.is_dir() {
        return check_access(path, folder);
    }
    let (path, folder) = (path.display(), folder.display());
    Err(
        Failure::failed(format!("{path}: the folder {folder} does not exist"))
            .with_remedy(format!("make it: mkdir -p {folder}")),
    )
}

/// That a folder takes files is tried out with an empty one, which is removed: also root cannot write everywhere.
fn check_access(path: &Path, folder: &Path) -> Result<(), Failure> {
    temporary_in(folder, PREFIX)
        .and_then(NamedTempFile::close)
        .map_err(|error| {
            let (why, path, folder) = (errno_message(&error), path.display(), folder.display());
            Failure::failed(format!(
                "{path}: the folder {folder} is not writable ({why})"
            ))
            .with_remedy("name another place")
        })
}

/// Give a temporary file, which is its owner's only, the permissions that its name will have.
fn give_permissions(file: &NamedTempFile, real: &Path) -> io::Result<()> {
    let mode = match stat(real)? {
        None => {
            // It can only be read by setting it.
            let mask = umask(Mode::from_bits_truncate(0o077));
            umask(mask);
            0o666 & !mask.bits()
        }
        Some(replaced) => {
            // Only root may; then the file is its writer's.
            let _ = fchown(file, Some(replaced.uid()), Some(replaced.gid()));
            replaced.mode() & 0o777
        }
    };
    file.as_file().set_permissions(Permissions::from_mode(mode))
}

fn unusable(path: &Path, what: &str, remedy: &str) -> impl Fn(io::Error) -> Failure {
    let (shown, what, remedy) = (
        path.display().to_string(),
        what.to_owned(),
        remedy.to_owned(),
    );
    move |error| {
        let why = errno_message(&error);
        Failure::failed(format!("{shown} cannot be {what} ({why})")).with_remedy(remedy.clone())
    }
}

/// What the path leads to; `None` where that is nothing.
fn stat(path: &Path) -> io::Result<Option<Metadata>> {
    match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// The path without symbolic links, also where nothing has its name.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut path = std::path::absolute(path)?;
    for _ in 0..MOST_LINKS {
        match path.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        match path.read_link() {
            Ok(target) => path = parent(&path).join(target),
            Err(_) => {
                let Some(name) = path.file_name() else {
                    return Ok(path);
                };
                return Ok(resolve(parent(&path))?.join(name));
            }
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

fn is_open_at(stream: impl AsFd, found: &Metadata) -> bool {
    let opened = stream.as_fd().try_clone_to_owned().map(fs::File::from);
    opened
        .and_then(|file| file.metadata())
        .is_ok_and(|open| (open.dev(), open.ino()) == (found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_stays_and_the_file_behind_it_is_replaced_with_its_permissions() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().join("real");
        let link = folder.path().join("link");
        fs::write(&real, "former").expect("a file");
        fs::set_permissions(&real, Permissions::from_mode(0o640)).expect("our own");
        symlink("real", &link).expect("a link");
        write(&link, b"new").expect("it can be written");
        assert_eq!(link.read_link().expect("a link"), Path::new("real"));
        assert_eq!(fs::read(&real).expect("a file"), b"new");
        assert_eq!(real.metadata().expect("a file").mode() & 0o777, 0o640);
        assert_eq!(folder.path().read_dir().expect("a folder").count(), 2);
    }

    #[test]
    fn what_took_the_place_of_the_file_meanwhile_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = write(folder.path(), b"new").expect_err("it is a folder");
        assert!(error.to_string().ends_with("is a folder"), "{error}");
    }

    #[test]
    fn a_name_that_is_free_resolves_through_links_to_nowhere() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().canonicalize().expect("the folder exists");
        symlink("missing/file", folder.path().join("link")).expect("a link");
        let found = resolve(&folder.path().join("link")).expect("no loop");
        assert_eq!(found, real.join("missing/file"));
        symlink("loop", folder.path().join("loop")).expect("a link");
        assert!(resolve(&folder.path().join("loop")).is_err());
    }
}
