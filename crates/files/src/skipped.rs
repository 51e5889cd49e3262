//! Entries that a sender skips, or that a receiver keeps, on purpose.

/// Kind of entry that a sender skips on purpose or sends in another form, or that a receiver does not delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skipped {
    /// A symbolic link inside a directory.
    Link,
    /// A symbolic link whose target is outside the sent tree.
    LinkOutside,
    /// A symbolic or hard link beyond the sender's limit on links.
    LinkBeyond,
    /// A directory that contains itself through a followed symbolic link.
    Loop,
    /// An additional hard link of a sent file, sent as a separate file because links are not kept.
    Copy,
    /// An additional hard link beyond the sender's limit, sent as a separate file.
    CopyBeyond,
    /// A socket, pipe or device.
    Special,
    /// A partial file that some receiver has not completed.
    Unfinished,
    /// A file or directory that matches `--exclude`.
    Excluded,
    /// Content that was appended to a file after it had been opened; it was not sent.
    Growth,
    /// A mount point that is not deleted.
    Mounted,
    /// An entry that is not deleted because a transfer is in progress there.
    UnderWay,
    /// A directory that is not deleted because something in it stays.
    NotEmpty,
}

impl Skipped {
    /// Returns the reason as a phrase, for JSON.
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

    /// Returns true if the receiver lacks something that the user has not excluded.
    pub const fn is_left_out(self) -> bool {
        !matches!(self, Self::Excluded | Self::Mounted | Self::UnderWay | Self::NotEmpty)
    }

    /// Returns true if the receiver has the content, in another form.
    pub(crate) const fn is_sent(self) -> bool {
        matches!(self, Self::Growth | Self::Copy | Self::CopyBeyond)
    }

    /// Returns a sentence about `count` skipped entries.
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

/// Sentence for a deletion that was skipped after a failure: the file to be deleted may be the only copy of the failed
/// one.
pub(crate) const SKIPPED_AFTER_FAILURE: &str =
    "nothing was deleted, because something could not be read or stored: see the reasons above, and send again";

/// Sentence for a deletion that was skipped because too many directories were sent.
pub(crate) const SKIPPED_BEYOND: &str =
    "nothing was deleted, because more than a million directories were sent: send them in parts";
