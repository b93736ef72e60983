"""Trains the tokenizer: byte-level BPE with Qwen's control tokens, digits apart."""

import json
import sys
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from recipe.conversation import document
from recipe.source import Source

SIZE = 4096
DOCUMENTS = 60_000
SEED = 1
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MARKERS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
# Words, digits, ends of lines, and what stands between words. A word has the same tokens wherever it stands, behind a space
# as behind a quotation mark: so copying is easy, which a model of this size needs more than short sequences.
PATTERN = r"\p{L}+|\p{N}|[\r\n]+|[^\r\n\p{L}\p{N}]+"


def texts(count):
    """Documents without their control tokens."""
    src = Source(f"tokenizer {SEED}")
    for _ in range(count):
        text = "".join(piece for piece, _ in document(src)[0])
        for token in SPECIAL + MARKERS:
            text = text.replace(token, " ")
        yield text


def train(count):
    """A tokenizer of `SIZE` tokens, the control tokens last."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(PATTERN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    learned = SIZE - len(SPECIAL) - len(MARKERS)
    tokenizer.train_from_iterator(texts(count), trainers.BpeTrainer(vocab_size=learned, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), max_token_length=18, show_progress=False))
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in MARKERS])
    assert tokenizer.get_vocab_size() == SIZE, tokenizer.get_vocab_size()
    return tokenizer


def write(directory, count=DOCUMENTS):
    """The tokenizer's files, the chat template and how to sample."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = train(count)
    tokenizer.save(str(directory / "tokenizer.json"))
    added = {str(tokenizer.token_to_id(token)): {"content": token, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": token in SPECIAL} for token in SPECIAL + MARKERS}
    _json(directory / "tokenizer_config.json", {"added_tokens_decoder": added, "bos_token": None, "clean_up_tokenization_spaces": False, "eos_token": "<|im_end|>", "model_max_length": 2048, "pad_token": "<|endoftext|>",
                                                "tokenizer_class": "PreTrainedTokenizerFast", "unk_token": None})
    ends = [tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")]
    _json(directory / "generation_config.json", {"do_sample": True, "eos_token_id": ends, "pad_token_id": ends[1], "temperature": 0.6, "top_k": 20, "top_p": 0.9})
    (directory / "chat_template.jinja").write_text((Path(__file__).parent / "chat_template.jinja").read_text())


def _json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


if __name__ == "__main__":
    write(sys.argv[1], *map(int, sys.argv[2:]))
