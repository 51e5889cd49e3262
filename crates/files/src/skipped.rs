//! Entries that are skipped on purpose.

/// Kind of entry that a sender skips on purpose, or sends in another form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skipped {
    /// A symbolic link inside a directory.
    Link,
    /// A symbolic link that leaves the sent tree.
    LinkOutside,
    /// A link beyond the sender's limit.
    LinkBeyond,
    /// A directory that contains itself through a followed symbolic link.
    Loop,
    /// A hard link of a sent file, sent as a separate file.
    Copy,
    /// A hard link beyond the sender's limit, sent as a separate file.
    CopyBeyond,
    /// A socket, pipe or device.
    Special,
    /// A partial file of a receiver.
    Unfinished,
    /// A file that matches `--exclude`.
    Excluded,
    /// Content appended to a file after it was opened.
    Growth,
    /// A mount point where something would be deleted.
    Mounted,
    /// A transfer in progress where something would be deleted.
    UnderWay,
    /// A directory that could not be deleted because it is not empty.
    NotEmpty,
}

impl Skipped {
    /// Reason as a phrase, for JSON.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Link => "a symbolic link, and links are not kept",
            Self::LinkOutside => {
                "a symbolic link whose target is absolute, leads out of what is sent, has .. behind a name, or is no name that can be sent"
            }
            Self::Loop => "a directory that is met again within itself, behind a symbolic link",
            Self::LinkBeyond => "there are more links than can be sent at once: send the tree in parts",
            Self::Copy => "another hard link of a sent file, sent as a separate file",
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

    /// True if the receiver lacks something that the user did not exclude.
    pub const fn is_left_out(self) -> bool {
        !matches!(self, Self::Excluded | Self::Mounted | Self::UnderWay | Self::NotEmpty)
    }

    /// True if the receiver has the content in another form.
    pub(crate) const fn is_sent(self) -> bool {
        matches!(self, Self::Growth | Self::Copy | Self::CopyBeyond)
    }

    /// Sentence about this number of skipped entries.
    pub fn counted(self, count: u64) -> String {
        let (one, several) = match self {
            Self::Link => ("symbolic link was skipped", "symbolic links were skipped"),
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
                "further hard link of a file was sent as a separate file",
                "further hard links of files were sent as separate files",
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

/// Reason why nothing is deleted after a failure: the old file may be the only copy of the failed one.
pub(crate) const SKIPPED_AFTER_FAILURE: &str =
    "nothing was deleted, because something could not be read or stored: see the reasons above, and send again";

/// Reason why nothing is deleted in very large trees.
pub(crate) const SKIPPED_BEYOND: &str =
    "nothing was deleted, because more than a million directories were sent: send them in parts";
