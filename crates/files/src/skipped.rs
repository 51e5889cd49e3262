//! Entries that are left out on purpose.

/// Something that a sender leaves out on purpose, or sends as something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skipped {
    /// A symbolic link inside a directory.
    Link,
    /// A symbolic link that does not stay inside of what is sent.
    LinkOutside,
    /// A link behind more others than a sender holds.
    LinkBeyond,
    /// A directory that is met again within itself, behind a symbolic link that is followed.
    Loop,
    /// Another name of a file that is sent, by itself.
    Copy,
    /// Another name of a file, behind more of them than a sender remembers.
    CopyBeyond,
    /// A socket, pipe or device.
    Special,
    /// A receiver's unfinished file.
    Unfinished,
    /// A file that the user excludes.
    Excluded,
    /// Content written behind the end that a file had when it was opened.
    Growth,
    /// Another file system that is mounted where something would be deleted.
    Mounted,
    /// A transfer that is under way where something would be deleted.
    UnderWay,
    /// A directory which would be deleted, and in which something stays.
    NotEmpty,
}

impl Skipped {
    /// Why, for programs.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Link => "a symbolic link: --links keeps it if it leads inside of what is sent",
            Self::LinkOutside => {
                "a symbolic link whose target is absolute, leads out of what is sent, has .. behind a name, or is no name that can be sent"
            }
            Self::Loop => "a directory that is met again within itself, behind a symbolic link",
            Self::LinkBeyond => "there are more links than can be sent at once: send the tree in parts",
            Self::Copy => "another name of a file that is sent, sent as a file of its own: --links keeps it",
            Self::CopyBeyond => {
                "sent as a file of its own: more files have further names than can be told apart; send the tree in parts"
            }
            Self::Special => "not a regular file",
            Self::Unfinished => "a file that a receiver has not finished",
            Self::Excluded => "excluded",
            Self::Growth => "it grew while it was sent: stored is what it had when it was opened",
            Self::Mounted => "not deleted: another file system is mounted there",
            Self::UnderWay => "not deleted: a transfer is under way there",
            Self::NotEmpty => "not deleted: something in it stays",
        }
    }

    /// True if the receiver thereby lacks something that is here and that nobody has asked to leave out.
    pub const fn is_left_out(self) -> bool {
        !matches!(self, Self::Excluded | Self::Mounted | Self::UnderWay | Self::NotEmpty)
    }

    /// True if it is at the receiver all the same, in another form.
    pub(crate) const fn is_sent(self) -> bool {
        matches!(self, Self::Growth | Self::Copy | Self::CopyBeyond)
    }

    /// For people: what happened to this number of them.
    pub fn counted(self, count: u64) -> String {
        let (one, several) = match self {
            Self::Link => ("symbolic link was skipped without --links", "symbolic links were skipped without --links"),
            Self::LinkOutside => (
                "symbolic link was skipped, because its target is absolute, leads out of what is sent, has .. behind a name, or is no name that can be sent",
                "symbolic links were skipped, because their targets are absolute, lead out of what is sent, have .. behind a name, or are no names that can be sent",
            ),
            Self::Loop => (
                "directory was skipped, because it is met again within itself behind a symbolic link",
                "directories were skipped, because they are met again within themselves behind symbolic links",
            ),
            Self::LinkBeyond => (
                "link was skipped, because there are more than can be sent at once: send the tree in parts",
                "links were skipped, because there are more than can be sent at once: send the tree in parts",
            ),
            Self::Copy => (
                "further name of a file was sent as a file of its own without --links",
                "further names of files were sent as files of their own without --links",
            ),
            Self::CopyBeyond => (
                "file with further names was sent by itself, because there are too many of them: send the tree in parts",
                "files with further names were sent by themselves, because there are too many of them: send the tree in parts",
            ),
            Self::Special => ("socket, pipe or device was skipped", "sockets, pipes or devices were skipped"),
            Self::Unfinished => {
                ("unfinished file of a receiver was skipped", "unfinished files of a receiver were skipped")
            }
            Self::Excluded => ("excluded file or directory was skipped", "excluded files and directories were skipped"),
            Self::Growth => (
                "file grew while it was sent, and is stored as it was when it was opened",
                "files grew while they were sent, and are stored as they were when they were opened",
            ),
            Self::Mounted => (
                "is not deleted, because another file system is mounted there",
                "are not deleted, because other file systems are mounted there",
            ),
            Self::UnderWay => (
                "is not deleted, because a transfer is under way there",
                "are not deleted, because transfers are under way there",
            ),
            Self::NotEmpty => (
                "directory is not deleted, because something in it stays",
                "directories are not deleted, because something in them stays",
            ),
        };
        format!("{count} {}", if count == 1 { one } else { several })
    }
}

/// Why nothing is deleted after something has failed: it may be the only copy of what was to be sent.
pub(crate) const SKIPPED_AFTER_FAILURE: &str =
    "nothing was deleted, because something could not be read or stored: see the reasons above, and send again";

/// Why nothing is deleted of very large trees.
pub(crate) const SKIPPED_BEYOND: &str =
    "nothing was deleted, because more than a million directories were sent: send them in parts";
