"""A few sentences, and a question that they answer."""

from .. import words, world
from ..source import a, cap, pool
from ..turn import Turn
from .records import CITIES

_ASK = {
    "lives": pool(["Where does {n} live?", "In which town does {n} live?", "Where is the home of {n}?", "In which place does {n} live?"], ["Which town is {n} at home in?", "What is the home town of {n}?", "What town is the home of {n}?", "{n} lives where?", "Tell me where {n} lives.", "Where has {n} a home?", "In what town is {n} at home?"]),
    "has": pool(["What does {n} have?", "What has {n}?", "Which thing does {n} own?", "What is it that {n} has?"], ["Which object belongs to {n}?", "What is {n} the owner of?", "What thing has {n}?", "{n} has what?", "Tell me what {n} has.", "What belongs to {n}?", "Name the thing that {n} has.", "What does {n} own?"]),
    "where": pool(["Where is the {t}?", "Where can I find the {t}?", "In which room is the {t}?", "Where is the {t} now?"], ["Which room is the {t} in?", "The {t} is where?", "Tell me where the {t} is.", "What room has the {t}?", "In what room do I find the {t}?"]),
    "colour": pool(["What colour is the {t}?", "Which colour does the {t} have?", "Which colour is the {t}?"], ["In what colour does the {t} come?", "The {t} is of which colour?", "Tell me the colour of the {t}.", "What is the colour of the {t}?"]),
    "opens": pool(["When does the {b} open?", "At what time does the {b} open?", "When is the {b} open?"], ["From when on can I go to the {b}?", "The {b} opens when?", "Tell me when the {b} opens.", "At which hour does the {b} open?"]),
    "likes": pool(["What does {n} like?", "What does {n} like to eat?", "Which food does {n} like?"], ["Which food makes {n} happy?", "{n} likes what?", "Tell me what {n} likes.", "What is liked by {n}?", "What food does {n} like?"]),
    "works": pool(["What is the job of {n}?", "What does {n} work as?", "Which job does {n} have?"], ["How does {n} earn a living?", "{n} works as what?", "Tell me the job of {n}.", "What job has {n}?", "What is the work of {n}?"]),
    "count": pool(["How many {t} does {n} have?", "How many {t} has {n}?", "What is the number of {t} that {n} has?"], ["What number of {t} belongs to {n}?", "{n} has how many {t}?", "Tell me how many {t} {n} has.", "The number of {t} of {n}?", "What number of {t} has {n}?", "How many {t} are {n}'s?", "Count the {t} of {n}."]),
}
_PLACES = "kitchen bathroom bedroom garage hall office cellar attic garden library".split()


def _fact(src, taken):
    """A sentence, a question for it, its answer and the words of the answer that count."""
    kind = src.pick(tuple(_ASK))
    name = cap(words.made_up(src)) if src.chance(0.35) else src.pick(words.NAMES)
    thing, city, building = src.pick(words.THINGS), src.pick(CITIES) if src.chance(0.7) else cap(words.made_up(src)), src.pick(words.BUILDINGS)
    room, colour, food, job, n, many, hour = src.pick(_PLACES), src.pick(words.COLOURS), src.pick(words.FRUITS + words.FOODS), src.pick(world.JOBS)[0], src.number(2, 99), src.pick(words.COUNTABLE), src.number(6, 12)
    text, about, value = {
        "lives": (f"{name} lives in {city}.", name, city), "has": (f"{name} has {a(f'{colour} {thing}')}.", name, f"{colour} {thing}"), "where": (f"The {thing} is in the {room}.", thing, room),
        "colour": (f"The {thing} is {colour}.", thing, colour), "opens": (f"The {building} opens at {hour} o'clock.", building, f"at {hour}"), "likes": (f"{name} likes {food}.", name, food),
        "works": (f"{name} works as {a(job)}.", name, job), "count": (f"{name} has {n} {many}.", name, str(n)),
    }[kind]
    if (about, kind) in taken or any(about == other for other, _ in taken):
        return _fact(src, taken)
    taken.append((about, kind))
    return text, src.say(_ASK[kind], n=name, t=many if kind == "count" else thing, b=building), text, value


def passage(src, count):
    taken = []
    return [_fact(src, taken) for _ in range(count)]


_WITH = pool(["{t} {q}", "{t} {q}", "{t}\n\n{q}", "{q} {t}", "{q}\n\n{t}", "Read this: {t}\n{q}", "Text: {t}\nQuestion: {q}", "{t} Please tell me: {q}", "Read: {t} {q}", "{t} Now tell me: {q}"], ["Here are my notes. {t} And now: {q}", "{t} Now: {q}", "{t} Tell me: {q}", "{t} Then say: {q}", "{t} My question: {q}", "{t} So, {q}", "Look: {t} {q}", "Listen: {t} {q}", "Facts: {t} {q}", "Notes: {t} {q}", "Know this: {t} {q}", "{t} I ask: {q}", "{t} Answer me: {q}", "Story: {t}\n{q}", "{t}\nQuestion: {q}", "First read. {t} Then answer. {q}"])


def question(src):
    """Sentences and a question in one."""
    facts = passage(src, src.number(1, 5))
    text, ask, answer, value = src.pick(facts)
    together = " ".join(fact[0] for fact in facts)
    if not src.fresh("passage", together):
        return question(src)
    return Turn(src.say(_WITH, t=together, q=ask), answer, None, f"The text says: {answer}", (value,), rough=False, skill="reading")
