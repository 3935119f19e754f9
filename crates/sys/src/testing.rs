//! What tests need, also those of the crates above.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::unistd::pipe2;
use serde_json::Value;

use crate::cleanup::{restore_in, setting};

/// A folder that goes with its value.
#[derive(Debug)]
pub struct Folder(
    /// Where it is.
    pub PathBuf,
);

impl Folder {
    /// Make one. Panics if that is refused.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!(
            "/var/tmp/oscope-test-{}-{number}",
            std::process::id()
        ));
        fs::create_dir(&path).expect("a folder can be made");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("it is ours");
        Self(path)
    }
}

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// All that restoring what journals in `directory` name reports, and whether all is clean.
pub fn restored(directory: &Path) -> (Vec<Value>, bool) {
    let mut reported = Vec::new();
    let clean = restore_in(directory, &mut |line| reported.push(line)).expect("it can be read");
    (reported, clean)
}

/// A folder that looks like the root of a kernel with these settings. Panics if it cannot be made.
pub fn kernel(settings: &[(&str, &str)]) -> Folder {
    let folder = Folder::new();
    setting::accept_below(&folder.0);
    for (path, value) in settings {
        let path = below(&folder, path);
        fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
        fs::write(path, format!("{value}\n")).expect("it can be written");
    }
    folder
}

/// Where a setting lies in such a folder.
pub fn below(folder: &Folder, path: &str) -> PathBuf {
    folder.0.join(path.trim_start_matches('/'))
}

/// What a setting is now. Panics if it cannot be read.
pub fn value(folder: &Folder, path: &str) -> String {
    let text = fs::read_to_string(below(folder, path)).expect("the file can be read");
    text.trim().to_owned()
}

/// The ends of a pipe, to read from and to write to. Panics if there is none to be had.
pub fn pipe() -> (File, File) {
    let (out, into) = pipe2(OFlag::O_CLOEXEC).expect("a pipe");
    (out.into(), into.into())
}

/// What is written once `gone` says that somebody did not wait for it, or once it is clear that he does.
pub fn write_late(gone: &Receiver<()>, mut to: &File, bytes: &[u8]) {
    let _ = gone.recv_timeout(Duration::from_millis(300));
    to.write_all(bytes).expect("somebody reads");
}

/// From now on io_uring_enter(2) fails with EAGAIN where this thread waits on a ring without submitting anything.
pub fn refuse_waits() {
    // Load the call's number, then its second argument (struct seccomp_data), and answer.
    const EAGAIN: u32 = libc::SECCOMP_RET_ERRNO | libc::EAGAIN as u32;
    let enter = libc::SYS_io_uring_enter as u32;
    let mut program = [
        (0x20, 0, 0, 0),
        (0x15, 0, 3, enter),
        (0x20, 0, 0, 24),
        (0x15, 0, 1, 0),
        (0x06, 0, 0, EAGAIN),
        (0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
    .map(|(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k });
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the program lives during the calls, which concern this thread alone.
    let answers = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter),
        ]
    };
    assert_eq!(answers, [0, 0], "{}", io::Error::last_os_error());
}
