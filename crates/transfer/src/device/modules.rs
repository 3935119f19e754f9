//! The two modules: loaded from where a guest has them, and unloaded again.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::kmod::{ModuleInitFlags, finit_module};

use super::node::{RECEIVER, REMEDY, SENDER};
use oscope_sys::cleanup::CleanupGuard;
use oscope_sys::cleanup::module::NAMES;
use oscope_sys::cleanup::resource::Resource;
use oscope_sys::error::Failure;

/// Where a guest has the modules of its kernel.
const FOLDER: &str = "/run/oscope/modules";
/// The modules, as the kernel names them, with their devices.
const MODULES: [(&str, &str); 2] = [(NAMES[0], SENDER), (NAMES[1], RECEIVER)];

/// Have both devices there until what is returned is dropped; what was there already stays.
///
/// # Errors
/// `Failure::Unavailable` where a module is neither loaded nor to be had, or is for another kernel.
pub fn provide() -> Result<Vec<CleanupGuard>, Failure> {
    let missing = MODULES
        .iter()
        .filter(|(_, device)| !Path::new(device).exists());
    missing
        .filter_map(|(name, device)| load(name, device).transpose())
        .collect()
}

/// Load a module; `None` where another process has done so meanwhile.
fn load(name: &str, device: &str) -> Result<Option<CleanupGuard>, Failure> {
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
        _ => Failure::system(&path.display().to_string(), &error),
    })?;
    let made = CleanupGuard::log_intent(Resource::Module {
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
        _ => Failure::system(&format!("loading {path}"), errno),
    }
}
