"""What requests carry: names, codes, numbers, texts. Most of it is made up, so that it can only be copied."""

from . import lexicon, words, world
from .source import cap

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def word(src):
    """One word, known or not."""
    kind = src.random.random()
    if kind < 0.45:
        return src.pick(lexicon.ALL)
    if kind < 0.8:
        return words.made_up(src)
    if kind < 0.9:
        return src.pick(lexicon.ALL) + src.pick(lexicon.ALL)
    return src.pick(words.WORDS)


def two_or_more(src, low=2, high=4):
    """Some words in a row."""
    return " ".join(word(src) for _ in range(src.number(low, high)))


def title(src):
    """Words with capitals."""
    return " ".join(cap(word(src)) for _ in range(src.number(1, 4)))


_BEFORE = "New Old Upper Lower Port San Santa Saint Fort Mount Lake North South East West El La Los Bad Great Little".split()
_AFTER = "City Town Bay Hills Falls Springs Beach Valley Harbour Island Park Bridge Heights Village Point".split()


def place(src):
    """A place that is on no map: of one word or of several."""
    name = cap(words.made_up(src)) if src.chance(0.7) else cap(word(src))
    kind = src.random.random()
    if kind < 0.4:
        return name
    if kind < 0.55:
        return f"{src.pick(_BEFORE)} {name}"
    if kind < 0.65:
        return f"{name} {src.pick(_AFTER)}"
    if kind < 0.9:
        return " ".join([name, *(cap(words.made_up(src)) for _ in range(src.number(1, 3)))])
    other = cap(words.made_up(src))
    return src.pick((f"{name}-{other}", f"{name} on {other}", f"{name} upon {other}", f"{name} del {other}", f"{name}, {other}", f"{name}'{other.lower()}"))


def person(src):
    """Someone's name, at times the whole of it."""
    first = src.pick(words.NAMES) if src.chance(0.45) else cap(words.made_up(src))
    last = src.pick(words.SURNAMES) if src.chance(0.4) else cap(words.made_up(src))
    kind = src.random.random()
    if kind < 0.5:
        return first
    if kind < 0.85:
        return f"{first} {last}"
    return src.pick((f"{src.pick(['Dr.', 'Mr.', 'Mrs.', 'Ms.'])} {last}", f"{first[0]}. {last}", f"{first} {src.pick('ABCDEFGHJKLMNPRSTVWZ')}. {last}", f"{first} {cap(words.made_up(src))} {last}", f"aunt {first}", f"uncle {first}"))


def digits(src, low, high):
    return "".join(src.pick("0123456789") for _ in range(src.number(low, high)))


def letters(src, low, high):
    return "".join(src.pick(_LETTERS) for _ in range(src.number(low, high)))


def code(src):
    """A mark of letters and digits."""
    up = letters(src, 1, 4).upper()
    return src.pick((f"{up}{digits(src, 1, 5)}", f"{up}-{digits(src, 1, 5)}", f"{up}-{digits(src, 2, 4)}-{src.pick(_LETTERS).upper()}", f"{letters(src, 1, 4)}{digits(src, 1, 4)}", f"{letters(src, 2, 5)}_{digits(src, 1, 3)}",
                     f"#{src.number(1, 9)}{digits(src, 1, 4)}", f"{up}{digits(src, 1, 3)}{letters(src, 1, 2).upper()}", f"{word(src)}-{digits(src, 1, 3)}", f"{digits(src, 1, 3)}{up}"))


def clock(src):
    return src.pick((f"{src.number(0, 23)}:{src.number(0, 59):02d}", f"{src.number(0, 23):02d}:{src.number(0, 59):02d}", f"{src.number(1, 12)} {src.pick(['am', 'pm'])}", f"{src.number(1, 12)}:{src.number(0, 59):02d} {src.pick(['am', 'pm'])}"))


def date(src):
    year, month, day = src.number(1900, 2040), src.number(1, 12), src.number(1, 28)
    name = world.MONTHS[month - 1]
    return src.pick((f"{year}-{month:02d}-{day:02d}", f"{day:02d}.{month:02d}.{year}", f"{name} {day}", f"{day} {name} {year}", f"{day}/{month}/{year}", f"{name} {year}", src.pick(world.DAYS)))


def email(src):
    return f"{word(src)}{src.pick(['', '.' + word(src), digits(src, 1, 2), '_' + word(src)])}@{word(src)}.{src.pick(['org', 'com', 'net', 'io', 'de', 'fr', 'edu'])}"


_ENDINGS = "txt md csv json log py rs pdf png html yaml toml zip xml jpg mp3 doc".split()


def path(src):
    """A file, with folders before it at times."""
    name = f"{word(src)}{src.pick(['', '_' + word(src), '-' + word(src), digits(src, 1, 3)])}.{src.pick(_ENDINGS)}"
    folders = "".join(f"{word(src)}/" for _ in range(src.pick((0, 0, 1, 1, 2, 3))))
    return src.pick(("", "/", "./")) + folders + name if folders else name


def address(src):
    """An address on the web."""
    return f"{src.pick(['https://', 'http://', 'www.', ''])}{word(src)}.{src.pick(['org', 'com', 'net', 'io', 'dev'])}{src.pick(['', '/' + word(src), f'/{word(src)}/{word(src)}', '/' + digits(src, 1, 4)])}"


def text(src):
    """A sentence or part of one."""
    n = src.number(2, 9)
    said = " ".join(person(src) if src.chance(0.06) else str(whole(src)) if src.chance(0.06) else src.pick(_SMALL) if src.chance(0.35) else word(src) for _ in range(n))
    said = cap(said) if src.chance(0.4) else said
    return said + (src.pick(("", "", "", "!", "?"))) if src.chance(0.3) else said


_SMALL = "the a my your we you I is are and to at in on with for of not will can it was he she they new please no yes".split()


def whole(src):
    """A whole number."""
    kind = src.random.random()
    if kind < 0.55:
        return src.number(0, 100)
    if kind < 0.75:
        return src.number(100, 2999)
    if kind < 0.93:
        return int(src.pick("123456789") + digits(src, 2, 6))
    return -src.number(1, 500)


def decimal(src):
    """A number with a point."""
    after = digits(src, 0, 2) + src.pick("123456789") if src.chance(0.93) else "0"
    return float(f"{src.pick(['', '', '', '-'])}{src.number(0, src.pick((9, 99, 999)))}.{after}")


def number(src):
    return whole(src) if src.chance(0.75) else decimal(src)


def expression(src):
    """A sum as one types it."""
    def part():
        return str(src.number(2, src.pick((9, 99, 999, 99999)))) if src.chance(0.85) else f"{src.number(1, 99)}.{src.number(1, 99)}"

    p, q, r = part(), part(), part()
    s, t = src.pick("+-*/"), src.pick("+-*/")
    return src.pick((f"{p} {s} {q}", f"{p}{s}{q}", f"{p} {s} {q} {t} {r}", f"({p} {s} {q}) {t} {r}", f"{p} {s} ({q} {t} {r})", f"{p}{s}{q}{t}{r}", f"sqrt({p})", f"{p}^{src.number(2, 4)}", f"{p} % {q}", f"{src.number(1, 99)}% of {q}"))


STRINGS = (word, word, two_or_more, title, place, place, person, code, clock, date, email, path, address, text)


def string(src):
    """Any text that could be a value."""
    return src.pick(STRINGS)(src)


def field(src):
    """The name of a field or a parameter."""
    kind = src.random.random()
    x = src.pick(lexicon.ALL) if src.chance(0.7) else words.made_up(src)
    if kind < 0.6:
        return x
    y = src.pick(lexicon.ALL) if src.chance(0.8) else words.made_up(src)
    if kind < 0.85:
        return f"{x}_{y}"
    if kind < 0.93:
        return f"{x}{cap(y)}"
    return src.pick((f"{x}-{y}", f"{x}{src.number(1, 9)}", f"{cap(x)}", f"{x}_id", f"{x}_{y}_{src.pick(lexicon.ALL)}", x.upper(), f"is_{x}", f"num_{x}"))
