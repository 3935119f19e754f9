//! The two modules: loaded from where a guest has them, and unloaded again.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::kmod::{DeleteModuleFlags, ModuleInitFlags, delete_module, finit_module};

use super::device::{RECEIVER, REMEDY, SENDER};
use crate::error::{Failure, words};
use crate::made::Made;
use crate::made::thing::{Outcome, Thing};

/// Where a guest has the modules of its kernel.
const FOLDER: &str = "/run/oscope/modules";
/// The modules, as the kernel names them, with their devices.
const MODULES: [(&str, &str); 2] = [("oscope_sender", SENDER), ("oscope_receiver", RECEIVER)];

/// Have both devices there until what is returned is dropped; what was there already stays.
///
/// # Errors
/// `Failure::Unavailable` where a module is neither loaded nor to be had, or is for another kernel.
pub fn provide() -> Result<Vec<Made>, Failure> {
    let missing = MODULES
        .iter()
        .filter(|(_, device)| !Path::new(device).exists());
    missing
        .filter_map(|(name, device)| load(name, device).transpose())
        .collect()
}

/// Load a module; `None` where another process has done so meanwhile.
fn load(name: &str, device: &str) -> Result<Option<Made>, Failure> {
    // What is loaded already is somebody else's: it must never be unloaded by the entry below.
    if Path::new("/sys/module").join(name).exists() {
        return is_there(name, device).map(|()| None);
    }
    let path = PathBuf::from(FOLDER).join(format!("{name}.ko"));
    let file = File::open(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::unavailable(
            format!("{device} is not there: the module is not loaded"),
            REMEDY,
        ),
        _ => Failure::system(&path.display().to_string(), words(&error)),
    })?;
    let made = Made::announce(Thing::Module {
        name: name.to_owned(),
    })?;
    let loaded = finit_module(&file, c"", ModuleInitFlags::empty());
    let made = match loaded {
        Ok(()) => Some(made),
        Err(errno) => {
            made.forget()?;
            match errno {
                Errno::EEXIST => None,
                _ => return Err(refused(&path, errno)),
            }
        }
    };
    is_there(name, device).map(|()| made)
}

fn is_there(name: &str, device: &str) -> Result<(), Failure> {
    match Path::new(device).exists() {
        true => Ok(()),
        false => Err(Failure::unavailable(
            format!("{name} is loaded, and {device} is not there"),
            "mount a devtmpfs at /dev",
        )),
    }
}

fn refused(path: &Path, errno: Errno) -> Failure {
    let path = path.display();
    match errno {
        Errno::ENOEXEC => Failure::unavailable(format!("{path} is for another kernel"), REMEDY),
        Errno::EPERM => Failure::unavailable(format!("{path} must not be loaded"), "run as root"),
        _ => Failure::failed(format!("loading {path}: {}", errno.desc())),
    }
}

/// Unload a module of ours.
///
/// # Errors
/// `Failure::Failed` while somebody has its device open, or it is none of ours.
pub fn unload(name: &str) -> Result<Outcome, Failure> {
    if !MODULES.iter().any(|(ours, _)| *ours == name) {
        return Err(Failure::failed(format!(
            "{name} is no module that is loaded here"
        )));
    }
    let name = std::ffi::CString::new(name).map_err(|error| Failure::failed(error.to_string()))?;
    match delete_module(&name, DeleteModuleFlags::O_NONBLOCK) {
        Ok(()) => Ok(Outcome::Undone),
        Err(Errno::ENOENT) => Ok(Outcome::Gone),
        Err(errno) => Err(Failure::failed(errno.desc())),
    }
}
