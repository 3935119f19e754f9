//! What names this machine, boot and kernel, without giving away host names or addresses.

use sha2::{Digest, Sha256};

use super::found::{Found, Remedy, text};

/// Words of the kernel's command line whose values may hold addresses, host names or secrets.
const PRIVATE_WORDS: [&str; 11] = [
    "ip",
    "BOOTIF",
    "ifname",
    "hostname",
    "systemd.hostname",
    "nfsroot",
    "nfsaddrs",
    "netconsole",
    "vlan",
    "bond",
    "rd.luks.key",
];

/// The first 16 hex digits of the SHA-256 of the parts, each ended by a NUL.
#[must_use]
pub fn digest(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    }
    hex::encode(&hasher.finalize()[..8])
}

/// The kernel's command line with the values of [`PRIVATE_WORDS`] left out.
#[must_use]
pub fn public_command_line(command_line: &str) -> String {
    let public = command_line
        .split_whitespace()
        .map(|word| match word.split_once('=') {
            Some((name, _)) if PRIVATE_WORDS.contains(&name) => format!("{name}=(left out)"),
            _ => word.to_owned(),
        });
    public.collect::<Vec<_>>().join(" ")
}

/// A hash that stays the same on one machine: of machine-id and CPU model.
///
/// # Errors
/// Where there is no machine-id.
pub fn machine(model: &Found<String>) -> Found<String> {
    let id = text("/etc/machine-id")
        .or_else(|_| text("/var/lib/dbus/machine-id"))
        .and_then(|id| {
            if id.len() == 32 {
                Ok(id)
            } else {
                Err("/etc/machine-id is empty".to_owned())
            }
        })
        .or_remedy(
            "run systemd-machine-id-setup, or dbus-uuidgen --ensure=/etc/machine-id, as root",
        )?;
    Ok(digest(&[&id, model.as_deref().unwrap_or_default()]))
}

/// Name and version of the C library this program runs with.
///
/// # Errors
/// The library does not report its version.
#[cfg(target_env = "gnu")]
pub fn c_library() -> Found<String> {
    // SAFETY: the function takes nothing and returns a pointer to a string that lives as long as the program.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    Ok(format!("glibc {}", version.to_string_lossy()))
}

/// Name of the C library this program is linked with.
///
/// # Errors
/// Always: such a library does not report its version.
#[cfg(not(target_env = "gnu"))]
pub fn c_library() -> Found<String> {
    Err("this C library does not report its version; build the probe for a -gnu target".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_16_digits_and_keeps_parts_apart() {
        assert_eq!(digest(&["ab", "c"]).len(), 16);
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        // printf 'abc\0' | sha256sum
        assert_eq!(digest(&["abc"]), "dc1114cd074914bd");
    }

    #[test]
    fn addresses_and_host_names_are_left_out_of_the_command_line() {
        let line = "BOOT_IMAGE=/vmlinuz root=UUID=1-2 ip=10.0.0.7::10.0.0.1:255.0.0.0:secret:eth0 \
            BOOTIF=01-aa-bb-cc-dd-ee-ff quiet";
        assert_eq!(
            public_command_line(line),
            "BOOT_IMAGE=/vmlinuz root=UUID=1-2 ip=(left out) BOOTIF=(left out) quiet"
        );
    }
}
