//! The ports of virtio by which a guest talks with its host.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use oscope_sys::error::Failure;

const PORTS: &str = "/sys/class/virtio-ports";
/// The host sends the ports' names after the device is there.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(1);

/// The port to read from.
///
/// # Errors
/// `Failure::Failed` where there is none of that name, or it cannot be opened.
pub fn input(name: &str) -> Result<File, Failure> {
    open(name, OpenOptions::new().read(true))
}

/// The port to write to.
///
/// # Errors
/// As [`input`].
pub fn output(name: &str) -> Result<File, Failure> {
    open(name, OpenOptions::new().write(true))
}

fn open(name: &str, options: &OpenOptions) -> Result<File, Failure> {
    let start = Instant::now();
    loop {
        match find(name) {
            Some(device) if device.exists() => {
                return options
                    .open(&device)
                    .map_err(|error| Failure::system(&device.display().to_string(), error));
            }
            _ if start.elapsed() > PATIENCE => {
                return Err(Failure::failed(format!(
                    "no port of virtio is called {name} (the kernel needs CONFIG_VIRTIO_CONSOLE and CONFIG_VIRTIO_PCI)"
                )));
            }
            _ => thread::sleep(PAUSE),
        }
    }
}

fn find(name: &str) -> Option<PathBuf> {
    let called = |port: &fs::DirEntry| {
        fs::read_to_string(port.path().join("name")).is_ok_and(|found| found.trim() == name)
    };
    let port = fs::read_dir(PORTS).ok()?.flatten().find(called)?;
    Some(Path::new("/dev").join(port.file_name()))
}
