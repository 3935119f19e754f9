//! Which names a receiver takes, and what a file is called while it is not whole.

use std::collections::HashMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::key::{Key, LENGTH};
use super::wire::Entry;
use oscope_sys::error::Failure;

/// What the name of a file that is not whole begins with.
pub const PARTIAL: &str = ".oscope-partial-";

/// How many of them a file may have.
const PARTIALS: u32 = 8;

/// Bytes of a name at most, as the kernel's `PATH_MAX`.
pub const LONGEST: usize = 4095;

/// Bytes of a component at most, as the kernel's `NAME_MAX`.
const LONGEST_PART: usize = 255;

/// Refuse a name that could lead out of the folder, that no file can have, or that is as of a partial file.
///
/// # Errors
/// The text says what is wrong with the name, in one line that does not repeat it.
pub fn check(name: &[u8]) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("an empty name");
    }
    if name.len() > LONGEST {
        return Err("a name longer than 4095 bytes");
    }
    if name[0] == b'/' {
        return Err("a name that begins with '/'");
    }
    if name.contains(&0) {
        return Err("a name with a NUL byte");
    }
    for part in name.split(|&byte| byte == b'/') {
        match part {
            b"" => return Err("a name with an empty component"),
            b"." | b".." => return Err("a name with a component '.' or '..'"),
            _ if part.len() > LONGEST_PART => {
                return Err("a name with a component longer than 255 bytes");
            }
            _ if part.starts_with(PARTIAL.as_bytes()) => {
                return Err("a name as of an unfinished transfer");
            }
            _ => {}
        }
    }
    Ok(())
}

/// Why names cannot all be had at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clash<'a> {
    /// Two things have this name.
    Twice(&'a [u8]),
    /// This is the name of a file, and of the folder of another one.
    FileAndFolder(&'a [u8]),
}

impl<'a> Clash<'a> {
    /// The name, what is wrong with it, and what helps.
    pub fn explained(self) -> (&'a [u8], Failure) {
        let (name, why) = match self {
            Self::Twice(name) => (name, "two files would have this name"),
            Self::FileAndFolder(name) => (name, "a file has the name of another's folder"),
        };
        let remedy = "rename one, or send them in two transfers, into two folders";
        (name, Failure::remediable(why, remedy))
    }
}

/// Refuse names that cannot all be had at once: two files of one name, or a file where another's folder is to be. With
/// each name, whether it is a folder's.
///
/// # Errors
/// [`Clash`]: the first name that cannot be had.
pub fn check_together<'a>(
    names: impl Iterator<Item = (&'a [u8], bool)> + Clone,
) -> Result<(), Clash<'a>> {
    let mut all = HashMap::with_capacity(names.size_hint().0);
    for (name, is_folder) in names.clone() {
        if all.insert(name, is_folder).is_some() {
            return Err(Clash::Twice(name));
        }
    }
    let mut last: &[u8] = b"";
    for (name, _) in names {
        let mut folder = split(name).0;
        if folder == last {
            continue;
        }
        last = folder;
        while !folder.is_empty() {
            if all.get(folder) == Some(&false) {
                return Err(Clash::FileAndFolder(folder));
            }
            folder = split(folder).0;
        }
    }
    Ok(())
}

/// The folder of a name, empty for the destination itself, and its last component.
pub fn split(name: &[u8]) -> (&[u8], &[u8]) {
    match name.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&name[..at], &name[at + 1..]),
        None => (&[], name),
    }
}

/// Over what kind of connection contents came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// One that authenticates nothing.
    Plain,
    /// One with a key.
    Keyed,
}

/// What the file is called until it is whole: the same for the same name, size, time and mode, so that a later transfer
/// of this user resumes it. Others cannot guess it: who may write to the folder cannot put something there beforehand.
///
/// What came over a keyed connection has other names than what came over a plain one, so that the first never resumes
/// the second: what it resumes was authenticated.
pub fn partial(entry: &Entry, origin: Origin) -> String {
    let mut hash = blake3::Hasher::new_keyed(secret());
    hash.update(&entry.size.to_le_bytes());
    hash.update(&entry.mtime_ns.to_le_bytes());
    hash.update(&entry.mode.to_le_bytes());
    hash.update(entry.name);
    match origin {
        Origin::Plain => {}
        // No name has a byte 0.
        Origin::Keyed => {
            hash.update(b"\0keyed");
        }
    }
    let hex = hash.finalize().to_hex();
    format!("{PARTIAL}{}", &hex[..32])
}

/// What the names of this user's partial files are made with. Where it cannot be kept, no later process resumes them.
fn secret() -> &'static [u8; LENGTH] {
    static SECRET: OnceLock<Key> = OnceLock::new();
    SECRET
        .get_or_init(|| {
            kept_secret().unwrap_or_else(|| Key::new().expect("the kernel gives random numbers"))
        })
        .bytes()
}

/// The secret in this user's folder for state: `$OSCOPE_STATE`, or `oscope` in `$XDG_STATE_HOME`, by default
/// `~/.local/state`.
fn kept_secret() -> Option<Key> {
    if cfg!(test) {
        return None;
    }
    let named = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let folder = named("OSCOPE_STATE").or_else(|| {
        let state = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")));
        Some(state?.join("oscope"))
    })?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .ok()?;
    Some(Key::read_or_make(&folder.join("partial-names")).ok()?.0)
}

/// What it may be called, in this order: what has such a name may be somebody else's.
pub fn partials(entry: &Entry, origin: Origin) -> impl Iterator<Item = String> {
    let first = partial(entry, origin);
    (0..PARTIALS).map(move |number| match number {
        0 => first.clone(),
        _ => format!("{first}-{number}"),
    })
}

/// A name for people, in one line and without a command to the terminal: control characters, bytes that are no UTF-8,
/// and the backslash that marks them are escaped, so that two names never look the same.
pub fn shown(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for one in chunk.valid().chars() {
            match one {
                '\\' => text.push_str("\\\\"),
                _ if one.is_control() => text.extend(one.escape_default()),
                _ => text.push(one),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}
