//! Which files of a repository a model needs.

use super::{Error, HubReference, client::RemoteFile};

/// Names in the top directory that are needed, by their end.
const WANTED_ENDS: [&str; 6] = [".safetensors", ".json", ".jinja", ".model", ".txt", ".tiktoken"];
/// Weights in formats that cannot be loaded, by their end.
const OTHER_WEIGHTS: [&str; 6] = [".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack"];

/// The files to pull, in the order of the listing with the small ones first: a model that cannot run is known before
/// its weights have come.
pub(super) fn needed(
    reference: &HubReference,
    files: Vec<RemoteFile>,
) -> Result<Vec<RemoteFile>, Error> {
    let has_index_or_model = files.iter().any(|file| file.name.starts_with("model"));
    let (mut wanted, rest): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|file| is_needed(&file.name, has_index_or_model));
    if !wanted.iter().any(|file| file.name.ends_with(".safetensors")) {
        let others = rest.into_iter().map(|file| file.name);
        let others = others.filter(|name| ends_with_any(name, &OTHER_WEIGHTS)).collect();
        return Err(Error::NoWeights { name: reference.repository(), others });
    }
    wanted.sort_by_key(|file| file.name.ends_with(".safetensors"));
    Ok(wanted)
}

fn is_needed(name: &str, has_model_files: bool) -> bool {
    match name.split_once('/') {
        None => {
            // Mistral publishes the same weights a second time in its own layout.
            let duplicate = has_model_files && name.starts_with("consolidated");
            ends_with_any(name, &WANTED_ENDS) && !duplicate
        }
        Some((directory, file)) => {
            is_needed_directory(directory)
                && !file.ends_with(".safetensors")
                && ends_with_any(file, &WANTED_ENDS)
        }
    }
}

/// Sentence-transformers keep pooling and normalisation in numbered directories, `transformers` further templates in one
/// of its own. Other directories hold the same model for other programs (`original`, `onnx`, ...).
fn is_needed_directory(directory: &str) -> bool {
    directory == "additional_chat_templates"
        || directory.split_once('_').is_some_and(|(number, _)| number.parse::<u8>().is_ok())
}

fn ends_with_any(name: &str, ends: &[&str]) -> bool {
    ends.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(names: &[&str]) -> Result<Vec<String>, Error> {
        let file = |name: &&str| RemoteFile { name: (*name).to_owned(), bytes: None };
        let reference = "a/b".parse().unwrap();
        let files = needed(&reference, names.iter().map(file).collect())?;
        Ok(files.into_iter().map(|file| file.name).collect())
    }

    #[test]
    fn takes_what_a_model_needs_and_weights_last() {
        let names = [
            ".gitattributes",
            "README.md",
            "model.safetensors",
            "config.json",
            "tokenizer.model",
            "chat_template.jinja",
            "pytorch_model.bin",
            "consolidated.safetensors",
            "original/model.safetensors",
            "onnx/config.json",
            "1_Pooling/config.json",
        ];
        let wanted = [
            "config.json",
            "tokenizer.model",
            "chat_template.jinja",
            "1_Pooling/config.json",
            "model.safetensors",
        ];
        assert_eq!(select(&names).unwrap(), wanted);
    }

    #[test]
    fn names_the_weights_that_cannot_be_loaded() {
        let error = select(&["config.json", "pytorch_model.bin"]).unwrap_err().to_string();
        assert_eq!(
            error,
            "a/b has no safetensors weights; it has pytorch_model.bin, which cannot be loaded"
        );
    }
}
