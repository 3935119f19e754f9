//! A program to run, and why one could not be started.

use std::ffi::{CString, c_char, c_int};
use std::io;
use std::path::Path;
use std::ptr::null;

use nix::errno::Errno;
use oscope_sys::error::{Failure, errno_message};

/// A program and its arguments, as execve(2) takes them.
pub struct Program {
    /// Its path, as it was given.
    pub name: String,
    /// The same for execve(2).
    pub path: CString,
    /// Its arguments, its own name first.
    pub arguments: Texts,
}

/// Texts as execve(2) takes them, made once, so that nothing is allocated to start a program.
pub struct Texts {
    /// To the texts, then a null pointer.
    pointers: Vec<*const c_char>,
    /// A text stays where it is when this is moved.
    _texts: Vec<CString>,
}

impl Texts {
    /// The array of pointers.
    pub fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr()
    }
}

impl From<Vec<CString>> for Texts {
    fn from(texts: Vec<CString>) -> Self {
        let each = texts.iter().map(|text| text.as_ptr());
        Self {
            pointers: each.chain([null()]).collect(),
            _texts: texts,
        }
    }
}

impl Program {
    /// The program at the absolute path `path`; `arguments` begin with its own name, which is the path if there are
    /// none.
    ///
    /// # Errors
    /// `Failure::Request` where the path is not absolute, or a text has a NUL.
    pub fn named(path: &str, arguments: &[String]) -> Result<Self, Failure> {
        if !Path::new(path).is_absolute() {
            return Err(Failure::request(
                "program",
                format!("must be an absolute path, not {path:?}"),
            ));
        }
        let own_name = [path.to_owned()];
        let arguments = if arguments.is_empty() {
            &own_name
        } else {
            arguments
        };
        Ok(Self {
            name: path.to_owned(),
            path: text("program", path)?,
            arguments: texts("arguments", arguments)?.into(),
        })
    }

    /// The program that a parameter names, its path first; `None` for an empty one.
    ///
    /// # Errors
    /// `Failure::Request` where the path is not absolute.
    pub fn of(parameter: &str, arguments: &[String]) -> Result<Option<Self>, Failure> {
        let Some(path) = arguments.first() else {
            return Ok(None);
        };
        let program = Self::named(path, arguments).map_err(|failure| match failure {
            Failure::Request { message, .. } => Failure::request(parameter, message),
            other => other,
        })?;
        Ok(Some(program))
    }

    /// A program that is not there: execve(2) refuses it.
    pub fn nothing() -> Self {
        Self {
            name: String::new(),
            path: CString::default(),
            arguments: vec![CString::default()].into(),
        }
    }

    /// Why a program could not be started.
    pub fn refused(&self, error: c_int) -> Failure {
        let said = errno_message(&io::Error::from_raw_os_error(error));
        let (message, remedy) = match error {
            libc::EAGAIN | libc::ENOMEM => (
                format!("the kernel makes no process: {said}"),
                "raise ulimit -u, or free some memory",
            ),
            libc::ENOENT if Path::new(&self.name).exists() => (
                format!(
                    "{} cannot be executed: its interpreter or the working folder does not exist",
                    self.name
                ),
                "look at its first line (#!), its loader (file, ldd) and --cwd",
            ),
            libc::EACCES => (
                format!("{} cannot be executed: {said}", self.name),
                "make it executable (chmod +x), and its folders and --cwd accessible",
            ),
            libc::ENOEXEC => (
                format!(
                    "{} cannot be executed: it is no program of this machine",
                    self.name
                ),
                "a script needs a first line such as #!/bin/sh",
            ),
            _ => (
                format!("{} cannot be executed: {said}", self.name),
                "see execve(2)",
            ),
        };
        Failure::unavailable(message, remedy).because_of(Errno::from_raw(error))
    }
}

/// A text for execve(2); a NUL in it is an error of the request.
pub fn text(parameter: &str, text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| Failure::request(parameter, "must have no NUL in it"))
}

/// The same of each text.
pub fn texts(parameter: &str, list: &[String]) -> Result<Vec<CString>, Failure> {
    list.iter().map(|item| text(parameter, item)).collect()
}
