//! Kernel modules that are loaded for a request.

use nix::errno::Errno;
use nix::kmod::{DeleteModuleFlags, delete_module};

use super::resource::Outcome;
use crate::error::Failure;

/// The modules that may be loaded and unloaded here, as the kernel names them: sender and receiver of a transfer.
pub const NAMES: [&str; 2] = ["oscope_sender", "oscope_receiver"];

/// Unload a module of ours.
///
/// # Errors
/// `Failure::Failed` while somebody has its device open, or it is none of ours.
pub fn unload(name: &str) -> Result<Outcome, Failure> {
    if !NAMES.contains(&name) {
        return Err(Failure::failed(format!(
            "{name} is no module that is loaded here"
        )));
    }
    let name = std::ffi::CString::new(name).map_err(|error| Failure::failed(error.to_string()))?;
    match delete_module(&name, DeleteModuleFlags::O_NONBLOCK) {
        Ok(()) => Ok(Outcome::Undone),
        Err(Errno::ENOENT) => Ok(Outcome::Gone),
        Err(errno) => Err(std::io::Error::from(errno).into()),
    }
}
