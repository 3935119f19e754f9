//! What is known of a mount while it stands, and after it was killed: `mount.json` in the cache folder, and a link to
//! that folder in the list of mounts.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{failed, place};
use crate::hex;
use crate::remote::Target;
use oscope_sys::error::Failure;

const NAME: &str = "mount.json";
const FORMAT: u32 = 1;

/// A mount, as it is written down. Paths and the target are hexadecimal digits of bytes.
#[derive(Serialize, Deserialize)]
struct Written {
    format: u32,
    host: String,
    folder: String,
    port: Option<u16>,
    config: Option<String>,
    options: Vec<String>,
    /// Left out where there is none, as by versions that did not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    helper: Option<String>,
    timeout_ms: u64,
    mountpoint: String,
    pid: u32,
    started: u64,
}

/// A mount that stands or was killed.
pub struct Record {
    /// What is mounted, and how the server is reached.
    pub target: Target,
    /// How long an operation waits for the server.
    pub timeout: Duration,
    /// Where it is mounted; absolute.
    pub mountpoint: PathBuf,
    /// The process.
    pub pid: u32,
    /// When it was mounted, in seconds since 1970.
    pub started: u64,
}

impl Record {
    /// What is written in this cache folder; None where there is nothing, or nothing that can be read.
    pub fn read(cache: &Path) -> Option<Self> {
        let text = std::fs::read(cache.join(NAME)).ok()?;
        let written: Written = serde_json::from_slice(&text).ok()?;
        if written.format != FORMAT {
            return None;
        }
        let config = match &written.config {
            Some(config) => Some(hex::to_path(config)?),
            None => None,
        };
        Some(Self {
            target: Target {
                host: written.host,
                folder: hex::to_path(&written.folder)?,
                port: written.port,
                config,
                options: written.options,
                helper: written.helper,
            },
            timeout: Duration::from_millis(written.timeout_ms),
            mountpoint: hex::to_path(&written.mountpoint)?,
            pid: written.pid,
            started: written.started,
        })
    }

    /// Write it down in the cache folder, whole or not at all, and list it.
    pub fn write(&self, cache: &Path) -> Result<(), Failure> {
        let target = &self.target;
        let written = Written {
            format: FORMAT,
            host: target.host.clone(),
            folder: hex::of_path(&target.folder),
            port: target.port,
            config: target.config.as_ref().map(|path| hex::of_path(path)),
            options: target.options.clone(),
            helper: target.helper.clone(),
            timeout_ms: u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX),
            mountpoint: hex::of_path(&self.mountpoint),
            pid: self.pid,
            started: self.started,
        };
        let temporary = cache.join("mount.json.new");
        let link = link_of(&self.mountpoint)?;
        let write = || {
            std::fs::write(&temporary, serde_json::to_vec(&written)?)?;
            std::fs::rename(&temporary, cache.join(NAME))
        };
        write().map_err(|error| {
            failed(
                format!(
                    "the mount cannot be written down in {} ({error})",
                    cache.display()
                ),
                "make room, or name another folder with --cache",
            )
        })?;
        replace_link(cache, &link).map_err(|error| {
            failed(
                format!("the mount cannot be listed as {} ({error})", link.display()),
                "make room, or have XDG_CACHE_HOME name a folder of your own",
            )
        })
    }

    /// Take the mount off the list; what is in its cache folder stays.
    pub fn unlist(&self, cache: &Path) {
        if let Ok(link) = link_of(&self.mountpoint) {
            // It may be another's by now, which mounted at the same place.
            if std::fs::read_link(&link).is_ok_and(|to| to == cache) {
                let _ = std::fs::remove_file(link);
            }
        }
    }
}

/// The cache folder of what is, or was when it was killed, mounted at this absolute path by this user.
pub fn cache_of(mountpoint: &Path) -> Result<Option<PathBuf>, Failure> {
    let Ok(cache) = std::fs::read_link(link_of(mountpoint)?) else {
        return Ok(None);
    };
    // A folder that has been used for another place since is not this mount's.
    let same = Record::read(&cache).is_some_and(|record| record.mountpoint == mountpoint);
    Ok(same.then_some(cache))
}

/// The cache folders of all mounts of this user that stand or were killed, by their mount points.
pub fn listed() -> Result<Vec<PathBuf>, Failure> {
    let mut found: Vec<_> = entries(&place::mounts()?)
        .filter_map(|link| std::fs::read_link(link).ok())
        .filter_map(|cache| Some((Record::read(&cache)?.mountpoint, cache)))
        .collect();
    found.sort();
    found.dedup();
    Ok(found.into_iter().map(|(_, cache)| cache).collect())
}

/// The cache folders of this user in which a mount was ever written down, wherever they are.
pub fn all_caches() -> Result<Vec<PathBuf>, Failure> {
    let mut found = listed()?;
    found.extend(entries(&place::caches()?).filter(|path| path.join(NAME).is_file()));
    found.sort();
    found.dedup();
    Ok(found)
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
}

fn link_of(mountpoint: &Path) -> Result<PathBuf, Failure> {
    let name = place::short_digest(hex::of_path(mountpoint).as_bytes());
    Ok(place::mounts()?.join(name))
}

/// Make a link, in the place of one that is there.
fn replace_link(to: &Path, link: &Path) -> io::Result<()> {
    if let Some(folder) = link.parent() {
        std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700)
            .create(folder)?;
    }
    forget_removed()?;
    let temporary = link.with_extension(std::process::id().to_string());
    std::os::unix::fs::symlink(to, &temporary)?;
    std::fs::rename(temporary, link)
}

/// Take links off the list whose cache folder was removed by hand.
fn forget_removed() -> io::Result<()> {
    let Ok(list) = place::mounts() else {
        return Ok(());
    };
    for link in entries(&list).filter(|link| link.is_symlink() && !link.exists()) {
        match std::fs::remove_file(link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
