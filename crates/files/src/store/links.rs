//! Creation of links: symbolic links that stay inside their tree, and hard links to files of the same session.
//!
//! Links are created after all files of the session, so that no file is written through a link. Each link is created in
//! an open directory that was reached without following links.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use dfcp_framing::error::{EXISTS, Failure, FailureCode};
use dfcp_framing::files::{Confirmed, Link};
use dfcp_framing::link_target::check_link_target;
use dfcp_framing::names::{RelativeName, os_str};
use filetime::FileTime;

use super::open_directories::OpenDirectory;
use super::staged::Temporary;
use super::{Changed, Place, Store};
use crate::beneath::{Directory, Identity, Kind, lacks_links, status_of};
use crate::limits::{LINK_HOPS_MAX, LINK_STEPS_MAX};
use crate::owner::Owner;

/// Sentence for a hard link to a file that was not stored in this session.
const NOT_STORED: &str = "the file that it is another name of was not stored in this session, or is not this sender's: see what failed besides, and \
                          send again";

/// Directory in which links are being created. Dropping it restores its time and mode, even if the session breaks off.
#[derive(Debug)]
pub(crate) struct LinkDirectory {
    place: Arc<Place>,
    /// Original time, and the guard of the mode. `None` for the output directory itself, whose metadata no sender
    /// describes.
    before: Option<(FileTime, OpenDirectory)>,
}

/// Entry that currently has a link's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum There {
    Nothing,
    /// The link already exists.
    Same,
    /// An entry that may be replaced.
    Other,
}

impl Store {
    /// Returns true if links can be created safely, which requires directory descriptors.
    pub(crate) fn keeps_links(&self) -> bool {
        cfg!(unix)
    }

    /// Creates a symbolic link, unless it exists. `within` is the directory of the previous link; it is updated.
    ///
    /// # Errors
    /// Fails if the link is not created.
    pub(crate) fn make_symbolic_link(
        &self,
        (name, link): (&RelativeName, &Link),
        within: &mut Option<LinkDirectory>,
        changed: &mut Changed,
    ) -> Result<Confirmed, Failure> {
        // Open the directory first. This fails below a symbolic link, from which the target would lead elsewhere.
        let (place, last) = self.place(name, changed)?;
        let target = self.check_target(name, link)?;
        let there = self.there(name, (place.directory(), last), (link, target))?;
        if there == There::Same {
            self.note(changed, &place);
            return Ok(Confirmed::Unchanged);
        }
        self.enter(name, &place, within)?;
        let made = Temporary::make(&place, |directory, temporary| directory.make_link(target, temporary));
        let ((), temporary) = made.map_err(|error| not_made(&error))?;
        self.date(&place, temporary.name(), link);
        let made = place.directory().status(temporary.name()).map_err(|error| not_made(&error))?;
        // The link's time is set before its final name, so that after an interruption the next session recognises it as
        // the same link.
        let named = self.name_link(temporary, made.identity, last, there == There::Other, changed);
        self.note(changed, &place);
        named.map(|()| Confirmed::Stored)
    }

    /// Creates the hard link `name` to the file `first` of this session, unless it exists. For `within` see
    /// [`Store::make_symbolic_link`].
    ///
    /// # Errors
    /// Fails if the link is not created.
    pub(crate) fn make_hard_link(
        &self,
        (name, first): (&RelativeName, &RelativeName),
        within: &mut Option<LinkDirectory>,
        changed: &mut Changed,
    ) -> Result<Confirmed, Failure> {
        let not_stored = || Failure::new(FailureCode::FileSystem, NOT_STORED);
        let (from, from_last) = self.place(first, changed)?;
        let file = from.directory().status(from_last).map_err(|_| not_stored())?;
        let (place, last) = self.place(name, changed)?;
        let is_own = file.kind == Kind::File && changed.linkable.has(first.path(), file.identity);
        // Otherwise, the sender could learn that two names of foreign files are hard links to the same file.
        if !is_own && !self.options.allow_update {
            return Err(not_stored());
        }
        let there = self.there_of(name, (place.directory(), last), file.identity)?;
        if there == There::Same {
            self.note(changed, &place);
            return Ok(Confirmed::Unchanged);
        }
        if !is_own {
            return Err(not_stored());
        }
        // A hard link would keep a vulnerable set-user-id program alive after its owner has removed it.
        if file.mode & 0o7000 != 0 {
            let sentence = "the file that it is another name of runs with its owner's rights at the receiver, and gets no further name";
            return Err(Failure::new(FailureCode::Permission, sentence));
        }
        self.enter(name, &place, within)?;
        let made =
            Temporary::make(&place, |directory, temporary| from.directory().add_name(from_last, directory, temporary));
        let ((), temporary) = made.map_err(|error| not_made(&error))?;
        // The name `first` may have passed to another file before the link was created, so the rename checks the
        // identity.
        let named = self.name_link(temporary, file.identity, last, there == There::Other, changed);
        self.note(changed, &place);
        named.map(|()| Confirmed::Stored)
    }

    /// Returns true if the link exists, as far as `owner` may know. Creates nothing. `first` is the file of a hard
    /// link.
    ///
    /// # Errors
    /// Returns the failure that creating the link would have, as far as it can be foreseen.
    pub(crate) fn would_link(
        &self,
        (name, link): (&RelativeName, &Link),
        first: Option<&RelativeName>,
        owner: Option<&Owner>,
        changed: &mut Changed,
    ) -> Result<bool, Failure> {
        self.would_store(name, false)?;
        let target = if first.is_none() { Some(self.check_target(name, link)?) } else { None };
        // If the directory cannot be opened, creating the link would create it.
        let Ok((directory, last)) = self.parent(name) else { return Ok(false) };
        let there = match (target, first) {
            (Some(target), _) => self.there(name, (&directory, last), (link, target))?,
            (None, first) => {
                let file = first.and_then(|first| self.regular(first, changed));
                let known = file.filter(|file| self.is_known(file, owner)).and_then(|file| status_of(file.file()).ok());
                match known {
                    Some(known) => self.there_of(name, (&directory, last), known.identity)?,
                    None => self.there_of_unknown(name, &directory, last)?,
                }
            }
        };
        Ok(there == There::Same)
    }

    /// Returns the target of a symbolic link if it stays inside the link's tree, both as text and after following the
    /// links that exist on the way.
    fn check_target<'a>(&self, name: &RelativeName, link: &'a Link) -> Result<&'a OsStr, Failure> {
        let refused =
            |sentence: String| Failure::new(FailureCode::Name, format!("the receiver refuses the link: {sentence}"));
        check_link_target(name, &link.target, 1).map_err(|error| refused(error.to_string()))?;
        let target = os_str(&link.target).map_err(|error| refused(error.to_string()))?;
        let leads_inside = self.leads_inside(name, target);
        if leads_inside.map_err(|error| Failure::from_io("look up where the link leads", &error))? {
            Ok(target)
        } else {
            Err(refused("it leads out of what is sent, by another link that is there".to_owned()))
        }
    }

    /// Returns true if a link's target stays inside the tree once resolved. Links that exist on the way may come from
    /// anyone and lead anywhere.
    fn leads_inside(&self, name: &RelativeName, target: &OsStr) -> io::Result<bool> {
        let mut components = name.components();
        let tree = components.next().unwrap_or_default();
        let mut reached: Vec<OsString> = components.map(OsStr::to_owned).collect();
        reached.pop();
        let mut rest = components_of(target);
        let mut hops = 0;
        for _ in 0..LINK_STEPS_MAX {
            let Some(component) = rest.pop_front() else { return Ok(true) };
            if component == ".." {
                if reached.pop().is_none() {
                    return Ok(false);
                }
                continue;
            }
            let path: PathBuf = std::iter::once(tree).chain(reached.iter().map(OsString::as_os_str)).collect();
            // A missing directory contains no link that could lead outside.
            let directory = match self.root.directory(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
                directory => directory?,
            };
            match directory.status(&component).map(|status| status.kind) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
                Err(error) => return Err(error),
                Ok(Kind::Directory) => reached.push(component),
                Ok(Kind::File | Kind::Other) => return Ok(true),
                Ok(Kind::Link) => {
                    hops += 1;
                    if hops > LINK_HOPS_MAX {
                        // The system follows no more links than this either.
                        return Ok(true);
                    }
                    let next = directory.link_target(&component)?;
                    if next.as_encoded_bytes().starts_with(b"/") {
                        return Ok(false);
                    }
                    let mut through = components_of(&next);
                    through.append(&mut rest);
                    rest = through;
                }
            }
        }
        Ok(false)
    }

    /// Returns the entry that has a symbolic link's name. The creator of an existing link is unknown. A sender
    /// therefore learns that the link is the same only if it also sent the link's time, or if every sender may ask.
    fn there(
        &self,
        name: &RelativeName,
        (directory, last): (&Directory, &OsStr),
        (link, target): (&Link, &OsStr),
    ) -> Result<There, Failure> {
        let is_same = || {
            let status = directory.status(last).ok().filter(|status| status.kind == Kind::Link)?;
            let is_known = (status.mtime_s, status.mtime_ns) == (link.mtime_s, link.mtime_ns)
                || (self.options.allow_update && !self.options.replace.is_always());
            Some(is_known && directory.link_target(last).ok()? == target)
        };
        if is_same() == Some(true) { Ok(There::Same) } else { self.there_of_unknown(name, directory, last) }
    }

    /// Returns the entry that has the name of a hard link to `first`.
    fn there_of(
        &self,
        name: &RelativeName,
        (directory, last): (&Directory, &OsStr),
        first: Identity,
    ) -> Result<There, Failure> {
        match directory.status(last) {
            Ok(status) if status.identity == first => Ok(There::Same),
            _ => self.there_of_unknown(name, directory, last),
        }
    }

    /// Returns the state of a name whose entry is not known to be the same link: it is free, or its entry may be
    /// replaced.
    fn there_of_unknown(&self, name: &RelativeName, directory: &Directory, last: &OsStr) -> Result<There, Failure> {
        match directory.status(last).map(|status| status.kind) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(There::Nothing),
            Err(error) => Err(Failure::from_io("look it up", &error)),
            Ok(Kind::Directory) => {
                Err(Failure::new(FailureCode::Exists, "a directory of that name exists at the receiver"))
            }
            Ok(_) if self.options.replace.permits(name.path()) => Ok(There::Other),
            Ok(_) => Err(Failure::new(FailureCode::Exists, EXISTS)),
        }
    }

    /// Prepares the directory of `name` for links, unless it is also the previous link's directory: saves its time, and
    /// makes it writable.
    fn enter(
        &self,
        name: &RelativeName,
        place: &Arc<Place>,
        within: &mut Option<LinkDirectory>,
    ) -> Result<(), Failure> {
        let is_same =
            |last: &LinkDirectory| last.place.identity() == place.identity() && last.place.path() == place.path();
        if within.as_ref().is_some_and(is_same) {
            return Ok(());
        }
        // Restore the previous directory before reading this one's time: they may be the same directory.
        *within = None;
        let status = place.directory().own_status().map_err(|error| Failure::from_io("look it up", &error))?;
        let mut before = None;
        if let Some(parent) = name.path().parent().and_then(|path| RelativeName::from_components(path.iter()).ok()) {
            let open = self.open_directories.open(status.identity);
            let (above, last) = self.parent(&parent)?;
            if let Some(opened_up) = self.open_up(&parent, &above, last, &status)? {
                open.keep(opened_up);
            }
            before = Some((FileTime::from_unix_time(status.mtime_s, status.mtime_ns), open));
        }
        *within = Some(LinkDirectory { place: Arc::clone(place), before });
        Ok(())
    }

    fn date(&self, place: &Place, name: &OsStr, link: &Link) {
        let mtime = FileTime::from_unix_time(link.mtime_s, link.mtime_ns);
        if let Err(error) = place.directory().set_link_mtime(name, mtime) {
            // If the time is missing, a later session creates the unchanged link again.
            tracing::debug!(%error, "a symbolic link has the time at which it was made");
        }
    }

    /// Gives a link its final name, replacing an existing entry if permitted.
    fn name_link(
        &self,
        mut temporary: Temporary,
        identity: Identity,
        last: &OsStr,
        replaces: bool,
        changed: &mut Changed,
    ) -> Result<(), Failure> {
        let place = Arc::clone(temporary.place());
        let spelling = self.check_spelling(&place, (temporary.name(), last), identity, changed)?;
        temporary.rename(identity, last, replaces).map_err(|error| not_made(&error))?;
        if let Some(spelling) = spelling {
            changed.spellings.insert(spelling);
        }
        Ok(())
    }
}

impl Drop for LinkDirectory {
    fn drop(&mut self) {
        if let Some((mtime, _)) = &self.before
            && let Err(error) = self.place.directory().set_mtime(*mtime)
        {
            tracing::debug!(%error, "a directory has the time at which a link was made in it");
        }
    }
}

/// Splits a target into components, in the order in which the system would look them up.
fn components_of(target: &OsStr) -> VecDeque<OsString> {
    let all = target.as_encoded_bytes().split(|byte| *byte == b'/');
    let named = all.filter(|component| !matches!(*component, b"" | b"."));
    named.filter_map(|component| os_str(component).ok()).map(OsStr::to_owned).collect()
}

fn not_made(error: &io::Error) -> Failure {
    if lacks_links(error) {
        let sentence =
            "the receiver's file system supports no such link: send without --links, or choose another --output there";
        return Failure::new(FailureCode::FileSystem, sentence);
    }
    Failure::from_io("make the link", error)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    /// FAT and many network file systems return some of these errors.
    #[test]
    fn a_file_system_without_links_is_told_from_one_that_is_full_or_forbids_it() {
        for (number, code) in [
            (Errno::PERM, FailureCode::FileSystem),
            (Errno::NOSYS, FailureCode::FileSystem),
            (Errno::MLINK, FailureCode::FileSystem),
            (Errno::ACCESS, FailureCode::Permission),
            (Errno::ROFS, FailureCode::Permission),
            (Errno::NOSPC, FailureCode::DiskFull),
            (Errno::DQUOT, FailureCode::DiskFull),
            (Errno::EXIST, FailureCode::Exists),
        ] {
            let failure = not_made(&number.into());
            assert_eq!(failure.code, code, "{number}");
            let lacks = matches!(number, Errno::PERM | Errno::NOSYS | Errno::MLINK);
            assert_eq!(failure.sentence.contains("without --links"), lacks, "{number}");
        }
    }
}
