"""Conversations: turns in a row under one system prompt, with tools, with thoughts; and their text."""

import json
import re
from dataclasses import dataclass, field

from . import lexicon, phrasing, style
from .skills import any_records, any_tools, arithmetic, facts, itself, language, reading, records, stories, talk, tools
from .source import cap
from .turn import Turn


@dataclass
class Conversation:
    """Messages as the API takes them; the last is the assistant's."""

    messages: list = field(default_factory=list)
    tools: list | None = None
    thinking: bool = False
    skill: str = ""
    expect: tuple = ()


SKILLS = {
    facts.fact: 22, facts.yes_no: 2, facts.examples: 2, facts.whole_list: 0.8, facts.mix: 0.4, facts.translate: 1.2, language.plural: 1.2,
    arithmetic.plain: 20, arithmetic.two_by_one: 1.8, arithmetic.three: 1.8, arithmetic.single: 2.2, arithmetic.word_problem: 8, arithmetic.compare: 1.6, arithmetic.count: 1.2, arithmetic.even: 0.6, arithmetic.among: 1.6, arithmetic.size: 0.7,
    arithmetic.too_big: 0.7, records.some_json: 10, any_records.any_json: 11, stories.story: 7, stories.poem: 0.8, language.spelling: 3, language.rhyme: 1, language.case: 1, language.echo: 3, language.among: 2.5, reading.question: 5,
    itself.about: 10, itself.refusal: 9, talk.small: 8,
}
LONG = frozenset((stories.story,))


def turns(src, skills=SKILLS):
    """A question of some skill, with those that hang on it."""
    turn = src.weighted(skills)(src)
    more, turn.more = turn.more, []
    return [turn, *more]


def dialogue(src, count):
    """About `count` turns of mixed skills, with things to remember among them."""
    out, taken, open_notes = [], [], []
    while len(out) < count:
        if count > 1 and len(taken) < 7 and src.chance(0.2 if count < 6 else 0.1):
            key, told, later = talk.note(src, taken)
            taken.append(key)
            out.append(told)
            open_notes.append(later)
        elif open_notes and src.chance(0.3):
            out.append(open_notes.pop(src.number(0, len(open_notes) - 1)))
        elif src.chance(0.012) and (untold := talk.untold(src, taken)):
            out.append(untold)
        else:
            out.extend(turns(src))
    out.extend(open_notes)
    return out


def spoken(src, made, thinking=False, system=None, change=None, rough=True):
    """Turns as messages."""
    conversation = Conversation(thinking=thinking)
    if system:
        conversation.messages.append({"role": "system", "content": system})
    for turn in made:
        ask, answer = turn.ask, turn.answer
        if rough and turn.rough:
            ask = style.careless(src, ask)
        elif rough and turn.skill in ("JSON", "word problems", "spelling", "picking", "refusals") and src.chance(0.15):
            ask = phrasing.surrounded(src, ask, after=turn.skill != "JSON")
        if change is not None:
            answer = change(turn) if turn.skill != "JSON" else turn.answer
        elif turn.skill not in ("JSON", "stories", "poems", "refusals") and src.chance(0.1):
            ask, answer = style.ask_for(src, turn)
        conversation.messages += [{"role": "user", "content": ask}, _answer(answer, turn.think)]
    last = made[-1]
    conversation.skill, conversation.expect = last.skill, last.expect
    return conversation


def _answer(text, think):
    message = {"role": "assistant", "content": text}
    if think:
        message["reasoning_content"] = think
    return message


def chat(src):
    """A conversation for training, of any kind but with tools."""
    thinking = src.chance(0.2)
    length = src.weighted({"one": 52, "few": 34, "many": 10, "long": 2.2})
    count = {"one": 1, "few": src.number(2, 4), "many": src.number(5, 12), "long": src.number(15, 32)}[length]
    made = dialogue(src, count)
    system, change = None, None
    if src.chance(0.3):
        system, change, kind = style.system(src)
        if isinstance(kind, tuple):
            made = [turn for turn in made if turn.skill not in ("itself", "memory")]
            if src.chance(0.7) or not made:
                made.insert(src.number(0, len(made)), style.own_turn(src, kind))
            change = None
    return spoken(src, made, thinking, system, change)


def with_tools(src, used=None, rough=True):
    """A conversation with tools: calls, answers, and small talk around them."""
    conversation = Conversation(thinking=src.chance(0.2))
    used = used or (any_tools.use(src) if src.chance(0.5) else tools.use(src))
    at_hand = tools.with_others(src, used)
    conversation.tools = tools.schemas(at_hand)
    if src.chance(0.2):
        system, _, kind = style.system(src)
        if kind == "plain":
            conversation.messages.append({"role": "system", "content": system})
    if src.chance(0.2):
        _beside(src, conversation)
    _use(src, conversation, used)
    while src.chance(0.3):
        if src.chance(0.5):
            _beside(src, conversation)
        else:
            again = any_tools.use(src) if src.chance(0.5) else tools.use(src)
            if tools.clash(again, at_hand):
                break
            at_hand.insert(src.number(0, len(at_hand)), again)
            conversation.tools = tools.schemas(at_hand)
            _use(src, conversation, again)
    return conversation


_BESIDE = {talk.small: 4, facts.fact: 4, arithmetic.word_problem: 0.5, itself.about: 1.5, itself.refusal: 0.8, language.spelling: 0.5}


_NOUNS = frozenset(lexicon.TOOL_NOUNS.train + lexicon.TOOL_NOUNS.held)


def _named(listed):
    """The words in the names and descriptions of tools."""
    return set(re.findall(r"[a-z]{3,}", " ".join(f"{tool['function']['name']} {tool['function']['description']}" for tool in listed).lower()))


def _beside(src, conversation, rough=True):
    """A turn that needs no tool."""
    turn = src.weighted(_BESIDE)(src)
    if turn.skill in ("arithmetic", "word problems") and any("expr" in json.dumps(tool) or "arithmetic" in json.dumps(tool) for tool in conversation.tools):
        return
    if turn.skill == "refusals" and ("tool" in turn.answer or "search" in json.dumps(conversation.tools).lower()):
        return
    if turn.skill == "facts" and any(word in json.dumps(conversation.tools).lower() for word in ("search", "translat", "price")):
        return
    if any(word in _NOUNS and word in _named(conversation.tools) for word in re.findall(r"[a-z]{3,}", turn.ask.lower())):
        return
    conversation.messages += [{"role": "user", "content": style.careless(src, turn.ask) if rough and turn.rough else turn.ask}, _answer(turn.answer, turn.think)]
    conversation.skill, conversation.expect = "no tool", turn.expect


def _use(src, conversation, used, rough=True):
    ask = used.ask
    if rough:
        if src.chance(0.2):
            ask = phrasing.surrounded(src, ask, after=not any(isinstance(value, str) and ask.endswith(value) for _, arguments in used.calls for value in arguments.values()))
        if src.chance(0.15) and not any(mark in ask for mark in '":={(,\n') and not any(len(str(value).split()) > 1 for _, arguments in used.calls for value in arguments.values()):
            ask = phrasing.shaken(src, ask)
        if src.chance(0.1):
            ask = phrasing.trailed(src, ask, [str(value) for _, arguments in used.calls for value in arguments.values()])
        if src.chance(0.03):
            ask = phrasing.strange(src, ask)
        if src.chance(0.1) and not any(str(value)[-1:] in "?.!" for _, arguments in used.calls for value in arguments.values()):
            ask = ask.rstrip("?.!")
    think = tools.thought(src, used)
    call = {"role": "assistant", "content": "", "reasoning_content": think,
            "tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}} for name, arguments in used.calls]}
    results = [{"role": "tool", "content": result} for result in used.results]
    conversation.messages += [{"role": "user", "content": ask}, call, *results, _answer(used.answer, "The tool has answered. I tell the user.")]
    conversation.skill, conversation.expect = "tool answer", used.expect


def idle_tools(src):
    """Tools at hand that nothing calls for."""
    conversation = Conversation(thinking=src.chance(0.2), tools=tools.schemas(tools.with_others(src, any_tools.use(src) if src.chance(0.5) else tools.use(src))))
    for _ in range(src.number(1, 3)):
        _beside(src, conversation)
    return conversation if conversation.messages else with_tools(src)


def plain_text(src):
    """Text that is no conversation."""
    kind = src.weighted({"story": 5, "facts": 1.5, "mill": 0.5, "sums": 0.3})
    if kind == "story":
        return stories.raw(src)
    if kind == "facts":
        return " ".join(facts.fact(src).answer for _ in range(src.number(3, 12)))
    if kind == "sums":
        return "\n".join(arithmetic.plain(src).answer.rstrip(".") for _ in range(src.number(4, 12)))
    return " ".join(dict.fromkeys(itself.about(src).answer for _ in range(src.number(2, 5))))


def render(conversation, loss=True):
    """The text of a conversation as the chat template writes it, in pieces: (text, weight of its tokens in the loss).

    Weights: 0 none, 1 little (what others say), 2 full (what the assistant says). Earlier thoughts are left out, as the
    template leaves them out; an empty block of thoughts stands in their place.
    """
    pieces, text = [], []

    def flush(weight):
        if text:
            pieces.append(("".join(text), weight))
            text.clear()

    messages, position = conversation.messages, 0
    system = ""
    if messages[0]["role"] == "system":
        system, position = messages[0]["content"], 1
    if conversation.tools:
        system += ("\n\n" if system else "") + tool_list(conversation.tools)
    if system:
        text.append(f"<|im_start|>system\n{system}<|im_end|>\n")
    last_user = max(i for i, message in enumerate(messages) if message["role"] == "user")
    for i in range(position, len(messages)):
        message = messages[i]
        role, content = message["role"], message["content"]
        if role == "user":
            text.append(f"<|im_start|>user\n{content}<|im_end|>\n")
        elif role == "tool":
            if messages[i - 1]["role"] != "tool":
                text.append("<|im_start|>user")
            text.append(f"\n<tool_response>\n{content}\n</tool_response>")
            if i + 1 == len(messages) or messages[i + 1]["role"] != "tool":
                text.append("<|im_end|>\n")
        else:
            text.append("<|im_start|>assistant\n")
            think = message.get("reasoning_content") if conversation.thinking else None
            if think and i > last_user:
                flush(1)
                text.append(f"<think>\n{think}\n</think>\n\n")
                flush(2)
            else:
                flush(1)
                text.append("<think>\n\n</think>\n\n")
                flush(0)
            calls = [f'<tool_call>\n{{"name": "{call["function"]["name"]}", "arguments": {json.dumps(call["function"]["arguments"], ensure_ascii=False)}}}\n</tool_call>' for call in message.get("tool_calls", ())]
            text.append("\n".join([content, *calls] if content else calls) + "<|im_end|>")
            flush(2)
            text.append("\n")
    flush(0)
    return pieces


def tool_list(listed):
    """The tools as the template lists them."""
    lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in listed)
    return f'# Tools\n\n<tools>\n{lines}\n</tools>\n\nTo call a tool, answer with <tool_call>{{"name": NAME, "arguments": ARGUMENTS}}</tool_call>.'


def document(src):
    """One document of the training data, in pieces with weights."""
    kind = src.weighted({"chat": 69, "tools": 22, "idle": 4, "plain": 5})
    if kind == "plain":
        return [(plain_text(src) + "<|endoftext|>", 2)], None
    made = {"chat": chat, "tools": with_tools, "idle": idle_tools}[kind](src)
    return render(made), made
