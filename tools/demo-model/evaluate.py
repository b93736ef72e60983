"""Measures a checkpoint on prompts that it was not trained on: greedy, by transformers, in float32.

    evaluate.py MODEL [DATA] [REPORT] [SHARE]

The prompts come from the held-out side of every pool: paraphrases (`recipe/held_out.py`), names, places, operands and
values of training never meet here. With DATA, the training data's marks, each prompt is looked up among all that was asked
in training; one that occurs there is thrown away and drawn anew, and the report says how many were. SHARE makes the sets
smaller. The sets that the model is measured by come first, so that a run that is cut short has them.
"""

import json
import re
import sys
import time
from pathlib import Path

import numpy
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from generate import asked, mark, marks
from recipe import conversation, style
from recipe.skills import any_records, any_tools, arithmetic, facts, itself, language, reading, records, stories, talk, tools
from recipe.source import Source

SEED = 2026


def single(skill, thinking=False):
    """One question."""
    return lambda src: plainly(src, [_alone(skill(src))], thinking)


def plainly(src, turns, thinking=False):
    """Turns as they are, typed with care."""
    return conversation.spoken(src, turns, thinking, change=lambda turn: turn.answer, rough=False)


def _alone(turn):
    turn.more = []
    return turn


def following(src):
    """A question and one that leans on it."""
    while True:
        turn = src.weighted({facts.fact: 1, arithmetic.plain: 1})(src)
        if turn.more:
            return plainly(src, [turn, *_take(turn)])


def _take(turn):
    more, turn.more = turn.more, []
    return more


def remembering(src, between=(0, 3)):
    """Something told, other turns, and the question for it."""
    _, told, later = talk.note(src)
    others = [_alone(src.weighted(conversation.SKILLS)(src)) for _ in range(src.number(*between))]
    return plainly(src, [told, *others, later])


def long(src):
    """A conversation of more than a thousand tokens, and a question at its end."""
    _, told, later = talk.note(src)
    others = [_alone(src.weighted(conversation.SKILLS)(src)) for _ in range(src.number(14, 18))]
    return plainly(src, [told, *others, src.pick((later, _alone(facts.fact(src)), _alone(arithmetic.plain(src))))])


def wished(src):
    """A question with a wish how to answer."""
    while True:
        turn = _alone(src.weighted({facts.fact: 3, arithmetic.plain: 1})(src))
        ask, answer = style.ask_for(src, turn)
        if ask != turn.ask:
            turn.ask, turn.answer, turn.expect = ask, answer, ("equal", answer)
            return plainly(src, [turn])


def commanded(src):
    """A system prompt that changes the answer."""
    while True:
        text, change, kind = style.system(src)
        if kind == "plain":
            continue
        turn = style.own_turn(src, kind) if isinstance(kind, tuple) else _alone(facts.fact(src))
        turn.answer = change(turn)
        turn.expect = ("equal", turn.answer)
        return conversation.spoken(src, [turn], system=text, rough=False, change=lambda turn: turn.answer)


def at_hand(src, used):
    """The tool that is used among others, none of which could serve as well."""
    others = {used.kind: used.schema}
    while src.chance(0.5) and len(others) < 4:
        other = tools.use(src)
        if other.schema["function"]["name"] not in [schema["function"]["name"] for schema in others.values()]:
            others.setdefault(other.kind, other.schema)
    return src.some(tuple(others.values()), len(others))


def calling(src, thinking=False):
    """Tools and a request: the call is asked for."""
    used = tools.use(src)
    return call_of(used, at_hand(src, used), thinking)


def calling_any(src):
    """The same with tools that nobody has heard of."""
    used = any_tools.use(src)
    return call_of(used, tools.schemas(tools.with_others(src, used)))


def call_of(used, listed, thinking=False):
    """A request for a tool in a list."""
    made = conversation.Conversation(tools=listed, thinking=thinking, skill="tool call", expect=("call", used.calls))
    made.messages = [{"role": "user", "content": used.ask}, {"role": "assistant", "content": ""}]
    return made


def answering(src):
    """A tool has answered: the sentence is asked for."""
    used = tools.use(src)
    made = conversation.Conversation(tools=at_hand(src, used))
    conversation._use(src, made, used, rough=False)
    made.expect = used.expect
    return made


def not_calling(src):
    """Tools, and a question that needs none."""
    while True:
        made = conversation.Conversation(tools=tools.schemas(tools.with_others(src, tools.use(src))))
        conversation._beside(src, made, rough=False)
        if made.messages:
            made.expect = ("no call", *made.expect)
            return made


SETS = {
    "arithmetic": (single(lambda src: src.weighted({arithmetic.plain: 6, arithmetic.two_by_one: 1, arithmetic.three: 1, arithmetic.single: 1})(src)), 500),
    "word problems": (single(arithmetic.word_problem), 200),
    "comparing, counting, sorting": (single(lambda src: src.pick((arithmetic.compare, arithmetic.count, arithmetic.even, arithmetic.among, arithmetic.size))(src)), 250),
    "facts": (single(lambda src: src.weighted({facts.fact: 10, language.plural: 0.6, facts.mix: 0.2, facts.translate: 0.6})(src)), 800),
    "yes or no": (single(facts.yes_no), 100),
    "lists": (single(facts.whole_list), 60),
    "JSON": (single(records.some_json), 400),
    "JSON of any shape": (single(any_records.any_json), 200),
    "tool call": (calling, 400),
    "tool call, any tool": (calling_any, 200),
    "tool call, thinking": (lambda src: calling(src, True), 100),
    "tool answer": (answering, 200),
    "no tool needed": (not_calling, 150),
    "itself": (single(lambda src: itself._turn(src, src.pick(itself._SELF), "itself")), 150),
    "tokenmill": (single(lambda src: itself._turn(src, src.pick(itself._MILL), "tokenmill")), 150),
    "refusals": (single(lambda src: src.weighted({itself.refusal: 8, arithmetic.too_big: 1})(src)), 200),
    "memory": (remembering, 200),
    "follow-up": (following, 100),
    "long conversations": (long, 60),
    "wishes of the user": (wished, 150),
    "wishes of the system": (commanded, 150),
    "reading": (single(reading.question), 150),
    "repeating": (single(lambda src: src.pick((language.echo, language.case))(src)), 120),
    "spelling": (single(language.spelling), 150),
    "picking and sorting words": (single(language.among), 100),
    "thinking: arithmetic": (single(arithmetic.plain, True), 200),
    "thinking: facts": (single(facts.fact, True), 200),
    "stories": (single(stories.story), 60),
}


# The same with new content in phrases that training knows: the names, places, values and operands are held out all the same.
FAMILIAR = {"arithmetic": 400, "JSON": 400, "tool call": 400, "JSON of any shape": 200, "tool call, any tool": 200, "tool call, thinking": 100, "facts": 200, "yes or no": 100, "memory": 150, "wishes of the user": 150, "word problems": 200, "reading": 150, "picking and sorting words": 100}
FIRST = ("arithmetic", "facts", "JSON", "JSON of any shape", "tool call", "tool call, any tool", "tool call, thinking", "stories")
FAILURES = 10  # so many a set are told


def right(conversation, text, ended):
    """Whether an answer is right."""
    text = text.split("</think>")[-1].strip() if "</think>" in text else text.strip()
    expect = conversation.expect
    if not ended:
        return False
    if expect[:1] == ("json",):
        try:
            return json.loads(text) == json.loads(expect[1])
        except ValueError:
            return False
    if expect[:1] == ("equal",):
        return text == expect[1].strip()
    if expect[:1] == ("call",):
        return calls(text) == [(name, arguments) for name, arguments in expect[1]]
    if expect[:1] == ("no call",):
        return "<tool_call>" not in text and contains(text, expect[1:])
    return contains(text, expect)


def parses(text):
    """Whether an answer is JSON, whatever it says."""
    try:
        json.loads(text.split("</think>")[-1])
    except ValueError:
        return False
    return True


def calls(text):
    """The calls in an answer; `None` when something else is in it."""
    found = re.findall(r"<tool_call>\n(.*?)\n</tool_call>", text, re.DOTALL)
    if re.sub(r"<tool_call>\n.*?\n</tool_call>", "", text, flags=re.DOTALL).strip():
        return None
    try:
        return [(call["name"], call["arguments"]) for call in map(json.loads, found)]
    except (ValueError, KeyError, TypeError):
        return None


def contains(text, expect):
    text = text.lower()
    return all(re.search(("(?<!\\w)" if part[:1].isalnum() else "") + re.escape(part.lower()) + ("(?!\\w)" if part[-1:].isalnum() else ""), text) for part in expect)


def draw(name, make, count, known, familiar=False):
    """Conversations of one set, none of which is known; and how many were thrown away."""
    src, out, thrown = Source(f"{SEED} {name}", held=True, familiar=familiar), [], 0
    while len(out) < count:
        made = make(src)
        users = [message["content"] for message in made.messages if message["role"] == "user"]
        prompt = marks(made)
        final = {prompt[-2] if len(prompt) > 1 and made.messages[-2]["role"] == "user" else prompt[-1]}
        if len(users) == 1 and not made.tools and made.messages[0]["role"] == "user":
            final.add(mark(users[0]))
        if known is not None and any(known[min(numpy.searchsorted(known, each), len(known) - 1)] == each for each in map(numpy.uint64, final)):
            thrown += 1
            if thrown > 50 * count:
                raise SystemExit(f"{name}: nearly all prompts occur in the training data")
            continue
        out.append(made)
    return out, thrown


class Runner:
    """A checkpoint, ready to answer in batches."""

    def __init__(self, directory):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.tokenizer = AutoTokenizer.from_pretrained(directory, padding_side="left")
        self.model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).to(self.device).eval()
        self.ends = json.loads((Path(directory) / "generation_config.json").read_text())["eos_token_id"]

    def prompt(self, messages, tools=None, thinking=False):
        return self.tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=True, enable_thinking=thinking)

    def batches(self, prompts, longest):
        """Prompts of like length together, long answers apart; no more of them than there is room for."""
        room, most = (2_500_000, 2048) if self.device == "cuda" else (40_000, 64)
        chosen = []
        for i in sorted(range(len(prompts)), key=lambda i: (_steps(longest[i]), len(prompts[i]))):
            if chosen and (len(chosen) == most or (len(chosen) + 1) * len(prompts[i]) > room or _steps(longest[i]) != _steps(longest[chosen[0]])):
                yield chosen
                chosen = []
            chosen.append(i)
        yield chosen

    @torch.no_grad()
    def answers(self, prompts, longest=None, **sampling):
        """The answers to rendered prompts: (text, whether it ended by itself). `longest`: tokens that each may take."""
        longest = longest or [400] * len(prompts)
        out = [None] * len(prompts)
        for chosen in self.batches(prompts, longest):
            inputs = self.tokenizer([prompts[i] for i in chosen], return_tensors="pt", padding=True, add_special_tokens=False).to(self.device)
            inputs.pop("token_type_ids", None)
            made = self.model.generate(**inputs, max_new_tokens=_steps(longest[chosen[0]]), **({"do_sample": False, "temperature": None, "top_p": None, "top_k": None} | sampling), eos_token_id=self.ends, pad_token_id=self.ends[-1])
            for i, row in zip(chosen, made[:, inputs["input_ids"].shape[1] :].tolist()):
                end = next((n for n, token in enumerate(row) if token in self.ends), None)
                out[i] = (self.tokenizer.decode(row[:end], skip_special_tokens=False), end is not None)
        return out


def _steps(longest):
    """How many tokens an answer may take: one of a few numbers, so that short answers do not wait for long ones."""
    return next(steps for steps in (64, 160, 400) if longest <= steps or steps == 400)


def most_tokens(runner, made):
    """Half as much again as the answer that the recipe would give, and some for a call or thoughts."""
    answer = made.messages[-1]
    text = f"{answer['content']}{made.expect if made.expect[:1] in (('call',), ('json',)) else ''}{answer.get('reasoning_content', '') if made.thinking else ''}"
    return len(runner.tokenizer.encode(text, add_special_tokens=False)) * 3 // 2 + 24


def asked_of(runner, sets):
    """What is answered to all cases of some sets: by the name of the set, (case, prompt, answer, whether it ended)."""
    flat = [(name, made, runner.prompt(made.messages[:-1], made.tools, made.thinking)) for name, (cases, _) in sets.items() for made in cases]
    answers = runner.answers([prompt for _, _, prompt in flat], [most_tokens(runner, made) for _, made, _ in flat])
    out = {name: [] for name in sets}
    for (name, made, prompt), answer in zip(flat, answers):
        out[name].append((made, prompt, *answer))
    return out


def rate(runner, name, answered, thrown):
    """One set, rated."""
    rated = [(*each, right(each[0], *each[2:])) for each in answered]
    prompts = [prompt for _, prompt, *_ in rated]
    good = sum(ok for *_, ok in rated)
    out = {"right": good, "of": len(rated), "share": round(good / len(rated), 4), "thrown away": thrown, "longest prompt": max(len(runner.tokenizer.encode(prompt, add_special_tokens=False)) for prompt in prompts),
           "failures": [{"prompt": prompt.split("<|im_start|>user\n")[-1][:300], "answer": text[:300], "expected": str(made.expect)[:200]} for made, prompt, text, _, ok in rated if not ok][:30]}
    print(f"{name:42} {good:4} of {len(rated):4}  {100 * good / len(rated):6.2f} %   thrown away {thrown}", flush=True)
    asked_for = [text for made, _, text, _, _ in rated if made.expect[:1] == ("json",)]
    if asked_for:
        whole = sum(map(parses, asked_for))
        out["parses"] = [whole, len(asked_for)]
        print(f"{'  of these, JSON that parses':42} {whole:4} of {len(asked_for):4}  {100 * whole / len(asked_for):6.2f} %", flush=True)
    if name == "stories":
        out["to read"] = [(made.messages[-2]["content"], text) for made, _, text, _, _ in rated[:20]]
    return out


def evaluate(directory, data=None, report=None, share=1.0):
    """All sets; the report is written when those of `FIRST` are done, and at the end."""
    begun, known, runner, result = time.time(), asked(data) if data else None, Runner(directory), {}
    familiar = {f"{name}, familiar phrases": (SETS[name][0], count, name) for name, count in FAMILIAR.items()}
    wanted = {name: (make, count, name) for name, (make, count) in SETS.items()} | familiar
    for first in (True, False):
        sets = {name: draw(seed, make, max(2, int(count * share)), known, familiar=name in familiar) for name, (make, count, seed) in wanted.items() if (name.split(", familiar")[0] in FIRST) == first}
        for name, answered in asked_of(runner, sets).items():
            result[name] = rate(runner, name, answered, sets[name][1])
        if report:
            Path(report).write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
        print(f"{time.time() - begun:.0f} s", flush=True)
    for name in result:
        for failure in result[name]["failures"][:FAILURES]:
            print(f"[{name}] {failure['prompt'].split('<|im_end|>')[0]!r} -> {failure['answer']!r}   expected {failure['expected']}", flush=True)
    return result


if __name__ == "__main__":
    directory, *rest = sys.argv[1:]
    data, report, share = [*rest, None, None, 1.0][:3] if len(rest) < 3 else rest
    evaluate(directory, data, report, float(share or 1))
