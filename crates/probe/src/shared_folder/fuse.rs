//! The two file systems over SSH: oscope-fs and sshfs, each a program that serves FUSE.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use nix::sys::statvfs::statvfs;
use serde_json::Value;

use super::service::Service;
use super::ssh_server::{ALIAS, SshServer};
use super::{Client, Folders, PATIENCE, mounts};
use oscope_sys::error::Failure;
use oscope_sys::net::Link;
use oscope_sys::worker::program::{Name, Program, Run, search_for_root};

/// fs/ of Oscope.
const OSCOPE: Name = Name {
    command: "oscope-fs",
    package: "",
    question: "--version",
    greeting: "oscope-fs ",
    if_slow: "see whether the server answers",
};
/// sshfs(1).
const SSHFS: Name = Name {
    command: "sshfs",
    package: "sshfs",
    question: "-V",
    greeting: "SSHFS version ",
    if_slow: "see whether the server answers",
};
/// Room for copies: more than any file that is measured, so that none has to go.
const CACHE_SIZE: &str = "1T";

/// How long oscope-fs waits for the server: a handshake of SSH can take very long in an emulated guest.
const TIMEOUT: &str = "2m";

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// oscope-fs.
    Oscope,
    /// sshfs, cached as it is by default.
    Sshfs,
}

/// A mount of the server's folder. Dropping it unmounts it and ends its program; the server ends after it.
#[derive(Debug)]
pub struct FuseMount {
    kind: Kind,
    program: Program,
    folders: Folders,
    service: Option<Service>,
    server: SshServer,
    link: Rc<Link>,
}

impl FuseMount {
    /// Start a server; nothing is mounted yet.
    ///
    /// # Errors
    /// `Failure::Unavailable` where a program or FUSE is missing, with the remedy.
    pub fn new(kind: Kind, folders: Folders, link: Rc<Link>) -> Result<Self, Failure> {
        if !Path::new("/dev/fuse").exists() {
            return Err(Failure::unavailable(
                "this kernel has no FUSE (/dev/fuse)",
                "load the module fuse (modprobe fuse), or measure in a guest (--on guest)",
            ));
        }
        let program = match kind {
            Kind::Oscope => find_oscope_fs()?,
            Kind::Sshfs => Program::find(SSHFS, Some(&search_for_root()))?,
        };
        Ok(Self {
            kind,
            program,
            service: None,
            server: SshServer::start(&folders.root.join("ssh"), &link)?,
            folders,
            link,
        })
    }

    /// The cache folder of oscope-fs.
    fn cache(&self) -> PathBuf {
        self.folders.root.join("cache")
    }

    fn run(&self) -> Result<Run, Failure> {
        let word = |path: &Path| path.display().to_string();
        let target = format!("{ALIAS}:{}", self.folders.served.display());
        let at = word(&self.folders.mounted);
        let config = word(&self.server.config);
        let cache = word(&self.cache());
        let words: Vec<&str> = match self.kind {
            Kind::Oscope => vec![
                "mount",
                "-f",
                "-F",
                &config,
                "--cache",
                &cache,
                "--cache-size",
                CACHE_SIZE,
                "--timeout",
                TIMEOUT,
                &target,
                &at,
            ],
            Kind::Sshfs => vec!["-f", "-F", &config, &target, &at],
        };
        self.ready(&words)
    }

    fn ready(&self, arguments: &[&str]) -> Result<Run, Failure> {
        let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        let mut run = self.program.run(&arguments)?;
        // Where oscope-fs lists its mounts: this one is no matter of the user's.
        run.set("XDG_CACHE_HOME", self.folders.root.join("state"));
        Ok(run)
    }

    /// What oscope-fs says of its mount.
    fn status(&self) -> Result<Value, Failure> {
        let at = self.folders.mounted.display().to_string();
        let mut run = self.ready(&["status", "--json", &at])?;
        let ended = run.finish(Instant::now() + PATIENCE)?;
        serde_json::from_str(&run.checked_output(ended)?.output)
            .map_err(|error| Failure::system("oscope-fs status", error))
    }

    /// Whether all that was changed has been copied back.
    ///
    /// # Errors
    /// `Failure::Failed` if something could not be, or was put beside the server's file.
    fn is_copied_back(&self) -> Result<bool, Failure> {
        let status = self.status()?;
        let list = |name: &str| status[name].as_array().map_or(&[][..], Vec::as_slice);
        for (name, what) in [
            ("failures", "could not copy back"),
            ("conflicts", "found changed on both sides"),
        ] {
            if let Some(first) = list(name).first() {
                return Err(Failure::failed(format!("oscope-fs {what}: {first}")));
            }
        }
        match &status["dirty"] {
            Value::Array(dirty) => Ok(dirty.is_empty()),
            _ => Err(Failure::failed(
                "oscope-fs status does not report what is not copied back",
            )),
        }
    }
}

impl Client for FuseMount {
    fn mount(&mut self) -> Result<(), Failure> {
        let run = self.run()?;
        let _visit = self.link.sender.enter()?;
        let mut service = Service::start(run)?;
        let at = &self.folders.mounted;
        let latest = Instant::now() + PATIENCE;
        let mounted = service.wait_until(latest, "the folder is mounted", || {
            // This asks the program itself; attributes may be the kernel's.
            Ok(mounts::mounted_on(at)?.is_some() && statvfs(at).is_ok())
        });
        if let Err(failure) = mounted {
            mounts::detach(at);
            return Err(self.server.explained(failure));
        }
        self.service = Some(service);
        Ok(())
    }

    fn unmount(&mut self) -> Result<(), Failure> {
        if self.service.is_some() {
            mounts::unmount(&self.folders.mounted)?;
        }
        if let Some(service) = self.service.take() {
            service.finish(Instant::now() + PATIENCE)?;
        }
        let cache = self.cache();
        match self.kind {
            Kind::Oscope if cache.exists() => fs::remove_dir_all(&cache)
                .map_err(|error| Failure::system(&format!("emptying {}", cache.display()), &error)),
            Kind::Oscope | Kind::Sshfs => Ok(()),
        }
    }

    fn settle(&mut self) -> Result<(), Failure> {
        if self.kind == Kind::Sshfs {
            // The last close of a file waits until the server has all of it (`sshfs_flush`).
            return Ok(());
        }
        let mut service = self.service.take();
        let settled = match &mut service {
            None => Err(Failure::failed("the folder is not mounted")),
            Some(service) => {
                let latest = Instant::now() + PATIENCE;
                service.wait_until(latest, "all is copied back", || self.is_copied_back())
            }
        };
        self.service = service;
        settled
    }

    fn notes(&self) -> Result<Vec<String>, Failure> {
        let mounted = mounts::mounted_on(&self.folders.mounted)?.unwrap_or_default();
        let mut notes = vec![
            format!("mounted by {}: {mounted}", self.program.version),
            self.server.note.clone(),
        ];
        if self.kind == Kind::Oscope {
            notes.push("oscope-fs: aes128-gcm comes before ssh's other ciphers where the processor computes \
                AES".to_owned());
            let status = self.status()?;
            notes.push(match status["passthrough"] == true {
                true => "oscope-fs: the kernel reads and writes the copies itself (FUSE passthrough)".to_owned(),
                false => format!(
                    "oscope-fs: reads and writes go through the program, without FUSE passthrough: {}",
                    status["why_not"].as_str().unwrap_or("it does not say why")
                ),
            });
        }
        Ok(notes)
    }
}

impl Drop for FuseMount {
    fn drop(&mut self) {
        // Before the program ends, so that nobody meets a folder that does not answer.
        if self.service.is_some() {
            mounts::detach(&self.folders.mounted);
        }
    }
}

/// Where `OSCOPE_FS` says, else beside the probe, else on the PATH.
fn find_oscope_fs() -> Result<Program, Failure> {
    let search = search_for_root();
    let beside = env::current_exe()
        .ok()
        .map(|probe| probe.with_file_name(OSCOPE.command));
    let found = match (env::var_os("OSCOPE_FS"), beside) {
        (Some(named), _) if !Path::new(&named).is_file() => Err(Failure::unavailable(
            format!("OSCOPE_FS names {named:?}, which is no file"),
            "",
        )),
        (Some(named), _) => Program::at(named.into(), OSCOPE, Some(&search)),
        (None, Some(beside)) if beside.is_file() => Program::at(beside, OSCOPE, Some(&search)),
        (None, _) => Program::find(OSCOPE, Some(&search)),
    };
    found.map_err(|failure| match failure {
        Failure::Unavailable { .. } => {
            failure.with_remedy("run `make setup`, or have OSCOPE_FS name the program")
        }
        other => other,
    })
}
