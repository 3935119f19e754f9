//! Which folder on which server, and how `ssh` is asked to get there.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::hex;
use oscope_sys::error::Failure;

/// A folder on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// `[user@]host`, as `ssh` takes it; never starts with `-`.
    pub host: String,
    /// The folder there, any bytes; relative to the user's home unless it starts with `/`.
    pub folder: PathBuf,
    /// The port, where it is not ssh's own choice.
    pub port: Option<u16>,
    /// ssh's configuration, where it is not the user's.
    pub config: Option<PathBuf>,
    /// Options for `ssh -o`, in order.
    pub options: Vec<String>,
    /// The program that serves there (`PROGRAM serve`), in place of the SFTP subsystem.
    pub helper: Option<String>,
}

impl Target {
    /// A target from `[USER@]HOST:DIR` or `[USER@][V6]:DIR`; an empty DIR or `~` is the home.
    ///
    /// # Errors
    /// `Failure::Failed`: it does not have this form, or ssh would take the host for an option.
    pub fn parse(text: &OsStr) -> Result<Self, Failure> {
        let shown = text.to_string_lossy();
        let wrong = |why: &str| {
            let message = format!("{shown}: {why}");
            Failure::remediable(message, "write [USER@]HOST:DIR, such as me@server:work")
        };
        let (host, folder) = split(text.as_bytes()).ok_or_else(|| wrong("not HOST:DIR"))?;
        let host = String::from_utf8(host).map_err(|_| wrong("the host is not text"))?;
        let name = host.rsplit('@').next().unwrap_or_default();
        let unfit = |letter: char| letter.is_whitespace() || letter.is_control() || letter == '/';
        if name.is_empty() || host.starts_with('@') || host.contains(unfit) {
            return Err(wrong("no usable host name"));
        }
        if host.starts_with('-') || name.starts_with('-') {
            return Err(wrong("a host cannot start with '-'"));
        }
        if folder.contains(&0) {
            return Err(wrong("a folder cannot hold a zero byte"));
        }
        let folder = match folder.strip_prefix(b"~") {
            Some([]) => Vec::new(),
            Some([b'/', rest @ ..]) => rest.iter().copied().skip_while(|&b| b == b'/').collect(),
            Some(_) => return Err(wrong("another user's home cannot be asked for by '~'")),
            None => folder,
        };
        Ok(Self {
            host,
            folder: PathBuf::from(OsString::from_vec(folder)),
            port: None,
            config: None,
            options: Vec::new(),
            helper: None,
        })
    }

    /// A stable text that names user, host, port and folder, for a cache to tell targets apart.
    pub fn key(&self) -> String {
        let port = self.port.map(|port| port.to_string()).unwrap_or_default();
        let folder = hex::of_path(&self.folder);
        format!("sftp {} port={port} folder={folder}", self.host)
    }

    /// What [`Self::key`] stands for as a person writes it; a text that is no such key stays as it is.
    pub fn of_key(key: &str) -> String {
        let parts = || {
            let (rest, folder) = key.strip_prefix("sftp ")?.rsplit_once(" folder=")?;
            let (host, port) = rest.rsplit_once(" port=")?;
            let shown = written(host, &hex::to_path(folder)?);
            Some(match port {
                "" => shown,
                port => format!("{shown} (-p {port})"),
            })
        };
        parts().unwrap_or_else(|| key.to_owned())
    }

    /// The target as a person wrote it.
    pub fn shown(&self) -> String {
        written(&self.host, &self.folder)
    }

    /// The server's path of a path that is relative to the folder; "" is the folder itself, also where that is a link.
    pub fn full(&self, path: &Path) -> Vec<u8> {
        let mut full = self.folder.as_os_str().as_bytes().to_vec();
        if full.is_empty() {
            full.push(b'.');
        }
        if full.last() != Some(&b'/') {
            full.push(b'/');
        }
        match path.as_os_str().is_empty() {
            true => full.push(b'.'),
            false => full.extend(path.as_os_str().as_bytes()),
        }
        full
    }

    /// The arguments of `ssh` for the SFTP subsystem of this target, or for its helper.
    ///
    /// ssh takes the first value of an option: what would break the byte stream comes first, then the user's, then the
    /// defaults.
    pub fn arguments(&self) -> Vec<OsString> {
        const FIXED: [&str; 6] = [
            "RequestTTY=no",
            "RemoteCommand=none",
            "PermitLocalCommand=no",
            "ClearAllForwardings=yes",
            "ForkAfterAuthentication=no",
            "StdinNull=no",
        ];
        // A connection of its own: one shared with others is neither watched nor ended by us.
        const DEFAULT: [&str; 6] = [
            "BatchMode=yes",
            "StrictHostKeyChecking=yes",
            "ServerAliveInterval=5",
            "ServerAliveCountMax=2",
            "ControlMaster=no",
            "ControlPath=none",
        ];
        let mut arguments: Vec<OsString> = vec!["-x".into(), "-a".into()];
        let mut option = |text: &str| arguments.extend(["-o".into(), text.into()]);
        FIXED.into_iter().for_each(&mut option);
        self.options
            .iter()
            .map(String::as_str)
            .for_each(&mut option);
        DEFAULT.into_iter().for_each(&mut option);
        if let Some(port) = self.port {
            arguments.extend(["-p".into(), port.to_string().into()]);
        }
        if let Some(config) = &self.config {
            arguments.extend(["-F".into(), config.into()]);
        }
        let (subsystem, what) = match &self.helper {
            Some(program) => (None, format!("{} serve", quoted(program))),
            None => (Some(OsString::from("-s")), "sftp".to_owned()),
        };
        arguments.extend(subsystem);
        arguments.extend(["--".into(), (&self.host).into(), what.into()]);
        arguments
    }
}

/// `[USER@]HOST:DIR`, an IPv6 address in brackets.
fn written(host: &str, folder: &Path) -> String {
    let (user, name) = match host.rsplit_once('@') {
        Some((user, name)) => (format!("{user}@"), name),
        None => (String::new(), host),
    };
    let name = match name.contains(':') {
        true => format!("[{name}]"),
        false => name.to_owned(),
    };
    format!("{user}{name}:{}", folder.display())
}

/// A word for the user's shell on the server, which sshd gives each command to; a path from the home may begin with
/// `~/`.
fn quoted(word: &str) -> String {
    let (home, rest) = match word.strip_prefix("~/") {
        Some(rest) => ("~/", rest),
        None => ("", word),
    };
    format!("{home}'{}'", rest.replace('\'', "'\\''"))
}

/// Host and folder, parted at the first colon that is not within brackets; the brackets are taken off.
fn split(text: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let user = match text.iter().position(|&b| matches!(b, b'[' | b':')) {
        Some(at) if text[at] == b'[' && (at == 0 || text[at - 1] == b'@') => &text[..at],
        Some(at) if text[at] == b':' => {
            return Some((text[..at].to_vec(), text[at + 1..].to_vec()));
        }
        _ => return None,
    };
    let rest = &text[user.len() + 1..];
    let end = rest.iter().position(|&b| b == b']')?;
    let folder = rest[end + 1..].strip_prefix(b":")?;
    Some(([user, &rest[..end]].concat(), folder.to_vec()))
}
