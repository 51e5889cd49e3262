//! Handler of the kernel's requests: counts each modification, and applies it to the [`Disk`].

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno as Error, FileAttr, FileHandle, FileType, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::content::BLOCK_BYTES;
use crate::disk::{Disk, Settings};
use crate::mount::{State, lock};
use crate::node::{Ino, Kind, Node};

/// Caching time of names and attributes in the kernel. All changes pass through the kernel, so its cache is never stale.
const TTL: Duration = Duration::from_secs(3600);

/// Caching time for files with several names: the kernel knows only the name that was used.
const TTL_FOLDING: Duration = Duration::ZERO;

/// Generation of inodes, constant because inode numbers are never reused.
const GENERATION: Generation = Generation(0);

/// Unit of `st_blocks`.
const STAT_BLOCK_BYTES: u64 = 512;

/// File system called by `fuser`, on one thread.
#[derive(Debug)]
pub(crate) struct Filesystem {
    state: Arc<Mutex<State>>,
    ttl: Duration,
    listings: Mutex<Listings>,
}

/// Snapshots of open directories, taken at the first read. Offsets into the live directory would skip entries when a program removes
/// names between two reads.
#[derive(Debug, Default)]
struct Listings {
    next: u64,
    open: BTreeMap<u64, Vec<(OsString, Ino)>>,
}

type Answer<T> = Result<T, Errno>;

impl Filesystem {
    pub(crate) fn new(state: Arc<Mutex<State>>) -> Self {
        let ttl = if lock(&state).disk.folds() { TTL_FOLDING } else { TTL };
        Self { state, ttl, listings: Mutex::default() }
    }

    /// Runs a read-only request.
    fn look<T>(&self, look: impl FnOnce(&Disk) -> Answer<T>) -> Answer<T> {
        let state = lock(&self.state);
        state.record.check_power()?;
        look(&state.disk)
    }

    /// Counts an operation, and runs it unless the power is cut.
    fn change<T>(
        &self,
        name: &'static str,
        subject: impl FnOnce(&Disk) -> String,
        change: impl FnOnce(&mut Disk) -> Answer<T>,
    ) -> Answer<T> {
        let mut state = lock(&self.state);
        let State { disk, record } = &mut *state;
        record.begin(name, || subject(disk))?;
        disk.set_time(SystemTime::now());
        change(disk)
    }

    /// Runs an operation that makes a node, and returns its attributes.
    fn make(
        &self,
        operation: &'static str,
        parent: INodeNo,
        name: &OsStr,
        make: impl FnOnce(&mut Disk) -> Answer<Ino>,
    ) -> Answer<FileAttr> {
        self.change(operation, below(parent, name), |disk| {
            let ino = make(disk)?;
            Ok(attributes(ino, disk.node(ino)?))
        })
    }

    /// The entries of an open directory from `offset` on.
    fn listed(&self, ino: INodeNo, handle: FileHandle, offset: u64) -> Answer<Vec<(OsString, Ino, FileAttr)>> {
        let mut listings = self.listings.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.look(|disk| {
            if offset == 0 {
                let names = disk.list(ino.0)?.map(|(name, to)| (name.to_owned(), to));
                let itself = [(".".into(), ino.0), ("..".into(), ino.0)];
                listings.open.insert(handle.0, itself.into_iter().chain(names).collect());
            }
            let listed = listings.open.get(&handle.0).ok_or(Errno::BADF)?;
            let rest = listed.iter().skip(usize::try_from(offset).unwrap_or(usize::MAX));
            rest.map(|(name, to)| Ok((name.clone(), *to, attributes(*to, disk.node(*to)?)))).collect()
        })
    }
}

/// Describes an operation on a name.
fn below(parent: INodeNo, name: &OsStr) -> impl Fn(&Disk) -> String {
    move |disk| disk.path(parent.0).join(name).display().to_string()
}

/// Describes an operation on a node.
fn of(ino: INodeNo) -> impl Fn(&Disk) -> String {
    move |disk| match disk.path(ino.0) {
        root if root.as_os_str().is_empty() => ".".to_owned(),
        path => path.display().to_string(),
    }
}

fn attributes(ino: Ino, node: &Node) -> FileAttr {
    let kind = match &node.kind {
        Kind::File(_) => FileType::RegularFile,
        Kind::Directory(_) => FileType::Directory,
        Kind::Link(_) => FileType::Symlink,
    };
    let blocks = node.file().map_or(0, |file| file.content.blocks());
    FileAttr {
        ino: INodeNo(ino),
        size: node.len(),
        blocks: blocks * (BLOCK_BYTES / STAT_BLOCK_BYTES),
        atime: node.attributes.accessed,
        mtime: node.attributes.modified,
        ctime: node.changed,
        crtime: SystemTime::UNIX_EPOCH,
        kind,
        perm: node.attributes.mode as u16,
        nlink: node.links,
        uid: node.attributes.uid,
        gid: node.attributes.gid,
        rdev: 0,
        blksize: BLOCK_BYTES as u32,
        flags: 0,
    }
}

fn owner(request: &Request) -> (u32, u32) {
    (request.uid(), request.gid())
}

fn error(errno: Errno) -> Error {
    Error::from_i32(errno.raw_os_error())
}

fn answer_entry(reply: ReplyEntry, ttl: &Duration, answer: Answer<FileAttr>) {
    match answer {
        Ok(made) => reply.entry(ttl, &made, GENERATION),
        Err(errno) => reply.error(error(errno)),
    }
}

fn answer_empty(reply: ReplyEmpty, answer: Answer<()>) {
    match answer {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(error(errno)),
    }
}

/// Answers with `answer`, or with its length if the program has given no buffer (`room` is 0).
fn answer_extended(reply: ReplyXattr, room: u32, answer: Answer<Vec<u8>>) {
    match answer {
        Ok(value) if room == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > room as usize => reply.error(Error::ERANGE),
        Ok(value) => reply.data(&value),
        Err(errno) => reply.error(error(errno)),
    }
}

fn time(time: TimeOrNow) -> SystemTime {
    match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    }
}

impl fuser::Filesystem for Filesystem {
    /// Leaves out `FUSE_WRITEBACK_CACHE`, so that each write arrives before the program continues, and `FUSE_FLOCK_LOCKS` and
    /// `FUSE_POSIX_LOCKS`, so that the kernel handles locks.
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = InitFlags::FUSE_DO_READDIRPLUS | InitFlags::FUSE_READDIRPLUS_AUTO;
        // Only an optimisation: without it the kernel looks up each name.
        let _unsupported = config.add_capabilities(wanted);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.look(|disk| {
            let ino = disk.lookup(parent.0, name)?;
            Ok(attributes(ino, disk.node(ino)?))
        });
        answer_entry(reply, &self.ttl, found);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.look(|disk| Ok(attributes(ino.0, disk.node(ino.0)?))) {
            Ok(found) => reply.attr(&self.ttl, &found),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let settings = Settings { mode, uid, gid, accessed: accessed.map(time), modified: modified.map(time) };
        let name = if size.is_some() { "truncate" } else { "set attributes" };
        let subject = |disk: &Disk| match size {
            Some(len) => format!("{} to {len} bytes", of(ino)(disk)),
            None => of(ino)(disk),
        };
        let set = self.change(name, subject, |disk| {
            size.map_or(Ok(()), |len| disk.truncate(ino.0, len))?;
            disk.set(ino.0, &settings)?;
            Ok(attributes(ino.0, disk.node(ino.0)?))
        });
        match set {
            Ok(now) => reply.attr(&self.ttl, &now),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let target = self.look(|disk| match &disk.node(ino.0)?.kind {
            Kind::Link(target) => Ok(target.clone()),
            _ => Err(Errno::INVAL),
        });
        match target {
            Ok(target) => reply.data(target.as_os_str().as_encoded_bytes()),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let make = |disk: &mut Disk| disk.make_directory(parent.0, name, mode, owner(request));
        answer_entry(reply, &self.ttl, self.make("mkdir", parent, name, make));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let make = |disk: &mut Disk| disk.make_link(parent.0, name, target.to_owned(), owner(request));
        answer_entry(reply, &self.ttl, self.make("symlink", parent, name, make));
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let make = |disk: &mut Disk| disk.link(ino.0, parent.0, name).map(|()| ino.0);
        answer_entry(reply, &self.ttl, self.make("link", parent, name, make));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(reply, self.change("unlink", below(parent, name), |disk| disk.unlink(parent.0, name)));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer_empty(reply, self.change("rmdir", below(parent, name), |disk| disk.remove_directory(parent.0, name)));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let subject = |disk: &Disk| format!("{} to {}", below(parent, name)(disk), below(new_parent, new_name)(disk));
        let replace = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        let is_known = (flags - RenameFlags::RENAME_NOREPLACE).is_empty();
        let renamed = self.change("rename", subject, |disk| {
            if !is_known {
                return Err(Errno::INVAL);
            }
            disk.rename((parent.0, name), (new_parent.0, new_name), replace)
        });
        answer_empty(reply, renamed);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.look(|_| Ok(())) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn create(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, _: i32, reply: ReplyCreate) {
        let make = |disk: &mut Disk| disk.make_file(parent.0, name, mode, owner(request));
        match self.make("create", parent, name, make) {
            Ok(made) => reply.created(&self.ttl, &made, GENERATION, FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.look(|disk| disk.content(ino.0, offset, size.into())) {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let subject = |disk: &Disk| format!("{}, {} bytes at {offset}", of(ino)(disk), data.len());
        match self.change("write", subject, |disk| disk.write(ino.0, offset, data)) {
            Ok(written) => reply.written(written as u32),
            Err(errno) => reply.error(error(errno)),
        }
    }

    /// Called by `close`, which makes nothing durable. ENOSYS tells the kernel not to call it again.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Error::ENOSYS);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, datasync: bool, reply: ReplyEmpty) {
        let name = if datasync { "fdatasync" } else { "fsync" };
        answer_empty(reply, self.change(name, of(ino), |disk| disk.flush(ino.0, !datasync)));
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, datasync: bool, reply: ReplyEmpty) {
        answer_empty(reply, self.change("fsync directory", of(ino), |disk| disk.flush(ino.0, !datasync)));
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let mut listings = self.listings.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        listings.next += 1;
        reply.opened(FileHandle(listings.next), FopenFlags::empty());
    }

    fn readdir(&self, _: &Request, ino: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        match self.listed(ino, handle, offset) {
            Ok(names) => {
                for ((name, to, attributes), next) in names.iter().zip(offset + 1..) {
                    if reply.add(INodeNo(*to), next, attributes.kind, name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn readdirplus(&self, _: &Request, ino: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        match self.listed(ino, handle, offset) {
            Ok(names) => {
                for ((name, to, attributes), next) in names.iter().zip(offset + 1..) {
                    if reply.add(INodeNo(*to), next, name, &self.ttl, attributes, GENERATION) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        let mut listings = self.listings.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        listings.open.remove(&handle.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.look(|disk| Ok((disk.capacity_blocks(), disk.free_blocks()))) {
            Ok((all, free)) => reply.statfs(all, free, free, 0, 0, BLOCK_BYTES as u32, 255, BLOCK_BYTES as u32),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn setxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, value: &[u8], flags: i32, _: u32, reply: ReplyEmpty) {
        let is_there = match XattrFlags::from_bits_truncate(flags as u32) {
            flags if flags.contains(XattrFlags::REPLACE) => Some(true),
            flags if flags.contains(XattrFlags::CREATE) => Some(false),
            _ => None,
        };
        let subject = |disk: &Disk| format!("{}: {}", of(ino)(disk), name.display());
        let set = |disk: &mut Disk| disk.set_extended(ino.0, name, value, is_there);
        answer_empty(reply, self.change("set extended attribute", subject, set));
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        answer_extended(reply, size, self.look(|disk| disk.extended(ino.0, name).map(<[u8]>::to_vec)));
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self.look(|disk| {
            let names = disk.node(ino.0)?.attributes.extended.keys();
            Ok(names.flat_map(|name| [name.as_encoded_bytes(), b"\0"].concat()).collect())
        });
        answer_extended(reply, size, names);
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let subject = |disk: &Disk| format!("{}: {}", of(ino)(disk), name.display());
        answer_empty(
            reply,
            self.change("remove extended attribute", subject, |disk| disk.remove_extended(ino.0, name)),
        );
    }
}
