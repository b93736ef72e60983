#!/usr/bin/env python3
"""The official `openai` client against the real `tokenmill serve`.

Usage, from the root of the repository:

    python3 -m venv VENV && VENV/bin/pip install openai
    cargo build
    VENV/bin/python tests/openai_client.py target/debug/tokenmill [FIXTURE [DEVICE]]

Starts the given binary on `fixtures/llama` (or FIXTURE) and the built-in model on the CPU (or DEVICE: `cuda`) at a free port, runs
every `check_*` function below, ends the server with SIGTERM, and prints `N passed, M failed`. The exit status is 0 only if
nothing failed and the server ended by itself with status 0.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request
from pathlib import Path

import openai

ROOT = Path(__file__).resolve().parent.parent
MODEL = "tested"
# The built-in model, which has learned to call tools and to think.
DEMO = "demo"
KEY = "sk-of-the-test"
# Turns a hang into a failure; no check depends on it.
PATIENCE_S = 120

MESSAGES = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "room the request"}]


def check_models(client, _):
    models = client.models.list().data
    assert [model.id for model in models] == [MODEL, DEMO], models
    assert client.models.retrieve(MODEL).id == MODEL


def check_chat(client, _):
    reply = client.chat.completions.create(model=MODEL, messages=MESSAGES, max_completion_tokens=8)
    assert reply.object == "chat.completion" and reply.id.startswith("chatcmpl-")
    [choice] = reply.choices
    assert choice.message.role == "assistant" and isinstance(choice.message.content, str)
    assert choice.finish_reason in ("stop", "length")
    assert reply.usage.completion_tokens <= 8
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens


def check_chat_content_parts_and_choices(client, _):
    parts = [{"role": "user", "content": [{"type": "text", "text": "room the request"}]}]
    plain = [{"role": "user", "content": "room the request"}]
    texts = []
    for messages in (parts, plain):
        reply = client.chat.completions.create(model=MODEL, messages=messages, n=3, seed=5, max_tokens=8)
        assert [choice.index for choice in reply.choices] == [0, 1, 2]
        texts.append([choice.message.content for choice in reply.choices])
    assert texts[0] == texts[1], texts


def check_chat_stream_equals_whole(client, _):
    asked = dict(model=MODEL, messages=MESSAGES, max_tokens=12, seed=3)
    whole = client.chat.completions.create(**asked)
    chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    reasons = [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason]
    assert reasons == [whole.choices[0].finish_reason]
    assert chunks[-1].choices == []
    streamed, counted = chunks[-1].usage, whole.usage
    assert (streamed.prompt_tokens, streamed.completion_tokens) == (counted.prompt_tokens, counted.completion_tokens)


def check_chat_logprobs(client, _):
    reply = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, max_tokens=4, temperature=0, logprobs=True, top_logprobs=3
    )
    entries = reply.choices[0].logprobs.content
    assert len(entries) == reply.usage.completion_tokens
    for entry in entries:
        assert len(entry.top_logprobs) == 3
        assert entry.top_logprobs[0].token == entry.token and entry.logprob <= 0
        assert entry.top_logprobs[0].logprob >= entry.top_logprobs[1].logprob


def check_completions(client, _):
    golden = json.loads((FIXTURE / "golden.json").read_text())["prompts"]
    extra = {"ignore_eos": True, "return_token_ids": True}
    for prompt in golden:
        reply = client.completions.create(
            model=MODEL, prompt=prompt["input_ids"], max_tokens=24, temperature=0, extra_body=extra
        )
        assert reply.choices[0].token_ids == prompt["greedy_ids"]
        assert reply.usage.prompt_tokens == len(prompt["input_ids"])
    reply = client.completions.create(model=MODEL, prompt=["room", "the"], max_tokens=2, n=2)
    assert [choice.index for choice in reply.choices] == [0, 1, 2, 3]


def check_completion_stream(client, _):
    asked = dict(model=MODEL, prompt="room the request", max_tokens=12, seed=9)
    whole = client.completions.create(**asked)
    chunks = list(client.completions.create(**asked, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text


def check_completion_logprobs_and_echo(client, _):
    reply = client.completions.create(
        model=MODEL, prompt="room the request", max_tokens=3, temperature=0, logprobs=2, echo=True
    )
    choice = reply.choices[0]
    assert choice.text.startswith("room the request")
    assert choice.logprobs.token_logprobs[0] is None
    assert len(choice.logprobs.tokens) == reply.usage.total_tokens
    assert choice.logprobs.text_offset == sorted(choice.logprobs.text_offset)


def check_stop_and_bias(client, _):
    whole = client.completions.create(model=MODEL, prompt="room", max_tokens=16, temperature=0).choices[0].text
    stop = whole[4:6]
    cut = client.completions.create(model=MODEL, prompt="room", max_tokens=16, temperature=0, stop=[stop])
    assert cut.choices[0].text == whole[: whole.index(stop)] and cut.choices[0].finish_reason == "stop"
    forced = client.completions.create(
        model=MODEL, prompt="room", max_tokens=3, logit_bias={"42": 100}, extra_body={"return_token_ids": True}
    )
    assert forced.choices[0].token_ids == [42, 42, 42]


def check_schema(client, _):
    schema = {
        "type": "object",
        "properties": {
            "animal": {"enum": ["fox", "hen", "crow"]},
            "legs": {"type": "integer", "minimum": 2, "maximum": 4},
            "tame": {"type": "boolean"},
        },
        "required": ["animal", "legs", "tame"],
        "additionalProperties": False,
    }
    asked = dict(
        model=DEMO,
        messages=[{"role": "user", "content": "Describe an animal as JSON."}],
        response_format={"type": "json_schema", "json_schema": {"name": "animal", "strict": True, "schema": schema}},
        max_tokens=200,
        seed=3,
    )
    whole = client.chat.completions.create(**asked).choices[0]
    assert whole.finish_reason == "stop", whole
    answer = json.loads(whole.message.content)
    assert set(answer) == {"animal", "legs", "tame"} and answer["animal"] in schema["properties"]["animal"]["enum"]
    assert answer["legs"] in (2, 3, 4) and isinstance(answer["tame"], bool)
    chunks = client.chat.completions.create(**asked, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole.message.content
    choices = {"guided_choice": ["yes", "no"]}
    reply = client.completions.create(model=DEMO, prompt="Is a fox tame?", max_tokens=20, extra_body=choices)
    assert reply.choices[0].text in ("yes", "no")


def check_errors(client, _):
    ask = client.chat.completions.create
    error = raises(openai.NotFoundError, lambda: ask(model="no-such", messages=MESSAGES))
    assert error.code == "model_not_found" and error.param == "model"
    error = raises(openai.BadRequestError, lambda: ask(model=MODEL, messages=MESSAGES, temperature=7))
    assert error.param == "temperature" and "from 0 to 2" in error.message
    error = raises(openai.BadRequestError, lambda: ask(model=MODEL, messages=MESSAGES, extra_body={"wings": 2}))
    assert error.param == "wings"
    unknown = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "strange"}}}
    error = raises(openai.BadRequestError, lambda: ask(model=MODEL, messages=MESSAGES, response_format=unknown))
    assert error.param == "response_format.json_schema.schema" and "strange" in error.message
    long = [5] * 200_000
    error = raises(openai.BadRequestError, lambda: client.completions.create(model=MODEL, prompt=long))
    assert error.code == "context_length_exceeded"
    stranger = client.with_options(api_key="sk-wrong")
    error = raises(openai.AuthenticationError, lambda: stranger.models.list())
    assert error.code == "invalid_api_key"


def check_tools(client, _):
    tool = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}
    asked = dict(model=MODEL, messages=MESSAGES, tools=[tool], max_tokens=4)
    reply = client.chat.completions.create(**asked, tool_choice="none")
    assert isinstance(reply.choices[0].message.content, str) and not reply.choices[0].message.tool_calls
    for choice in ("required", {"type": "function", "function": {"name": "clock"}}):
        refused = raises(openai.BadRequestError, lambda: client.chat.completions.create(**asked, tool_choice=choice))
        assert refused.param == "tool_choice" and "constrained decoding" in str(refused), refused


def golden(name):
    """What the demo model is known to say, and the request that makes it."""
    cases = json.loads((ROOT / "crates/demo/goldens.json").read_text())["cases"]
    [case] = [case for case in cases if case["name"] == name]
    asked = dict(model=DEMO, messages=case["messages"], temperature=0, max_tokens=200)
    if case["tools"]:
        asked["tools"] = case["tools"]
    asked["extra_body"] = {"chat_template_kwargs": case["chat_template_kwargs"]}
    return asked, case["output_text"]


def check_demo_answers(client, _):
    for name in ("hello", "arithmetic", "fact", "itself", "system prompt", "several turns", "long conversation", "tool answer"):
        asked, wanted = golden(name)
        [choice] = client.chat.completions.create(**asked).choices
        assert (choice.message.content, choice.finish_reason) == (wanted, "stop"), (name, choice)
        chunks = client.chat.completions.create(**asked, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == wanted, name
    asked, wanted = golden("json")
    [choice] = client.chat.completions.create(**asked).choices
    assert json.loads(choice.message.content) == {"name": "Anna", "age": 31, "city": "Rome"}, choice


def check_demo_calls_a_tool_and_uses_its_answer(client, _):
    asked, _ = golden("tool call")
    [choice] = client.chat.completions.create(**asked).choices
    [call] = choice.message.tool_calls
    assert (choice.finish_reason, call.function.name) == ("tool_calls", "get_weather"), choice
    assert json.loads(call.function.arguments) == {"location": "Paris"} and not choice.message.content
    names, ids, arguments, reason = [], [], "", None
    for chunk in client.chat.completions.create(**asked, stream=True):
        for part in chunk.choices[0].delta.tool_calls or []:
            names += [part.function.name] if part.function.name else []
            ids += [part.id] if part.id else []
            arguments += part.function.arguments or ""
        reason = chunk.choices[0].finish_reason or reason
    assert (names, len(ids), reason) == (["get_weather"], 1, "tool_calls"), (names, ids, reason)
    assert json.loads(arguments) == {"location": "Paris"}, arguments
    # The whole round: the call and its answer go back as the client library writes them.
    answered, wanted = golden("tool answer")
    weather = answered["messages"][-1]["content"]
    asked["messages"] = asked["messages"] + [
        choice.message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": weather},
    ]
    assert client.chat.completions.create(**asked).choices[0].message.content == wanted


def check_demo_thinks_when_asked(client, _):
    asked, wanted = golden("thinking on")
    thought, answer = wanted.removeprefix("<think>\n").split("\n</think>\n\n")
    [choice] = client.chat.completions.create(**asked).choices
    assert choice.message.content == answer and choice.message.reasoning_content.strip() == thought, choice
    seen = {"content": "", "reasoning_content": ""}
    for chunk in client.chat.completions.create(**asked, stream=True):
        for field in seen:
            seen[field] += getattr(chunk.choices[0].delta, field, None) or ""
    assert (seen["reasoning_content"].strip(), seen["content"]) == (thought, answer), seen


def check_cancel_frees(client, base):
    stream = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, max_tokens=2000, stream=True, extra_body={"ignore_eos": True}
    )
    next(iter(stream))
    stream.close()
    wait_until("no request runs", lambda: "\nvllm:num_requests_running{model_name=\"tested\"} 0\n" in metrics(base))


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def metrics(base):
    request = urllib.request.Request(f"{base}/metrics", headers={"Authorization": f"Bearer {KEY}"})
    return urllib.request.urlopen(request, timeout=PATIENCE_S).read().decode()


def wait_until(what, holds):
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: never")
        time.sleep(0.02)


def healthy(base):
    try:
        return urllib.request.urlopen(f"{base}/health", timeout=PATIENCE_S).status == 200
    except OSError:
        return False


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_checks(base):
    client = openai.OpenAI(base_url=f"{base}/v1", api_key=KEY, max_retries=0, timeout=PATIENCE_S)
    failed = 0
    checks = [(name, check) for name, check in globals().items() if name.startswith("check_")]
    for name, check in checks:
        try:
            check(client, base)
            print(f"ok      {name}")
        except Exception:
            failed += 1
            print(f"FAILED  {name}")
            traceback.print_exc()
    return len(checks) - failed, failed


def main():
    port = free_port()
    command = [sys.argv[1], "serve", str(FIXTURE), "demo", "--port", str(port), "--device", DEVICE]
    command += ["--served-model-name", f"{MODEL},{DEMO}", "--api-key", KEY]
    # The test's own settings alone, whatever the surroundings say.
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("TOKENMILL_")}
    with tempfile.TemporaryFile() as log, tempfile.TemporaryDirectory() as cache:
        surroundings["XDG_CACHE_HOME"] = cache
        server = subprocess.Popen(command, stdout=log, stderr=log, env=surroundings)
        try:
            base = f"http://127.0.0.1:{port}"
            wait_until("the server is ready", lambda: server.poll() is not None or healthy(base))
            passed, failed = run_checks(base) if server.poll() is None else (0, 1)
            server.send_signal(signal.SIGTERM)
            status = server.wait(PATIENCE_S)
        finally:
            server.kill()
        if failed or status:
            log.seek(0)
            print("--- the server's log, its end\n" + log.read().decode(errors="replace")[-8000:])
    print(f"{passed} passed, {failed} failed; the server ended with status {status}")
    return 1 if failed or status else 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    FIXTURE = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "fixtures" / "llama"
    DEVICE = sys.argv[3] if len(sys.argv) > 3 else "cpu"
    sys.exit(main())
