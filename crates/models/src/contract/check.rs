//! Holds a weight plan against the tensors that are there.

use std::collections::BTreeMap;

use crate::{
    catalog::{TensorCatalog, TensorInfo},
    error::{Finding, Findings},
    format::{self, FORMATS},
    task::{DecoderPlan, OtherTensors},
};

/// A checkpoint of another model differs in every tensor; this many of each kind are told one by one.
const TOLD: usize = 12;

/// Tensors without a place in the plan that hold nothing a decoder computes with, by the end of their names.
const INERT: &[&str] = &[
    // Tables that older versions of transformers saved; they follow from the configuration.
    ".rotary_emb.inv_freq",
    ".rotary_emb.cos_cached",
    ".rotary_emb.sin_cached",
];

/// Everything that does not fit between `plan` and `catalog`.
pub(super) fn tensors(plan: &DecoderPlan, catalog: &TensorCatalog) -> Findings {
    let wanted = wanted_shapes(plan);
    let mut missing = Vec::new();
    let mut unfit = Vec::new();
    for (name, shape) in &wanted {
        match catalog.get(name) {
            Some(tensor) => unfit.extend(misfit(tensor, shape)),
            // Its file's finding says it.
            None if catalog.may_have_lost(name) => {}
            None => missing.push(absent(name, shape, plan)),
        }
    }
    let mut unexpected = Vec::new();
    let mut others: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut notes = Vec::new();
    for tensor in catalog.iter().filter(|tensor| !wanted.contains_key(tensor.name.as_str())) {
        let name = tensor.name.as_str();
        if INERT.iter().any(|end| name.ends_with(end)) {
            continue;
        }
        let other = plan.other_tensors.iter().find(|other| name.starts_with(&other.begin));
        if let Some(OtherTensors { begin, why }) = other {
            *others.entry((begin, why)).or_default() += 1;
        } else if name == plan.head && plan.semantic.head.tied {
            let message = "is there although the head is tied; the embedding is used";
            notes.push(Finding::note(name, message));
        } else {
            unexpected.push(surplus(tensor));
        }
    }
    let mut findings = Findings::default();
    for (kind, list) in [("missing", missing), ("unfit", unfit), ("unexpected", unexpected)] {
        findings.extend(told(kind, list));
    }
    findings.extend(notes);
    findings.extend(others.into_iter().map(|((begin, why), count)| {
        Finding::warning(format!("{begin}*"), format!("{count} tensors are not read")).hint(why)
    }));
    findings
}

/// The shape of every tensor of the plan: for one that is planned in row ranges, the ranges together.
fn wanted_shapes(plan: &DecoderPlan) -> BTreeMap<&str, Vec<usize>> {
    let mut shapes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for weight in &plan.weights {
        let mut shape = weight.shape.clone();
        if let Some(rows) = &weight.source.rows {
            shape[0] = rows.end;
        }
        let known = shapes.entry(&weight.source.tensor).or_insert_with(|| shape.clone());
        known[0] = known[0].max(shape[0]);
    }
    shapes
}

fn misfit(tensor: &TensorInfo, wanted: &[usize]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if tensor.shape != wanted {
        let message = format!("has the shape {:?}, wanted {wanted:?}", tensor.shape);
        findings.push(Finding::error(tensor.name.clone(), message));
    }
    let origin = crate::weights::TensorOrigin::File(tensor.region.clone());
    if format::bind(tensor, origin).is_none() {
        let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
        let message = format!("is stored as {}, wanted {}", tensor.dtype, names.join(", "));
        findings.push(Finding::error(tensor.name.clone(), message));
    }
    findings
}

fn absent(name: &str, shape: &[usize], plan: &DecoderPlan) -> Finding {
    let finding = Finding::error(name, format!("is missing, wanted with the shape {shape:?}"));
    if name == plan.head {
        return finding
            .hint("if the head is the embedding, the configuration lacks tie_word_embeddings");
    }
    finding
}

fn surplus(tensor: &TensorInfo) -> Finding {
    let message = format!("with the shape {:?} has no place in this model", tensor.shape);
    let finding = Finding::error(tensor.name.clone(), message);
    if tensor.name.ends_with(".bias") {
        return finding.hint("the configuration says that there is no bias");
    }
    if tensor.name.ends_with("_scale") {
        return finding.hint("scales of quantized weights or of a quantized cache are not applied");
    }
    finding
}

/// The first findings one by one, the rest as a number.
fn told(kind: &str, mut list: Vec<Finding>) -> Vec<Finding> {
    let more = list.len().saturating_sub(TOLD);
    list.truncate(TOLD);
    if more > 0 {
        list.push(Finding::error("tensors", format!("and {more} more are {kind}")));
    }
    list
}
