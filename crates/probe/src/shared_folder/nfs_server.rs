//! The kernel's NFS server in the server's network, set up by hand as nfs-utils would do it: there is one client and
//! one folder.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};

use super::{Folders, PATIENCE, mounts};
use oscope_sys::cancel;
use oscope_sys::error::Failure;
use oscope_sys::net::Link;

/// The port of NFS (RFC 7530, 3.1).
pub const PORT: u16 = 2049;
/// Time between two looks whether it serves already.
const PAUSE: Duration = Duration::from_millis(10);
/// As many as nfs-utils starts by default (rpc.nfsd(8)).
const THREADS: u32 = 8;
/// Answers to the server's questions, in the calling thread's network (net/sunrpc/cache.c).
const ANSWERS: &str = "/proc/thread-self/net/rpc";
/// An answer never ends being true: the last second that the kernel takes.
const FOR_EVER: &str = "2147483647";
/// The flags of include/uapi/linux/nfsd/export.h: insecure ports, no subtree check, a file system id of its own. Not
/// there: read-only, squashing of root or of all, asynchronous.
const FLAGS: u32 = 0x0002 | 0x0400 | 0x2000;
/// Users that a squashing would make of others; there is none.
const NOBODY: u32 = 65534;
/// What those flags and threads are in words.
pub const IN_WORDS: &str =
    "8 threads, exported rw, sync, no_subtree_check, no_root_squash, insecure, fsid=0";

/// A running server. Dropping it stops the server.
#[derive(Debug)]
pub struct NfsServer {
    /// Where the server's own file system is mounted.
    control: PathBuf,
    link: Rc<Link>,
}

impl NfsServer {
    /// Serve the folder at the link's receiving end, as the root of NFS 4.
    ///
    /// # Errors
    /// `Failure::Failed` with the kernel's reason.
    pub fn start(folders: &Folders, link: Rc<Link>) -> Result<Self, Failure> {
        let [control, recovery] = ["nfsd", "recovery"].map(|name| folders.root.join(name));
        for folder in [&control, &recovery] {
            fs::create_dir(folder).map_err(|error| failed(folder, &error))?;
        }
        let _visit = link.receiver.enter()?;
        mount(
            Some("nfsd"),
            &control,
            Some("nfsd"),
            MsFlags::empty(),
            None::<&str>,
        )
        .map_err(|error| Failure::system("mounting nfsd", io::Error::from(error)))?;
        let server = Self {
            control,
            link: Rc::clone(&link),
        };
        server.write("nfsv4recoverydir", &recovery.display().to_string())?;
        // There is nothing that a client could want back; 10 s is the least, and is cut short below.
        server.write("nfsv4gracetime", "10")?;
        server.write("versions", "-2 -3 +4 +4.1 +4.2")?;
        answer_questions(&link, &folders.served)?;
        let listener = TcpListener::bind((link.address(), PORT))
            .map_err(|error| Failure::system("listening for NFS", &error))?;
        // The kernel keeps the socket for itself.
        server.write("portlist", &listener.as_raw_fd().to_string())?;
        server.write("threads", &THREADS.to_string())?;
        server.end_grace()?;
        Ok(server)
    }

    /// Until the time is over in which clients of an earlier server may come back, nobody may open a file (RFC 8881,
    /// 8.4.2.1).
    fn end_grace(&self) -> Result<(), Failure> {
        let path = self.control.join("v4_end_grace");
        let latest = Instant::now() + PATIENCE;
        loop {
            let over = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
            if over.starts_with('Y') {
                return Ok(());
            }
            // Refused (EBUSY) where it is over by now, or ends by itself alone (`nfsd4_force_end_grace`).
            let refused = self.write("v4_end_grace", "Y");
            if cancel::requested() || Instant::now() >= latest {
                return refused.and(Err(Failure::failed(
                    "the server of NFS did not begin to serve in time",
                )));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn write(&self, file: &str, words: &str) -> Result<(), Failure> {
        write(&self.control.join(file), &format!("{words}\n"))
    }
}

impl Drop for NfsServer {
    fn drop(&mut self) {
        let stopped = self.link.receiver.enter().and_then(|_visit| {
            self.write("threads", "0")?;
            mounts::unmount(&self.control)
        });
        if let Err(failure) = stopped {
            eprintln!("oscope-probe: cannot stop the server of NFS: {failure}");
        }
    }
}

/// Who may come, what the folder's export is, and where the root of NFS 4 lies (exports(5); fs/nfsd/export.c,
/// net/sunrpc/svcauth_unix.c).
fn answer_questions(link: &Link, served: &Path) -> Result<(), Failure> {
    let (client, served) = (link.sender_address(), served.display());
    let export = format!("client {served} {FOR_EVER} {FLAGS} {NOBODY} {NOBODY} 0\n");
    // A file system id of 4 bytes (type 1, FSID_NUM), which is 0.
    let root = format!("client 1 \\x00000000 {FOR_EVER} {served}\n");
    for (question, answer) in [
        ("auth.unix.ip", format!("nfsd {client} {FOR_EVER} client\n")),
        ("nfsd.export", export),
        ("nfsd.fh", root),
    ] {
        write(&Path::new(ANSWERS).join(question).join("channel"), &answer)?;
    }
    Ok(())
}

/// In one piece, into a file of the kernel's that is there.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    let written = options
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| failed(path, &error).context(text.trim_end()))
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::system(&path.display().to_string(), error)
}
