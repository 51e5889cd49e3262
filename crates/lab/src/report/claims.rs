//! HTML of the verdicts, and of the table of all claims.

use std::fmt::Write;

use super::model::{Claim, Counts, Report, Tag, Verdict};
use super::text::{escaped, prose};

impl Verdict {
    /// Returns CSS class, symbol and word of the verdict. The symbol ensures that colour is never the only difference.
    const fn face(&self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Reproduced => ("yes", "✓", "reproduced"),
            Self::Differs => ("no", "≠", "differs"),
            Self::NotReproducible(_) => ("open", "?", "not reproducible"),
            Self::NotRun => ("none", "–", "not run"),
        }
    }
}

/// Returns the verdict as a coloured word in HTML.
pub(super) fn badge(verdict: &Verdict) -> String {
    let (class, sign, word) = verdict.face();
    format!("<span class=\"verdict {class}\"><span aria-hidden=\"true\">{sign}</span> {word}</span>")
}

/// Returns the known reason of a claim that is not reproducible; empty for other verdicts.
pub(super) fn reason(verdict: &Verdict) -> String {
    match verdict {
        Verdict::NotReproducible(reason) if !reason.is_empty() => {
            format!("<span class=\"reason\">because {}</span>", prose(reason))
        }
        _ => String::new(),
    }
}

/// Returns the tag of a claim, with its meaning as a tooltip.
pub(super) fn tag(tag: Tag) -> String {
    let meaning = match tag {
        Tag::Number => "a number given in the text",
        Tag::Statement => "a qualitative statement",
        Tag::Derived => "our own derivation, a check of consistency",
    };
    format!("<abbr title=\"{meaning}\">{}</abbr>", tag.mark())
}

/// Returns the numbers of claims by verdict: for all claims, and for each tag.
pub(super) fn summary(report: &Report) -> String {
    let counts = report.counts();
    let of = |verdict: &Verdict, count: usize| {
        let (class, sign, word) = verdict.face();
        format!(
            "<li class=\"{class}\"><b>{count}</b> <span><span aria-hidden=\"true\">{sign}</span> {word}</span></li>\n"
        )
    };
    let all = format!(
        "<ul class=\"counts\">\n{}{}{}{}<li><b>{}</b> <span>claims in all</span></li>\n</ul>\n",
        of(&Verdict::Reproduced, counts.reproduced),
        of(&Verdict::Differs, counts.differs),
        of(&Verdict::NotReproducible(String::new()), counts.not_reproducible),
        of(&Verdict::NotRun, counts.not_run),
        counts.total()
    );
    all + &by_tag(report)
}

fn by_tag(report: &Report) -> String {
    let mut out = String::from("<p class=\"by-tag\">Of these ");
    let tags = [
        (Tag::Number, "numbers in the documents' text"),
        (Tag::Statement, "statements of the documents"),
        (Tag::Derived, "derivations of ours"),
    ];
    let parts: Vec<_> = tags
        .into_iter()
        .map(|(tag, what)| (report.counts_of(tag), what))
        .filter(|(counts, _)| counts.total() > 0)
        .map(|(counts, what)| {
            let Counts { reproduced, differs, not_reproducible, not_run } = counts;
            format!(
                "{} are {what} ({reproduced} reproduced, {differs} differ, {not_reproducible} not reproducible, {not_run} not run)",
                counts.total()
            )
        })
        .collect();
    if parts.is_empty() {
        return String::new();
    }
    let _ = writeln!(out, "{}.</p>", parts.join(", "));
    out
}

/// Returns the table of all claims. `anchors` holds the ids of the figures' sections, in the order of the figures.
pub(super) fn table(report: &Report, anchors: &[String]) -> String {
    let mut out = String::from(
        "<table class=\"claims\" data-sortable>\n<caption>Every claim and how it fared. [N] a number in the text, [Q] a \
         qualitative statement, [D] our own derivation.</caption>\n<thead><tr><th scope=\"col\">Claim</th><th \
         scope=\"col\">It says</th><th scope=\"col\">Kind</th><th scope=\"col\">Measured</th><th \
         scope=\"col\">Verdict</th></tr></thead>\n<tbody>\n",
    );
    for (figure, anchor) in report.figures.iter().zip(anchors) {
        for claim in &figure.claims {
            // A claim links to the figure that it names, which may differ from the figure that lists it.
            let named = report.figures.iter().position(|figure| figure.id == claim.figure);
            let anchor = named.and_then(|index| anchors.get(index)).unwrap_or(anchor);
            row(&mut out, claim, anchor);
        }
    }
    out.push_str("</tbody>\n</table>\n");
    out
}

fn row(out: &mut String, claim: &Claim, anchor: &str) {
    let figure = if claim.id.starts_with(&claim.figure) {
        String::new()
    } else {
        format!(" <span class=\"of\">in {}</span>", escaped(&claim.figure))
    };
    let _ = writeln!(
        out,
        "<tr><th scope=\"row\"><a href=\"#{anchor}\">{}</a>{figure}</th><td data-label=\"It says\">{}</td><td \
         data-label=\"Kind\">{}</td><td data-label=\"Measured\">{}</td><td data-label=\"Verdict\">{} {}</td></tr>",
        escaped(&claim.id),
        prose(&claim.says),
        tag(claim.tag),
        or_dash(&claim.measured),
        badge(&claim.verdict),
        reason(&claim.verdict)
    );
}

/// Returns the text as HTML, or a dash if it is empty.
fn or_dash(text: &str) -> String {
    if text.is_empty() { "–".to_owned() } else { prose(text) }
}
