//! `tokenmill inspect`: what a checkpoint is, what it needs, and what can run it.

use tokenmill::{
    Bytes, InspectReport,
    inspect::{BackendReport, FileSummary, MemoryReport, ModelSummary, TensorSummary},
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
    if report.runs() {
        return Ok(());
    }
    Err(Error::CannotRun { reference: args.model, reason: obstacle(&report) })
}

/// In a few words what the report told at length.
fn obstacle(report: &InspectReport) -> String {
    match &report.findings[..] {
        [] => "no backend of this build can".to_owned(),
        findings => format!("{} wrong with the checkpoint", things(findings)),
    }
}

fn lines(report: &InspectReport) -> Vec<String> {
    let mut lines = vec![format!("{BOLD}{}{BOLD:#}", report.path.display())];
    lines.extend(report.model.iter().flat_map(model_lines));
    lines.extend(report.files.as_ref().map(|there| row("files", files(there))));
    lines.extend(unread_lines(report));
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

/// What is known; a row of which nothing is known is left out.
fn model_lines(model: &ModelSummary) -> Vec<String> {
    let architecture = match (model.architecture.clone(), model.model_type.clone()) {
        (Some(name), Some(kind)) => Some(format!("{name} ({kind})")),
        (name, kind) => name.or(kind),
    };
    let number = |number: Option<usize>, say: fn(usize) -> String| number.map(say);
    let rows = [
        (
            "architecture",
            [architecture, model.task.as_ref().map(|task| format!("for {task}"))].to_vec(),
        ),
        (
            "weights",
            vec![
                model.parameters.map(|parameters| format!("{} parameters", count(parameters))),
                model.dtype.as_ref().map(|dtype| format!("mostly {dtype}")),
                model.weight_bytes.map(|bytes| Bytes(bytes).to_string()),
            ],
        ),
        (
            "sizes",
            vec![
                number(model.layer_count, |count| format!("{count} layers")),
                number(model.hidden_size, |width| format!("hidden {width}")),
                number(model.vocab_size, |entries| format!("vocabulary {entries}")),
                number(model.max_positions, |tokens| format!("up to {tokens} tokens")),
            ],
        ),
    ];
    let known = |(label, parts): (&str, Vec<Option<String>>)| {
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| row(label, parts.join(", ")))
    };
    let mut lines: Vec<String> = rows.into_iter().filter_map(known).collect();
    for (index, layer) in model.layers.iter().enumerate() {
        let label = if index == 0 { "layers" } else { "" };
        lines.push(row(label, format!("{} x {}", layer.count, layer.meaning)));
    }
    lines
}

/// The tensors that nobody reads, but for those that are named below anyhow; of like layers together.
fn unread_lines(report: &InspectReport) -> Vec<String> {
    let told = |tensor: &TensorSummary| {
        let start = format!("{}: ", tensor.name);
        report.findings.iter().chain(&report.notes).any(|line| line.starts_with(&start))
    };
    let mut groups: Vec<(String, usize, u64)> = Vec::new();
    for tensor in report.unread.iter().filter(|tensor| !told(tensor)) {
        let name = format!("{}, {} {:?}", any_layer(&tensor.name), tensor.dtype, tensor.shape);
        match groups.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, count, bytes)) => {
                *count += 1;
                *bytes += tensor.bytes;
            }
            None => groups.push((name, 1, tensor.bytes)),
        }
    }
    if groups.is_empty() {
        return Vec::new();
    }
    let say = |(name, count, bytes): (String, usize, u64)| match count {
        1 => format!("{name}, {}", Bytes(bytes)),
        count => format!("{count} x {name}, {}", Bytes(bytes)),
    };
    let groups: Vec<String> = groups.into_iter().map(say).collect();
    let mut lines = vec![row("not read", "tensors that this model has no use for")];
    lines.extend(bullets(&groups));
    lines
}

/// The name with a star for every number between dots: what the tensors of all layers have in common.
fn any_layer(name: &str) -> String {
    let star = |part| match part {
        part if !str::is_empty(part) && part.bytes().all(|byte| byte.is_ascii_digit()) => "*",
        part => part,
    };
    name.split('.').map(star).collect::<Vec<_>>().join(".")
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
    let verdict = match (backend.is_here, backend.admitted) {
        (false, _) => format!("{DIM}not on this machine{DIM:#}"),
        (true, true) => format!("{GOOD}can run it{GOOD:#}"),
        (true, false) => format!("{BAD}cannot run it{BAD:#}"),
    };
    let mut lines = vec![row(&format!("on {}", backend.backend), verdict)];
    lines.extend(backend.memory.iter().flat_map(memory_lines));
    let said = |problem: &&String| !findings.contains(problem);
    let problems: Vec<String> = backend.problems.iter().filter(said).cloned().collect();
    lines.extend(bullets(&problems));
    lines
}

fn memory_lines(memory: &MemoryReport) -> Vec<String> {
    let bytes = |bytes: u64| Bytes(bytes).to_string();
    let mut rows = vec![
        format!(
            "needs {} without a key-value cache, {} with it; {} available",
            bytes(memory.need_without_kv),
            bytes(memory.need),
            bytes(memory.available)
        ),
        format!(
            "weights {} ({} mapped), workspace {}, key-value cache {}",
            bytes(memory.weights),
            bytes(memory.mapped),
            bytes(memory.workspace),
            bytes(memory.kv)
        ),
        format!(
            "the cache holds {} tokens ({} each); sequences up to {} tokens",
            memory.kv_tokens,
            bytes(memory.kv_per_token),
            memory.max_sequence_tokens
        ),
    ];
    if memory.host_kv > 0 {
        let host = bytes(memory.host_kv);
        rows.push(format!("{host} of the host's memory for what leaves the cache"));
    }
    rows.iter().map(|text| row("", text)).collect()
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
            is_here: true,
            admitted: false,
            memory: None,
            problems: vec![finding.clone(), "no attention".into()],
        };
        let report = InspectReport {
            path: "/m".into(),
            model: None,
            files: Some(FileSummary::default()),
            unread: Vec::new(),
            backends: vec![backend],
            findings: vec![finding.clone()],
            notes: Vec::new(),
        };
        let text = lines(&report).join("\n");
        assert_eq!(text.matches(&finding).count(), 1);
        assert!(text.contains("no attention") && text.contains("1 thing is wrong"));
    }

    #[test]
    fn what_is_not_known_is_not_said() {
        assert_eq!(model_lines(&ModelSummary::default()), Vec::<String>::new());
        let model = ModelSummary {
            architecture: Some("NewForCausalLM".into()),
            vocab_size: Some(512),
            ..ModelSummary::default()
        };
        let lines = model_lines(&model);
        assert_eq!(lines, [row("architecture", "NewForCausalLM"), row("sizes", "vocabulary 512")]);
    }

    #[test]
    fn tensors_of_like_layers_are_told_together() {
        assert_eq!(any_layer("model.layers.12.mlp.up2.weight"), "model.layers.*.mlp.up2.weight");
        assert_eq!(any_layer("a..3"), "a..*");
    }

    #[test]
    fn large_numbers_are_said_as_people_do() {
        assert_eq!(count(999), "999");
        assert_eq!(count(494_000_000), "494.0 million");
        assert_eq!(count(8_030_000_000), "8.03 billion");
    }
}
