//! The project's own plans, which the program carries with it.

use super::{PlanError, Source};

/// Name and text of every plan in `lab/plans`, in the order of the report.
const TEXTS: &[(&str, &str)] = &[
    ("V1.toml", include_str!("../../../../lab/plans/V1.toml")),
    ("V2.toml", include_str!("../../../../lab/plans/V2.toml")),
    ("V3.toml", include_str!("../../../../lab/plans/V3.toml")),
    ("V4.toml", include_str!("../../../../lab/plans/V4.toml")),
    ("V5.toml", include_str!("../../../../lab/plans/V5.toml")),
    ("V6.toml", include_str!("../../../../lab/plans/V6.toml")),
    ("V7.toml", include_str!("../../../../lab/plans/V7.toml")),
    ("V8.toml", include_str!("../../../../lab/plans/V8.toml")),
    ("S1.toml", include_str!("../../../../lab/plans/S1.toml")),
    ("S1r.toml", include_str!("../../../../lab/plans/S1r.toml")),
    ("S1x.toml", include_str!("../../../../lab/plans/S1x.toml")),
    ("S2.toml", include_str!("../../../../lab/plans/S2.toml")),
    ("S3.toml", include_str!("../../../../lab/plans/S3.toml")),
    ("S4.toml", include_str!("../../../../lab/plans/S4.toml")),
    ("S5.toml", include_str!("../../../../lab/plans/S5.toml")),
    ("S6.toml", include_str!("../../../../lab/plans/S6.toml")),
    ("S7.toml", include_str!("../../../../lab/plans/S7.toml")),
    ("S8.toml", include_str!("../../../../lab/plans/S8.toml")),
    ("S9.toml", include_str!("../../../../lab/plans/S9.toml")),
    ("S10.toml", include_str!("../../../../lab/plans/S10.toml")),
    ("S11.toml", include_str!("../../../../lab/plans/S11.toml")),
    ("S12.toml", include_str!("../../../../lab/plans/S12.toml")),
    ("S13.toml", include_str!("../../../../lab/plans/S13.toml")),
    ("F1a.toml", include_str!("../../../../lab/plans/F1a.toml")),
    ("F1b.toml", include_str!("../../../../lab/plans/F1b.toml")),
    ("F2a.toml", include_str!("../../../../lab/plans/F2a.toml")),
    ("F2b.toml", include_str!("../../../../lab/plans/F2b.toml")),
    ("F3a.toml", include_str!("../../../../lab/plans/F3a.toml")),
    ("F3b.toml", include_str!("../../../../lab/plans/F3b.toml")),
    ("F4a.toml", include_str!("../../../../lab/plans/F4a.toml")),
    ("F4b.toml", include_str!("../../../../lab/plans/F4b.toml")),
    ("F5a.toml", include_str!("../../../../lab/plans/F5a.toml")),
    ("F5b.toml", include_str!("../../../../lab/plans/F5b.toml")),
    ("T1.toml", include_str!("../../../../lab/plans/T1.toml")),
    ("T2.toml", include_str!("../../../../lab/plans/T2.toml")),
    ("T3.toml", include_str!("../../../../lab/plans/T3.toml")),
    ("X1.toml", include_str!("../../../../lab/plans/X1.toml")),
    ("X2.toml", include_str!("../../../../lab/plans/X2.toml")),
    ("X3.toml", include_str!("../../../../lab/plans/X3.toml")),
    ("X4.toml", include_str!("../../../../lab/plans/X4.toml")),
    ("X5.toml", include_str!("../../../../lab/plans/X5.toml")),
    ("X6.toml", include_str!("../../../../lab/plans/X6.toml")),
    ("A1.toml", include_str!("../../../../lab/plans/A1.toml")),
    ("A11.toml", include_str!("../../../../lab/plans/A11.toml")),
    ("A12.toml", include_str!("../../../../lab/plans/A12.toml")),
    ("A14.toml", include_str!("../../../../lab/plans/A14.toml")),
];

/// The project's own plans, in the order of the report.
///
/// # Errors
/// None in a program whose tests pass.
pub fn builtin() -> Result<Vec<Source>, PlanError> {
    TEXTS.iter().map(|(file, text)| Source::parse(file, text)).collect()
}
