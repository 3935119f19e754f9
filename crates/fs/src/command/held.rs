//! A mount that is unmounted here while its process goes on: why, in the words of `umount`, `status`, `recover` and
//! `mount`.
//!
//! unshare(1) -m, containers and services with a mount namespace of their own copy the mounts that are there; umount(2)
//! takes away only the one of its own namespace, and the file system lives as long as any.

use std::path::Path;

use oscope_sys::error::Failure;
use serde_json::Value;

use super::{failed, mountpoint, socket, status};

/// What a process that goes on waits for, and what to do; its answer to `status` says what it is.
pub fn reason(answer: &Value, at: &Path) -> (String, String) {
    let left = status::left(answer);
    let others = status::others(answer);
    let first = others.first().and_then(|process| process.split(' ').next());
    let unmount = first.map(|pid| {
        format!(
            "end what uses it there, or unmount it there: nsenter -t {pid} -m umount {}",
            at.display()
        )
    });
    let elsewhere = format!(
        "another mount namespace still has it, that of process {}",
        others.join(", ")
    );
    match (left.is_empty(), unmount) {
        (true, Some(remedy)) => (
            format!("nothing is left to copy back, but {elsewhere}"),
            remedy,
        ),
        (true, None) => (
            "nothing is left to copy back, but it is still used: by a process that has something of it open, or in \
             a mount namespace that this user may not look at"
                .to_owned(),
            "as root, look for it: grep -l oscope-fs /proc/[0-9]*/mountinfo".to_owned(),
        ),
        (false, Some(remedy)) => (
            format!("not yet copied back: {}; {elsewhere}", status::some_of(&left)),
            remedy,
        ),
        (false, None) => (
            format!("not yet copied back: {}", status::some_of(&left)),
            format!("see how far it is: oscope-fs status {}", at.display()),
        ),
    }
}

/// Why this cache cannot be used, where a mount's process has it.
pub fn in_use(cache: &Path) -> Option<Failure> {
    let answer = socket::status(cache).ok()?;
    let at = status::place_of(&answer)?;
    let by = format!(
        "the cache folder {} is in use by process {}",
        cache.display(),
        answer["pid"]
    );
    let mounted = mountpoint::look(&at).ok()?;
    if mounted.is_some_and(|mount| mount.is_ours()) {
        return Some(failed(
            format!(
                "{by}, which is mounted at {} and copies back itself",
                at.display()
            ),
            format!(
                "unmount that one first (oscope-fs umount {}), or choose another folder with --cache DIR",
                at.display()
            ),
        ));
    }
    let (why, remedy) = reason(&answer, &at);
    Some(failed(
        format!("{by}, which is unmounted and copies back itself; {why}"),
        remedy,
    ))
}
