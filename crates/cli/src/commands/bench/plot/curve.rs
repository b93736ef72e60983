//! The curve of one run: a point for each pace that was measured.

use serde::Deserialize;
use serde_json::Value;

use crate::args::PlotX;

/// What `bench serve` measured, as far as a picture shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// For the legend.
    pub name: String,
    /// The file it came from, to tell curves of one name apart.
    file: Option<String>,
    /// In the order of measurement.
    points: Vec<Point>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Point {
    #[serde(default)]
    concurrency: Option<u32>,
    #[serde(default)]
    rate_per_s: Option<f64>,
    output_tokens_per_s: f64,
    time_to_first_token: Option<Times>,
    time_per_output_token: Option<Times>,
    inter_token_latency: Option<Times>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
struct Times {
    p50_ms: f64,
}

/// A point where it is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    /// Latency or interactivity.
    pub x: f64,
    /// Output tokens a second.
    pub y: f64,
    /// How many were under way, or at what rate they came.
    pub label: String,
}

impl Curve {
    /// Reads a report of `bench serve`.
    pub fn read(report: Value, file: Option<String>) -> Result<Self, String> {
        let text = |key: &str| report[key].as_str().map(str::to_owned);
        match text("bench").as_deref() {
            Some("serve") => {}
            Some(other) => {
                return Err(format!("this is a report of bench {other}, not of bench serve"));
            }
            None => return Err("this is no report of `bench serve --json`".to_owned()),
        }
        let name = text("label").or_else(|| text("model")).unwrap_or_else(|| "?".to_owned());
        let points = Vec::<Point>::deserialize(&report["results"])
            .map_err(|error| format!("its results do not read: {error}"))?;
        Ok(Curve { name, file, points })
    }

    /// The points that have the latency `x`, from left to right as they were measured.
    pub fn spots(&self, x: PlotX) -> Vec<Spot> {
        let spot = |point: &Point| {
            let x = point.x(x).filter(|x| x.is_finite() && *x >= 0.0)?;
            let y = Some(point.output_tokens_per_s).filter(|y| y.is_finite() && *y >= 0.0)?;
            Some(Spot { x, y, label: point.label() })
        };
        self.points.iter().filter_map(spot).collect()
    }
}

impl Point {
    fn x(&self, x: PlotX) -> Option<f64> {
        let times = match x {
            PlotX::Ttft => self.time_to_first_token,
            PlotX::Tpot | PlotX::Interactivity => self.time_per_output_token,
            PlotX::Itl => self.inter_token_latency,
        };
        let ms = times?.p50_ms;
        Some(if x == PlotX::Interactivity { 1000.0 / ms } else { ms })
    }

    fn label(&self) -> String {
        match (self.concurrency, self.rate_per_s) {
            (Some(count), _) => count.to_string(),
            (None, Some(rate)) => format!("{rate}/s"),
            (None, None) => String::new(),
        }
    }
}

/// The curves, those of one name with their files' names behind it.
pub fn told_apart(mut curves: Vec<Curve>) -> Vec<Curve> {
    let names: Vec<String> = curves.iter().map(|curve| curve.name.clone()).collect();
    for curve in &mut curves {
        if names.iter().filter(|name| **name == curve.name).count() > 1
            && let Some(file) = &curve.file
        {
            curve.name = format!("{} ({file})", curve.name);
        }
    }
    curves
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report() -> Value {
        let times = |ms: f64| json!({ "p50_ms": ms, "p90_ms": ms });
        json!({ "bench": "serve", "model": "m", "results": [
            { "concurrency": 4, "output_tokens_per_s": 80.0, "time_to_first_token": times(30.0),
              "time_per_output_token": times(20.0), "inter_token_latency": times(10.0) },
            { "rate_per_s": 2.5, "output_tokens_per_s": 90.0, "time_to_first_token": times(40.0),
              "time_per_output_token": null, "inter_token_latency": null },
        ] })
    }

    #[test]
    fn a_point_is_drawn_where_its_time_is_known() {
        let curve = Curve::read(report(), None).unwrap();
        let spots = |x| -> Vec<(f64, f64, String)> {
            curve.spots(x).into_iter().map(|spot| (spot.x, spot.y, spot.label)).collect()
        };
        let four = |x| vec![(x, 80.0, "4".to_owned())];
        assert_eq!(spots(PlotX::Tpot), four(20.0));
        assert_eq!(spots(PlotX::Itl), four(10.0));
        assert_eq!(spots(PlotX::Interactivity), four(50.0));
        assert_eq!(spots(PlotX::Ttft).last(), Some(&(40.0, 90.0, "2.5/s".to_owned())));
    }

    #[test]
    fn curves_of_one_name_are_told_apart_by_their_files() {
        let read = |label: &str, file: &str| {
            let mut report = report();
            report["label"] = label.into();
            Curve::read(report, Some(file.to_owned())).unwrap()
        };
        let curves = told_apart(vec![read("a", "x"), read("b", "y"), read("a", "z")]);
        let names: Vec<&str> = curves.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!(names, ["a (x)", "b", "a (z)"]);
    }

    #[test]
    fn other_documents_are_refused_by_name() {
        let mut other = report();
        other["bench"] = "latency".into();
        assert!(Curve::read(other, None).unwrap_err().contains("bench latency"));
        assert!(Curve::read(json!([]), None).unwrap_err().contains("no report"));
        let mut broken = report();
        broken["results"][0]["output_tokens_per_s"] = "many".into();
        assert!(Curve::read(broken, None).unwrap_err().contains("do not read"));
    }
}
