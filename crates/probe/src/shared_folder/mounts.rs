//! What is mounted in the calling thread's namespace, and unmounting it.

use std::fs;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};

use oscope_sys::error::Failure;

/// As /proc shows it (proc_pid_mountinfo(5)).
const TABLE: &str = "/proc/thread-self/mountinfo";

/// What is mounted on exactly this folder, whose name has no blanks: its type and its options in words; `None` if
/// nothing is.
///
/// # Errors
/// `Failure::Failed` if the table cannot be read.
pub fn mounted_on(folder: &Path) -> Result<Option<String>, Failure> {
    let table = fs::read_to_string(TABLE).map_err(|error| Failure::system(TABLE, &error))?;
    Ok(table.lines().rev().find_map(|line| described(line, folder)))
}

/// The type and options of a line, if it is of this folder.
fn described(line: &str, folder: &Path) -> Option<String> {
    let (of_mount, of_system) = line.split_once(" - ")?;
    let mut of_mount = of_mount.split(' ');
    let place = of_mount.nth(4)?;
    let options = of_mount.next()?;
    let mut of_system = of_system.split(' ');
    let (kind, own) = (of_system.next()?, of_system.nth(1)?);
    (Path::new(place) == folder).then(|| format!("{kind} ({options}; {own})"))
}

/// Unmount what is on the folder.
///
/// # Errors
/// `Failure::Failed` if it is in use, or with the kernel's reason.
pub fn unmount(folder: &Path) -> Result<(), Failure> {
    umount2(folder, MntFlags::UMOUNT_NOFOLLOW).map_err(|error| {
        let why = match error {
            Errno::EBUSY => "a file or folder in it is open still",
            other => other.desc(),
        };
        Failure::system(&format!("unmounting {}", folder.display()), why).because_of(error)
    })
}

/// Take away whatever is mounted on the folder, at once; what is open goes on without a name. Nothing there is well.
pub fn detach(folder: &Path) {
    // It would fail only where nothing is mounted (EINVAL): this is root, and the folder is its own.
    let _ = umount2(folder, MntFlags::UMOUNT_NOFOLLOW | MntFlags::MNT_DETACH);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_table_is_understood_with_and_without_optional_fields() {
        for optional in ["", "shared:1 ", "shared:1 master:2 "] {
            let line = format!(
                "36 35 98:0 / /a/b rw,noatime {optional}- ext3 /dev/root rw,errors=continue"
            );
            assert_eq!(
                described(&line, Path::new("/a/b")).as_deref(),
                Some("ext3 (rw,noatime; rw,errors=continue)")
            );
            assert_eq!(described(&line, Path::new("/a")), None);
        }
    }

    #[test]
    fn the_root_is_mounted_and_this_file_is_not() {
        assert!(
            mounted_on(Path::new("/proc"))
                .expect("the kernel reports it")
                .is_some()
        );
        assert_eq!(
            mounted_on(Path::new("/nowhere")).expect("the kernel reports it"),
            None
        );
    }
}
