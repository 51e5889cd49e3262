//! The bar chart of goodput, as SVG.

use std::fmt::Write;

use super::path::Path;
use super::result::{Ending, RunResult, Transport};
use crate::units::{human_bytes, human_duration, human_percent, human_rate};

/// Space around the plotting area and its height, in SVG units.
const LEFT: f64 = 84.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 112.0;
const HEIGHT: f64 = 320.0;
const BOTTOM: f64 = 104.0;

/// Width of one bar and of the gap between groups.
const BAR: f64 = 50.0;
const GAP: f64 = 44.0;

/// The narrowest chart still has room for its title and legend.
const WIDTH_MIN: f64 = 680.0;

const INK: &str = "#222222";
const GREY: &str = "#5a5a5a";
const GRID: &str = "#dddddd";

/// From the palette of Okabe and Ito, which colour-blind people can tell apart; they also differ in lightness.
const fn colour(transport: Transport) -> &'static str {
    match transport {
        Transport::Dfcp => "#0072b2",
        #[cfg(feature = "quic")]
        Transport::QuicBbr => "#e69f00",
        #[cfg(feature = "quic")]
        Transport::QuicCubic => "#cc79a7",
    }
}

/// Groups of bars, one per loss; within one, a bar per transport. Results of the same loss stand together.
pub(super) fn chart(results: &[RunResult]) -> String {
    let groups: Vec<&[RunResult]> = results.chunk_by(|a, b| a.path.loss == b.path.loss).collect();
    let bars = groups.iter().map(|group| group.len()).sum::<usize>() as f64;
    let inner = bars * BAR + (groups.len() as f64 + 1.0) * GAP;
    let width = (LEFT + inner + RIGHT).max(WIDTH_MIN);
    let scale = Scale::new(results);
    let mut svg = Svg::new(width, TOP + HEIGHT + BOTTOM);
    if let Some(first) = results.first() {
        title(&mut svg, &first.path, first.file_bytes);
    }
    legend(&mut svg);
    axis(&mut svg, &scale, width);
    let mut x = LEFT + GAP + (width - RIGHT - LEFT - inner) / 2.0;
    for group in &groups {
        let group_width = group.len() as f64 * BAR;
        bars_of(&mut svg, &scale, group, x);
        if let Some(first) = group.first() {
            let y = scale.y(first.path.ceiling_bps(first.path.loss));
            svg.line((x - 8.0, y), (x + group_width + 8.0, y), INK, "2", "6 4");
            let label = human_percent(first.path.loss);
            svg.text(x + group_width / 2.0, TOP + HEIGHT + 24.0, 15, "middle", INK, &label);
        }
        x += group_width + GAP;
    }
    let middle = LEFT + (width - LEFT - RIGHT) / 2.0;
    svg.text(middle, TOP + HEIGHT + 50.0, 15, "middle", INK, "Packet loss each way, independent");
    footnotes(&mut svg, results);
    svg.finish()
}

/// Of the vertical axis: from 0 to a round number at or above all that is shown.
#[derive(Debug)]
struct Scale {
    top_bps: f64,
    step_bps: f64,
}

impl Scale {
    fn new(results: &[RunResult]) -> Self {
        let shown = results.iter().flat_map(|run| [run.goodput_bps(), run.path.ceiling_bps(run.path.loss)]);
        let max_bps = shown.fold(1.0, f64::max);
        // Four to ten steps of 1, 2 or 5 times a power of ten.
        let power = 10f64.powf((max_bps / 4.0).log10().floor());
        let step_bps = [5.0, 2.0].map(|factor| factor * power).into_iter().find(|step| max_bps / step >= 4.0);
        let step_bps = step_bps.unwrap_or(power);
        Self { top_bps: (max_bps / step_bps).ceil() * step_bps, step_bps }
    }

    fn y(&self, rate_bps: f64) -> f64 {
        TOP + HEIGHT * (1.0 - rate_bps / self.top_bps)
    }
}

fn title(svg: &mut Svg, path: &Path, file_bytes: u64) {
    let text = format!(
        "Goodput of {} over {} with {} round-trip time",
        human_bytes(file_bytes),
        human_rate(path.rate_bps as f64),
        human_duration(path.rtt)
    );
    svg.text(24.0, 38.0, 18, "start", INK, &text);
}

fn legend(svg: &mut Svg) {
    let mut x = 24.0;
    for &transport in Transport::ALL {
        svg.rect((x, 58.0), (16.0, 16.0), colour(transport));
        svg.text(x + 23.0, 71.0, 15, "start", INK, transport.label());
        x += 60.0 + 8.6 * transport.label().len() as f64;
    }
    svg.line((x, 66.0), (x + 30.0, 66.0), INK, "2", "6 4");
    svg.text(x + 38.0, 71.0, 15, "start", INK, "ceiling of the path");
}

fn axis(svg: &mut Svg, scale: &Scale, width: f64) {
    let steps = (scale.top_bps / scale.step_bps).round() as u32;
    for step in 0..=steps {
        let rate_bps = f64::from(step) * scale.step_bps;
        let y = scale.y(rate_bps);
        svg.line((LEFT, y), (width - RIGHT, y), if step == 0 { INK } else { GRID }, "1", "none");
        svg.text(LEFT - 10.0, y + 5.0, 14, "end", GREY, &mbit(rate_bps));
    }
    svg.upright(26.0, TOP + HEIGHT / 2.0, "Goodput, Mbit/s");
}

fn bars_of(svg: &mut Svg, scale: &Scale, group: &[RunResult], left: f64) {
    for (index, run) in group.iter().enumerate() {
        let x = left + index as f64 * BAR;
        let goodput_bps = run.goodput_bps();
        // A sliver stays visible however little it was.
        let height = (TOP + HEIGHT - scale.y(goodput_bps)).max(1.5);
        svg.rect((x + 3.0, TOP + HEIGHT - height), (BAR - 6.0, height), colour(run.transport));
        let mark = match run.ending {
            Ending::Complete => "",
            Ending::Cut { .. } => "*",
            Ending::Failed { .. } => "†",
        };
        // Clear of the ceiling's line, which is near where the bar is good.
        let ceiling_y = scale.y(run.path.ceiling_bps(run.path.loss));
        let top_y = TOP + HEIGHT - height;
        let y = if top_y > ceiling_y - 4.0 && top_y < ceiling_y + 24.0 { ceiling_y - 7.0 } else { top_y - 7.0 };
        svg.text(x + BAR / 2.0, y, 14, "middle", INK, &format!("{}{mark}", mbit(goodput_bps)));
    }
}

fn footnotes(svg: &mut Svg, results: &[RunResult]) {
    let mut notes = Vec::new();
    let cut_s = results.iter().filter(|run| matches!(run.ending, Ending::Cut { .. })).map(|run| run.elapsed_s);
    if let Some(cut_s) = cut_s.reduce(f64::max) {
        notes.push(format!("* cut after {cut_s:.0} s: the goodput until then, start-up left out"));
    }
    if results.iter().any(|run| matches!(run.ending, Ending::Failed { .. })) {
        notes.push("† failed".to_owned());
    }
    svg.text(24.0, TOP + HEIGHT + 84.0, 13, "start", GREY, &notes.join("; "));
}

/// Three significant digits of Mbit/s, without needless zeros.
fn mbit(rate_bps: f64) -> String {
    let value = rate_bps / 1e6;
    let decimals = match value {
        99.95.. => 0,
        9.995.. => 1,
        0.9995.. => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// An SVG document being written. Writing to a string cannot fail.
#[derive(Debug)]
struct Svg(String);

impl Svg {
    fn new(width: f64, height: f64) -> Self {
        let mut svg = Self(String::new());
        svg.push(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">"
        ));
        svg.push(format_args!("<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>"));
        svg
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.0, "{element}");
    }

    fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str) {
        self.push(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"/>"
        ));
    }

    fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), stroke: &str, width: &str, dashes: &str) {
        self.push(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{stroke}\" \
             stroke-width=\"{width}\" stroke-dasharray=\"{dashes}\"/>"
        ));
    }

    /// With a white rim, so that lines behind it do not cross the letters.
    fn text(&mut self, x: f64, y: f64, size: u32, anchor: &str, fill: &str, text: &str) {
        let text = escaped(text);
        self.push(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{fill}\" \
             stroke=\"#ffffff\" stroke-width=\"3\" paint-order=\"stroke\">{text}</text>"
        ));
    }

    /// Text which reads upwards.
    fn upright(&mut self, x: f64, y: f64, text: &str) {
        let text = escaped(text);
        self.push(format_args!(
            "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" font-size=\"15\" text-anchor=\"middle\" \
             fill=\"{INK}\">{text}</text>"
        ));
    }

    fn finish(mut self) -> String {
        self.push(format_args!("</svg>"));
        self.0
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
