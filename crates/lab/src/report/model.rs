//! Data model of a report, independent of plans and records.

use crate::expand::Form;

/// Input of a report: figures, and the origin of the measurements.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Heading of the page.
    pub title: String,
    /// Machine that executed the runs: processor, memory, operating system.
    pub host: String,
    /// Version of the program.
    pub version: String,
    /// Commit from which the program was built.
    pub commit: String,
    /// Date, as displayed.
    pub date: String,
    /// Platform of the runs, such as `sim`.
    pub platform: String,
    /// Form of the plans: full, quick or small.
    pub form: Form,
    /// Figures, in the order of display.
    pub figures: Vec<Figure>,
    /// Text tables, folded below the numbers of claims: the legend of abbreviations, or results of other commands.
    pub tables: Vec<Table>,
    /// Wall-clock time of all runs, s. It is shown if finite and positive.
    pub wall_s: f64,
}

/// A table of text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Heading of the table.
    pub title: String,
    /// Sentences above the table; may be empty.
    pub text: String,
    /// Headings of the columns.
    pub columns: Vec<String>,
    /// Rows, with one cell per column.
    pub rows: Vec<Vec<String>>,
}

/// Value of [`Figure::source`] for a figure of this project.
pub const OURS: &str = "ours";

/// A figure with its plots and claims. It repeats a figure of a source document, or is one of this project.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figure {
    /// Short id, such as `S1a`, used in links.
    pub id: String,
    /// Title of the experiment.
    pub title: String,
    /// Figures of the source documents, such as `TH 4.7 = FC 9a`; [`OURS`] for a figure of this project. Not shown if
    /// empty.
    pub source: String,
    /// Question that the figure answers.
    pub question: String,
    /// Statement of the source document, in short; in a figure of this project, background for the reader.
    pub says: String,
    /// Result of the measurement, in a sentence or two.
    pub measured: String,
    /// Horizontal axis of all panels. [`Scale::Categories`] makes the figure a bar chart.
    pub x: Axis,
    /// Vertical axis of all panels.
    pub y: Axis,
    /// Plots, side by side if the page is wide enough.
    pub panels: Vec<Panel>,
    /// Claims that the figure tests.
    pub claims: Vec<Claim>,
    /// Warnings about results that are less reliable than they seem.
    pub warnings: Vec<String>,
    /// Notes below the plots.
    pub notes: Vec<String>,
    /// Parameters of the set-up, by name.
    pub parameters: Vec<(String, String)>,
}

/// An axis of a plot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Axis {
    /// Quantity of the axis, such as `Goodput`.
    pub label: String,
    /// Unit of the axis, such as `Mbit/s`; empty for plain numbers.
    pub unit: String,
    /// Scale of the axis.
    pub scale: Scale,
    /// Range (low, high) that the axis must include, for example to match the source's figure. `None` uses the data
    /// alone.
    pub reach: Option<(f64, f64)>,
}

/// Scale of an axis: maps values to positions.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Scale {
    /// Linear: equal differences have equal lengths.
    #[default]
    Linear,
    /// Logarithmic: equal ratios have equal lengths. Zero and negative values are drawn on a line beyond a break of the
    /// axis.
    Log,
    /// Names instead of numbers: a point's `x` is the index of its category. Allowed on horizontal axes; a vertical
    /// axis is then linear.
    Categories(Vec<String>),
}

/// One plot of a figure.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Panel {
    /// Title above the plot; may be empty.
    pub title: String,
    /// Curves, or sets of bars.
    pub series: Vec<Series>,
}

/// A curve, or a set of bars.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// Label in the legend. Series of a figure with equal label and role look the same and share a legend entry.
    pub label: String,
    /// Points in any order; curves connect them by ascending `x`. A point without a finite `y` interrupts the curve.
    pub points: Vec<Point>,
    /// Role of the series, which selects its colour in all figures.
    pub role: Role,
}

/// A measured value with its confidence interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Point {
    /// Value on the horizontal axis, in its unit; on an axis of categories, the index of the category.
    pub x: f64,
    /// Value on the vertical axis, in its unit.
    pub y: f64,
    /// Lower end of the interval over repetitions. The interval is drawn if both ends are finite and `low` is below
    /// `high`.
    pub low: f64,
    /// Upper end of the interval over repetitions.
    pub high: f64,
}

/// Role of a series in a figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// DFCP of any profile, in blues.
    Dfcp,
    /// A series to compare with (TCP, QUIC, a formula, published values), in other colours.
    #[default]
    Rival,
    /// A limit of the other series, such as the capacity of a path. In bar charts it is a line across each group of
    /// bars, in the colour of text.
    Bound,
}

/// A claim with its verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Id of the claim, such as `S1.2`.
    pub id: String,
    /// Id of the figure to which the claim links.
    pub figure: String,
    /// Text of the claim.
    pub says: String,
    /// Kind of the claim's source.
    pub tag: Tag,
    /// Measured result.
    pub measured: String,
    /// Result of testing the claim.
    pub verdict: Verdict,
}

/// Kind of a claim's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// A number given in the text.
    Number,
    /// A qualitative statement.
    Statement,
    /// A derivation of this project from the source documents: a consistency check, not a claim of the authors.
    Derived,
}

/// Result of testing a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The measurement satisfies the claim.
    Reproduced,
    /// The measurement contradicts the claim.
    Differs,
    /// The measurement contradicts the claim for a known reason. The text continues the words “not reproducible,
    /// because”.
    NotReproducible(String),
    /// The required runs have not been made.
    NotRun,
}

/// Numbers of claims by verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of [`Verdict::Reproduced`].
    pub reproduced: usize,
    /// Number of [`Verdict::Differs`].
    pub differs: usize,
    /// Number of [`Verdict::NotReproducible`].
    pub not_reproducible: usize,
    /// Number of [`Verdict::NotRun`].
    pub not_run: usize,
}

impl Report {
    /// Iterates over all claims, in the order of the figures.
    pub fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.figures.iter().flat_map(|figure| &figure.claims)
    }

    /// Returns the number of claims by verdict.
    pub fn counts(&self) -> Counts {
        Counts::of(self.claims())
    }

    /// Returns the number of claims with tag `tag`, by verdict.
    pub fn counts_of(&self, tag: Tag) -> Counts {
        Counts::of(self.claims().filter(|claim| claim.tag == tag))
    }
}

impl Counts {
    fn of<'report>(claims: impl Iterator<Item = &'report Claim>) -> Self {
        claims.fold(Self::default(), |mut counts, claim| {
            match claim.verdict {
                Verdict::Reproduced => counts.reproduced += 1,
                Verdict::Differs => counts.differs += 1,
                Verdict::NotReproducible(_) => counts.not_reproducible += 1,
                Verdict::NotRun => counts.not_run += 1,
            }
            counts
        })
    }
}

impl Figure {
    /// Returns true for a figure of this project.
    pub(super) fn is_ours(&self) -> bool {
        self.source == OURS
    }

    /// Returns label and role of all series without duplicates: the entries of the legend.
    pub(super) fn labels(&self) -> Vec<(&str, Role)> {
        let mut entries: Vec<(&str, Role)> = Vec::new();
        for series in self.panels.iter().flat_map(|panel| &panel.series) {
            if !entries.contains(&(&series.label, series.role)) {
                entries.push((&series.label, series.role));
            }
        }
        entries
    }
}

impl Axis {
    /// Creates a linear axis.
    pub fn linear(label: &str, unit: &str) -> Self {
        Self { label: label.to_owned(), unit: unit.to_owned(), scale: Scale::Linear, reach: None }
    }

    /// Creates a logarithmic axis.
    pub fn log(label: &str, unit: &str) -> Self {
        Self { scale: Scale::Log, ..Self::linear(label, unit) }
    }

    /// Creates a horizontal axis of categories.
    pub fn categories<S: AsRef<str>>(label: &str, names: &[S]) -> Self {
        let names = names.iter().map(|name| name.as_ref().to_owned()).collect();
        Self { scale: Scale::Categories(names), ..Self::linear(label, "") }
    }

    /// Extends the axis so that it includes `low` and `high`.
    #[must_use]
    pub fn reaching(self, low: f64, high: f64) -> Self {
        Self { reach: Some((low, high)), ..self }
    }

    /// Returns the title of the axis: quantity and unit.
    pub(super) fn title(&self) -> String {
        match (self.label.as_str(), self.unit.as_str()) {
            (label, "") => label.to_owned(),
            ("", unit) => unit.to_owned(),
            (label, unit) => format!("{label}, {unit}"),
        }
    }
}

impl Point {
    /// Creates a point without an interval.
    pub const fn exact(x: f64, y: f64) -> Self {
        Self { x, y, low: y, high: y }
    }

    /// Creates a point with the interval from `low` to `high`.
    pub const fn within(x: f64, y: f64, low: f64, high: f64) -> Self {
        Self { x, y, low, high }
    }

    /// Returns the interval (low, high), if it is drawn.
    pub(super) fn interval(&self) -> Option<(f64, f64)> {
        (self.low.is_finite() && self.high.is_finite() && self.low < self.high).then_some((self.low, self.high))
    }

    /// Returns true if both coordinates are finite.
    pub(super) fn is_finite(&self) -> bool {
        self.x.is_finite() && self.y.is_finite()
    }
}

impl Tag {
    /// Returns the tag as printed in the list of claims, in brackets.
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Number => "[N]",
            Self::Statement => "[Q]",
            Self::Derived => "[D]",
        }
    }

    /// Parses a tag written `N`, `Q` or `D`, with or without brackets.
    pub fn parse(text: &str) -> Option<Self> {
        match text.trim().trim_start_matches('[').trim_end_matches(']') {
            "N" => Some(Self::Number),
            "Q" => Some(Self::Statement),
            "D" => Some(Self::Derived),
            _ => None,
        }
    }
}

impl Counts {
    /// Returns the number of all claims.
    pub const fn total(&self) -> usize {
        self.reproduced + self.differs + self.not_reproducible + self.not_run
    }
}
