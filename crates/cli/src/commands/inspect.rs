//! `tokenmill inspect`: what a checkpoint is, what it needs, and what can run it.

use tokenmill::{
    Bytes, InspectReport,
    inspect::{BackendReport, FileSummary, MemoryReport, ModelSummary},
};

use super::Verbosity;
use crate::{
    args::InspectArgs,
    error::Error,
    logging,
    output::{BAD, BOLD, DIM, GOOD, Output},
    settings,
};

/// Prints the report; fails when nothing can run the model.
pub fn inspect(args: InspectArgs, verbosity: Verbosity, output: &Output) -> Result<(), Error> {
    let resolved = settings::resolve(args.settings.given())?;
    logging::start(&resolved, "warn", verbosity)?;
    let mut options = settings::model_options(&resolved);
    options.synthetic = args.synthetic.weights();
    let report = settings::library(&resolved)?.inspect(&args.model, &options)?;
    if args.json {
        output.json(&report)?;
    } else {
        for line in lines(&report) {
            output.line(line)?;
        }
    }
    if report.runs() { Ok(()) } else { Err(Error::CannotRun(args.model)) }
}

fn lines(report: &InspectReport) -> Vec<String> {
    let mut lines = vec![format!("{BOLD}{}{BOLD:#}", report.path.display())];
    if let Some(model) = &report.model {
        lines.extend(model_lines(model));
    }
    lines.push(row("files", files(&report.files)));
    if !report.findings.is_empty() {
        lines.push(format!("{BAD}{} wrong with the checkpoint{BAD:#}", things(&report.findings)));
        lines.extend(bullets(&report.findings));
    }
    if !report.notes.is_empty() {
        lines.push(row("notes", ""));
        lines.extend(bullets(&report.notes));
    }
    for backend in &report.backends {
        lines.extend(backend_lines(backend, &report.findings));
    }
    lines
}

fn model_lines(model: &ModelSummary) -> Vec<String> {
    let mut lines = vec![
        row(
            "architecture",
            format!("{} ({}), for {}", model.architecture, model.model_type, model.task),
        ),
        row(
            "weights",
            format!(
                "{} of {}, {}",
                count(model.parameters),
                model.dtype,
                Bytes(model.weight_bytes)
            ),
        ),
        row(
            "sizes",
            format!(
                "hidden {}, vocabulary {}, up to {} tokens",
                model.hidden_size, model.vocab_size, model.max_positions
            ),
        ),
    ];
    for (index, layer) in model.layers.iter().enumerate() {
        let label = if index == 0 { "layers" } else { "" };
        lines.push(row(label, format!("{} x {}", layer.count, layer.meaning)));
    }
    lines
}

fn files(files: &FileSummary) -> String {
    let weights = match files.weights {
        1 => "1 weight file".to_owned(),
        count => format!("{count} weight files"),
    };
    let others = [
        (files.tokenizer, "tokenizer"),
        (files.chat_template, "chat template"),
        (files.generation_config, "generation defaults"),
    ];
    let others = others.map(|(there, name)| if there { name.into() } else { format!("no {name}") });
    format!("{weights}, {}", others.join(", "))
}

fn backend_lines(backend: &BackendReport, findings: &[String]) -> Vec<String> {
    let verdict = match backend.admitted {
        true => format!("{GOOD}can run it{GOOD:#}"),
        false => format!("{BAD}cannot run it{BAD:#}"),
    };
    let mut lines = vec![row(&format!("on {}", backend.backend), verdict)];
    lines.extend(backend.memory.iter().flat_map(memory_lines));
    let said = |problem: &&String| !findings.contains(problem);
    let problems: Vec<String> = backend.problems.iter().filter(said).cloned().collect();
    lines.extend(bullets(&problems));
    lines
}

fn memory_lines(memory: &MemoryReport) -> Vec<String> {
    let need = memory.weights.saturating_add(memory.workspace).saturating_add(memory.kv);
    vec![
        row(
            "",
            format!(
                "{} of {} available: weights {} ({} mapped), workspace {}, key-value cache {}",
                Bytes(need),
                Bytes(memory.available),
                Bytes(memory.weights),
                Bytes(memory.mapped),
                Bytes(memory.workspace),
                Bytes(memory.kv)
            ),
        ),
        row(
            "",
            format!(
                "the cache holds {} tokens ({} each); sequences up to {} tokens",
                memory.kv_tokens,
                Bytes(memory.kv_per_token),
                memory.max_sequence_tokens
            ),
        ),
    ]
}

fn row(label: &str, text: impl AsRef<str>) -> String {
    format!("  {DIM}{label:<13}{DIM:#} {}", text.as_ref())
}

fn bullets(texts: &[String]) -> impl Iterator<Item = String> {
    texts.iter().map(|text| format!("    - {}", text.replace('\n', "\n      ")))
}

fn things(texts: &[String]) -> String {
    match texts.len() {
        1 => "1 thing is".to_owned(),
        count => format!("{count} things are"),
    }
}

/// A large number in the form people say it.
fn count(number: u64) -> String {
    match number {
        0..1_000_000 => number.to_string(),
        1_000_000..1_000_000_000 => format!("{:.1} million", number as f64 / 1e6),
        _ => format!("{:.2} billion", number as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_told_once() {
        let finding = "model.norm.weight: missing".to_owned();
        let backend = BackendReport {
            backend: "cpu".into(),
            admitted: false,
            memory: None,
            problems: vec![finding.clone(), "no attention".into()],
        };
        let report = InspectReport {
            path: "/m".into(),
            model: None,
            files: FileSummary::default(),
            backends: vec![backend],
            findings: vec![finding.clone()],
            notes: Vec::new(),
        };
        let text = lines(&report).join("\n");
        assert_eq!(text.matches(&finding).count(), 1);
        assert!(text.contains("no attention") && text.contains("1 thing is wrong"));
    }

    #[test]
    fn large_numbers_are_said_as_people_do() {
        assert_eq!(count(999), "999");
        assert_eq!(count(494_000_000), "494.0 million");
        assert_eq!(count(8_030_000_000), "8.03 billion");
    }
}
