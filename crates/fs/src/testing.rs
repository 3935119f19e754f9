//! A real `sshd` for tests: own port, own keys, own configuration, in a folder that goes with it.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::sockopt::ReuseAddr;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, getsockname, setsockopt, socket,
};
use nix::unistd::{Pid, Uid, User};
use tempfile::TempDir;

use crate::remote::{Limits, Target};

/// Bytes that differ from place to place.
pub fn contents(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// A file without a name that holds them.
pub fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// A folder with a tmpfs of one MiB on it, for the calling thread and those that it starts (a mount namespace, so it
/// goes with them). Needs root.
pub fn small_disk() -> TempDir {
    const NOWHERE: Option<&str> = None;
    let folder = tempfile::tempdir().unwrap();
    // It changes the name space of mounts of this thread only.
    unshare(CloneFlags::CLONE_NEWNS).expect("needs root");
    mount(
        NOWHERE,
        "/",
        NOWHERE,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        NOWHERE,
    )
    .unwrap();
    mount(
        Some("tmpfs"),
        folder.path(),
        Some("tmpfs"),
        MsFlags::empty(),
        Some("size=1m,mode=700"),
    )
    .unwrap();
    folder
}

/// Fills the disk to the last byte, with the file `filler`.
pub fn fill_up(folder: &Path) {
    let file = File::options()
        .create(true)
        .append(true)
        .open(folder.join("filler"))
        .unwrap();
    let mut block = &[1_u8; 4096][..];
    while !block.is_empty() {
        if (&file).write(block).is_err() {
            block = &block[..block.len() / 2];
        }
    }
}

/// A folder that sshd wants as root, at each connection. Who needs it holds a shared lock on it; other servers of tests
/// take away what they made when nobody does.
const PRIVILEGE_SEPARATION: &str = "/run/sshd";

/// How long the server may take to answer, or its children to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// Limits that fit a server on this machine.
pub const LIMITS: Limits = Limits {
    operation: Duration::from_secs(20),
    connect: Duration::from_secs(20),
};

/// An `sshd` on a free port of 127.0.0.1; ended, with all it started, when dropped.
pub struct Server {
    home: TempDir,
    port: u16,
    _reserved: OwnedFd,
    child: Option<Child>,
    /// Holds [`PRIVILEGE_SEPARATION`].
    privileges: Option<Flock<File>>,
}

/// A port that is bound but never listened on, with SO_REUSEADDR as sshd's own socket: nobody else is given it while
/// the server is stopped.
fn reserve_port() -> (OwnedFd, u16) {
    let kind = (AddressFamily::Inet, SockType::Stream);
    let reserved = socket(kind.0, kind.1, SockFlag::SOCK_CLOEXEC, None).unwrap();
    setsockopt(&reserved, ReuseAddr, &true).unwrap();
    bind(reserved.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
    let port = getsockname::<SockaddrIn>(reserved.as_raw_fd())
        .unwrap()
        .port();
    (reserved, port)
}

/// The folder, made where it is missing, and held.
fn privilege_separation() -> Flock<File> {
    loop {
        fs::create_dir_all(PRIVILEGE_SEPARATION).unwrap();
        let Ok(folder) = File::open(PRIVILEGE_SEPARATION) else {
            continue;
        };
        let held = Flock::lock(folder, FlockArg::LockShared).unwrap();
        // It may have been taken away before it was held.
        if fs::metadata(PRIVILEGE_SEPARATION)
            .is_ok_and(|found| found.ino() == held.metadata().unwrap().ino())
        {
            return held;
        }
    }
}

impl Server {
    /// Start one. As root it needs `/run/sshd`, and makes it where it is missing.
    pub fn new() -> Self {
        Self::with("")
    }

    /// Start one with further lines for its sshd_config; they come first, and ssh takes what comes first.
    pub fn with(lines: &str) -> Self {
        let home = tempfile::Builder::new()
            .prefix("oscope-sshd-")
            .tempdir()
            .unwrap();
        // Another user than root, who logs in for a test, has to reach his key and the folders.
        fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
        let (reserved, port) = reserve_port();
        for key in ["host", "user", "stranger"] {
            make_key(&home.path().join(key));
        }
        let at = |name: &str| home.path().join(name).display().to_string();
        let sftp = match lines.contains("Subsystem") {
            true => "",
            false => "Subsystem sftp internal-sftp\n",
        };
        let config = format!(
            "{lines}\n\
             {sftp}Port {port}\n\
             ListenAddress 127.0.0.1\n\
             HostKey {}\n\
             AuthorizedKeysFile {}\n\
             PidFile none\n\
             UsePAM no\n\
             StrictModes no\n\
             PasswordAuthentication no\n\
             KbdInteractiveAuthentication no\n\
             PermitRootLogin yes\n\
             MaxStartups 100\n\
             PrintMotd no\n\
             KexAlgorithms curve25519-sha256\n",
            at("host"),
            at("user.pub"),
        );
        fs::write(at("sshd_config"), config).unwrap();
        let host = fs::read_to_string(at("host.pub")).unwrap();
        fs::write(at("known_hosts"), format!("[127.0.0.1]:{port} {host}")).unwrap();
        let config = format!(
            "IdentityFile {}\n\
             IdentitiesOnly yes\n\
             IdentityAgent none\n\
             UserKnownHostsFile {}\n\
             GlobalKnownHostsFile none\n",
            at("user"),
            at("known_hosts"),
        );
        fs::write(at("ssh_config"), config).unwrap();
        let mut server = Self {
            home,
            port,
            _reserved: reserved,
            child: None,
            privileges: None,
        };
        server.start();
        server
    }

    /// A folder on it, reached with its own key and known_hosts.
    pub fn target(&self, folder: &Path) -> Target {
        Target {
            helper: None,
            host: "127.0.0.1".to_owned(),
            folder: folder.to_owned(),
            port: Some(self.port),
            config: Some(self.file("ssh_config")),
            options: Vec::new(),
        }
    }

    /// A file of its own: `known_hosts`, `ssh_config`, `sshd_config`, `log`, `user` and `stranger` (a key that it does
    /// not let in).
    pub fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// A fresh empty folder, removed with it.
    pub fn folder(&self, name: &str) -> PathBuf {
        let folder = self.home.path().join(name);
        fs::create_dir(&folder).unwrap();
        folder
    }

    /// Stop listening, and end all connections.
    pub fn stop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        // No new connection comes between the look at the children and the end.
        kill(pid_of(&child), Signal::SIGSTOP).unwrap();
        end_all(&below(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Listen, on the same port each time.
    pub fn start(&mut self) {
        assert!(self.child.is_none(), "it is started already");
        if Uid::effective().is_root() {
            self.privileges = Some(privilege_separation());
        }
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.file("log"))
            .unwrap();
        let mut command = Command::new(sshd());
        command
            .arg("-D")
            .arg("-e")
            .arg("-f")
            .arg(self.file("sshd_config"));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.child = Some(command.spawn().unwrap());
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect_timeout(&address, PATIENCE).is_err() {
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < until,
                "sshd does not answer ({ended:?}): {}",
                self.log()
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// End all connections; new ones are taken.
    pub fn cut(&self) {
        end_all(&self.children());
    }

    /// All connections stop answering (SIGSTOP), until [`Self::thaw`]; new ones are taken.
    pub fn freeze(&self) {
        signal_all(&self.children(), Signal::SIGSTOP);
    }

    /// They answer again, as far as they still are.
    pub fn thaw(&self) {
        signal_all(&self.children(), Signal::SIGCONT);
    }

    /// What it wrote to its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    fn children(&self) -> Vec<Pid> {
        self.child
            .as_ref()
            .map_or_else(Vec::new, |child| below(child.id()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The user `nobody`, for what root is always allowed; `None`: the test does not run as root, and is that user itself.
pub fn unprivileged() -> Option<User> {
    let root = Uid::effective().is_root();
    root.then(|| {
        User::from_name("nobody")
            .unwrap()
            .expect("there is a user nobody")
    })
}

fn sshd() -> &'static str {
    let known = ["/usr/sbin/sshd", "/usr/bin/sshd", "/usr/local/sbin/sshd"];
    // sshd starts itself anew for each connection, so it wants its whole path.
    let found = known.into_iter().find(|path| Path::new(path).exists());
    found.expect("sshd is installed (Debian: openssh-server)")
}

fn make_key(at: &Path) {
    let mut command = Command::new("ssh-keygen");
    command
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"])
        .arg(at);
    assert!(command.status().unwrap().success());
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id() as i32)
}

/// All processes that a process started, and they, and so on; the youngest last.
fn below(process: u32) -> Vec<Pid> {
    let mut found = vec![process];
    let mut at = 0;
    while at < found.len() {
        let path = format!("/proc/{0}/task/{0}/children", found[at]);
        let children = fs::read_to_string(path).unwrap_or_default();
        found.extend(
            children
                .split_whitespace()
                .map(|pid| pid.parse::<u32>().unwrap()),
        );
        at += 1;
    }
    found[1..]
        .iter()
        .map(|pid| Pid::from_raw(*pid as i32))
        .collect()
}

/// A signal for each that is still there.
fn signal_all(processes: &[Pid], signal: Signal) {
    for process in processes {
        let _ = kill(*process, signal);
    }
}

/// Kill them and wait until they are gone, or only wait for their parent to notice.
fn end_all(processes: &[Pid]) {
    signal_all(processes, Signal::SIGKILL);
    let until = Instant::now() + PATIENCE;
    let gone = |process: &Pid| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let state = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().next());
        matches!(state, None | Some("Z" | "X"))
    };
    while !processes.iter().all(gone) {
        assert!(Instant::now() < until, "processes of sshd do not end");
        thread::sleep(Duration::from_millis(2));
    }
}
