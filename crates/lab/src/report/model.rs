//! Parts of a report.

use crate::expand::Form;

/// A report: where and when it was measured, and its figures.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// The page's heading.
    pub title: String,
    /// The machine which ran the experiments: processor, memory, operating system.
    pub host: String,
    /// Version of the program.
    pub version: String,
    /// Commit it was built from.
    pub commit: String,
    /// Date, as the reader should see it.
    pub date: String,
    /// Platform of the experiments: `sim`, `emu`, ..
    pub platform: String,
    /// Form of the plans.
    pub form: Form,
    /// Figures, in the order in which they are shown.
    pub figures: Vec<Figure>,
    /// Wall-clock time of all runs, in seconds. Not shown unless it is finite and positive.
    pub wall_s: f64,
}

/// Source of a figure which no document has.
pub const OURS: &str = "ours";

/// One figure or table: of the documents, measured again, or of our own.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figure {
    /// Short name, such as `S1a`; links lead to it.
    pub id: String,
    /// Title of the experiment.
    pub title: String,
    /// Place in the documents, such as `TH 4.7 = FC 9a`; [`OURS`] if it is not there. Not shown if empty.
    pub source: String,
    /// Question that it answers.
    pub question: String,
    /// Statement of the documents, in short; for one of ours, a reader's background.
    pub says: String,
    /// Measurement, in a sentence or two.
    pub measured: String,
    /// Horizontal axis of every panel. [`Scale::Categories`] makes it a bar chart.
    pub x: Axis,
    /// Vertical axis of every panel.
    pub y: Axis,
    /// Plots which stand side by side where there is room.
    pub panels: Vec<Panel>,
    /// Claims about it.
    pub claims: Vec<Claim>,
    /// Reasons for which its values are less sure than they look.
    pub warnings: Vec<String>,
    /// Remarks, each a sentence or a few.
    pub notes: Vec<String>,
    /// Names and values of the set-up.
    pub parameters: Vec<(String, String)>,
}

/// An axis of a plot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Axis {
    /// The quantity, such as `Goodput`.
    pub label: String,
    /// Its unit, such as `Mbit/s`; empty for plain numbers.
    pub unit: String,
    /// Mapping of values to places.
    pub scale: Scale,
    /// Values which the axis must reach at least, the lower first, so that it looks like the documents'. `None` leaves
    /// the range to the data.
    pub reach: Option<(f64, f64)>,
}

/// Mapping of an axis's values to places.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Scale {
    /// Equal steps, equal lengths.
    #[default]
    Linear,
    /// Equal ratios, equal lengths. Zero and less are drawn on a line of their own past a break of the axis.
    Log,
    /// Names instead of numbers: `x` of a point is the index of its category. A vertical axis cannot have categories;
    /// it is drawn linear then.
    Categories(Vec<String>),
}

/// One plot of a figure.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Panel {
    /// Stands above the plot; may be empty.
    pub title: String,
    /// Curves, or sets of bars.
    pub series: Vec<Series>,
}

/// One curve, or one set of bars.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// Name in the legend. Series of one figure with the same label and role look the same and share an entry.
    pub label: String,
    /// Points in any order; curves are drawn by ascending `x`. A point whose `y` is not finite interrupts the curve.
    pub points: Vec<Point>,
    /// Chooses the colour, so that it means the same in every figure.
    pub role: Role,
}

/// One measured value with its interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Point {
    /// Value on the horizontal axis, in its unit; the index of the category on an axis with categories.
    pub x: f64,
    /// Value on the vertical axis, in its unit.
    pub y: f64,
    /// Lower end of the interval over seeds. Nothing is drawn unless it is finite and below `high`.
    pub low: f64,
    /// Upper end of the interval over seeds.
    pub high: f64,
}

/// Role of a series in the figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// DFCP, whatever its profile: in blues.
    Dfcp,
    /// A series for comparison: TCP, QUIC, a formula, published values. In other colours.
    #[default]
    Rival,
}

/// One claim and how it fared.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Name of the claim, such as `S1.2`.
    pub id: String,
    /// The id of the figure which shows it.
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
    /// Our own derivation from the documents: a check of consistency, no claim of the authors.
    Derived,
}

/// Result of comparing a claim with the measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Measured within the tolerance of the claim.
    Reproduced,
    /// Measured outside it.
    Differs,
    /// Cannot be decided here, because of the reason given, which reads on after "not reproducible, because".
    NotReproducible(String),
    /// The runs it needs were left out.
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
    /// True if no document has it.
    pub(super) fn is_ours(&self) -> bool {
        self.source == OURS
    }

    /// Label and role of all series, each once: a legend's entries.
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
    /// An axis with equal steps.
    pub fn linear(label: &str, unit: &str) -> Self {
        Self { label: label.to_owned(), unit: unit.to_owned(), scale: Scale::Linear, reach: None }
    }

    /// A logarithmic axis.
    pub fn log(label: &str, unit: &str) -> Self {
        Self { scale: Scale::Log, ..Self::linear(label, unit) }
    }

    /// A horizontal axis with names.
    pub fn categories<S: AsRef<str>>(label: &str, names: &[S]) -> Self {
        let names = names.iter().map(|name| name.as_ref().to_owned()).collect();
        Self { scale: Scale::Categories(names), ..Self::linear(label, "") }
    }

    /// The axis, reaching at least from `low` to `high`.
    #[must_use]
    pub fn reaching(self, low: f64, high: f64) -> Self {
        Self { reach: Some((low, high)), ..self }
    }

    /// The quantity with its unit, as it stands at the axis.
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

    /// The interval, if there is one to draw.
    pub(super) fn interval(&self) -> Option<(f64, f64)> {
        (self.low.is_finite() && self.high.is_finite() && self.low < self.high).then_some((self.low, self.high))
    }

    /// True if it has a place on a plot.
    pub(super) fn is_finite(&self) -> bool {
        self.x.is_finite() && self.y.is_finite()
    }
}

impl Tag {
    /// As the list of claims writes it.
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Number => "[N]",
            Self::Statement => "[Q]",
            Self::Derived => "[D]",
        }
    }

    /// The tag written `N`, `Q` or `D`, with or without brackets.
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
