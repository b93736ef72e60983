"""JSON on request: keys and values told in words, the answer bare JSON."""

import json

from .. import phrasing, words, world
from ..source import a, cap, divided, listed, pool
from ..turn import Turn

CITIES = divided(words.TOWNS + list(world.CAPITALS.values()))
_TITLES = divided([f"{x} {y}" for x in "Silent Golden Lost Hidden Broken Last First Secret Little Great Burning Frozen Distant Paper Glass Wild".split()
                   for y in "River Garden Forest Winter Island Letter Mountain Harbour Shadow Bridge Road Summer Tower Song Key Ocean".split()])
_KEYS = divided("""colour size price weight height width length count level score rank code status mode kind type owner author title brand model
material shape speed distance duration start end day month year hour minute room floor street zip email phone country language currency team
position points goals grade subject course teacher flavour topping drink dish table guests host port path file format version branch
priority task project note tag group label category animal sound legs habitat food planet moons temperature humidity wind""".split())


def _value(src, key):
    """A value that goes with a key."""
    if src.chance(0.3):
        return words.made_up(src)
    if key in ("price", "weight", "height", "width", "length", "distance", "duration", "temperature", "wind", "speed"):
        return src.number(1, 500) if src.chance(0.7) else round(src.number(1, 999) / 10, 1)
    if key in ("count", "level", "score", "rank", "start", "end", "day", "year", "hour", "minute", "floor", "points", "goals", "grade", "guests", "port", "legs", "moons", "humidity", "priority", "version", "zip", "phone", "table", "room"):
        return src.number(1, 100) if key != "year" else src.number(1900, 2030)
    if key in ("owner", "author", "teacher", "host"):
        return src.pick(words.NAMES)
    if key in ("title", "note", "project", "task", "course", "dish"):
        return src.pick(_TITLES)
    if key == "country":
        return src.pick(tuple(world.CAPITALS)).removeprefix("the ")
    if key == "email":
        return f"{src.pick(words.NAMES).lower()}@{src.pick(words.WORDS)}.org"
    if key == "street":
        return f"{cap(src.pick(words.WORDS))} Street"
    if key in ("colour",):
        return src.pick(words.COLOURS)
    if key in ("animal", "habitat", "food", "drink", "topping", "flavour"):
        return src.pick(words.MAMMALS if key == "animal" else words.FRUITS + words.FOODS)
    return src.pick(words.WORDS)


def _person(src):
    fields = {"name": src.pick(words.NAMES), "age": src.number(3, 99), "city": src.pick(CITIES), "job": src.pick([job for job, _ in world.JOBS]),
              "surname": src.pick(words.SURNAMES), "married": src.chance(0.5), "pet": src.pick(words.MAMMALS), "hobby": src.pick(words.SPORTS)}
    for key in ("name", "surname", "city", "pet", "hobby"):
        if src.chance(0.25):
            fields[key] = cap(words.made_up(src))
    keys = ["name"] + src.some([key for key in fields if key != "name"], src.number(1, 4))
    return {key: fields[key] for key in keys}


def _product(src):
    fields = {"product": src.pick(words.SIMPLE_NOUNS), "price": src.number(1, 500), "colour": src.pick(words.COLOURS), "stock": src.number(0, 99), "new": src.chance(0.5),
              "weight": src.number(1, 90), "sizes": src.some(["S", "M", "L", "XL"], src.number(2, 3))}
    keys = ["product"] + src.some([key for key in fields if key != "product"], src.number(1, 3))
    return {key: fields[key] for key in keys}


def _book(src):
    fields = {"title": src.pick(_TITLES), "author": src.pick(words.NAMES) + " " + src.pick(words.SURNAMES), "year": src.number(1850, 2026), "pages": src.number(50, 900), "read": src.chance(0.5)}
    return {key: fields[key] for key in ["title"] + src.some(["author", "year", "pages", "read"], src.number(1, 3))}


def _free(src):
    keys = src.some(_KEYS, src.number(1, 4)) if src.chance(0.75) else src.some(words.WORDS, src.number(1, 3))
    keys = [words.made_up(src) if src.chance(0.25) else key for key in keys]
    return {key: _value(src, key) for key in dict.fromkeys(keys)}


def record(src):
    """Some keys and values."""
    return src.pick((_person, _person, _product, _book, _free, _free, _free))(src)


def _in_words(src, value):
    if value is True:
        return "true"
    if value is False:
        return "false"
    if value is None:
        return "null"
    if isinstance(value, list):
        return listed(value)
    return f'"{value}"' if isinstance(value, str) and src.chance(0.15) else str(value)


def _told(src, fields):
    style = src.number(0, 6)
    parts = []
    for key, value in fields.items():
        v = _in_words(src, value)
        parts.append([f"{key} {v}", f"{key} is {v}", f"{key}: {v}", f"{key} = {v}", f"the {key} is {v}", f"the {key} {v}", f"a {key} of {v}"][style])
    return ", ".join(parts) if style in (2, 3) or src.chance(0.3) else listed(parts)


_ASK = pool(["[Give me|Write|Make|Create|Produce|I need|Return|Please make] [a JSON object|JSON|a json|a JSON] with {f}[.|]", "JSON with {f}[, please.|.]", "[Write|Put|Turn] [this|the following] [as|into] JSON: {f}", "Make a JSON object: {f}",
             "[Can you|Could you] [give me|make|write] [a JSON object|JSON] with {f}?", "As JSON[, please|]: {f}", "{F} [as JSON|in JSON|as a JSON object][, please.|.|]", "Format as JSON: {f}", "Convert to JSON: {f}", "I want a JSON object where {f}."],
            ["[Save|Keep|Note|Record|Write|Pack|Enter|Define|Describe|Express|Show|Print|Arrange|Bring|Set] {f} [in|into|as] JSON[.|]", "[Encode|Export|Dump|Translate|Transform|Change] [to|into|as] JSON: {f}", "JSON, please: {f}", "JSON for {f}", "JSON: {f}", "I [wish for|hope for|ask for|need|require] JSON [with|where|in which] {f}.", "An object [where|in which|with] {f}, in JSON.", "Would you turn this into a JSON object for my program: {f}?", "My script expects JSON. The data: {f}", "Serialize this for me in JSON: {f}"])


def from_words(src):
    """An object from keys and values in words."""
    fields = record(src)
    told = _told(src, fields)
    if not src.fresh("json", *map(str, fields.items())):
        return from_words(src)
    if src.chance(0.08):
        fields[key := src.pick(["comment", "parent", "middle", "extra"])] = None
        told += f", {key} null" if src.chance(0.5) else f" and {key} null"
    ask = phrasing.want(src, src.say("[a JSON object|JSON|a JSON|a json object] with {f}", f=told)) if src.chance(0.4) else src.say(_ASK, f=told, F=cap(told))
    ask += (src.pick([" Only the JSON.", " Nothing else.", " JSON only, please.", " No text around it."]) if src.chance(0.12) else "")
    return _turn(ask, fields, f"The keys are {listed(fields)}." if len(fields) > 1 else f"The key is {next(iter(fields))}.")


def _turn(ask, value, think):
    text = json.dumps(value, ensure_ascii=False)
    return Turn(ask, text, None, think, ("json", text), rough=False, skill="JSON")


_ABOUT = pool(["{s} [Give me that as JSON|Write that as JSON|As JSON, please|Make JSON of it|Extract it as JSON] with the keys {k}.", "[Extract|Take] {k} [as JSON from|into JSON from]: {s}", "{s} [Return|I need] JSON with {k}.", "JSON with {k} for: {s}"],
              ["[JSON|A JSON object|One JSON object|A JSON] with {k} [of|from|out of|about|on|describing]: {s}", "[JSON|A JSON object|A JSON|An object in JSON] [having|holding|that has|with the fields|with the keys|with the names] {k} [for|from|of|out of] [this|the sentence|the text]: {s}", "{s} [JSON with|Make JSON with|Now JSON with|As JSON with|Please, JSON with|I want JSON with|Give me JSON with|Into JSON with|JSON, keys] {k}[.|, please.|]", "[Find|Read|Pick|Get|Fill in|Collect|Note|Look for] {k} [in|from|out of] [this|the text|this sentence] [and write JSON|as JSON|into JSON]: {s}", "Text: {s}\nKeys: {k}\nJSON:", "Keys {k}, JSON, text: {s}", "[From|Out of] this make JSON with {k}: {s}", "{k} as JSON: {s}", "The keys are {k}. The text: {s} Write JSON.", "Sentence: {s} I need {k} in JSON.", "What are {k} here, as JSON? {s}", "Which {k} does this give, in JSON? {s}", "{s} Now fill a JSON object that has the keys {k}.", "Read this: {s} Then answer in JSON, the keys are {k}."])


def from_sentence(src):
    """A sentence about someone, and the keys to fill."""
    name, age, city, job = src.pick(words.NAMES), src.number(3, 99), src.pick(CITIES), src.pick([job for job, _ in world.JOBS])
    if src.chance(0.35):
        name = cap(words.made_up(src))
    if src.chance(0.3):
        city = cap(words.made_up(src))
    n, thing, colour, price = src.number(2, 60), src.pick(words.COUNTABLE), src.pick(words.COLOURS), src.number(1, 300)
    kind = src.number(0, 3)
    text, fields = [
        (f"{name} is {age} years old and lives in {city}.", {"name": name, "age": age, "city": city}),
        (f"{name} works as {a(job)} in {city}.", {"name": name, "job": job, "city": city}),
        (f"{name} bought {n} {colour} {thing} for {price} euros.", {"name": name, "count": n, "colour": colour, "item": thing, "price": price}),
        (f"The train to {city} leaves at {age % 24}:{n % 60:02d} from platform {n % 20 + 1}.", {"destination": city, "time": f"{age % 24}:{n % 60:02d}", "platform": n % 20 + 1}),
    ][kind]
    if not src.fresh("json", text):
        return from_sentence(src)
    keys = src.some(list(fields), src.number(2, len(fields))) if src.chance(0.6) else list(fields)
    fields = {key: fields[key] for key in keys}
    return _turn(src.say(_ABOUT, s=text, k=listed(keys)), fields, f"I look for {listed(keys)} in the sentence.")


_LIST = pool(["[Give me|Write|Make|Create|I need|Return] [a JSON array|a JSON list|a JSON array of strings] [with|of|containing] {l}[.|]", "[As a|Make a] JSON [list|array]: {l}", "{l} as a JSON [list|array][.|, please.]", "JSON [list|array] of {l}", "[Put|Turn] {l} into a JSON [list|array]."],
             ["[Write|Pack|Bring|Collect|Change|Convert|Make|Arrange|Gather|Save|Keep] {l} [into|as|to|in] [a JSON list|a JSON array|an array in JSON|JSON, as a list][.|]", "[Turn|Change|Convert|Write|Arrange] [these|the words|the items] [into|as] a JSON array: {l}", "JSON list: {l}", "[The|An] array of {l}, in JSON.", "Would you write {l} as an array in JSON?", "My script wants a JSON array with {l}."])
_UNDER = pool(["[Give me|Write|Make|Create|I need|Return] [a JSON object|JSON] with [the key|a key|key] {k} [and the list|holding the list|that is a list of|with the list] {l}[.|]", "JSON with {k} as a list of {l}.", "A JSON object whose key {k} holds the list {l}.", "JSON, key {k}, a list: {l}", "I need JSON: {k} is the array {l}.", "Put the list {l} under the key {k}, as JSON.", "As JSON: {k} is a list of {l}.", "JSON with the key {k} and as its value the list {l}."], ["Let {k} be the array of {l}, as a JSON object."])


def array(src):
    """A list of words or numbers."""
    values = [words.made_up(src) if src.chance(0.35) else word for word in src.some(words.WORDS, src.number(2, 5))] if src.chance(0.7) else src.some(range(100), src.number(2, 5))
    if not src.fresh("json", *values):
        return array(src)
    shown = listed(values)
    if src.chance(0.3):
        key = src.pick(["items", "words", "values", "list", "tags", "things", "names", "numbers", "entries"])
        return _turn(src.say(_UNDER, k=key, l=shown), {key: values}, f"One key, {key}, and a list of {len(values)}.")
    ask = phrasing.want(src, src.say("[a JSON array|a JSON list|a JSON array of strings] [with|of] {l}", l=shown)) if src.chance(0.4) else src.say(_LIST, l=shown)
    return _turn(ask, values, f"A list of {len(values)}.")


_PEOPLE = pool(["[Give me|Write|Make|Create] a JSON [list|array] of [objects|people|two people] with name and {k}: {l}[.|]", "JSON array of objects with name and {k}: {l}", "[Put|Turn] these into JSON objects with name and {k}: {l}"],
               ["[Convert|Change|Write|Bring|Arrange|Make|Pack] [these|them|the people|the following] [into|as|to] [JSON objects|a JSON array|JSON|a list of JSON objects] with [name and {k}|the keys name and {k}|a name and a {k}]: {l}", "JSON with name and {k} for each: {l}", "For {l}: JSON objects with name and {k}.", "One JSON object each, with name and {k}: {l}", "[Objects|People] with name and {k}, as JSON: {l}", "A JSON list of people, name and {k}: {l}", "I need objects with name and {k} in a JSON array: {l}", "Would you write an array of JSON objects, each with name and {k}, for {l}?"])


def objects(src):
    """A list of small objects."""
    key = src.pick(["age", "city", "score", "job", "pet"])
    rows = []
    for name in src.some(words.NAMES, src.number(2, 3)):
        name = cap(words.made_up(src)) if src.chance(0.3) else name
        value = {"age": src.number(3, 99), "city": src.pick(CITIES), "score": src.number(0, 100), "job": src.pick(world.JOBS)[0], "pet": src.pick(words.MAMMALS)}[key]
        rows.append({"name": name, key: value})
    if not src.fresh("json", *map(str, rows)):
        return objects(src)
    return _turn(src.say(_PEOPLE, k=key, l=listed(f"{row['name']} {row[key]}" for row in rows)), rows, f"{cap(world.NUMBER_WORDS[len(rows)])} objects with name and {key}.")


_NESTED = pool(["[Give me|Write|Make|Create] JSON with {o} {v} and [an object|a nested object|inside it an object] {k} with {f}[.|]", "JSON: {o} {v}, and {k} is an object with {f}.", "Make JSON where {o} is {v} and {k} is an object with {f}.", "I need JSON: {o} {v}, {k} an object with {f}", "As JSON: {o} {v} and the object {k} with {f}.", "A JSON object with {o} {v} and an inner object {k} with {f}."], ["Nest it: {o} {v}, then {k}, which holds {f}. In JSON."])


def nested(src):
    """An object in an object."""
    outer, inner = src.some(["id", "order", "user", "number", "code"], 1)[0], src.pick(["address", "details", "owner", "data", "info", "settings"])
    value = src.number(1, 999)
    fields = _free(src)
    if not src.fresh("json", outer, value, *map(str, fields.items())):
        return nested(src)
    return _turn(src.say(_NESTED, o=outer, v=value, k=inner, f=_told(src, fields)), {outer: value, inner: fields}, f"Two keys, {outer} and {inner}; {inner} is an object.")


def some_json(src):
    """JSON of one kind or another."""
    return src.weighted({from_words: 6, from_sentence: 3, array: 2, objects: 1.2, nested: 1})(src)
