"""Words as words: spelling, letters, plurals by rule, rhymes, capitals, echoing, sorting."""

from .. import phrasing, values, words, world
from ..source import a, cap, listed, pool
from ..turn import Turn

_SPELL = pool(["Spell {x}[.|]", "[Can you|Please] spell {x}[?|.]", "How do you spell {x}?", "How is {x} spelled?", "Spell the word {x}[.|]", 'Spell "{x}"[.|]', "Spelling of {x}?", "[Tell me|What are] the letters of {x}[.|?]", "How does one write {x}, letter by letter?", "The letters of {x}, please.", "How do I spell {x}?", "Please spell the word {x}."],
              ["Write out {x}, one letter after the other.", "Letter by letter, please: {x}."])
_COUNT = pool(["How many letters [are in|has] {x}?", "How many letters does {x} have?", "How many letters are in the word {x}?", "[Count|Tell me] the letters [in|of] {x}[.|]", "How long is the word {x}?", "Number of letters in {x}?", "How many letters has the word {x}?", "Count the letters of the word {x}."],
              ["What number of letters does {x} consist of?"])
_FIRST = pool(["[What is|What's|Tell me] the first letter of {x}[?|]", "[With which|Which] letter does {x} [begin with|start with]?", "First letter of {x}?", "{X} begins with which letter?", "The word {x} starts with which letter?", 'What is the first letter of "{x}"?', "Name the first letter of {x}.", "The first letter of the word {x}?", "What is the first letter of the word {x}?"],
              ["Which letter stands at the front of {x}?"])
_LAST = pool(["[What is|What's|Tell me] the last letter of {x}[?|]", "[With which|Which] letter does {x} end[ with|]?", "Last letter of {x}?", "{X} ends with which letter?", "The word {x} ends with which letter?", 'What is the last letter of "{x}"?', "Name the last letter of {x}.", "The last letter of the word {x}?", "What is the last letter of the word {x}?"],
             ["Which letter stands at the end of {x}?"])
_BACK = pool(["[Spell|Write|Say] {x} backwards[.|]", "What is {x} backwards?", "[Reverse|Turn round] the word {x}.", "{X} backwards?", "Write the word {x} backwards."], ["Read the word {x} from right to left."])
_NOUNS = {"spell": "the spelling of {x}", "count": "the number of letters [in|of] {x}", "first": "the first letter of {x}", "last": "the last letter of {x}"}


def spelling(src):
    """One word, looked at by its letters."""
    x = src.pick(words.WORDS.train + words.WORDS.held) if src.chance(0.5) else words.made_up(src)
    kind = src.weighted({"spell": 3, "count": 1.5, "first": 1.5, "last": 1.2, "back": 0.6})
    slots = {"x": x, "X": cap(x)}
    asks = {"spell": _SPELL, "count": _COUNT, "first": _FIRST, "last": _LAST, "back": _BACK}[kind]
    ask = phrasing.know(src, src.say(_NOUNS[kind], x=x)) if kind in _NOUNS and src.chance(0.3) else src.say(asks, **slots)
    letters = list(x.upper())
    spelled = "-".join(letters)
    backwards = "-".join(reversed(letters))
    answer, short, think, expect = {
        "spell": (f"{spelled}.", spelled, f"The letters of {x}, one by one.", spelled),
        "count": (f"{spelled}: {len(x)} letters.", None, f"I spell it: {spelled}. That is {len(x)}.", f"{len(x)} letters"),
        "first": (f"The first letter of {x} is {letters[0]}.", letters[0], f"{spelled}: the first is {letters[0]}.", f"is {letters[0]}."),
        "last": (f"{spelled}: the last letter of {x} is {letters[-1]}.", letters[-1], f"{spelled}: the last is {letters[-1]}.", f"is {letters[-1]}."),
        "back": (f"{spelled} backwards is {backwards}.", None, f"{spelled}.", backwards),
    }[kind]
    return Turn(ask, answer, short, think, (expect,), rough=False, skill="spelling")


_PLURAL = pool(["What is the plural of {x}?", "[Plural of|The plural of] {x}[?|]", "[Tell me|Give me|Name] the plural of {x}.", "One {x}, two what?", "How do you write more than one {x}?", "The plural form of {x} is?",
                "What is {x} in the plural?"], ["One {x}, many ...?", "If there are several, what does {x} become?", "Which is the plural form of the word {x}?"])
_MASS = set(words.DRINKS + words.SPORTS + words.METALS + words.COLOURS) | {pair[0] for pair in world.IRREGULAR_PLURALS} | {"scissors", "spinach", "broccoli", "celery", "lettuce", "asparagus"}
_REGULAR = tuple(x for x in words.SIMPLE_NOUNS + ("river", "mountain", "forest", "window", "door", "street", "bridge", "village", "island", "valley", "story", "baby", "city", "lady", "country", "party", "army", "watch", "dish", "glass",
                                                  "class", "day", "toy", "name", "game", "brother", "sister", "king", "friend", "sandwich", "church", "wish", "hobby", "family", "berry", "enemy", "monkey", "donkey")
                 if x not in _MASS)
_ES = {"potato": "potatoes", "tomato": "tomatoes", "mango": "mangoes", "buffalo": "buffaloes", "mosquito": "mosquitoes", "flamingo": "flamingos"}


def _plural(x):
    if x in _ES:
        return _ES[x]
    if x.endswith(("s", "x", "ch", "sh", "z")):
        return x + "es"
    if x.endswith("y") and x[-2] not in "aeiou":
        return x[:-1] + "ies"
    return x + "s"


def plural(src):
    """A regular plural."""
    x = src.pick(_REGULAR)
    return Turn(src.say(_PLURAL, x=x), f"The plural of {x} is {_plural(x)}.", cap(_plural(x)), f"One {x}, many {_plural(x)}.", (_plural(x),), skill="facts")


_RHYME = pool(["[What|Which word] rhymes with {x}?", "[Tell me|Give me|Name|Find] a [word that rhymes with|rhyme for] {x}[.|]", "A rhyme for {x}?", "Rhyme {x} with something."], ["I need a rhyming word for {x}."])
_MORE_RHYMES = pool(["[Tell me|Give me|Name|Find] [some|three] [words that rhyme with|rhymes for] {x}[.|]", "Which words rhyme with {x}?"], ["I need several rhyming words for {x}."])
_DO_RHYME = pool(["Do {x} and {y} rhyme?", "Does {x} rhyme with {y}?"], ["Would you call {x} and {y} a rhyme?"])


def rhyme(src):
    """Words that rhyme."""
    group = src.pick(world.RHYMES)
    index = src.number(0, len(group) - 1)
    x, y = group[index], group[index - 1]
    others = [word for word in group if word != x][:3]
    kind = src.pick(("one", "one", "more", "do"))
    if kind == "one":
        return Turn(src.say(_RHYME, x=x), f"{cap(x)} rhymes with {y}.", cap(y), f"{cap(x)} ends like {y}.", (), skill="rhymes")
    if kind == "more" and len(others) > 1:
        return Turn(src.say(_MORE_RHYMES, x=x), f"{cap(x)} rhymes with {listed(others)}.", None, f"Words that end like {x}: {listed(others)}.", (), skill="rhymes")
    if src.chance(0.5):
        return Turn(src.say(_DO_RHYME, x=x, y=y), f"Yes, {x} and {y} rhyme.", "Yes", f"{cap(x)} ends like {y}.", ("yes",), skill="rhymes")
    z = src.pick(src.pick(world.RHYMES))
    if z in group or z[-2:] == x[-2:]:
        return rhyme(src)
    return Turn(src.say(_DO_RHYME, x=x, y=z), f"No, {x} and {z} do not rhyme.", "No", f"{cap(x)} does not end like {z}.", ("no,",), skill="rhymes")


_UPPER = pool(["[Write|Put|Say] {x} in [capitals|capital letters|upper case][.|]", "{x} in capital letters[, please|]", "[Convert|Change] {x} to upper case.", "{x}, but in capitals", "The words {x} in capitals, please.", "Write in capital letters: {x}", "Make {x} upper case."], ["[Turn|Change|Set|Bring|Print|Type|Show|Give me|Render|Transform] {x} [into|in|to|with] [capitals|capital letters|upper case|uppercase][.|]", "{x} [upper case|uppercase|upper-case|capitals|all caps][, please|][.|]", "Capitals: {x}", "Upper case: {x}", "Uppercase {x}[.|]", "Capitalise all of {x}.", "All capitals: {x}", "I need {x} in [upper case|capitals].", "How does {x} look in capitals?", "Shout {x}[.|]", "[Have|Let|Get|Keep|Paint] {x} [be |]in upper case.", "I want to see {x} in big letters."])
_LOWER = pool(["[Write|Put|Say] {x} in [small letters|lower case][.|]", "[Convert|Change] {x} to lower case.", "Write in small letters: {x}", "Make {x} lower case."], ["[Turn|Change|Set|Bring|Print|Type|Show|Give me|Render|Transform] {x} [into|in|to|with] [small letters|lower case|lowercase][.|]", "{x} [lower case|lowercase|lower-case|small letters|without capitals][, please|][.|]", "Small letters: {x}", "Lower case: {x}", "Lowercase {x}[.|]", "I need {x} in [lower case|small letters].", "How does {x} look in small letters?", "Whisper {x}[.|]", "[Have|Let|Get|Keep|Paint] {x} [be |]in lower case.", "No capitals: {x}", "I want to see {x} in small letters."])


def case(src):
    """A phrase in capitals, or out of them."""
    x = phrase(src, 1, 4)
    shown = f'"{x}"' if src.chance(0.6) else x
    if src.chance(0.75):
        return Turn(src.say(_UPPER, x=shown), x.upper(), None, "The same words in capital letters.", (x.upper(),), rough=False, skill="capitals")
    up = x.upper()
    return Turn(src.say(_LOWER, x=f'"{up}"' if src.chance(0.6) else up), x, None, "The same words in small letters.", (x,), rough=False, skill="capitals")


def phrase(src, low, high):
    """A few words in a row that belong to this side of the line."""
    while True:
        chosen = " ".join(values.word(src) if src.wider(0.5) else words.made_up(src) if src.chance(0.3) else src.pick(words.WORDS.train) for _ in range(src.number(low, high)))
        if src.fresh("phrase", chosen):
            return chosen


def sentence(src):
    """A plain sentence to copy."""
    name = src.pick(words.NAMES) if src.chance(0.7) else cap(words.made_up(src))
    text = src.say("[{n} [likes|sees|wants|has|paints|carries|buys] {x} and {y}|The {c} {a} [is|sleeps|waits|sits] [near|under|behind] the {b}|{n} and the {a} [go|walk|run] to the {b}|I [like|want|see] {x} and {y}|Hello {n}|We meet at the {b} at {h}]",
                   n=name, x=a(src.pick(words.THINGS)), y=a(src.pick(words.FRUITS)), c=src.pick(words.COLOURS), a=src.pick(words.MAMMALS), b=src.pick(words.BUILDINGS), h=src.number(1, 12))
    return text if src.fresh("sentence", text) else sentence(src)


_ECHO = pool(["[Say|Repeat|Repeat after me|Please repeat|Write|Echo|Please say]: {x}", "[Say|Repeat|Write|Please say] [exactly |]\"{x}\"[.|]", "Can you [say|repeat] \"{x}\"?", "Repeat [this|the sentence|these words]: {x}", "Say the words: {x}"],
             ["I speak, you echo: {x}", "Parrot this for me: {x}"])


def echo(src):
    """Words to say again."""
    x = sentence(src) if src.chance(0.5) else phrase(src, 1, 7) if src.chance(0.6) else " ".join(words.made_up(src) for _ in range(src.number(1, 3)))
    if src.wider(0.4):
        x = values.text(src) if src.chance(0.5) else values.string(src)
    elif src.chance(0.3):
        x += src.pick("!.")
    return Turn(src.say(_ECHO, x=x), x, None, "I say the same words.", (x,), rough=False, skill="repeating")


_ALPHA = pool(["[Sort|Put|Order] [these words |the words |]alphabetically: {l}", "[Put|Bring] {l} into alphabetical order.", "Sort by the alphabet: {l}", "Order these words by the alphabet: {l}", "[Sort|Order] {l} by the alphabet."], ["[Sort|Order|Arrange|Put|Bring|List] {l} [alphabetically|from A to Z|in alphabetical order|as in a dictionary|A to Z][.|]", "[Sort|Order|Arrange|List] [by letter|by first letter|alphabetically|in ABC order|A-Z]: {l}", "Alphabetical order: {l}", "Alphabetically: {l}", "{l}: sort them.", "{l}, in alphabetical order, please.", "Which order do these have in the alphabet: {l}?", "Please sort {l} alphabetically.", "Arrange from A to Z: {l}"])
_LONGEST = pool(["Which word is [the longest|longest]: {l}?", "[Tell me|Find] the longest word of {l}[.|]"], ["Which of {l} has the most letters?"])
_ITEM = pool(["What is the {o} [word|item|thing] [in|of] {l}?", "Which is the {o} of {l}?", "{l}: what is the {o}?", "{l}: the {o}?", "Which word is the {o} of {l}?", "The {o} of {l}?", "Tell me the {o} word of {l}", "{l}: which is the {o}?"], ["[Name|Give me|Say|Pick|Find|Show me|Take] the {o} [one |word |thing |item |]of {l}[.|]", "{l}. [Name|Say|Give me|Pick] the {o}[.|]", "Which one is the {o} in {l}?", "What do I name {o} in {l}?", "In {l}, which is the {o}?", "Of {l}, the {o}?", "The {o} one in {l}, please.", "What stands {o} in {l}?", "From {l} I take the {o}, what is it?"])
_NUMBER = pool(["How many [words|things|items] are in {l}?", "How many are these: {l}?", "{l}: how many are these?", "How many words do you see: {l}?", "Count these: {l}"], ["[Count|Please count|Can you count] [the words|these words|the things|the items|the following][:|] {l}", "Count: {l}", "How many: {l}?", "{l}: how many?", "{l}: count them.", "Tell me how many these are: {l}", "How many words: {l}?", "The number of words in {l}?", "How many things do I name: {l}?", "Count how many things these are: {l}", "I list {l}. How many are they?", "What number of things do I list in {l}?"])


def among(src):
    """Some words in a row, and one of them picked out."""
    kind = src.pick(("alpha", "item", "item", "number"))
    chosen = [words.made_up(src) if src.chance(0.2) else word for word in src.some(words.SIMPLE_NOUNS, src.number(3, 5))]
    if not src.fresh("words", *chosen):
        return among(src)
    shown = ", ".join(chosen)
    if kind == "alpha":
        out = ", ".join(sorted(chosen))
        return Turn(src.say(_ALPHA, l=shown), cap(out) + ".", None, f"The first letters are {', '.join(sorted(word[0].upper() for word in chosen))}.", (out,), rough=False, skill="sorting")
    if kind == "number":
        n = len(chosen)
        return Turn(src.say(_NUMBER, l=shown), f"There are {n}.", str(n), f"{', '.join(f'{i} {word}' for i, word in enumerate(chosen, 1))}.", (str(n),), rough=False, skill="counting")
    index = src.number(0, len(chosen) - 1)
    last = index == len(chosen) - 1 and src.chance(0.6)
    ordinal = "last" if last else world.ORDINALS[index]
    return Turn(src.say(_ITEM, l=shown, o=ordinal), f"The {ordinal} is {chosen[index]}.", cap(chosen[index]), f"{', '.join(f'{i} {word}' for i, word in enumerate(chosen, 1))}.", (f"is {chosen[index]}.",), rough=False, skill="picking")
