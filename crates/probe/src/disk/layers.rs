//! What lies below the page cache: file system, device, hypervisor. Whatever may cache there is named, since no flag of
//! ours reaches it.

use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::sys::stat::{major, minor};

use oscope_sys::error::Failure;
use oscope_sys::machine::cpu::hypervisor;

/// A line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)), as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
struct Mount<'a> {
    device: &'a str,
    kind: &'a str,
    source: &'a str,
}

/// What lies below `file`, in a line.
///
/// # Errors
/// `Failure::Failed` if the file or the list of mounts cannot be looked at.
pub fn below(file: &File, name: &str) -> Result<String, Failure> {
    let metadata = file
        .metadata()
        .map_err(|error| Failure::system(name, error))?;
    let special = metadata.file_type().is_block_device();
    let number = if special {
        metadata.rdev()
    } else {
        metadata.dev()
    };
    let device = format!("{}:{}", major(number), minor(number));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| Failure::system("/proc/self/mountinfo", error))?;
    let what = if special {
        "a block device".to_owned()
    } else {
        match mounts
            .lines()
            .filter_map(parse)
            .find(|mount| mount.device == device)
        {
            Some(mount) => format!("{} on {}", mount.kind, mount.source),
            None => format!("a file system on device {device}"),
        }
    };
    let queue = device_words(&device).map_or(String::new(), |words| format!(" ({words})"));
    Ok(format!("{name}: {what}{queue}; {}", hypervisor_words()))
}

fn parse(line: &str) -> Option<Mount<'_>> {
    let (before, after) = line.split_once(" - ")?;
    let device = before.split(' ').nth(2)?;
    let mut after = after.split(' ');
    Some(Mount {
        device,
        kind: after.next()?,
        source: after.next()?,
    })
}

/// The disk under a device number: its driver or model, and what it does by itself. `None` where the file system has no
/// device of its own.
fn device_words(device: &str) -> Option<String> {
    let place = std::fs::canonicalize(Path::new("/sys/dev/block").join(device)).ok()?;
    // A partition's queue is that of its disk, one folder up.
    let disk = [Some(place.as_path()), place.parent()]
        .into_iter()
        .flatten()
        .find(|folder| folder.join("queue").is_dir())?
        .to_owned();
    let mut words = vec![disk.file_name()?.to_string_lossy().into_owned()];
    words.extend(text(disk.join("device/model")).or_else(|| driver(&disk)));
    words.extend(text(disk.join("queue/read_ahead_kb")).map(|kib| format!("read-ahead {kib} KiB")));
    words.extend(text(disk.join("queue/write_cache")).map(|kind| format!("write cache: {kind}")));
    words.extend(
        text(disk.join("queue/scheduler")).map(|names| format!("scheduler {}", chosen(&names))),
    );
    Some(words.join(", "))
}

fn driver(disk: &Path) -> Option<String> {
    let driver = std::fs::read_link(disk.join("device/driver")).ok()?;
    Some(driver.file_name()?.to_string_lossy().into_owned())
}

/// The name in brackets of a list such as `none [mq-deadline] kyber`.
fn chosen(names: &str) -> &str {
    names
        .split(' ')
        .find_map(|name| name.strip_prefix('[')?.strip_suffix(']'))
        .unwrap_or(names)
}

fn hypervisor_words() -> String {
    match hypervisor() {
        Ok(name) if name == "none" => {
            "below the kernel, the device's own cache may answer".to_owned()
        }
        Ok(name) => {
            format!("below the kernel, the hypervisor ({name}) and the device may cache as well")
        }
        Err(_) => "below the kernel, a hypervisor or the device may cache as well".to_owned(),
    }
}

fn text(path: PathBuf) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_and_without_optional_fields_is_read() {
        let plain = "36 35 98:0 /mnt1 /mnt2 rw,noatime - ext3 /dev/root rw,errors=continue";
        let tagged = "36 35 98:0 / / rw shared:1 master:2 - ext4 /dev/vda rw";
        let mount = |kind, source| Mount {
            device: "98:0",
            kind,
            source,
        };
        assert_eq!(parse(plain), Some(mount("ext3", "/dev/root")));
        assert_eq!(parse(tagged), Some(mount("ext4", "/dev/vda")));
        assert_eq!(parse("36 35"), None);
    }

    #[test]
    fn the_chosen_scheduler_is_the_one_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(chosen("none"), "none");
    }

    #[test]
    fn a_file_in_memory_and_one_on_a_disk_name_their_file_system() {
        let shared = super::super::scratch::unnamed(Path::new("/dev/shm")).unwrap();
        assert!(below(&shared, "it").unwrap().starts_with("it: tmpfs on "));
    }
}
