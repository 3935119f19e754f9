//! A server of SSH with keys and settings of its own, in the server's network, and the client's settings to reach it.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::mount::{MsFlags, mount};

use super::PATIENCE;
use super::namespace::Stay;
use super::service::Service;
use oscope_sys::error::Failure;
use oscope_sys::net::Link;
use oscope_sys::worker::program::{Name, Program, search_for_root};

/// sshd(8). It sends its version to each client that connects (RFC 4253, 4.2).
const SSHD: Name = Name {
    command: "sshd",
    package: "openssh-server",
    question: "",
    greeting: "",
    if_slow: "see whether something holds its connections",
};
/// ssh-keygen(1).
const KEYGEN: Name = Name {
    command: "ssh-keygen",
    package: "openssh-client",
    question: "",
    greeting: "",
    if_slow: "see whether the machine has randomness",
};
/// ssh(1).
const SSH: Name = Name {
    command: "ssh",
    package: "openssh-client",
    question: "-V",
    greeting: "OpenSSH_",
    if_slow: "see what it says with -v",
};
/// The name by which the client's settings know the server.
pub const ALIAS: &str = "oscope-server";
/// Nobody else is in the server's network.
const PORT: u16 = 2222;
/// Where sshd of Debian wants a folder that is empty and root's, for its part without privileges; others have another,
/// which their package makes.
const PRIVILEGE_SEPARATION: &str = "/run/sshd";
/// What ssh chooses by itself (sntrup761x25519, since 9.0) takes some 70 ms of CPU more at each mount.
const KEY_EXCHANGE: &str = "curve25519-sha256";
/// Longest first line of a server (RFC 4253, 4.2).
const LONGEST_BANNER: u64 = 255;

/// A running server.
#[derive(Debug)]
pub struct SshServer {
    /// Settings for ssh and who starts it (`-F`), under the host name [`ALIAS`].
    pub config: PathBuf,
    /// Which programs serve and connect.
    pub note: String,
    service: Service,
}

impl SshServer {
    /// Make keys and settings in `folder`, which is made, and start the server at the link's receiving end.
    ///
    /// # Errors
    /// `Failure::Unavailable` where a program is missing; `Failure::Failed` if the server does not listen.
    pub fn start(folder: &Path, link: &Link) -> Result<Self, Failure> {
        let search = search_for_root();
        let ssh = Program::find(SSH, Some(&search))?;
        let sshd = Program::find(SSHD, Some(&search))?;
        let address = SocketAddr::new(link.address(), PORT);
        fs::create_dir(folder).map_err(|error| failed(folder, &error))?;
        let keygen = Program::find(KEYGEN, Some(&search))?;
        for name in ["host", "user"] {
            make_key(&keygen, &folder.join(name))?;
        }
        write_server_settings(folder, address)?;
        let config = write_client_settings(folder, address)?;
        let settings = folder.join("sshd_config").display().to_string();
        let mut run = sshd.run(&["-D", "-e", "-f", &settings].map(str::to_owned))?;
        run.call_by_path();
        let mut service = {
            let _place = with_privilege_separation(folder)?;
            let _visit = link.receiver.enter()?;
            Service::start(run)?
        };
        let latest = Instant::now() + PATIENCE;
        let mut banner = None;
        let _visit = link.sender.enter()?;
        service.wait_until(latest, "sshd listens", || {
            banner = said_at(address);
            Ok(banner.is_some())
        })?;
        let note = format!(
            "the server is sshd with internal-sftp ({}), the connection ssh ({}), with the settings that it has by \
             default, but for the exchange of keys ({KEY_EXCHANGE}), which is not measured",
            banner.unwrap_or_default(),
            ssh.version
        );
        Ok(Self {
            config,
            note,
            service,
        })
    }

    /// The failure of one who wanted to connect, with what the server says of it.
    pub fn explained(&self, failure: Failure) -> Failure {
        match self.service.last_words() {
            Ok(Some(words)) => failure.followed_by(&format!("; sshd: {words}")),
            _ => failure,
        }
    }
}

fn make_key(keygen: &Program, path: &Path) -> Result<(), Failure> {
    let path = path.display().to_string();
    let words = ["-q", "-t", "ed25519", "-N", "", "-C", "oscope", "-f", &path];
    let mut run = keygen.run(&words.map(str::to_owned))?;
    let ended = run.finish(Instant::now() + PATIENCE)?;
    run.checked_output(ended).map(drop)
}

/// See sshd_config(5). Whoever has the key may come, and gets SFTP alone. With a ChrootDirectory, sshd does not ask
/// whether the user's shell is there (`allowed_user`, auth.c): in a guest it is not.
fn write_server_settings(folder: &Path, address: SocketAddr) -> Result<(), Failure> {
    let (ip, port, keys) = (address.ip(), address.port(), folder.display());
    write(
        &folder.join("sshd_config"),
        &format!(
            "Port {port}\n\
            ListenAddress {ip}\n\
            HostKey {keys}/host\n\
            AuthorizedKeysFile {keys}/user.pub\n\
            PidFile none\n\
            UsePAM no\n\
            KexAlgorithms {KEY_EXCHANGE}\n\
            StrictModes no\n\
            PermitRootLogin prohibit-password\n\
            PasswordAuthentication no\n\
            KbdInteractiveAuthentication no\n\
            LogLevel ERROR\n\
            Subsystem sftp internal-sftp\n\
            ForceCommand internal-sftp\n\
            ChrootDirectory /\n"
        ),
    )
}

/// See ssh_config(5). Nobody is asked, and nothing of the user's own settings is used.
fn write_client_settings(folder: &Path, address: SocketAddr) -> Result<PathBuf, Failure> {
    let (ip, port, keys) = (address.ip(), address.port(), folder.display());
    let public = folder.join("host.pub");
    let host = fs::read_to_string(&public).map_err(|error| failed(&public, &error))?;
    write(&folder.join("known"), &format!("[{ip}]:{port} {host}"))?;
    let config = folder.join("ssh_config");
    write(
        &config,
        &format!(
            "Host {ALIAS}\n  \
            HostName {ip}\n  \
            Port {port}\n  \
            IdentityFile {keys}/user\n  \
            IdentitiesOnly yes\n  \
            BatchMode yes\n  \
            UserKnownHostsFile {keys}/known\n  \
            GlobalKnownHostsFile /dev/null\n  \
            StrictHostKeyChecking yes\n  \
            ControlMaster no\n  \
            ControlPath none\n"
        ),
    )?;
    Ok(config)
}

/// Where the folder for sshd is missing, it is made on a file system of its own over /run, which only the server sees.
fn with_privilege_separation(folder: &Path) -> Result<Option<Stay>, Failure> {
    if Path::new(PRIVILEGE_SEPARATION).is_dir() {
        return Ok(None);
    }
    if folder.starts_with("/run") {
        return Err(Failure::request(
            "directory",
            "sshd needs /run for itself; choose a folder elsewhere",
        ));
    }
    let stay = Stay::mounts()?;
    mount(
        Some("tmpfs"),
        "/run",
        Some("tmpfs"),
        MsFlags::empty(),
        Some("mode=0755"),
    )
    .map_err(|error| {
        Failure::system("mounting a tmpfs at /run for sshd", io::Error::from(error))
    })?;
    let path = Path::new(PRIVILEGE_SEPARATION);
    fs::create_dir(path).map_err(|error| failed(path, &error))?;
    Ok(Some(stay))
}

/// The line with which a server of SSH greets; `None` where none does.
fn said_at(address: SocketAddr) -> Option<String> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut line = String::new();
    BufReader::new(stream.take(LONGEST_BANNER))
        .read_line(&mut line)
        .ok()?;
    let line = line.trim_end();
    line.starts_with("SSH-2.0-").then(|| line.to_owned())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::system(&path.display().to_string(), error)
}
