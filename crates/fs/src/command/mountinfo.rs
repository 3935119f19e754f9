//! What is mounted here, by /proc/self/mountinfo (proc(5)), and which processes use it.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::statvfs::statvfs;

/// The source of our mounts in mountinfo begins with this; a colon and the target follow. Their type is `fuse` where
/// root mounted, since mount(2) leaves out the subtype, else `fuse.oscope`.
const SOURCE: &str = "oscope-fs";

/// How many processes that use a mount are named.
const MOST_NAMED: usize = 3;

/// How long they are looked for: on a busy machine with many processes some seconds.
const LOOKING: Duration = Duration::from_secs(10);

/// A mount.
#[derive(Debug, PartialEq, Eq)]
pub struct Mount {
    /// The folder.
    pub place: PathBuf,
    /// Major and minor number, `0:45`: of all mounts of one file system, in any namespace.
    pub device: String,
    /// The type of the file system, such as `ext4` or `fuse`.
    pub kind: String,
    /// What is mounted: a device, or what the file system says about itself.
    pub source: String,
    /// The user whose process serves it, where it is a FUSE mount.
    pub user: Option<u32>,
}

impl Mount {
    /// Whether `oscope-fs` made it.
    pub fn is_ours(&self) -> bool {
        let rest = self.source.strip_prefix(SOURCE);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
            && (self.kind == "fuse" || self.kind.starts_with("fuse."))
    }

    /// Whether the process that served it is gone: the kernel then answers ENOTCONN at once, or ECONNABORTED while it
    /// goes (fs/fuse/dev.c).
    ///
    /// Asked by statfs(2), which always goes to that process; attributes may be answered by the kernel's cache.
    pub fn is_dead(&self) -> bool {
        let gone = [Errno::ENOTCONN, Errno::ECONNABORTED];
        self.is_ours() && statvfs(&self.place).is_err_and(|error| gone.contains(&error))
    }
}

/// The uppermost mount at this absolute path.
pub fn at(place: &Path) -> io::Result<Option<Mount>> {
    let table = std::fs::read("/proc/self/mountinfo")?;
    Ok(parse(&table).rfind(|mount| mount.place == place))
}

/// Other processes that are in `place` or have files in it open, as `PID (NAME)`, at most three; only those that this
/// user may look at.
///
/// Links of /proc are read, which asks nothing of the file system itself. One that does not answer, as of a process
/// amid execve(2), costs those behind it: what was found within the limit is returned, and whether that is all.
pub fn users_of(place: &Path) -> (Vec<String>, bool) {
    let (sender, found) = mpsc::channel();
    let place = place.to_owned();
    let begun = Instant::now();
    // It is left behind where it does not end; it holds nothing.
    let started = thread::Builder::new()
        .name("users".to_owned())
        .spawn(move || {
            let _ = look_for_users(&place, &sender);
        });
    let mut users = Vec::new();
    while started.is_ok() && users.len() < MOST_NAMED {
        match found.recv_timeout(LOOKING.saturating_sub(begun.elapsed())) {
            Ok(user) => users.push(user),
            Err(why) => return (users, why == RecvTimeoutError::Disconnected),
        }
    }
    (users, false)
}

/// Processes in other mount namespaces that have a mount of ours of this device, one of each namespace, as `PID
/// (NAME)`, at most three; only those that this user may look at.
pub fn elsewhere(device: &str) -> Vec<String> {
    let namespace = |process: &Path| std::fs::read_link(process.join("ns/mnt")).ok();
    let mut seen: HashSet<_> = namespace(Path::new("/proc/self")).into_iter().collect();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let (number, process) = (entry.file_name(), entry.path());
        if !number.as_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        // One look at each namespace: most processes share one.
        if !namespace(&process).is_some_and(|own| seen.insert(own)) {
            continue;
        }
        let table = std::fs::read(process.join("mountinfo")).unwrap_or_default();
        if parse(&table).any(|mount| mount.device == device && mount.is_ours()) {
            found.push(named(&process, &number.to_string_lossy()));
        }
        if found.len() == MOST_NAMED {
            break;
        }
    }
    found
}

/// `PID (NAME)`.
fn named(process: &Path, number: &str) -> String {
    let name = std::fs::read(process.join("comm")).unwrap_or_default();
    format!("{number} ({})", String::from_utf8_lossy(&name).trim_end())
}

/// Send each user of `place`; None when nobody wants to hear more.
fn look_for_users(place: &Path, sender: &Sender<String>) -> Option<()> {
    let own = std::process::id().to_string();
    for entry in std::fs::read_dir("/proc").ok()?.filter_map(Result::ok) {
        let number = entry.file_name();
        let is_process = number.as_bytes().iter().all(u8::is_ascii_digit);
        if is_process && number != *own && uses(&entry.path(), place) {
            let user = named(&entry.path(), &number.to_string_lossy());
            sender.send(user).ok()?;
        }
    }
    Some(())
}

fn uses(process: &Path, place: &Path) -> bool {
    let leads = |link: &Path| std::fs::read_link(link).is_ok_and(|to| to.starts_with(place));
    let open = || std::fs::read_dir(process.join("fd")).into_iter().flatten();
    ["cwd", "root", "exe"]
        .iter()
        .any(|name| leads(&process.join(name)))
        || open()
            .filter_map(Result::ok)
            .any(|entry| leads(&entry.path()))
}

fn parse(table: &[u8]) -> impl DoubleEndedIterator<Item = Mount> {
    table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let fields: Vec<_> = line.split(|byte| *byte == b' ').collect();
            let place = OsString::from_vec(unescaped(fields.get(4)?)).into();
            // Optional fields end with a hyphen of its own.
            let rest = &fields[6 + fields[6..].iter().position(|field| *field == b"-")?..];
            let user = rest.get(3)?.split(|byte| *byte == b',').find_map(|option| {
                let value = option.strip_prefix(b"user_id=")?;
                std::str::from_utf8(value).ok()?.parse().ok()
            });
            Some(Mount {
                place,
                device: String::from_utf8_lossy(fields.get(2)?).into_owned(),
                kind: String::from_utf8_lossy(rest.get(1)?).into_owned(),
                source: String::from_utf8_lossy(&unescaped(rest.get(2)?)).into_owned(),
                user,
            })
        })
        .collect::<Vec<_>>()
        .into_iter()
}

/// Undo what the kernel writes for space, tab, line break and backslash: three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut found = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let octal = (*first == b'\\')
            .then(|| std::str::from_utf8(tail.get(..3)?).ok())
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        found.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { &tail[3..] } else { tail };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"22 1 8:1 / / rw - ext4 /dev/vda rw\n\
        40 22 0:45 / /mnt/a\\040b rw,nosuid shared:9 master:1 - fuse.oscope oscope-fs:me@host:x \
        rw,user_id=7,group_id=7\n\
        41 40 0:46 / /mnt/a\\040b rw - tmpfs  rw\n\
        42 22 0:47 / /x rw - fuse me@host:/x\\011y rw,user_id=0\n\
        43 22 0:48 / /y rw - fuse oscope-fs rw,user_id=0\n\
        44 22 0:49 / /z rw - fuse oscope-fsx rw,user_id=0\n";

    #[test]
    fn mounts_are_read_as_the_kernel_writes_them() {
        let found: Vec<_> = parse(TABLE).collect();
        assert_eq!(found.len(), 6);
        assert_eq!(found[1].place, Path::new("/mnt/a b"));
        assert_eq!(found[1].device, "0:45");
        assert_eq!(found[3].source, "me@host:/x\ty");
        assert!(!found[3].is_ours());
        assert_eq!(found[1].user, Some(7));
        assert!(found[1].is_ours() && found[4].is_ours());
        assert!(!found[5].is_ours());
        // The source may be empty.
        assert_eq!((found[2].kind.as_str(), found[2].user), ("tmpfs", None));
    }

    #[test]
    fn the_root_is_mounted_and_who_uses_a_folder_is_known() {
        assert!(at(Path::new("/")).unwrap().is_some());
        assert!(at(Path::new("/proc/self/nothing")).unwrap().is_none());
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().canonicalize().unwrap();
        assert_eq!(users_of(&place), (Vec::new(), true));
        let mut other = std::process::Command::new("sleep")
            .arg("60")
            .current_dir(&place)
            .spawn()
            .unwrap();
        // It is there before it has its new name (begin_new_exec, fs/exec.c); and a loaded machine may not be looked
        // through within the limit.
        let wanted = [format!("{} (sleep)", other.id())];
        let until = Instant::now() + Duration::from_secs(60);
        let mut users = users_of(&place).0;
        while users != wanted && Instant::now() < until {
            users = users_of(&place).0;
        }
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(users, wanted);
    }
}
