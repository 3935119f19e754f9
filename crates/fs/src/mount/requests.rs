//! The kernel's requests: each is counted, answered at once or given to a worker, and replied to exactly once.
//!
//! A method for each operation and no more: longer than other files, for `fuser` wants all of them in one block.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, FileHandle, Filesystem, FopenFlags, INodeNo, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    Request, TimeOrNow, WriteFlags,
};
use nix::errno::Errno;
use nix::unistd::Whence;

use super::change::SetAttributes;
use super::data::Append;
use super::names::Maker;
use super::opening::Use;
use super::replies::{
    kernel_errno, reply_attr, reply_created, reply_looked_up, reply_opened, reply_room,
};
use super::session::Session;

impl Filesystem for Session {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        self.count("init");
        self.agree(config);
        Ok(())
    }

    fn destroy(&mut self) {
        self.count("destroy");
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.count("lookup");
        let thread = request.pid();
        let (name, fetch) = (
            name.to_owned(),
            self.fetch_behind(parent.0, name.to_owned()),
        );
        self.later(move |shared| {
            reply_looked_up(shared, reply, shared.look_up(parent.0, &name), thread);
            fetch();
        });
    }

    fn forget(&self, _request: &Request, ino: INodeNo, count: u64) {
        self.count("forget");
        self.shared.tree().forget(ino.0, count);
    }

    fn getattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        self.count("getattr");
        match self.shared.shown(ino.0) {
            Ok((attr, keep)) if self.shared.is_known(ino.0) => {
                self.shared.size_shown(ino.0, &attr);
                reply.attr(&keep, &attr);
            }
            _ => self.later(move |shared| reply_attr(shared, reply, ino.0, shared.refresh(ino.0))),
        }
    }

    fn setattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.count("setattr");
        let wanted = SetAttributes {
            size,
            mode,
            uid,
            gid,
            atime,
            mtime,
        };
        self.later(move |shared| {
            let done = shared.change(ino.0, handle.map(|handle| handle.0), &wanted);
            reply_attr(shared, reply, ino.0, done);
        });
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        self.count("readlink");
        self.later(move |shared| match shared.read_link(ino.0) {
            Ok(text) => reply.data(text.as_os_str().as_bytes()),
            Err(why) => reply.error(kernel_errno(why)),
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        self.count("mknod");
        let (name, by) = (name.to_owned(), Maker::of(request));
        self.entry(reply, move |shared| match mode & libc::S_IFMT {
            libc::S_IFREG => shared.make_file(parent.0, &name, mode, by),
            _ => shared.make_special(parent.0, &name, (mode, device), by),
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        self.count("mkdir");
        let (name, by) = (name.to_owned(), Maker::of(request));
        self.entry(reply, move |shared| {
            shared.make_folder(parent.0, &name, mode, by)
        });
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.count("unlink");
        let name = name.to_owned();
        self.empty(reply, move |shared| shared.unlink(parent.0, &name));
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.count("rmdir");
        let name = name.to_owned();
        self.empty(reply, move |shared| shared.remove_folder(parent.0, &name));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        self.count("symlink");
        let (name, target) = (name.to_owned(), target.to_owned());
        let by = Maker::of(request);
        self.entry(reply, move |shared| {
            shared.make_link(parent.0, &name, &target, by)
        });
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        new: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.count("rename");
        let (name, new) = (name.to_owned(), new.to_owned());
        self.empty(reply, move |shared| {
            shared.rename((parent.0, &name), (to.0, &new), flags)
        });
    }

    fn link(
        &self,
        _request: &Request,
        ino: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        self.count("link");
        let name = name.to_owned();
        self.entry(reply, move |shared| {
            shared.link(ino.0, parent.0, &name).map(|()| ino.0)
        });
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.count("open");
        let (fetch_ahead, thread) = (self.fetch_ahead(ino.0), Some(request.pid()));
        self.later(move |shared| {
            let done = shared.open(ino.0, flags.0, thread, |copy| reply.open_backing(copy));
            let to_read = done.is_ok() && Use::of(flags.0) == Use::Read;
            reply_opened(reply, done);
            if to_read {
                fetch_ahead();
            }
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        self.count("create");
        let (name, by) = (name.to_owned(), Maker::of(request));
        self.later(move |shared| {
            let register = |copy: &File| reply.open_backing(copy);
            let made = shared.create_or_open((parent.0, &name), mode, flags, by, register);
            reply_created(shared, reply, made);
            shared.prepare();
        });
    }

    fn read(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.count("read");
        match self.shared.read(handle.0, offset, size) {
            Ok(data) => reply.data(&data),
            Err(why) => reply.error(kernel_errno(why)),
        }
    }

    fn write(
        &self,
        _request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.count("write");
        // What comes from the kernel's pages is where it belongs.
        let from_pages = write.contains(WriteFlags::FUSE_WRITE_CACHE);
        let appends = Append::of(flags.0).filter(|_| !from_pages);
        let done = self.shared.write(handle.0, offset, data, appends);
        let size = u32::try_from(data.len()).map_err(|_| Errno::EINVAL);
        match done.and_then(|elsewhere| Ok((size?, elsewhere))) {
            Ok((size, elsewhere)) => {
                reply.written(size);
                if elsewhere {
                    // Not before the reply: the kernel holds its pages until then.
                    self.later(move |shared| {
                        shared.invalidate(ino.0, 0, "an append may be read at a wrong place");
                    });
                }
            }
            Err(why) => reply.error(kernel_errno(why)),
        }
    }

    fn flush(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        self.count("flush");
        let Some(held) = self.shared.handle(handle.0) else {
            reply.error(fuser::Errno::EBADF);
            return;
        };
        self.shared.flushed(handle.0);
        if !held.writable {
            reply.ok();
            return;
        }
        self.empty(reply, move |shared| shared.copy_back_of(&held, false));
    }

    fn fsync(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.count("fsync");
        let Some(held) = self.shared.handle(handle.0) else {
            reply.error(fuser::Errno::EBADF);
            return;
        };
        self.empty(reply, move |shared| shared.copy_back_of(&held, true));
    }

    fn release(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.count("release");
        self.later(move |shared| {
            shared.release(handle.0);
            reply.ok();
        });
    }

    fn opendir(&self, _request: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.count("opendir");
        reply.opened(FileHandle(self.shared.open_folder()), FopenFlags::empty());
    }

    fn readdir(
        &self,
        _request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.count("readdir");
        self.later(
            move |shared| match shared.read_folder(ino.0, handle.0, offset, &mut reply) {
                Ok(()) => reply.ok(),
                Err(why) => reply.error(kernel_errno(why)),
            },
        );
    }

    fn readdirplus(
        &self,
        _request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.count("readdirplus");
        self.later(move |shared| {
            match shared.read_folder_plus(ino.0, handle.0, offset, &mut reply) {
                Ok(()) => reply.ok(),
                Err(why) => reply.error(kernel_errno(why)),
            }
        });
    }

    fn releasedir(
        &self,
        _request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.count("releasedir");
        self.shared.release_folder(ino.0, handle.0);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.count("fsyncdir");
        // Each change of a name was answered by the server before it returned; SFTP has no more to offer for folders.
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        self.count("statfs");
        self.later(move |shared| reply_room(reply, shared.remote.room()));
    }

    fn access(&self, _request: &Request, ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        self.count("access");
        self.empty(reply, move |shared| {
            shared.may(ino.0, mask.contains(AccessFlags::X_OK))
        });
    }

    fn fallocate(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.count("fallocate");
        self.empty(reply, move |shared| {
            let signed = |value: u64| i64::try_from(value).map_err(|_| Errno::EFBIG);
            shared.allocate(handle.0, mode, signed(offset)?, signed(length)?)
        });
    }

    fn lseek(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.count("lseek");
        let whence = match whence {
            libc::SEEK_DATA => Whence::SeekData,
            libc::SEEK_HOLE => Whence::SeekHole,
            _ => return reply.error(fuser::Errno::EINVAL),
        };
        match self.shared.seek(handle.0, offset, whence) {
            Ok(offset) => reply.offset(offset),
            Err(why) => reply.error(kernel_errno(why)),
        }
    }
}
