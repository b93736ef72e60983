"""The decoder: Qwen 3, dense, with tied embeddings; its parameters have the names of the checkpoint."""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": None,
    "eos_token_id": None,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 256,
    "initializer_range": 0.02,
    "intermediate_size": 384,
    "max_position_embeddings": 2048,
    "model_type": "qwen3",
    "num_attention_heads": 4,
    "num_hidden_layers": 8,
    "num_key_value_heads": 2,
    "pad_token_id": None,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "use_cache": True,
    "vocab_size": 4096,
}
HIDDEN, HEADS, KV_HEADS, WIDTH, INNER = CONFIG["hidden_size"], CONFIG["num_attention_heads"], CONFIG["num_key_value_heads"], CONFIG["head_dim"], CONFIG["intermediate_size"]


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x.float(), self.weight.shape, self.weight.float(), CONFIG["rms_norm_eps"]).to(x.dtype)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj = nn.Linear(HIDDEN, HEADS * WIDTH, bias=False)
        self.k_proj = nn.Linear(HIDDEN, KV_HEADS * WIDTH, bias=False)
        self.v_proj = nn.Linear(HIDDEN, KV_HEADS * WIDTH, bias=False)
        self.o_proj = nn.Linear(HEADS * WIDTH, HIDDEN, bias=False)
        self.q_norm = Norm(WIDTH)
        self.k_norm = Norm(WIDTH)

    def forward(self, x, turn, attend):
        shape = (*x.shape[:2], -1, WIDTH)
        q = _rotate(self.q_norm(self.q_proj(x).view(shape)).transpose(1, 2), turn)
        k = _rotate(self.k_norm(self.k_proj(x).view(shape)).transpose(1, 2), turn)
        v = self.v_proj(x).view(shape).transpose(1, 2)
        return self.o_proj(attend(q, k, v).transpose(1, 2).reshape(*x.shape[:2], HEADS * WIDTH))


def _rotate(x, turn):
    cos, sin = turn
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(HIDDEN, INNER, bias=False)
        self.up_proj = nn.Linear(HIDDEN, INNER, bias=False)
        self.down_proj = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm = Norm(HIDDEN)
        self.self_attn = Attention()
        self.post_attention_layernorm = Norm(HIDDEN)
        self.mlp = FeedForward()

    def forward(self, x, turn, attend):
        x = x + self.self_attn(self.input_layernorm(x), turn, attend)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(CONFIG["vocab_size"], HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(CONFIG["num_hidden_layers"]))
        self.norm = Norm(HIDDEN)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                last = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * CONFIG["num_hidden_layers"]) ** 0.5 if last else 0.02)

    def forward(self, tokens, attend):
        """Hidden states of `tokens`; `attend(q, k, v)` is the attention, which knows the documents."""
        x = self.embed_tokens(tokens)
        turn = angles(tokens.shape[1], x.device)
        dtype = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype
        x, turn = x.to(dtype), tuple(part.to(dtype) for part in turn)
        for layer in self.layers:
            x = layer(x, turn, attend)
        return self.norm(x)

    def logits(self, hidden):
        return F.linear(hidden, self.embed_tokens.weight.to(hidden.dtype))


def angles(length, device):
    """Cosines and sines of the rotary embedding."""
    steps = CONFIG["rope_theta"] ** (-torch.arange(0, WIDTH, 2, device=device, dtype=torch.float32) / WIDTH)
    angle = torch.arange(length, device=device, dtype=torch.float32)[:, None] * steps
    angle = torch.cat((angle, angle), -1)
    return angle.cos(), angle.sin()


def save(state, directory, ends):
    """A checkpoint of bf16 weights; `ends`: the ids of the tokens that end an answer and that pad."""
    directory = Path(directory)
    tensors = {f"model.{name}": tensor.detach().to("cpu", torch.bfloat16).contiguous() for name, tensor in state.items()}
    save_file(tensors, directory / "model.safetensors", {"format": "pt"})
    config = CONFIG | {"eos_token_id": ends[0], "pad_token_id": ends[1]}
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
