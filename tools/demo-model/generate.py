"""Writes the training data: tokens, their weights in the loss, where documents begin, and marks of all that was asked.

    generate.py MODEL DATA SHARDS [DOCUMENTS] [SECONDS]

A shard is made from its own seed, so that the data does not depend on the number of processes. With SECONDS no more is
made after that time: what is there then is the data.
"""

import hashlib
import json
import multiprocessing
import os
import re
import sys
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import numpy
from tokenizers import Tokenizer

from recipe.conversation import document
from recipe.source import Source

SEED = 1
LONGEST = 2048
NONE = 32767


def plain(text):
    """A text without case, marks and spaces: what counts as the same question."""
    return re.sub(r"[\W_]+", "", text.lower()) or text


def mark(text):
    """64 bits that stand for a question."""
    return int.from_bytes(hashlib.blake2b(plain(text).encode(), digest_size=8).digest(), "little")


def marks(conversation):
    """Marks of each thing that a user says, and of each conversation up to it."""
    out, before = [], json.dumps(conversation.tools or [])
    for message in conversation.messages:
        before += f" {message['role']} {message['content']}"
        if message["role"] in ("user", "tool"):
            out.append(mark(before))
        if message["role"] == "user":
            out.append(mark(message["content"]))
    return out


def shard(job):
    """One shard: its documents made, encoded and saved."""
    model, data, index, documents, seed = job
    tokenizer = Tokenizer.from_file(f"{model}/tokenizer.json")
    src = Source(f"{seed} {index}")
    pieces, weights, asked = [], [], set()
    ends = []
    for _ in range(documents):
        made, conversation = document(src)
        for text, weight in made:
            pieces.append(text)
            weights.append(weight)
        ends.append(len(pieces))
        if conversation is not None:
            asked.update(marks(conversation))
    ids, sizes = [], []
    for at in range(0, len(pieces), 4096):
        for encoding in tokenizer.encode_batch_fast(pieces[at : at + 4096], add_special_tokens=False):
            ids.extend(encoding.ids)
            sizes.append(len(encoding.ids))
    tokens, weights = numpy.asarray(ids, numpy.int16), numpy.repeat(numpy.asarray(weights, numpy.uint8), sizes)
    bounds = numpy.concatenate([[0], numpy.cumsum(sizes)])[[0, *ends]]
    rows = pack(tokens, weights, bounds.tolist())
    numpy.savez(f"{data}/{index:04}.part.npz", **rows, asked=numpy.fromiter(asked, numpy.uint64, len(asked)))
    os.rename(f"{data}/{index:04}.part.npz", f"{data}/{index:04}.npz")
    return len(ids)


def pack(tokens, weights, bounds, length=LONGEST, open_rows=8):
    """Rows of `length` + 1 tokens (the last is only a target), their weights, and the number of each token's document.

    Documents are never cut: each goes into the first of a few open rows that has room. A row's rest stays empty: its
    document is `NONE`. Numbers grow within a row.
    """
    filled, window, layout = [], [], []
    for start, end in zip(bounds, bounds[1:]):
        size = end - start
        if size > length + 1:
            continue
        row = next((row for row in window if filled[row] + size <= length + 1), None)
        if row is None:
            row = len(filled)
            filled.append(0)
            window = [*window[-open_rows + 1 :], row]
        layout.append((row, filled[row], start, size))
        filled[row] += size
    shape = (len(filled), length + 1)
    out = {"tokens": numpy.zeros(shape, numpy.int16), "weights": numpy.zeros(shape, numpy.uint8), "documents": numpy.full(shape, NONE, numpy.int16)}
    for number, (row, used, start, size) in enumerate(layout):
        at = slice(used, used + size)
        out["tokens"][row, at] = tokens[start : start + size]
        out["weights"][row, at] = weights[start : start + size]
        out["documents"][row, at] = number
    return out


def generate(model, data, shards, documents=4000, seconds=None):
    """All shards, by all cores."""
    Path(data).mkdir(parents=True, exist_ok=True)
    begun, made, total = time.time(), 0, 0
    with multiprocessing.get_context("spawn").Pool(int(os.environ.get("PROCESSES", os.cpu_count()))) as workers:
        coming = workers.imap_unordered(shard, [(model, data, index, documents, SEED) for index in range(shards)])
        while made < shards:
            try:
                total += coming.next(timeout=max(0, begun + seconds - time.time()) if seconds else None)
            except multiprocessing.TimeoutError:
                break  # leaving the pool ends its processes
            made += 1
    print(f"data: {made} shards of {documents} documents, {total} tokens, {time.time() - begun:.0f} s", flush=True)


def shards(data):
    """The files that are there."""
    return sorted(Path(data).glob("[0-9]*[0-9].npz"))


def rows_of(file):
    """The rows of a shard: tokens, weights, documents."""
    loaded = numpy.load(file)
    return tuple(loaded[name] for name in ("tokens", "weights", "documents"))


def asked(data):
    """The marks of all that the training data asks, in order."""
    return numpy.unique(numpy.concatenate([numpy.load(file)["asked"] for file in shards(data)]))


if __name__ == "__main__":
    model, data, *numbers = sys.argv[1:]
    generate(model, data, *map(int, numbers))
