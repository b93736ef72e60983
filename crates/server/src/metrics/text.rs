//! The Prometheus text format, version 0.0.4.

use std::fmt::Write;

use runtime::engine::HistogramSnapshot;

/// Writes families of samples. Families must be written whole, one after the other.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// Begins a family: help and type.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    /// One sample.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels = braces(labels);
        self.line(format_args!("{name}{labels} {value}"));
    }

    /// All samples of a histogram.
    pub fn histogram(&mut self, name: &str, labels: &[(&str, &str)], seen: &HistogramSnapshot) {
        let mut total = 0;
        let bounds = seen.bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&seen.counts) {
            total += count;
            let labels: Vec<_> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.sample(&format!("{name}_bucket"), &labels, total as f64);
        }
        self.sample(&format!("{name}_sum"), labels, seen.sum);
        self.sample(&format!("{name}_count"), labels, total as f64);
    }

    /// The whole text.
    pub fn finish(self) -> String {
        self.0
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("writing to a string does not fail");
    }
}

fn braces(labels: &[(&str, &str)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let pairs: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_the_format() {
        let mut text = Text::default();
        text.family("a_total", "counter", "Counts\na.");
        text.sample("a_total", &[("model_name", "x\"y\\z")], 3.0);
        let seen = HistogramSnapshot { bounds: &[0.5, 1.0], counts: vec![1, 0, 2], sum: 7.25 };
        text.family("t", "histogram", "Times.");
        text.histogram("t", &[("m", "x")], &seen);
        let want = "# HELP a_total Counts\\na.\n# TYPE a_total counter\n\
            a_total{model_name=\"x\\\"y\\\\z\"} 3\n# HELP t Times.\n# TYPE t histogram\n\
            t_bucket{m=\"x\",le=\"0.5\"} 1\nt_bucket{m=\"x\",le=\"1\"} 1\nt_bucket{m=\"x\",le=\"+Inf\"} 3\n\
            t_sum{m=\"x\"} 7.25\nt_count{m=\"x\"} 3\n";
        assert_eq!(text.finish(), want);
    }
}
