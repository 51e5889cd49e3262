//! Command-line flags that remedy errors and skipped entries of [`dfcp_files`]. The library's errors name no flags,
//! except in sentences that a receiver sends to its peer.

use std::borrow::Cow;

use dfcp_files::{RootError, Skipped, TransferError};

/// Returns the flags that remedy an error of a transfer.
const fn advice(error: &TransferError) -> Option<&'static str> {
    Some(match error {
        TransferError::BothSend => {
            "run `dfcp receive` on one of the two, with --from HOST:PORT if the sender listens and with --listen PORT if it calls"
        }
        TransferError::BothReceive => {
            "run `dfcp send` on one of the two, with HOST:PORT at the end if the receiver listens and with --listen PORT if it calls"
        }
        TransferError::NoDeletion => "start it with --allow-delete, or leave --delete out here",
        TransferError::NoLinks => "update the receiver, or leave --links out here",
        TransferError::Random(_) => "leave --delete out until it does",
        _ => return None,
    })
}

/// Describes an error of a transfer and its remedy in one sentence.
pub(crate) fn describe(error: &TransferError) -> String {
    advice(error).map_or_else(|| error.to_string(), |advice| format!("{error}; {advice}"))
}

/// Converts an error of a transfer for display. Without a remedying flag the type is kept, because [`crate::contact`]
/// rewords some errors.
pub(crate) fn transfer_error(error: TransferError) -> anyhow::Error {
    if advice(&error).is_some() { anyhow::anyhow!("{}", describe(&error)) } else { error.into() }
}

/// Converts an error of a path argument of `send`, with its remedy.
pub(crate) fn root_error(error: &RootError) -> anyhow::Error {
    let advice = match error {
        RootError::Special { path, is_command, .. } => {
            let source = if *is_command { "COMMAND".to_owned() } else { format!("cat {path}") };
            format!(": {source} | dfcp send - --name NAME HOST")
        }
        RootError::Unnamed => ": give it one with --name".to_owned(),
        RootError::NameOfNothing => ": give - as one of the files, or leave --name out".to_owned(),
        RootError::NameOfSeveral | RootError::Name(_) => "; give another --name".to_owned(),
        _ => String::new(),
    };
    anyhow::anyhow!("{error}{advice}")
}

/// Describes the reason for skipping an entry, for JSON.
pub(crate) fn skipped_reason(what: Skipped) -> Cow<'static, str> {
    let advice = match what {
        Skipped::Link => ": --links keeps it if it stays inside the sent tree",
        Skipped::Copy => ": --links keeps it",
        _ => return what.reason().into(),
    };
    format!("{}{advice}", what.reason()).into()
}

/// Describes `count` entries that were skipped for the same reason.
pub(crate) fn skipped_counted(what: Skipped, count: u64) -> String {
    let advice = if matches!(what, Skipped::Link | Skipped::Copy) { " without --links" } else { "" };
    format!("{}{advice}", what.counted(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_follow_the_sentence_of_the_library() {
        assert!(
            describe(&TransferError::NoDeletion)
                .ends_with("; start it with --allow-delete, or leave --delete out here")
        );
        let ends = [
            (
                TransferError::BothSend,
                "run `dfcp receive` on one of the two, with --from HOST:PORT if the sender listens and with --listen PORT if it calls",
            ),
            (
                TransferError::BothReceive,
                "run `dfcp send` on one of the two, with HOST:PORT at the end if the receiver listens and with --listen PORT if it calls",
            ),
            (TransferError::NoLinks, "update the receiver, or leave --links out here"),
        ];
        for (error, end) in ends {
            assert!(describe(&error).ends_with(end), "{}", describe(&error));
        }
        assert_eq!(describe(&TransferError::Stopped), TransferError::Stopped.to_string());
        assert_eq!(root_error(&RootError::Unnamed).to_string(), "standard input has no name: give it one with --name");
        assert_eq!(skipped_counted(Skipped::Link, 2), "2 symbolic links were skipped without --links");
        assert_eq!(skipped_reason(Skipped::Special), Skipped::Special.reason());
    }
}
