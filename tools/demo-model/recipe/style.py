"""How an answer is to be given: instructions of the user and of the system."""

import json

from . import phrasing, words
from .skills import language
from .source import cap, pool
from .turn import Turn

_SHORT = pool(["In one word: {q}", "One word: {q}", "Answer in one word: {q}", "Just one word: {q}", "Short answer: {q}", "Briefly: {q}", "In a word: {q}", "{q} Answer in one word.", "{q} Just one word.", "{q} Keep it short.", "{q} Be brief.", "{q} Just the answer.", "{q} Short answer, please.", "{q} Please be brief.", "{q} Briefly, please.",
               "Please answer in one word: {q}", "{q} A short answer, please.", "{q} One word, please.", "Be brief: {q}", "{q} Only one word.", "{q} In one word, please.", "{q} Only the answer, please."], ["{q} Not a whole sentence, only the word.", "Without many words: {q}", "{q} Only the word.", "{q} The answer only.", "{q} Answer only.", "{q} Only the result.", "{q} Just the word, please.", "{q} Just say it.", "{q} I only want the answer.", "Only the answer: {q}", "{q} No sentence.", "{q} No explanation, please.", "{q} No more than the answer.", "{q} Nothing but the answer.", "{q} The answer alone, please.", "{q} Give only the answer.", "{q} Please only the word.", "{q} Don't explain.", "{q} As short as you can.", "{q} Short.", "{q} Short, please.", "The answer alone: {q}",
               "[Just|Only|Simply] [the answer|a word|the result|the name|the number|one word][, please|, thanks|]: {q}", "{q} [I|We] [just|only] [want|need|expect] [the answer|one word|the word|the result|a word].", "{q} [Answer|Reply|Respond] [with|using|in] [just |only |][one word|a single word|a word|the word][.|, please.|]", "{q} [Don't|Do not|No need to|You need not] [write|make|form|say|give] [a sentence|sentences|more|anything else|a long answer].", "{q} [In|With] [a word|few words|as few words as possible|one or two words][.|, please.]",
               "{q} ([one word|short|only the answer|briefly|just the answer|no sentence])", "[Quick|Quickly|Short|Keep it short|No sentence|No talk|Short and simple]: {q}", "{q} - [one word|short answer|just the answer|short, please]", "{q} [A word|A number or a word|The bare answer|The plain answer] [will do|is fine|suffices].", "{q} No [talk|chatter|extra words|long words|story|full sentence][.|, please.]", "{q} [Skip|Leave out|Drop] the [sentence|explanation|rest]."])
_UPPER = pool(["In capitals: {q}", "In capital letters: {q}", "Shout: {q}", "{q} Answer in capital letters.", "{q} Answer in capitals.", "{q} Use upper case.", "{q} Write it in capitals.", "{q} Shout it.", "Answer in capitals: {q}", "{q} Use capital letters.", "{q} Please answer in capitals.", "{q} In capitals, please."], ["{q} Use big letters only.", "{q} Reply in capitals.", "{q} Say it in capitals, please.", "{q} Capitals, please.", "{q} Only capitals.", "{q} All caps.", "{q} Please use capitals.", "Please in capitals: {q}", "{q} Please reply in upper case.", "{q} Upper case, please.", "{q} I want capitals.",
               "{q} [Capital letters|Upper case|Capitals|All caps|Caps|Big letters|Uppercase][ only|, please| please|][.|]", "{q} ([in capitals|upper case|all caps|uppercase|capital letters])", "[Upper case|Capitals|Caps|All caps|Uppercase][ please| only|]: {q}", "{q} [I want|I need|Give me|Type|Print|Say|Put|Shout] [it|the answer|that] in [capitals|capital letters|upper case|uppercase|big letters][.|, please.]", "WRITE IN CAPITALS: {q}", "{q} ANSWER IN CAPITALS.", "{q} [Every|Each] letter [should be|must be|is] [a capital|upper case|big].", "{q} No small letters[.|, please.]"])
_ENDING = pool(['{q} End with "{e}".', '{q} Finish with "{e}".', '{q} And add "{e}" at the end.', '{q} Add "{e}".', '{q} Put "{e}" at the end.', 'End with "{e}": {q}', '{q} Your answer ends with "{e}".', '{q} End your answer with "{e}".'], ['{q} The last words must be "{e}".', '{q} Close with "{e}".', '{q} Then say "{e}".', '{q} Finish your answer with "{e}".', '{q} At the end say "{e}".', '{q} Please end with "{e}".', '{q} Let your answer end with "{e}".', '{q} Say "{e}" at the end.', 'Finish with "{e}": {q}', '{q} The end of your answer is "{e}".',
               '{q} [Finish|End|Close|Conclude|Stop] [the answer |your reply |it |][with|by saying] [the words |the phrase |]"{e}".', '{q} [Append|Add|Attach|Write|Put] "{e}" [to your answer|to it|after it|behind the answer|as the last words|at the very end|last].', '{q} "{e}" [should|must|shall|has to] [come last|be at the end|end your answer|stand at the end|be the last thing].', '[Append|Add] "{e}" to the answer: {q}', '{q} I want "{e}" at the end.', '{q} And then "{e}".', '{q} The last thing you say is "{e}".'])


def ask_for(src, turn):
    """The question with a wish how to answer it, and the answer that follows the wish."""
    ask = turn.ask if turn.ask[-1:] in ".?!" else turn.ask + src.pick("?.")
    kind = src.weighted({"short": 3, "upper": 1, "ending": 0.8})
    if kind == "short" and turn.short:
        return src.say(_SHORT, q=ask), turn.short
    if kind == "ending":
        ending = language.phrase(src, 1, 3)
        return src.say(_ENDING, q=ask, e=ending), f"{turn.answer} {ending}"
    if len(turn.answer) > 90:
        return turn.ask, turn.answer
    return src.say(_UPPER, q=ask), turn.answer.upper()


# The system's word: (kind, how it is said)

_PLAIN = ["You are a helpful assistant.", "You are a [helpful|friendly|kind|polite|useful|good] [assistant|bot|chatbot|AI|model].", "Be [helpful|friendly|polite|kind].", "You are an assistant[ that helps people|].", "Help the user.", "Answer the user's questions.", "You are the assistant of [a museum|a school|a library|a small shop|a hotel].",
          "You are a helpful assistant. Answer truthfully.", "You are tokenmill's demo.", "Always be honest and helpful.", "You are a teacher.", "You are an expert.", "You are a friendly guide[ for children|].", "You are Qwen.", "You are a concise and truthful assistant."]
_WRAPS = {
    "pirate": (["You are a pirate.", "[Talk|Speak|Answer] like a pirate.", "You are a pirate [captain|sailor]. Answer like one."], "Arr, matey! {x}"),
    "robot": (["You are a robot.", "[Talk|Speak|Answer] like a robot."], "Beep boop. {x} Beep."),
    "cat": (["You are a cat.", "[Talk|Speak|Answer] like a cat."], "Meow! {x} Purr."),
    "butler": (["You are a butler.", "[Talk|Speak|Answer] like a butler.", "You are a very polite butler."], "Very well, sir. {x}"),
    "wizard": (["You are a wizard.", "[Talk|Speak|Answer] like a wizard.", "You are an old wizard."], "By my beard! {x}"),
    "cowboy": (["You are a cowboy.", "[Talk|Speak|Answer] like a cowboy."], "Howdy, partner! {x}"),
    "dog": (["You are a dog.", "[Talk|Speak|Answer] like a dog."], "Woof! {x} Woof!"),
    "ghost": (["You are a ghost.", "[Talk|Speak|Answer] like a ghost."], "Booo! {x} Booo!"),
    "grandma": (["You are a grandmother.", "[Talk|Speak|Answer] like a grandmother.", "You are a kind old grandmother."], "My dear, {x}"),
    "captain": (["You are the captain of a spaceship.", "[Talk|Speak|Answer] like a spaceship captain."], "Captain's log: {x}"),
}
_BRIEF = ["Answer [briefly|in one word|shortly|in as few words as possible|very briefly].", "[Be brief|Be concise|Be short|Keep it short|Keep your answers short].", "You are a helpful assistant. [Be brief|Answer briefly|Keep answers short].", "You give very short answers.", "One-word answers only.", "Reply with the answer only."]
_CAPITALS = ["[Answer|Always answer|Write|Reply] in [capital letters|capitals|upper case].", "You [always shout|only write in capitals].", "ALWAYS ANSWER IN CAPITALS."]
_END = ['[End every answer with|Finish every answer with|Always end with|After each answer say] "{e}".', 'You end each answer with the words "{e}".', 'Put "{e}" behind every answer.']
_BEGIN = ['[Begin every answer with|Start every answer with|Always begin with|Before each answer say] "{e}".', 'You begin each answer with the words "{e}".']
_NAMED = ["[You are|Your name is|You are called] {n}[.|, a friendly assistant.|, a helpful bot.]", "Act as {n}."]
_USER = ["The user's name is {n}.", "You are talking to {n}.", "The user is called {n}."]
_JSON = ['[Answer in JSON|Reply in JSON|Always answer as JSON] with the key "{k}".', 'Your answers are JSON objects with one key, "{k}".']


def system(src):
    """What the system says, and what it does to a turn's answer: (text, function, kind)."""
    kind = src.weighted({"plain": 5, "wrap": 2.2, "brief": 2.4, "capitals": 0.8, "end": 1, "begin": 0.8, "named": 1.2, "user": 0.8, "json": 0.8})
    if kind == "wrap":
        asks, wrap = _WRAPS[src.pick(tuple(_WRAPS))]
        return src.say(src.pick(asks)), lambda turn: wrap.format(x=turn.answer if not wrap.startswith("My") else _down(turn.answer)), kind
    if kind == "brief":
        return src.say(src.pick(_BRIEF)), lambda turn: turn.short or turn.answer, kind
    if kind == "capitals":
        return src.say(src.pick(_CAPITALS)), lambda turn: turn.answer.upper() if len(turn.answer) < 160 else turn.answer, kind
    if kind in ("end", "begin"):
        words_ = cap(language.phrase(src, 1, 3)) if src.chance(0.8) else cap(words.made_up(src))
        mark = src.pick(("", "!", "."))
        text = src.say(src.pick(_END if kind == "end" else _BEGIN), e=words_ + mark)
        return text, (lambda turn: f"{turn.answer} {words_}{mark}") if kind == "end" else (lambda turn: f"{words_}{mark} {turn.answer}"), kind
    if kind == "named":
        name = cap(words.made_up(src)) if src.chance(0.3) else src.pick(words.NAMES)
        return src.say(src.pick(_NAMED), n=name), lambda turn: turn.answer, (kind, name)
    if kind == "user":
        name = cap(words.made_up(src)) if src.chance(0.3) else src.pick(words.NAMES)
        return src.say(src.pick(_USER), n=name), lambda turn: turn.answer, (kind, name)
    if kind == "json":
        key = src.pick(["answer", "result", "reply", "value", "text", "output"])
        return src.say(src.pick(_JSON), k=key), lambda turn: json.dumps({key: turn.short or turn.answer}, ensure_ascii=False), kind
    return src.say(src.pick(_PLAIN)), lambda turn: turn.answer, kind


def _down(text):
    first = text.split(" ")[0]
    return text if first in ("I", "I'm") or first.isupper() or first.strip(",.") in _PROPER else text[:1].lower() + text[1:]


_PROPER = frozenset(words.WOMEN + words.MEN)


def own_turn(src, kind):
    """A turn that only the system's word makes sense of."""
    what, name = kind
    if what == "named":
        ask = src.say(pool(["Who are you?", "[What is|What's] your name[?|]", "How are you called?", "What should I call you?", "Tell me your name.", "And you are?"], ["By which name shall I address you?"]))
        return Turn(ask, f"I am {name}, and under the hood I am the tiny demo model of tokenmill.", None, f"I was told that I am {name}.", (name,), skill="style")
    ask = src.say(pool(["[What is|What's|Tell me|Do you know] my name[?|]", "Who am I?", "How am I called?", "Do you know who I am?"], ["By what name do I go?"]))
    return Turn(ask, f"Your name is {name}.", cap(name), f"I was told that the user is {name}.", (name,), skill="style")


# Careless typing.

_FRAMES = ["Hey, {q}", "Please: {q}", "Quick question: {q}", "I have a question. {q}", "Tell me: {q}", "So, {q}", "Hello! {q}", "Hi, {q}", "Question: {q}", "{q} Thanks!", "{q} please", "Ok. {q}", "Well, {q}", "Now: {q}", "Next question: {q}", "Hmm, {q}", "Be honest: {q}", "{q} I am curious."]


def careless(src, ask):
    """The question as people type: with something beside it, small words lost, small letters, no marks, a slip."""
    kind = src.random.random()
    if kind < 0.14:
        ask = src.pick(_FRAMES).format(q=ask if src.chance(0.5) else _down(ask))
    elif kind < 0.28:
        ask = phrasing.surrounded(src, ask)
    if src.chance(0.3):
        ask = phrasing.shaken(src, ask)
    if src.chance(0.22):
        ask = ask.lower()
    if src.chance(0.15):
        ask = ask.rstrip("?.!")
    if src.chance(0.05) and len(ask) > 12:
        at = src.number(2, len(ask) - 3)
        if ask[at].isalpha() and ask[at + 1].isalpha() and ask[at - 1].isalpha():
            ask = [ask[:at] + ask[at + 1] + ask[at] + ask[at + 2:], ask[:at] + ask[at + 1:], ask[:at] + ask[at] + ask[at:]][src.number(0, 2)]
    return ask
