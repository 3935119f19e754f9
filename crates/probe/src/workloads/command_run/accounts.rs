//! What the kernel accounts of a program's system calls (`/proc/PID/io`, proc_pid_io(5)): read by the launcher, and
//! understood by the probe.
//!
//! The launcher is kept small, since its size is the least that is reported of a program: it reads with three system
//! calls and no more code.

use std::str;

/// More bytes than the file has.
const LONGEST: usize = 256;
/// More bytes than a path has.
const LONGEST_PATH: usize = 32;

/// Bytes of a program's system calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bytes {
    pub read: f64,
    pub written: f64,
}

/// The text of the file; empty where it cannot be read.
#[derive(Debug, Clone, Copy)]
pub struct Accounts {
    text: [u8; LONGEST],
    length: usize,
}

impl Accounts {
    /// None.
    pub const NONE: Self = Self {
        text: [0; LONGEST],
        length: 0,
    };

    /// Those of a program that has ended and is not reaped yet, and of the children that it waited for.
    #[inline(always)]
    pub fn of(child: libc::pid_t) -> Self {
        let mut this = Self::NONE;
        let path = path(child);
        // SAFETY: the path ends with a NUL; the text has room for what is asked, and the descriptor is this function's
        // own.
        unsafe {
            let file = libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
            if file >= 0 {
                let length = libc::read(file, this.text.as_mut_ptr().cast(), LONGEST);
                this.length = usize::try_from(length).unwrap_or(0);
                libc::close(file);
            }
        }
        this
    }

    /// What they say; `None` where the kernel does not count.
    pub fn bytes(&self) -> Option<Bytes> {
        let text = str::from_utf8(&self.text[..self.length]).ok()?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.strip_prefix(": ")?.parse().ok()
        };
        Some(Bytes {
            read: field("rchar")?,
            written: field("wchar")?,
        })
    }
}

/// The path of the file, with the NUL that ends it.
#[inline(always)]
fn path(child: libc::pid_t) -> [u8; LONGEST_PATH] {
    let mut path = [0; LONGEST_PATH];
    let mut place = 0;
    let mut put = |byte| {
        path[place] = byte;
        place += 1;
    };
    b"/proc/".iter().for_each(|&byte| put(byte));
    let mut power = 1_000_000_000;
    let mut begun = false;
    while power > 0 {
        let digit = child / power % 10;
        begun |= digit > 0;
        if begun {
            put(b'0' + digit as u8);
        }
        power /= 10;
    }
    b"/io".iter().for_each(|&byte| put(byte));
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_the_whole_number() {
        for number in [1, 10, 1_000, 4_194_304, i32::MAX] {
            let made = path(number);
            let text = str::from_utf8(&made).expect("it is ASCII");
            assert_eq!(text.trim_end_matches('\0'), format!("/proc/{number}/io"));
        }
    }

    #[test]
    fn the_accounts_of_this_process_are_there_and_of_none_are_not() {
        let own = Accounts::of(std::process::id() as libc::pid_t);
        let bytes = own.bytes().expect("this kernel accounts them");
        assert!(bytes.read > 0.0, "{bytes:?}");
        assert_eq!(Accounts::of(0).bytes(), None);
        assert_eq!(Accounts::NONE.bytes(), None);
    }
}
