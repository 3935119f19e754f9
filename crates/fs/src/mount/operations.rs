//! The table of FUSE operations: what each does here, or what the kernel does without it.

use serde::Serialize;

/// One operation of the FUSE protocol.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Operation {
    /// Its name, that of the method of `fuser::Filesystem`.
    pub name: &'static str,
    /// Whether oscope-fs answers it.
    pub implemented: bool,
    /// What it does, or what the kernel does instead.
    pub what: &'static str,
}

const fn done(name: &'static str, what: &'static str) -> Operation {
    Operation {
        name,
        implemented: true,
        what,
    }
}

const fn left(name: &'static str, what: &'static str) -> Operation {
    Operation {
        name,
        implemented: false,
        what,
    }
}

/// Every operation that the kernel may ask for, in the order of `fuser::Filesystem`.
pub const OPERATIONS: &[Operation] = &[
    done(
        "init",
        "agrees with the kernel on what both can: passthrough, O_TRUNC at open, readdirplus, parallel look-ups",
    ),
    done(
        "destroy",
        "unmounted: what is left is copied back, or written down as dirty",
    ),
    done(
        "lookup",
        "finds a name: cached for the attribute time, else by an lstat on the server, after some names by a listing",
    ),
    done(
        "forget",
        "drops a node that the kernel no longer knows and nobody uses",
    ),
    left("batch_forget", "taken apart into forget by fuser"),
    done(
        "getattr",
        "size and time of the copy while a file is open, else the server's, cached for the attribute time",
    ),
    done(
        "setattr",
        "mode, owner and times on the server at once; size on the copy, which is copied back",
    ),
    done("readlink", "asks the server for the text of the link"),
    done(
        "mknod",
        "makes an empty regular file; with --helper also fifos, sockets and devices, else EPERM",
    ),
    done("mkdir", "makes the folder on the server"),
    done(
        "unlink",
        "removes the name on the server; an open file goes on without it and is not copied back",
    ),
    done(
        "rmdir",
        "removes the folder on the server, left-over temporary files of ours included",
    ),
    done("symlink", "makes the link on the server"),
    done(
        "rename",
        "renames on the server, over what is there (or not: RENAME_NOREPLACE); open files follow",
    ),
    done(
        "link",
        "makes a hard link on the server; both names share one copy, which is written back in place",
    ),
    done(
        "open",
        "asks the server for the version; fetches the whole file unless the copy has it; for writing, writes down \
         dirty",
    ),
    done("read", "only without passthrough: reads the copy"),
    done("write", "only without passthrough: writes to the copy"),
    done(
        "flush",
        "at each close of a writer: copies back what has changed, and reports its errors",
    ),
    done(
        "release",
        "last of a file: copies back what a mapping changed since, marks the copy clean and frees it",
    ),
    done(
        "fsync",
        "copies back at once and has the server force it to its disk, where it can",
    ),
    done("opendir", "makes a place for the listing"),
    done(
        "readdir",
        "lists names; the listing is cached for the attribute time",
    ),
    done(
        "readdirplus",
        "lists names with attributes, so that each need not be looked up",
    ),
    done("releasedir", "drops the listing"),
    done(
        "fsyncdir",
        "nothing is left to do: changes of names were answered by the server",
    ),
    done(
        "statfs",
        "room of the server's file system, where the server reports it",
    ),
    left("setxattr", "EOPNOTSUPP: SFTP has no extended attributes"),
    left("getxattr", "EOPNOTSUPP: SFTP has no extended attributes"),
    left("listxattr", "EOPNOTSUPP: SFTP has no extended attributes"),
    left("removexattr", "EOPNOTSUPP: SFTP has no extended attributes"),
    done(
        "access",
        "refuses to execute what nobody may; else the server decides when it is asked (with --allow-other the kernel \
         decides)",
    ),
    done(
        "create",
        "makes the file on the server, exclusively, and opens an empty copy",
    ),
    left(
        "getlk",
        "the kernel keeps locks among the programs of this mount",
    ),
    left(
        "setlk",
        "the kernel keeps locks (fcntl and flock) among the programs of this mount",
    ),
    left("bmap", "EINVAL: there is no block device"),
    left("ioctl", "ENOTTY"),
    left("poll", "the kernel says always ready"),
    done("fallocate", "reserves, punches or zeroes in the copy"),
    done("lseek", "SEEK_DATA and SEEK_HOLE in the copy"),
    left(
        "copy_file_range",
        "the kernel copies by reading and writing",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The methods of `impl Filesystem for Session`, and the operation that each counts.
    fn methods() -> Vec<(String, String)> {
        let source = include_str!("requests.rs");
        let start = source.find("impl Filesystem for Session {").unwrap();
        let body = &source[start..start + source[start..].find("\n}\n").unwrap()];
        let parts = body.split("\n    fn ").skip(1);
        let between = |text: &str, from: &str, to: &str| {
            let rest = &text[text.find(from).unwrap() + from.len()..];
            rest[..rest.find(to).unwrap()].to_owned()
        };
        parts
            .map(|part| (between(part, "", "("), between(part, "self.count(\"", "\"")))
            .collect()
    }

    #[test]
    fn the_table_says_implemented_of_exactly_what_is() {
        let table: Vec<_> = OPERATIONS
            .iter()
            .filter(|row| row.implemented)
            .map(|row| row.name)
            .collect();
        let methods = methods();
        let mut code: Vec<_> = methods.iter().map(|(name, _)| name.as_str()).collect();
        for (name, counted) in &methods {
            assert_eq!(
                name, counted,
                "the report would count it under another name"
            );
        }
        for name in &table {
            assert!(code.contains(name), "{name} is in the table alone");
        }
        code.retain(|name| !table.contains(name));
        assert!(code.is_empty(), "not in the table: {code:?}");
    }

    #[test]
    fn every_name_stands_once_and_says_something() {
        let mut names: Vec<_> = OPERATIONS.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), OPERATIONS.len());
        assert!(
            OPERATIONS
                .iter()
                .all(|row| !row.what.is_empty() && !row.what.contains('\n'))
        );
    }
}
