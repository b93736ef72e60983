"""JSON of any shape: any names, any values, lists and objects within, rows of a table, and small changes to an object."""

import json

from .. import phrasing, values
from ..source import cap, listed, pool
from ..turn import Turn

_TRUE, _FALSE, _NULL = ("true", "true", "yes"), ("false", "false", "no"), ("null",)


def value(src, deep=0):
    """A value for a field: mostly text and numbers."""
    kind = src.weighted({"string": 7, "whole": 3.5, "decimal": 1, "flag": 1, "null": 0.4, "list": 0.8 if not deep else 0, "object": 0})
    if kind == "string":
        return values.string(src)
    if kind == "whole":
        return values.whole(src)
    if kind == "decimal":
        return values.decimal(src)
    if kind == "flag":
        return src.chance(0.5)
    if kind == "null":
        return None
    return items(src)


def items(src, low=2, high=6):
    """Some values of one kind."""
    make = src.pick((values.word, values.word, values.word, values.string, values.place, values.person, values.whole, values.number, values.code))
    made = [make(src) for _ in range(src.number(low, high))]
    return [item.replace(",", "").replace(" and ", " ") if isinstance(item, str) else item for item in made]


def fields(src, low=1, high=5, deep=0):
    """An object."""
    keys = dict.fromkeys(values.field(src) for _ in range(src.number(low, high)))
    return {key: value(src, deep) for key in keys}


def said(src, item):
    """A value in words."""
    if item is True:
        return src.pick(_TRUE)
    if item is False:
        return src.pick(_FALSE)
    if item is None:
        return src.pick(_NULL)
    if isinstance(item, list):
        shown = [str(each) for each in item]
        return src.pick((listed(shown), f"the list {listed(shown)}", f"a list of {listed(shown)}", json.dumps(item, ensure_ascii=False), f"[{', '.join(shown)}]", f"the list of {', '.join(shown)}"))
    if isinstance(item, str) and '"' not in item and (src.chance(0.15) or "," in item or " and " in item):
        return f'"{item}"'
    return str(item)


_STYLES = ("{k} {v}", "{k} {v}", "{k} is {v}", "{k}: {v}", "{k} = {v}", "{k}={v}", "the {k} is {v}", "the {k} {v}", "a {k} of {v}", "{v} as {k}", "{k} set to {v}", "{k} equal to {v}", "{k} -> {v}", "{k} with the value {v}", "{v} for {k}", "{k} being {v}", "key {k} and value {v}", "{k} should be {v}")


def told(src, held):
    """An object in words: in one way all through, or in several."""
    style = src.pick(_STYLES)
    mixed = src.chance(0.15)
    parts = []
    for key, item in held.items():
        form = src.pick(_STYLES) if mixed else style
        # A flag in words behind its name would be read as text.
        shown = json.dumps(item) if (item is None or isinstance(item, bool)) and form.startswith("{v}") else said(src, item)
        parts.append(form.format(k=key, v=shown))
    if any("," in part or " and " in part for part in parts) and len(parts) > 1:
        return src.pick(("; ", "\n", ", ")).join(parts)
    return listed(parts) if src.chance(0.6) else src.pick((", ", ", ", "; ", "\n", " and ", " | ")).join(parts)


_ASK = pool((
    "[Give me|Write|Make|Create|Produce|I need|Return|Please make|Generate|Output|Print|Build|Show me] [a JSON object|JSON|a json|a JSON|a JSON document|valid JSON|json] with {f}[.|]", "JSON with {f}[, please.|.|]", "JSON: {f}", "json: {f}", "{f}\nJSON, please.", "{f}\nWrite it as JSON.", "[Write|Put|Turn|Convert|Change|Transform] [this|the following|these fields|the data|it] [as|into|to] JSON: {f}", "Make a JSON object: {f}", "Make JSON of this: {f}", "Here are the fields: {f}. Make JSON of them.",
    "[Can you|Could you|Would you] [give me|make|write|create|return] [a JSON object|JSON|a JSON] with {f}?", "As JSON[, please|]: {f}", "In JSON[, please|]: {f}", "{F} [as JSON|in JSON|as a JSON object][, please.|.|]", "Format as JSON: {f}", "Convert to JSON: {f}", "Encode as JSON: {f}", "I want a JSON object where {f}.", "I want [JSON|a JSON object] with {f}.", "I need the JSON for {f}.", "What is the JSON for {f}?", "What does {f} look like in JSON?",
    "Write {f} as JSON.", "Put {f} into a JSON object.", "Turn {f} into JSON.", "Represent {f} in JSON.", "Answer with JSON only: {f}", "Only JSON: {f}", "JSON only. {F}", "The data is {f}. Return JSON.", "{F}. Give me that as JSON.", "{F}. Now as JSON.", "An object in JSON with {f}.", "My program needs JSON with {f}.", "[Save|Keep|Record|Note|Pack|Enter|Define|Describe|Show|Arrange|Wrap|Place|Hold|Give|Bring|Set|Have] {f} [in|into|as|inside] [JSON|a JSON object|a JSON document][.|]", "[Save|Keep|Record|Pack|Describe|Show|Arrange|Gather|Combine|Assemble|Compile] [in|into|as] JSON: {f}", "[I want|I need|I would like|We need|They want] to [save|keep|record|have|send|see] {f} [in|as] JSON.", "[May|Can|Could] I [have|see|get] {f} [in|as] JSON?", "{F}: [JSON|as JSON|in JSON][, please|][.|]", "The API wants JSON with {f}.", "Reply in JSON: {f}", "Respond with a JSON object: {f}", "Fill a JSON object with {f}.",
), (
    "Express this in JSON: {f}", "Please have the JSON ready, with {f}.", "I would be happy about JSON with {f}.", "Store {f} in a JSON object."))


def turn(ask, made, think):
    """A question for JSON and the answer, which is looked at once more."""
    text = json.dumps(made, ensure_ascii=False)
    assert json.loads(text) == made
    return Turn(ask, text, None, think, ("json", text), rough=False, skill="JSON")


def _keys(held):
    return f"The keys are {listed(held)}." if len(held) > 1 else f"The key is {next(iter(held))}."


def flat(src):
    """An object told in words."""
    held = fields(src)
    shown = told(src, held)
    if src.chance(0.25) and "\n" not in shown:
        ask = phrasing.want(src, src.say("[a JSON object|JSON|a JSON|a json object] with {f}", f=shown))
    else:
        ask = src.say(_ASK, f=shown, F=shown)
    return turn(ask + (src.pick((" Only the JSON.", " Nothing else.", " JSON only, please.", " No text around it.", " No explanation.")) if src.chance(0.08) else ""), held, _keys(held))


_SHAPE = pool((
    "[Give me|Write|Make|Create|Return] JSON with {f}, and {k} is an object with {g}[.|]", "JSON: {f}; {k} is an object with {g}", "Make JSON with {f} and an object {k} with {g}.", "JSON with {f} and inside it {k} with {g}.", "I need JSON with {f} and a nested object {k} that has {g}.", "As JSON: {f}, and the object {k} holds {g}.", "A JSON object with {f} and an inner object {k}: {g}", "Nested JSON: {f}; {k}: {g}", "[Write|Make|Create|Compose|Form|Prepare] [nested JSON|JSON|an object] [that has|with|having] {f}; within it [the object |]{k} with {g}.", "{f}, and within {k}: {g}. JSON.", "JSON: {f}. The object {k} inside has {g}.", "JSON where {k} is an object with {g}, and beside it {f}.",
), (
    "Build JSON in which {k} is an object of its own with {g}; outside it are {f}.",))


def nested(src):
    """An object within an object."""
    outer, key, inner = fields(src, 1, 3, 1), values.field(src), fields(src, 1, 4, 1)
    outer.pop(key, None)
    if not outer:
        return flat(src)
    around, within = told(src, outer), told(src, inner)
    ask = src.say(_SHAPE, f=around, k=key, g=within)
    made = outer | {key: inner} if ask.find(around) < ask.find(within) else {key: inner} | outer
    return turn(ask, made, f"{key} is an object within the object.")


_ARRAYS = pool((
    "[Give me|Write|Make|Create|I need|Return|Generate] [a JSON array|a JSON list|an array in JSON] [with|of|containing] {l}[.|]", "[As a|Make a] JSON [list|array]: {l}", "{l} as a JSON [list|array][.|, please.]", "JSON [list|array] [of|with] {l}[.|]", "[Put|Turn|Convert|Write|Pack|Gather|Bring|Change|Arrange|Save|Keep|Place|Join|Wrap|Hold|Enter] {l} [into|as|to|in] a JSON [list|array].", "[Put|Pack|Gather|Bring|Save|Keep|Place|Join|Note] {l} [into|in] an array, JSON[.|, please.]", "JSON array: {l}", "List these in JSON: {l}", "A JSON array, please: {l}", "Array with {l}, in JSON", "Make {l} a JSON array.", "I want {l} as an array in JSON.", "Return a JSON array of these: {l}",
), (
    "Collect {l} in a JSON array.", "These go into a JSON list: {l}"))


def array(src):
    """A list of values."""
    held = items(src, 1, 8)
    shown = [str(each) for each in held]
    shown = src.pick((listed(shown), ", ".join(shown), ", ".join(shown), "\n".join(shown), " ".join(shown) if all(" " not in each for each in shown) else ", ".join(shown)))
    return turn(src.say(_ARRAYS, l=shown), held, f"A list of {len(held)}.")


_UNDER = pool((
    "[Give me|Write|Make|Create|I need|Return] [a JSON object|JSON] with [the key|a key|key] {k} [and the list|holding the list|with the list|and the array] {l}[.|]", "JSON with {k} as a list of {l}.", "A JSON object in which {k} is the list {l}.", "[Inside|Below|For|In|With|At|Behind] [the key|the field|the name|the entry|key] {k} [I want|I need|put|there is|comes|goes|write|save|keep] [the list|an array of|a list of|the array] {l}[. JSON.|, in JSON.|, JSON please.]", "{k} [holds|gets|has|contains|lists|is made of] {l}, [write the JSON|JSON please|in JSON|as JSON].", "JSON, key {k}, list {l}", "I need JSON: {k} is a list with {l}.", "Put {l} as a list under {k}, in JSON.", "As JSON: {k} is an array of {l}.", "JSON: {k} = [{l}]", "JSON object: {k} with the items {l}.",
), (
    "Under the key {k} I want the list {l}, as JSON.",))


def under(src):
    """A list under a key."""
    key, held = values.field(src), items(src, 1, 6)
    shown = [str(each) for each in held]
    return turn(src.say(_UNDER, k=key, l=listed(shown) if src.chance(0.5) else ", ".join(shown)), {key: held}, f"One key, {key}, and a list of {len(held)}.")


_ROWS = pool((
    "[Give me|Write|Make|Create|Return] a JSON [list|array] of objects with {k}: {l}[.|]", "JSON array of objects with {k}: {l}", "[Put|Turn|Convert] these into JSON objects with {k}: {l}", "A JSON array, each object with {k}: {l}", "Make JSON objects with {k} out of this: {l}", "List of JSON objects, keys {k}: {l}", "For each of these an object with {k}, in a JSON array: {l}", "JSON, one object a row, keys {k}: {l}",
), (
    "An array in JSON please, the objects have {k}: {l}",))
_TABLE = pool((
    "[Convert|Turn|Change] this CSV [into|to] JSON:\n{t}", "CSV to JSON:\n{t}", "Make JSON of this table:\n{t}", "{t}\n\n[As JSON, please.|Convert this to JSON.|JSON?|Give me a JSON array of objects.]", "Here is a table:\n{t}\nI need it as JSON.", "JSON for these rows:\n{t}", "[Write|Give me] this table as a JSON array:\n{t}",
), (
    "A table in CSV, which I need in JSON:\n{t}",))
_CELLS = (values.word, values.word, values.whole, values.whole, values.decimal, values.person, values.place, values.code, values.clock, values.title)


def rows(src):
    """A list of objects of one shape."""
    keys = list(dict.fromkeys(values.field(src) for _ in range(src.number(2, 4))))
    makers = [src.pick(_CELLS) for _ in keys]
    table = [[make(src) for make in makers] for _ in range(src.number(2, 4))]
    if any("," in str(cell) for row in table for cell in row):
        return flat(src)
    made = [dict(zip(keys, row)) for row in table]
    if src.chance(0.5):
        mark = src.pick((",", ",", ", ", ";", " | "))
        text = "\n".join([mark.join(keys), *(mark.join(map(str, row)) for row in table)])
        return turn(src.say(_TABLE, t=text), made, f"{len(made)} rows, the keys are {listed(keys)}.")
    shown = ["{}".format(" ".join(map(str, row))) for row in table] if all(" " not in str(cell) for row in table for cell in row) and src.chance(0.6) else [", ".join(map(str, row)) for row in table]
    shown = "; ".join(shown) if any("," in row for row in shown) else listed(shown)
    return turn(src.say(_ROWS, k=listed(keys), l=shown), made, f"{len(made)} objects with {listed(keys)}.")


_CHANGE = {
    "add": pool(("[Insert|Append|Write|Include|Attach|Place|Enter|Join] {k} {v} [to|into|in] {j}", "{k} {v} should [also |]be in {j}", "{j} needs {k} {v}.", "{j} with {k} {v} as well.", "With {k} {v} in addition: {j}", "Add {k} {v} to {j}", "Add the key {k} with the value {v} to this JSON: {j}", "{j}\nAdd {k}: {v}.", "Put {k} = {v} into {j}", "Extend {j} by {k} {v}.", "[Here is|This is] JSON: {j} Now add {k} {v}."), ("In {j} the key {k} is missing, its value is {v}.",)),
    "set": pool(("[Make|Turn|Have|Alter|Correct|Fix|Put|Edit] {k} [to be |to |into |be |]{v} in {j}", "{k} should be {v} in {j}", "{k} is now {v}: {j}", "{j}, but {k} is {v}.", "{j} with {k} {v} instead.", "From now on {k} is {v} in {j}", "Set {k} to {v} in {j}", "Change {k} to {v} in this JSON: {j}", "{j}\nChange {k} to {v}.", "In {j} set {k} to {v}.", "Replace the value of {k} by {v}: {j}", "Update {k} to {v}: {j}"), ("Let {k} become {v} in {j}",)),
    "remove": pool(("[Erase|Cut|Strike|Omit|Kill|Lose|Skip|Clear|Discard|Hide] {k} [in|from|of|out of] {j}", "{k} [must go|should go|is not needed|is not wanted|has to leave|can go] in {j}", "I [have no need for|do not need|no longer need|dislike|hate] {k} in {j}", "No {k} in {j}", "{j} but no {k}.", "Remove {k} from {j}", "Delete the key {k} from this JSON: {j}", "{j}\nRemove {k}.", "Drop {k} from {j}", "{j} without {k}, please.", "Take {k} out of {j}"), ("I do not want {k} in {j}",)),
    "keep": pool(("[Hold|Leave|Save|Retain|Show|Select|Filter|Pick] {k} [alone |only |]in {j}", "I [only want|want only|need nothing but|only need] {k} [of|from] {j}", "Nothing but {k} of {j}", "Lose all but {k}: {j}", "All but {k} must go: {j}", "Only {k} of {j}", "Keep only the key {k} of this JSON: {j}", "{j}\nKeep {k} alone.", "From {j} I need JSON with {k} only.", "Reduce {j} to the key {k}."), ("Throw away all but {k} in {j}",)),
    "rename": pool(("[Call|Name|Label|Retitle] {k} {n} in {j}", "{k} becomes {n}: {j}", "{k} should be named {n} in {j}", "Use the name {n} for {k} in {j}", "The key {k} gets the name {n} in {j}", "{j} with {n} in place of {k}.", "Change the key {k} to {n}: {j}", "Rename {k} to {n} in {j}", "Rename the key {k} to {n}: {j}", "{j}\nCall the key {k} {n} instead.", "In {j} the key {k} should be called {n}."), ("Give {k} the new name {n} in {j}",)),
}


def change(src):
    """An object, and another one that differs a little."""
    held = fields(src, 2, 5)
    key = src.pick(list(held))
    kind = src.pick(list(_CHANGE))
    new, name = value(src, 1), values.field(src)
    if name in held or len(held) < 2:
        return flat(src)
    made = {"add": held | {name: new}, "set": held | {key: new}, "remove": {k: v for k, v in held.items() if k != key}, "keep": {key: held[key]}, "rename": {name if k == key else k: v for k, v in held.items()}}[kind]
    ask = src.say(_CHANGE[kind], k=name if kind == "add" else key, v=json.dumps(new) if new is None or isinstance(new, bool) else said(src, new), n=name, j=json.dumps(held, ensure_ascii=False))
    return turn(ask, made, f"The object with {listed(made)}.")


_READ = pool((
    "What is {k} in {j}?", "{j}\nWhat is {k}?", "What is the value of {k} in this JSON: {j}", "{j} What is the value of {k}?", "Read {k} from {j}", "[Within|In|Inside|Of|From|Out of] {j} [what is|which is|tell me|show me|give me|find|read|say] {k}[.|?|]", "[For|At|By|With|Behind|Beside|After] {k}, [what|which value|what value] [is there|do you see|is given|do I find|comes|is written] in {j}[?|]", "[Show|Find|Say|Give me|Print|Name|Look up] {k} [in|of|from] {j}", "Tell me {k} of {j}", "Which value has {k} in {j}?", "Look at {j} and tell me {k}.", "Get {k} out of {j}",
), (
    "Under {k}, what stands in {j}?",))


def read(src):
    """The value of one field."""
    held = fields(src, 2, 6, 1)
    key = src.pick(list(held))
    shown = held[key] if isinstance(held[key], str) else json.dumps(held[key])
    return Turn(src.say(_READ, k=key, j=json.dumps(held, ensure_ascii=False)), f"{key} is {shown}.", shown, f"I look for {key}: {shown}.", (f"{key} is {shown}",), rough=False, skill="reading JSON")


_EMPTY = (("[an empty JSON object|an empty object in JSON|JSON with nothing in it|an empty JSON]", {}), ("[an empty JSON array|an empty JSON list|an empty array in JSON]", []))


def empty(src):
    """Nothing, in JSON."""
    thing, made = src.pick(_EMPTY)
    return turn(phrasing.want(src, src.say(thing)), made, "There is nothing in it.")


def any_json(src):
    """JSON of any kind, on this side of the line."""
    while True:
        made = src.weighted({flat: 9, nested: 2, array: 2.5, under: 1.5, rows: 2, change: 1.5, read: 1.2, empty: 0.1})(src)
        if len(made.ask) < 700 and src.fresh("any json", made.ask):
            return made
