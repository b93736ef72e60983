"""Seeded choice, a small grammar, and the line between what is trained on and what is held out.

A template is text with `[this|that|]` for a choice, nested at will, and `{slot}` for a value, `{Slot}` for one with a capital. A `Pool` has two sides: what
training may see and what only the evaluation sees. A `Source` stands on one side for good, so that a generator written
once serves both.
"""

import functools
import random
import re
import zlib
from dataclasses import dataclass

from .held_out import HELD
from .more_phrases import MORE
from .synonyms import reworded

HELD_SHARE = 10  # per cent of the content of a divided pool
REWORDED = 0.3  # the share of what is asked in training that is said with words from `synonyms`


def is_held(*key):
    """Whether content belongs to the evaluation; by its hash, so that no seed moves it."""
    return zlib.crc32(repr(key).encode()) % 100 < HELD_SHARE


@dataclass(frozen=True, eq=False)
class Pool:
    """Things to choose from: `train` for training, `held` for the evaluation alone."""

    train: tuple
    held: tuple
    phrases: bool = False  # whether these are ways to say one thing


def pool(common, rare=()):
    """Ways to say one thing, the common ones and rarer ones, and those of `more_phrases`: for training. Those of the
    evaluation are in `held_out`; where it has none, the last of the common ones are held out."""
    common, rare = tuple(common), (*rare, *MORE.get(common[0], ()))
    if held := HELD.get(common[0]):
        return Pool(common + rare, held, True)
    kept = 2 if len(common) > 7 else 1
    if len(common) == 1:
        return Pool(common, rare or common, True)
    return Pool(common[:-kept] + rare, common[-kept:], True)


def divided(items):
    """A pool whose sides the hash decides: names, cities, values."""
    items = tuple(dict.fromkeys(items))
    held = tuple(item for item in items if is_held("item", item))
    return Pool(tuple(item for item in items if not is_held("item", item)), held or items[-1:])


class Source:
    """A stream of choices. `held`: on the evaluation's side; `familiar`: there, but in the phrases of training."""

    def __init__(self, seed, held=False, familiar=False):
        self.random = random.Random(seed)
        self.held = held
        self.familiar = familiar

    def chance(self, share):
        return self.random.random() < share

    def wider(self, share):
        """Whether to leave the narrow lists that the evaluation asks from: training alone sees more than is asked for."""
        return not self.held and self.chance(share)

    def number(self, low, high):
        """A whole number, both ends possible."""
        return low + int(self.random.random() * (high - low + 1))

    def pick(self, items):
        if isinstance(items, Pool):
            items = items.held if self.held and not (items.phrases and self.familiar) else items.train
        return items[int(self.random.random() * len(items))]

    def some(self, items, count):
        """`count` different ones."""
        if isinstance(items, Pool):
            items = items.held if self.held else items.train
        return self.random.sample(items, min(count, len(items)))

    def weighted(self, table):
        """A key of a table of weights."""
        keys, total = _cumulated(tuple(table.items()))
        return keys[_position(total, self.random.random() * total[-1])]

    def fresh(self, *key):
        """Whether content that is made up as one goes (operands, say) lies on this side of the line."""
        return is_held(*key) == self.held

    def say(self, template, **slots):
        """A template, or one of a pool of them, in words. What is asked in training is said in other words at times."""
        loose = False
        if not isinstance(template, str):
            loose = not self.held and template.phrases and self.chance(REWORDED)
            template = self.pick(template)
        out = []
        self._write(out, _parsed(template), slots, loose)
        return "".join(out)

    def _write(self, out, parts, slots, loose):
        for kind, value in parts:
            if kind == "text":
                out.append(reworded(self.random, value) if loose else value)
            elif kind == "slot":
                out.append(str(slots[value]) if value in slots else cap(str(slots[value.lower()])))
            else:
                self._write(out, value[int(self.random.random() * len(value))], slots, loose)


@functools.lru_cache(maxsize=None)
def _cumulated(entries):
    total, sums = 0.0, []
    for _, weight in entries:
        total += weight
        sums.append(total)
    return tuple(key for key, _ in entries), tuple(sums)


def _position(sums, at):
    for index, top in enumerate(sums):
        if at < top:
            return index
    return len(sums) - 1


_TOKEN = re.compile(r"[\[\]|]|\{\w+\}|[^\[\]|{]+|\{")


@functools.lru_cache(maxsize=None)
def _parsed(template):
    stack = [[[]]]  # a stack of choices; a choice is a list of alternatives; an alternative a list of parts
    for token in _TOKEN.findall(template):
        if token == "[":
            stack.append([[]])
        elif token == "|" and len(stack) > 1:
            stack[-1].append([])
        elif token == "]" and len(stack) > 1:
            done = stack.pop()
            stack[-1][-1].append(("choice", tuple(tuple(parts) for parts in done)))
        elif token.startswith("{") and token.endswith("}"):
            stack[-1][-1].append(("slot", token[1:-1]))
        else:
            stack[-1][-1].append(("text", token))
    assert len(stack) == 1, f"unbalanced brackets: {template}"
    return tuple(stack[0][0])


def cap(text):
    """With a capital at its beginning."""
    return text[:1].upper() + text[1:]


def a(noun):
    """With the indefinite article."""
    if noun.startswith(("hour", "honest", "heir")):
        return "an " + noun
    consonant = noun.startswith(("uni", "use", "one", "eu", "ufo", "uku"))
    return ("an " if noun[:1].lower() in "aeiou" and not consonant else "a ") + noun


def listed(words, last="and"):
    """`x, y and z`."""
    words = [str(word) for word in words]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
