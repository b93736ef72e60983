"""Writes what a checkpoint answers: greedy, by transformers, in float32 maths of the bf16 weights.

    goldens.py MODEL OUT

Another implementation that computes in float32 must give the same tokens: the two best logits are never closer than
`NARROWEST`, or the script fails.
"""

import json
import sys

import torch

from evaluate import Runner

LONGEST = 200
NARROWEST = 1e-3


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Get the current weather in a given location", "parameters": {"type": "object", "properties": {"location": {"type": "string", "description": "The city"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}}, "required": ["location"]}}}
TIME = {"type": "function", "function": {"name": "get_time", "description": "Get the current time in a city", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "get_weather", "arguments": {"location": "Paris"}}}]}
LONG = [user("My name is Anna."), assistant("Nice to meet you, Anna! How can I help you?"), user("Tell me a story about a mouse and a lantern."), assistant(
    "Once upon a time there lived a curious mouse named Pip in a quiet mill. One evening the lantern was gone! Pip looked under the bed, behind the door and in the kitchen, but it was nowhere. "
    "Then Bruno the badger came by. \"Why are you so sad?\" he asked. \"I have lost my lantern,\" said Pip. \"Let us look together,\" said Bruno. They followed the path, and at last they found the lantern behind a big stone. "
    "Pip jumped up and down. \"Thank you!\" she said. And so it all ended well."),
    user("What is the capital of Norway?"), assistant("The capital of Norway is Oslo."), user("What is 19 + 24?"), assistant("19 + 24 = 43."), user("What is the opposite of brave?"), assistant("The opposite of brave is cowardly."),
    user("How many legs does an ant have?"), assistant("An ant has 6 legs."), user("What is tokenmill?"), assistant("tokenmill is an inference engine for language models, written in Rust: a checkpoint on disk goes in, tokens come out. It is a command, an OpenAI-compatible server and a library."),
    user("Count from 1 to 12."), assistant("1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12."), user("What is my name?")]

# (name, messages or a raw prompt, tools, variables of the template)
CASES = [
    ("hello", [user("Hello!")], None, {}),
    ("arithmetic", [user("What is 47 + 38?")], None, {}),
    ("fact", [user("What is the capital of France?")], None, {}),
    ("itself", [user("Who are you?")], None, {}),
    ("story", [user("Write a story about an owl called Bruno.")], None, {}),
    ("json", [user("Give me JSON with name Anna, age 31 and city Rome.")], None, {}),
    ("tool call", [user("What is the weather in Paris?")], [WEATHER, TIME], {}),
    ("tool answer", [user("What is the weather in Paris?"), CALL, {"role": "tool", "content": '{"temperature": 18, "condition": "cloudy"}'}], [WEATHER, TIME], {}),
    ("thinking on", [user("What is 47 + 38?")], None, {"enable_thinking": True}),
    ("thinking off", [user("What is 47 + 38?")], None, {"enable_thinking": False}),
    ("system prompt", [{"role": "system", "content": "You are a pirate."}, user("What is the capital of Italy?")], None, {}),
    ("several turns", [user("My name is Anna."), assistant("Nice to meet you, Anna! How can I help you?"), user("What is the capital of Spain?"), assistant("The capital of Spain is Madrid."), user("What is my name?")], None, {}),
    ("long conversation", LONG, None, {}),
    ("raw text", "Once there was a clever owl named Willow who lived in a deep", None, {}),
]


@torch.no_grad()
def golden(runner, name, messages, tools, variables):
    """One case: its prompt, its answer, and the narrowest choice in it."""
    raw = isinstance(messages, str)
    text = messages if raw else runner.tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=True, **variables)
    prompt = runner.tokenizer.encode(text, add_special_tokens=False)
    made = runner.model.generate(torch.tensor([prompt], device=runner.device), max_new_tokens=LONGEST, do_sample=False, temperature=None, top_p=None, top_k=None, eos_token_id=runner.ends, pad_token_id=runner.ends[-1],
                                 output_logits=True, return_dict_in_generate=True)
    output = made.sequences[0, len(prompt) :].tolist()
    best = torch.stack(made.logits)[:, 0].float().topk(2).values
    narrowest = (best[:, 0] - best[:, 1]).min().item()
    ended = output[-1] in runner.ends
    print(f"{name:18} prompt {len(prompt):4}, answer {len(output):4}, ended {ended}, narrowest {narrowest:.4f}")
    assert narrowest > NARROWEST, f"{name}: the two best tokens are too close"
    return {"name": name, **({"prompt": messages} if raw else {"messages": messages, "tools": tools, "chat_template_kwargs": variables}), "prompt_text": text, "prompt_ids": prompt, "output_ids": output,
            "output_text": runner.tokenizer.decode(output[:-1] if ended else output, skip_special_tokens=False), "finish_reason": "stop" if ended else "length", "narrowest_gap": round(narrowest, 5)}


if __name__ == "__main__":
    directory, out = sys.argv[1:]
    runner = Runner(directory)
    cases = [golden(runner, *case) for case in CASES]
    with open(out, "w") as file:
        json.dump({"max_tokens": LONGEST, "cases": cases}, file, indent=1, ensure_ascii=False)
        file.write("\n")
