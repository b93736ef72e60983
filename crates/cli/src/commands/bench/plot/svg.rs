//! The picture itself: an SVG without scripts or fonts of its own, to be read on light and on dark ground.

use std::fmt::Write as _;

use super::curve::{Curve, Spot};
use crate::args::PlotX;

/// The whole picture, and the field of the curves in it: left, top, right, bottom.
const SIZE: (f64, f64) = (880.0, 460.0);
const FIELD: (f64, f64, f64, f64) = (76.0, 24.0, 640.0, 400.0);
/// Most letters of a name in the legend; the whole name appears under the pointer.
const MAX_NAME: usize = 30;
const NUMBERS: &str = "requests at once, or their rate";
/// Lines between the axes, about.
const TICKS: f64 = 6.0;

/// In the order of curves, to be told apart on both grounds by most eyes; marks differ, too.
const COLOURS: [&str; 6] = ["#3b8fd4", "#d9622b", "#1f9e77", "#b565a7", "#c99a00", "#7a7f87"];

const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#24292f}.small{font-size:11px}\
.ground{fill:#ffffff}.grid{stroke:#d8dee4}.axis{stroke:#57606a}\
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.ground{fill:#0d1117}.grid{stroke:#30363d}.axis{stroke:#8b949e}}";

/// Draws the curves over the latency `x`.
pub fn draw(curves: &[Curve], x: PlotX) -> Result<String, String> {
    let curves: Vec<(&str, Vec<Spot>)> =
        curves.iter().map(|curve| (curve.name.as_str(), curve.spots(x))).collect();
    let empty: Vec<&str> =
        curves.iter().filter(|(_, spots)| spots.is_empty()).map(|(name, _)| *name).collect();
    if !empty.is_empty() {
        let name = axis_name(x);
        return Err(format!("{}: no point has a {name} to be drawn at", empty.join(", ")));
    }
    let spots = || curves.iter().flat_map(|(_, spots)| spots);
    let across = Axis::up_to(spots().map(|spot| spot.x).fold(0.0, f64::max), FIELD.0, FIELD.2);
    let upward = Axis::up_to(spots().map(|spot| spot.y).fold(0.0, f64::max), FIELD.3, FIELD.1);
    let mut svg = String::new();
    let (width, height) = SIZE;
    let _ = writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">
<title>Throughput against latency</title>
<style>{STYLE}</style>
<rect class="ground" width="{width}" height="{height}"/>"#
    );
    draw_axes(&mut svg, &across, &upward, x);
    for (index, (name, spots)) in curves.iter().enumerate() {
        draw_curve(&mut svg, index, spots, &across, &upward);
        draw_name(&mut svg, index, name);
    }
    let (x, y) = (FIELD.2 + 26.0, FIELD.1 + 18.0 + curves.len() as f64 * 24.0);
    let _ = writeln!(svg, r#"<text class="small" x="{x}" y="{y}">beside: {NUMBERS}</text>"#);
    svg.push_str("</svg>\n");
    Ok(svg)
}

fn axis_name(x: PlotX) -> &'static str {
    match x {
        PlotX::Ttft => "time to first token, median, ms",
        PlotX::Tpot => "time per output token, median, ms",
        PlotX::Itl => "inter-token latency, median, ms",
        PlotX::Interactivity => "output tokens/s of each user, median",
    }
}

/// One axis: from 0 to a round number, between two places of the picture.
struct Axis {
    step: f64,
    end: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn up_to(most: f64, from: f64, to: f64) -> Self {
        let most = if most > 0.0 { most } else { 1.0 };
        let raw = most / TICKS;
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= raw)
            .unwrap_or(10.0 * power);
        Axis { step, end: (most / step).ceil() * step, from, to }
    }

    fn place(&self, value: f64) -> f64 {
        self.from + (self.to - self.from) * value / self.end
    }

    fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        let count = (self.end / self.step).round() as usize;
        // As many decimals as the step has.
        let decimals = (-self.step.log10().floor()).max(0.0) as usize;
        (0..=count).map(move |tick| {
            let value = tick as f64 * self.step;
            (self.place(value), format!("{value:.decimals$}"))
        })
    }
}

fn draw_axes(svg: &mut String, across: &Axis, upward: &Axis, x: PlotX) {
    let (left, top, right, bottom) = FIELD;
    for (place, text) in across.ticks() {
        let _ = writeln!(
            svg,
            r#"<line class="grid" x1="{place:.1}" y1="{top}" x2="{place:.1}" y2="{bottom}"/>
<text x="{place:.1}" y="{:.1}" text-anchor="middle">{text}</text>"#,
            bottom + 20.0
        );
    }
    for (place, text) in upward.ticks() {
        let _ = writeln!(
            svg,
            r#"<line class="grid" x1="{left}" y1="{place:.1}" x2="{right}" y2="{place:.1}"/>
<text x="{:.1}" y="{:.1}" text-anchor="end">{text}</text>"#,
            left - 8.0,
            place + 4.5
        );
    }
    let (middle, centre) = ((left + right) / 2.0, (top + bottom) / 2.0);
    let _ = writeln!(
        svg,
        r#"<path class="axis" fill="none" d="M{left} {top}V{bottom}H{right}"/>
<text x="{middle:.1}" y="{:.1}" text-anchor="middle">{}</text>
<text transform="translate(18 {centre:.1}) rotate(-90)" text-anchor="middle">output tokens/s</text>"#,
        bottom + 44.0,
        axis_name(x)
    );
}

fn draw_curve(svg: &mut String, index: usize, spots: &[Spot], across: &Axis, upward: &Axis) {
    let colour = COLOURS[index % COLOURS.len()];
    let places: Vec<(f64, f64)> =
        spots.iter().map(|spot| (across.place(spot.x), upward.place(spot.y))).collect();
    let line: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(
        svg,
        r#"<polyline fill="none" stroke="{colour}" stroke-width="2" points="{}"/>"#,
        line.join(" ")
    );
    for (spot, (x, y)) in spots.iter().zip(places) {
        draw_mark(svg, index, x, y);
        let label = escaped(&spot.label);
        let _ = writeln!(
            svg,
            r#"<text class="small" x="{:.1}" y="{:.1}">{label}</text>"#,
            x + 7.0,
            y + 14.0
        );
    }
}

/// A disc, a square, a triangle, a lozenge: curves differ without their colours, too.
fn draw_mark(svg: &mut String, index: usize, x: f64, y: f64) {
    let colour = COLOURS[index % COLOURS.len()];
    let shape = match index % 4 {
        0 => "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
        1 => "m-4 -4h8v8h-8z",
        2 => "m0 -5l5 9h-10z",
        _ => "m0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
    };
    let _ = writeln!(svg, r#"<path fill="{colour}" d="M{x:.1} {y:.1}{shape}"/>"#);
}

fn draw_name(svg: &mut String, index: usize, name: &str) {
    let (x, y) = (FIELD.2 + 30.0, FIELD.1 + 14.0 + index as f64 * 24.0);
    draw_mark(svg, index, x, y);
    let mut short: String = name.chars().take(MAX_NAME).collect();
    if short.len() < name.len() {
        short.push('…');
    }
    let _ = writeln!(
        svg,
        r#"<text x="{:.1}" y="{:.1}">{}<title>{}</title></text>"#,
        x + 12.0,
        y + 4.5,
        escaped(&short),
        escaped(name)
    );
}

/// Text as XML has it; characters that XML has not at all are left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter if letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}') => {}
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use roxmltree::Document;
    use serde_json::json;

    use super::*;

    fn curve(name: &str, points: &[(f64, f64)]) -> Curve {
        let points: Vec<_> = points
            .iter()
            .enumerate()
            .map(|(index, (ms, rate))| {
                json!({ "concurrency": index + 1, "output_tokens_per_s": rate,
                    "time_per_output_token": { "p50_ms": ms } })
            })
            .collect();
        let report = json!({ "bench": "serve", "model": name, "results": points });
        Curve::read(report, None).unwrap()
    }

    fn texts(document: &Document<'_>) -> Vec<String> {
        let nodes = document
            .descendants()
            .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text")));
        nodes.filter_map(|node| node.text().map(str::to_owned)).collect()
    }

    #[test]
    fn a_picture_is_xml_with_axes_names_and_every_point() {
        let hostile = "<script>&\"\u{1b}[2J";
        let curves =
            [curve("ours", &[(10.0, 100.0), (20.0, 400.0)]), curve(hostile, &[(5.0, 50.0)])];
        let svg = draw(&curves, PlotX::Tpot).unwrap();
        let document = Document::parse(&svg).unwrap();
        let texts = texts(&document);
        for text in [
            "output tokens/s",
            "time per output token, median, ms",
            "ours",
            "<script>&\"[2J",
            "400",
            "20",
            "2",
        ] {
            assert!(texts.iter().any(|seen| seen == text), "no {text:?} in {texts:?}");
        }
        let count = |name: &str| {
            document.descendants().filter(|node| node.tag_name().name() == name).count()
        };
        assert_eq!((count("polyline"), count("script")), (2, 0));
        // A mark for each point, one for each name, and the axes.
        assert_eq!(count("path"), 3 + 2 + 1);
    }

    #[test]
    fn points_lie_where_their_numbers_say() {
        let svg = draw(&[curve("a", &[(0.0, 0.0), (30.0, 600.0)])], PlotX::Tpot).unwrap();
        let document = Document::parse(&svg).unwrap();
        let line = document.descendants().find(|node| node.has_tag_name("polyline"));
        let line = line
            .or_else(|| document.descendants().find(|node| node.tag_name().name() == "polyline"));
        // 0 is where the axes meet; 30 and 600 are round, and end them.
        assert_eq!(line.unwrap().attribute("points"), Some("76.0,400.0 640.0,24.0"));
    }

    #[test]
    fn axes_end_at_round_numbers() {
        for (most, end, ticks, last) in [
            (30.0, 30.0, 7, "30"),
            (31.0, 40.0, 5, "40"),
            (0.07, 0.08, 5, "0.08"),
            (6100.0, 8000.0, 5, "8000"),
            (0.0, 1.0, 6, "1.0"),
        ] {
            let axis = Axis::up_to(most, 0.0, 1.0);
            assert!((axis.end - end).abs() < 1e-9 * end, "{most}: {}", axis.end);
            let labels: Vec<String> = axis.ticks().map(|(_, text)| text).collect();
            assert_eq!(
                (labels.len(), labels.last().unwrap().as_str()),
                (ticks, last),
                "{labels:?}"
            );
        }
    }

    #[test]
    fn a_run_without_the_time_that_is_wanted_is_named() {
        let curves = [curve("a", &[(1.0, 1.0)]), curve("b", &[])];
        assert!(draw(&curves, PlotX::Tpot).unwrap_err().starts_with("b: "));
        assert!(draw(&curves, PlotX::Ttft).unwrap_err().starts_with("a, b: "));
    }
}
