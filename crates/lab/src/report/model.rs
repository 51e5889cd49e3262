//! Data model of a report.

use crate::expand::Form;

/// A report: origin of the measurements, and figures.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Heading of the page.
    pub title: String,
    /// Machine of the experiments: processor, memory, operating system.
    pub host: String,
    /// Version of the program.
    pub version: String,
    /// Commit that the program was built from.
    pub commit: String,
    /// Date, as displayed.
    pub date: String,
    /// Platform of the experiments, such as `sim` or `emu`.
    pub platform: String,
    /// Form of the plans.
    pub form: Form,
    /// Figures, in the order of display.
    pub figures: Vec<Figure>,
    /// Tables of text, folded below the counts of claims: the legend of abbreviations, or results of other commands.
    pub tables: Vec<Table>,
    /// Wall-clock time of all runs, s; shown if finite and positive.
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
    /// Rows with a cell for each column.
    pub rows: Vec<Vec<String>>,
}

/// Source of a figure that is not from a document.
pub const OURS: &str = "ours";

/// A figure or table: one of the documents, measured again, or one of this project.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figure {
    /// Short name, such as `S1a`, used in links.
    pub id: String,
    /// Title of the experiment.
    pub title: String,
    /// Place in the documents, such as `TH 4.7 = FC 9a`; [`OURS`] for a figure of this project. Not shown if empty.
    pub source: String,
    /// Question that the figure answers.
    pub question: String,
    /// Statement of the documents, in short; for a figure of this project, background for the reader.
    pub says: String,
    /// Result of the measurement, in a sentence or two.
    pub measured: String,
    /// Horizontal axis of every panel; with [`Scale::Categories`] the figure is a bar chart.
    pub x: Axis,
    /// Vertical axis of every panel.
    pub y: Axis,
    /// Plots, drawn side by side if there is room.
    pub panels: Vec<Panel>,
    /// Claims about the figure.
    pub claims: Vec<Claim>,
    /// Reasons for which values are less reliable than they seem.
    pub warnings: Vec<String>,
    /// Notes of one or more sentences.
    pub notes: Vec<String>,
    /// Parameters of the set-up: name and value.
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
    /// Range that the axis must include (lower bound first), to match the documents' figure. `None` derives the range from the data.
    pub reach: Option<(f64, f64)>,
}

/// Scale of an axis: its mapping of values to positions.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Scale {
    /// Linear: equal differences have equal lengths.
    #[default]
    Linear,
    /// Logarithmic: equal ratios have equal lengths. Zero and negative values are drawn on a separate line beyond a break of the axis.
    Log,
    /// Names instead of numbers: `x` of a point is the index of its category. A vertical axis with categories is drawn as a linear one.
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
    /// Label in the legend. Series of one figure with the same label and role look the same and share an entry.
    pub label: String,
    /// Points in any order; curves are drawn by ascending `x`. A point whose `y` is not finite interrupts the curve.
    pub points: Vec<Point>,
    /// Role of the series, which selects its colour consistently in all figures.
    pub role: Role,
}

/// A measured value with its interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Point {
    /// Value on the horizontal axis, in its unit; the index of the category on an axis with categories.
    pub x: f64,
    /// Value on the vertical axis, in its unit.
    pub y: f64,
    /// Lower end of the interval over seeds. The interval is drawn if this value is finite and below `high`.
    pub low: f64,
    /// Upper end of the interval over seeds.
    pub high: f64,
}

/// Role of a series in the figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// DFCP of any profile, in blues.
    Dfcp,
    /// A series for comparison (TCP, QUIC, a formula, published values), in other colours.
    #[default]
    Rival,
    /// A limit for the other series, such as the capacity of a path. In bar charts it is a line across each group, in the colour of text.
    Bound,
}

/// A claim with its verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Name of the claim, such as `S1.2`.
    pub id: String,
    /// Id of the figure that shows the claim.
    pub figure: String,
    /// Text of the claim.
    pub says: String,
    /// Kind of claim.
    pub tag: Tag,
    /// Measured result.
    pub measured: String,
    /// Result of the comparison.
    pub verdict: Verdict,
}

/// Kind of claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// A number given in the text.
    Number,
    /// A qualitative statement.
    Statement,
    /// A derivation of this project from the documents: a check of consistency, not a claim of the authors.
    Derived,
}

/// Result of comparing a claim with the measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The measurement is within the tolerance of the claim.
    Reproduced,
    /// The measurement is outside the tolerance.
    Differs,
    /// The claim cannot be decided here, for this reason, which continues “not reproducible, because”.
    NotReproducible(String),
    /// The required runs were not made.
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
    /// All claims, in the order of the figures.
    pub fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.figures.iter().flat_map(|figure| &figure.claims)
    }

    /// Numbers of claims by verdict.
    pub fn counts(&self) -> Counts {
        Counts::of(self.claims())
    }

    /// Counts of the claims of one kind.
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
    /// True for a figure that is not from a document.
    pub(super) fn is_ours(&self) -> bool {
        self.source == OURS
    }

    /// Labels and roles of all series without duplicates: the entries of the legend.
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
    /// Makes a linear axis.
    pub fn linear(label: &str, unit: &str) -> Self {
        Self { label: label.to_owned(), unit: unit.to_owned(), scale: Scale::Linear, reach: None }
    }

    /// Makes a logarithmic axis.
    pub fn log(label: &str, unit: &str) -> Self {
        Self { scale: Scale::Log, ..Self::linear(label, unit) }
    }

    /// Makes a horizontal axis of categories.
    pub fn categories<S: AsRef<str>>(label: &str, names: &[S]) -> Self {
        let names = names.iter().map(|name| name.as_ref().to_owned()).collect();
        Self { scale: Scale::Categories(names), ..Self::linear(label, "") }
    }

    /// Extends the axis to include `low` to `high`.
    #[must_use]
    pub fn reaching(self, low: f64, high: f64) -> Self {
        Self { reach: Some((low, high)), ..self }
    }

    /// Title of the axis: the quantity with its unit.
    pub(super) fn title(&self) -> String {
        match (self.label.as_str(), self.unit.as_str()) {
            (label, "") => label.to_owned(),
            ("", unit) => unit.to_owned(),
            (label, unit) => format!("{label}, {unit}"),
        }
    }
}

impl Point {
    /// A value without an interval.
    pub const fn exact(x: f64, y: f64) -> Self {
        Self { x, y, low: y, high: y }
    }

    /// A value with the interval from `low` to `high` around it.
    pub const fn within(x: f64, y: f64, low: f64, high: f64) -> Self {
        Self { x, y, low, high }
    }

    /// The interval, if it is to be drawn.
    pub(super) fn interval(&self) -> Option<(f64, f64)> {
        (self.low.is_finite() && self.high.is_finite() && self.low < self.high).then_some((self.low, self.high))
    }

    /// True if both coordinates are finite.
    pub(super) fn is_finite(&self) -> bool {
        self.x.is_finite() && self.y.is_finite()
    }
}

impl Tag {
    /// Letter of the tag in the list of claims.
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
    /// Number of all claims.
    pub const fn total(&self) -> usize {
        self.reproduced + self.differs + self.not_reproducible + self.not_run
    }
}
