//! Whether `gethostid` is answered by this machine.
//!
//! Without `/etc/hostid` the C library looks the host's name up (gethostid(3)). Where neither `/etc/hosts` nor the
//! module `myhostname` knows the name (nsswitch.conf(5), nss-myhostname(8)), that asks a name server: each call then
//! takes the network's time, from 0.1 ms to many seconds. A trial does not show it, since a name server nearby is quick
//! until it loses a packet.

use std::fs;

use nix::sys::utsname::uname;

use oscope_sys::error::Failure;

/// Refuse a `gethostid` that asks a name server.
///
/// # Errors
/// `Failure::Unavailable`, with the remedy.
pub fn answered_locally() -> Result<(), Failure> {
    let kept = fs::metadata("/etc/hostid").is_ok_and(|file| file.len() >= 4);
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let host = uname().map_err(|error| Failure::system("uname", error))?;
    let name = host.nodename().to_string_lossy();
    if kept || is_known(&name, &text("/etc/hosts"), &text("/etc/nsswitch.conf")) {
        return Ok(());
    }
    Err(Failure::unavailable(
        "gethostid asks a name server on this machine, so that its time would be the network's",
        "add the host's name to /etc/hosts: echo \"127.0.1.1 $(hostname)\" >> /etc/hosts",
    ))
}

/// Whether `name` stands in `/etc/hosts`, or `/etc/nsswitch.conf` has `myhostname` answer before `dns`.
fn is_known(name: &str, hosts: &str, services: &str) -> bool {
    let in_hosts = hosts
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default())
        .any(|line| {
            line.split_whitespace()
                .skip(1)
                .any(|known| known.eq_ignore_ascii_case(name))
        });
    let first = services
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("hosts:"))
        .and_then(|modules| {
            modules
                .split_whitespace()
                .find(|module| ["dns", "resolve", "myhostname"].contains(module))
        });
    in_hosts || first == Some("myhostname")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_the_hosts_file_is_known() {
        let hosts = "127.0.0.1 localhost\n127.0.1.1 Box box.example # alias old\n";
        assert!(is_known("box", hosts, ""));
        assert!(!is_known("old", hosts, ""));
        assert!(!is_known("127.0.1.1", hosts, "hosts: files dns\n"));
    }

    #[test]
    fn the_host_name_module_counts_only_before_a_name_server() {
        assert!(is_known("box", "", "hosts:  files myhostname dns\n"));
        assert!(!is_known("box", "", "hosts: files dns myhostname\n"));
        assert!(!is_known("box", "", "passwd: files myhostname\n"));
    }
}
