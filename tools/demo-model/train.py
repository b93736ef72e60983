"""Trains the decoder on packed documents and writes the checkpoint.

    train.py MODEL DATA STEPS [SECONDS] [ROWS]

With SECONDS, loading and compiling counted, the schedule follows the clock and ends at that time at the latest; else it
follows STEPS alone. Data that is written meanwhile is read as it comes. The weights are written now and then, so that a run
that is cut short leaves a model.
"""

import json
import math
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from generate import LONGEST, NONE, rows_of, shards
from model import Decoder, save

ROWS = 64  # a step: this many rows of LONGEST tokens
SEED = 1
RATE_MATRIX, RATE_REST = 0.02, 0.003
WARMUP = 0.02
DECAY = 0.01
LOW_FIRST, LOW_LAST = 0.1, 0.02  # the weight of what others say, which is learnt first and then left alone
REPORT, KEEP = 200, 1000  # steps from one report, from one copy of the weights to the next
LOOK = 100  # steps from one look for new data to the next
FEWEST, PATIENCE = 12, 30  # shards to begin with, seconds to wait for them


class Muon(torch.optim.Optimizer):
    """Steps of equal size in all directions: momentum made orthogonal by Newton's iteration; matrices of one shape together."""

    def __init__(self, parameters, momentum=0.95, decay=DECAY):
        super().__init__(list(parameters), {"lr": RATE_MATRIX})
        self.momentum, self.decay = momentum, decay
        shapes = {}
        for parameter in self.param_groups[0]["params"]:
            shapes.setdefault(parameter.shape, []).append(parameter)
        self.groups = [(parameters, [torch.zeros_like(p) for p in parameters]) for parameters in shapes.values()]

    @torch.no_grad()
    def step(self):
        rate = self.param_groups[0]["lr"]
        for parameters, buffers in self.groups:
            gradients = [parameter.grad for parameter in parameters]
            torch._foreach_lerp_(buffers, gradients, 1 - self.momentum)
            ahead = torch._foreach_lerp(gradients, buffers, self.momentum)
            rows, columns = parameters[0].shape
            updates = orthogonal(torch.stack(ahead)) * max(1, rows / columns) ** 0.5
            torch._foreach_mul_(parameters, 1 - rate * self.decay)
            torch._foreach_add_(parameters, list(updates.to(parameters[0].dtype).unbind()), alpha=-rate)


def orthogonal(batch):
    """The nearest orthogonal matrices, roughly: five steps of a quintic iteration."""
    x = batch.bfloat16() if batch.is_cuda else batch
    flip = x.size(-2) > x.size(-1)
    x = x.mT if flip else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        square = x @ x.mT
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.mT if flip else x


BLOCK = 128


def blocks_of(documents):
    """Which blocks of queries look at which blocks of keys, for attention within documents whose numbers grow in a row."""
    from torch.nn.attention.flex_attention import BlockMask

    rows, length = documents.shape
    first, last = documents[:, ::BLOCK], documents[:, BLOCK - 1 :: BLOCK]
    causal = torch.ones(length // BLOCK, length // BLOCK, dtype=torch.bool, device=documents.device).tril()
    touched = causal & (last[:, None, :] >= first[:, :, None])
    whole = causal.tril(-1) & (first[:, None, :] == last[:, :, None])

    def ordered(mask):
        return mask.sum(-1, dtype=torch.int32)[:, None], mask.int().argsort(dim=-1, descending=True, stable=True).int()[:, None]

    def mask(b, h, q, k):
        return (q >= k) & (documents[b, q] == documents[b, k])

    return BlockMask.from_kv_blocks(*ordered(touched & ~whole), *ordered(whole), BLOCK_SIZE=BLOCK, mask_mod=mask)


def sparse(blocks):
    """Attention within documents that passes over empty blocks; to be compiled."""
    from torch.nn.attention.flex_attention import flex_attention

    return lambda q, k, v: flex_attention(q, k, v, block_mask=blocks, enable_gqa=True)


def dense(documents):
    """The same with a full mask: for small trials on a CPU."""
    same = documents[:, None, :, None] == documents[:, None, None, :]
    mask = same & torch.ones(documents.shape[1], documents.shape[1], dtype=torch.bool, device=documents.device).tril()
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


def loss_of(model, tokens, weights, documents, attend):
    """The weighted mean of the cross entropy; a target counts only where it lies in the same document."""
    hidden = model(tokens[:, :-1], attend)
    targets = tokens[:, 1:]
    weights = weights[:, 1:] * (documents[:, 1:] == documents[:, :-1])
    losses = F.cross_entropy(model.logits(hidden).float().flatten(0, 1), targets.flatten(), reduction="none")
    return (losses * weights.flatten()).sum() / weights.sum()


class Feed:
    """The rows of all shards that are there, each once before any comes again; on the device."""

    def __init__(self, data, device):
        self.data, self.device, self.known = data, device, set()
        self.tokens = self.weights = self.documents = None
        self.order = torch.empty(0, dtype=torch.int64, device=device)

    def look(self):
        """Takes in the shards that are new. Rows that wait for their turn and new ones are mixed."""
        new = [file for file in shards(self.data) if file not in self.known]
        if not new:
            return
        self.known.update(new)
        held = [] if self.tokens is None else [(self.tokens, self.weights, self.documents)]
        parts = held + [tuple(torch.from_numpy(array).to(self.device) for array in rows_of(file)) for file in new]
        before = len(self)
        self.tokens, self.weights, self.documents = (torch.cat(kind) for kind in zip(*parts))
        self._mix(torch.cat((self.order, torch.arange(before, len(self), device=self.device))))

    def take(self, rows):
        """The next rows: their tokens, weights and documents."""
        if len(self.order) < rows:
            self._mix(torch.arange(len(self), device=self.device))
        chosen, self.order = self.order[:rows], self.order[rows:]
        return self.tokens[chosen].long(), self.weights[chosen].long(), self.documents[chosen].int()

    def __len__(self):
        return 0 if self.tokens is None else len(self.tokens)

    def _mix(self, order):
        self.order = order[torch.randperm(len(order), device=self.device)]


def schedule(progress):
    """The share of the full rate: a short rise, then a cosine to zero."""
    return progress / WARMUP if progress < WARMUP else 0.5 * (1 + math.cos(math.pi * (progress - WARMUP) / (1 - WARMUP)))


def train(directory, data, steps, seconds=None, rows=ROWS):
    torch.manual_seed(SEED)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    ends = json.loads((Path(directory) / "generation_config.json").read_text())["eos_token_id"]
    begun = time.time()
    deadline = begun + seconds if seconds else None
    while len(shards(data)) < FEWEST and time.time() < begun + PATIENCE:
        time.sleep(0.2)
    feed = Feed(data, device)
    feed.look()
    print(f"packed: {len(feed)} rows of {LONGEST}, {(feed.documents != NONE).float().mean():.3f} full, {(feed.weights == 2).float().mean():.3f} answers, {time.time() - begun:.0f} s", flush=True)
    model = Decoder().to(device)
    print(f"parameters: {sum(p.numel() for p in model.parameters())}", flush=True)
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    rest = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    optimizers = [Muon(matrices), torch.optim.AdamW(rest, lr=RATE_REST, betas=(0.9, 0.98), weight_decay=0.0, fused=device == "cuda")]
    rates = [RATE_MATRIX, RATE_REST]
    table = torch.tensor([0.0, LOW_FIRST, 1.0], device=device)

    def forward(batch, weight, document, blocks):
        attend = dense(document[:, :-1]) if blocks is None else sparse(blocks)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            return loss_of(model, batch, weight, document, attend)

    step_forward = torch.compile(forward) if device == "cuda" else forward
    begun, seen, history = time.time(), 0, []
    for step in range(steps):
        if step == 1:
            begun = time.time()  # the first step compiles
        progress = step / steps
        if deadline and step:
            progress = max(progress, (time.time() - begun) / (deadline - begun))
        if progress >= 1:
            break
        if step % LOOK == 0:
            feed.look()
        table[1] = LOW_FIRST + (LOW_LAST - LOW_FIRST) * progress
        batch, kinds, document = feed.take(rows)
        blocks = blocks_of(document[:, :-1].contiguous()) if device == "cuda" else None
        loss = step_forward(batch, table[kinds], document, blocks)
        loss.backward()
        for optimizer, rate in zip(optimizers, rates):
            optimizer.param_groups[0]["lr"] = rate * schedule(progress)
            optimizer.step()
        for parameter in model.parameters():
            parameter.grad = None
        seen += rows * LONGEST
        if step % KEEP == KEEP - 1:
            save(dict(model.named_parameters()), directory, ends)
        if step % REPORT == 0 or step == steps - 1:
            value = loss.item()
            history.append([step, round(value, 4)])
            print(f"step {step}, progress {progress:.3f}, loss {value:.4f}, {seen / (time.time() - begun) / 1e6:.2f} M tokens/s, {len(feed)} rows there, {seen / len(feed) / LONGEST:.2f} times seen", flush=True)
    print(f"trained: {step + 1} steps, {seen} tokens, {time.time() - begun:.0f} s", flush=True)
    save(dict(model.named_parameters()), directory, ends)
    return history


if __name__ == "__main__":
    directory, data, steps, *rest = sys.argv[1:]
    train(directory, data, int(steps), *map(float, rest[:1]), *map(int, rest[1:]))
