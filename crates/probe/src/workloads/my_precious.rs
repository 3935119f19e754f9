//! The system call `my_precious()`, which only kernels with the patch of that name have.
//!
//! Its number means another call on newer kernels (`cachestat` from Linux 6.5 on), so that the kernel has to prove to
//! have it, by its setting.

use std::fs;
use std::path::Path;

use oscope_sys::cleanup::CleanupGuard;
use oscope_sys::cleanup::setting::{MY_PRECIOUS_LOG, borrow};
use oscope_sys::error::Failure;

/// Its number, on x86-64 and in the generic table (kernel/patches/my_precious.patch).
pub const NUMBER: i64 = 451;
/// The level of what it logs (KERN_INFO); a console shows lines of a lower level than its own (syslog(2)).
const LEVEL: u32 = 6;
const REMEDY: &str =
    "oscope run kernel.precious, or --on guest:my_precious, which boots a kernel that has the call";

/// Have the call log a line each time, or nothing, until what is returned is dropped; `None` where it does so already.
///
/// # Errors
/// `Failure::Unavailable` where the kernel does not have the call, or its setting must not be changed.
pub fn set_log(logs: bool) -> Result<Option<CleanupGuard>, Failure> {
    set_log_of(Path::new(MY_PRECIOUS_LOG), logs)
}

fn set_log_of(setting: &Path, logs: bool) -> Result<Option<CleanupGuard>, Failure> {
    borrow(setting, if logs { "2" } else { "0" }, REMEDY)
}

/// The note where the line goes to a console too, whose time is then part of the figure.
pub fn console() -> Option<String> {
    let logs = fs::read_to_string(MY_PRECIOUS_LOG).ok()?;
    let shown = fs::read_to_string("/proc/sys/kernel/printk").ok()?;
    (logs.trim() == "2" && is_shown(&shown)).then(|| {
        "each line goes to the console as well, and the figure holds the time of that; as root: sysctl \
         kernel.printk=4".to_owned()
    })
}

/// Whether a console shows lines of the level: the first number of `kernel.printk` is above it.
fn is_shown(printk: &str) -> bool {
    let first = printk.split_whitespace().next();
    first
        .and_then(|level| level.parse::<u32>().ok())
        .is_some_and(|level| level > LEVEL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oscope_sys::testing::{below, kernel, value};

    #[test]
    fn logging_is_set_for_the_call_and_put_back() {
        for (logs, set) in [(false, "0"), (true, "2")] {
            let folder = kernel(&[(MY_PRECIOUS_LOG, "1")]);
            let borrowed = set_log_of(&below(&folder, MY_PRECIOUS_LOG), logs);
            let borrowed = borrowed.expect("it can be set");
            assert_eq!(value(&folder, MY_PRECIOUS_LOG), set);
            drop(borrowed);
            assert_eq!(value(&folder, MY_PRECIOUS_LOG), "1");
        }
    }

    #[test]
    fn a_kernel_without_the_setting_has_no_such_call() {
        let folder = kernel(&[]);
        match set_log_of(&below(&folder, MY_PRECIOUS_LOG), false) {
            Err(Failure::Unavailable {
                remedy: Some(remedy),
                ..
            }) => assert!(remedy.contains("kernel.precious"), "{remedy}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_console_shows_lines_below_its_own_level() {
        assert!(is_shown("7\t4\t1\t7\n"));
        assert!(!is_shown("4\t4\t1\t7\n") && !is_shown("6 4 1 7") && !is_shown(""));
    }
}
