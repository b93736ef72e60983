"""Tools that nobody has heard of: an action or a question, parameters of any name and kind, a request in many words.

Which tool is meant, what its parameters are called and what goes into them can only be read off the list and the request.
"""

import json
from dataclasses import dataclass

from .. import lexicon, phrasing, values, words
from ..source import a, cap, listed, pool
from . import records
from .tool_use import Use, schema_of

ROOMS = "kitchen bathroom bedroom garage hall office cellar attic garden library nursery basement balcony studio lobby".split()
MODES = "fast slow normal quiet eco turbo night day safe strict light dark full short long simple basic manual auto hot cold dry wet soft hard low medium high small large daily weekly monthly".split()


@dataclass(frozen=True, eq=False)
class Slot:
    """A kind of parameter."""

    keys: tuple  # its usual names
    type: str
    value: object
    said: tuple  # how it is told behind the request
    about: tuple  # descriptions


def _slot(keys, kind, value, said, about):
    return Slot(tuple(keys.split()), kind, value, tuple(said.split("|")), tuple(about.split("|")))


def _place(src):
    return src.pick(records.CITIES) if src.chance(0.3) else values.place(src)


SLOTS = (
    _slot("city location place town region area site venue destination where spot", "string", _place, " in {v}| in {v}| at {v}| near {v}| for {v}| over in {v}| close to {v}", "The city|Where|Name of the place|A place|The town|Location|The place to use|City name"),
    _slot("name person user customer owner recipient contact author member client", "string", values.person, " for {v}| for {v}| of {v}| with {v}| on behalf of {v}", "The person|Name of the person|Who|For whom|The user's name|Someone's name"),
    _slot("id code key reference serial number ticket_id ref identifier", "string", values.code, " {v}| {v}| with the code {v}| with id {v}| with the number {v}| that has the code {v}", "The code|Identifier|Its id|The reference|Which one, by code"),
    _slot("date day when on due deadline", "string", values.date, " on {v}| on {v}| for {v}| by {v}", "The date|Which day|Day|When"),
    _slot("time at start hour when start_time", "string", values.clock, " at {v}| at {v}| from {v} on| starting at {v}", "The time|At what time|Time of day|When"),
    _slot("minutes duration length min", "integer", lambda src: src.number(1, 240), " for {v} minutes| for {v} minutes| {v} minutes long| over {v} minutes", "How many minutes|Minutes|Duration in minutes|Length in minutes"),
    _slot("seconds delay timeout sec", "integer", lambda src: src.number(1, 600), " after {v} seconds| in {v} seconds| with a delay of {v} seconds", "Seconds|Delay in seconds|How many seconds to wait"),
    _slot("level volume brightness percent strength speed", "integer", lambda src: src.number(0, 100), " to {v} percent| at {v} percent| at level {v}| to level {v}", "The level|0 to 100|Percent|How much"),
    _slot("count amount quantity limit max n size total", "integer", lambda src: values.whole(src) if src.chance(0.3) else src.number(1, 99), ", {v} in all|, {v} of them|, at most {v}|, {v} pieces", "How many|The number of pieces|Amount|Count"),
    _slot("times repeat repeats rounds", "integer", lambda src: src.number(2, 20), " {v} times| {v} times in a row", "How often|How many times|Repetitions"),
    _slot("temperature degrees temp heat", "number", lambda src: src.number(-20, 250) if src.chance(0.7) else values.decimal(src), " to {v} degrees| at {v} degrees", "Temperature|In degrees|Degrees"),
    _slot("price cost budget value max_price", "number", lambda src: src.number(1, 5000) if src.chance(0.6) else abs(values.decimal(src)), " for {v} euros| for at most {v} euros| for {v} dollars", "The price|Money|In euros|How much it may cost"),
    _slot("path file filename source input output", "string", values.path, " from {v}| in {v}| to the file {v}| in the file {v}| using the file {v}", "The file|Path of the file|File name|Where the data is"),
    _slot("email mail to address reply_to", "string", values.email, " and write to {v}| and mail it to {v}| for {v}| with the address {v}", "Mail address|The email|Where to send it"),
    _slot("url link website page address", "string", values.address, " from {v}| at {v}| on {v}", "The address|Link|Web page|URL"),
    _slot("text message content body note comment description query prompt", "string", lambda src: values.text(src), ': {v}|: {v}|: "{v}"| with the text "{v}"| saying "{v}"| with the words "{v}"', "The text|What to say|Content|The words|Text"),
    _slot("title name label subject heading tag topic", "string", lambda src: values.title(src) if src.chance(0.5) else values.two_or_more(src, 1, 3), " called {v}| named {v}| \"{v}\"| with the title {v}| with the name \"{v}\"", "The title|Its name|What it is called|Label"),
    _slot("room place where area zone", "string", lambda src: src.pick(ROOMS), " in the {v}| in the {v}| of the {v}", "The room|Which room|Where"),
    _slot("colour color paint", "string", lambda src: src.pick(words.COLOURS), " in {v}| in {v}| with the colour {v}", "The colour|Which colour"),
    _slot("item product thing object what word keyword term", "string", lambda src: values.word(src), " with {v}| for {v}| using {v}| about {v}", "What|The thing|Which one|A word|Item"),
    _slot("expression formula sum term", "string", values.expression, " for {v}| with {v}| using the formula {v}", "The expression|A formula|What to work out"),
)
# How a parameter is told by its name.
NAMED = (" with {k} {v}", " with {k} {v}", " with {k} = {v}", " with {k}={v}", " with the {k} {v}", " with {k}: {v}", " ({k}: {v})", " ({k} {v})", ", {k} {v}", ", {k}: {v}", ", {k} = {v}", ", {k} is {v}", ", the {k} is {v}", " where {k} is {v}", " using {v} as {k}", " with {v} as the {k}", " with {v} as {k}", " and set {k} to {v}", ", and the {k} should be {v}", " with a {k} of {v}")
ANY_TYPES = {"string": 6, "integer": 3, "number": 1.5, "boolean": 1, "array": 1, "enum": 1.5}


@dataclass
class Told:
    """A parameter in use: its place in the schema, its value, and how it is said."""

    key: str
    property: dict
    value: object
    said: str


def _spoken(src, key):
    return key.replace("_", " ") if src.chance(0.4) else key


def _quoted(src, value):
    return f'"{value}"' if src.chance(0.15) else value


def _natural(src, slot):
    """A parameter that is told in its own way: in, at, for."""
    usual = src.chance(0.6)
    key = src.pick(slot.keys) if usual else values.field(src)
    known = {"type": slot.type}
    if not usual or src.chance(0.5):
        known["description"] = src.pick(slot.about)
    value = slot.value(src)
    shown = _quoted(src, value) if slot.type == "string" and '"' not in str(value) else value
    said = src.pick(slot.said)
    return Told(key, known, value, said.format(v=value if '"' in said else shown))


def _named(src):
    """A parameter of any name, which the request mentions."""
    key = values.field(src)
    kind = src.weighted(ANY_TYPES)
    known = {"type": "string" if kind == "enum" else kind}
    if src.chance(0.35):
        known["description"] = src.pick((cap(key.replace("_", " ")), f"The {key.replace('_', ' ')}", values.text(src), f"{cap(values.word(src))} of the {values.word(src)}", f"Sets the {key.replace('_', ' ')}"))
    if kind == "string":
        value = values.string(src)
        shown = _quoted(src, value)
    elif kind == "integer":
        value = shown = values.whole(src)
    elif kind == "number":
        value = shown = values.number(src)
    elif kind == "boolean":
        value = src.chance(0.5)
        shown = src.pick(("true", "yes", "on") if value else ("false", "no", "off"))
    elif kind == "array":
        value = [values.word(src) for _ in range(src.number(2, 4))]
        shown, known["items"] = src.pick((listed(value), ", ".join(value), json.dumps(value, ensure_ascii=False))), {"type": "string"}
    else:
        choices = src.some(MODES, src.number(2, 4)) if src.chance(0.5) else [values.word(src) for _ in range(src.number(2, 4))]
        known["enum"] = choices
        value = shown = src.pick(choices)
    return Told(key, known, value, src.pick(NAMED).format(k=_spoken(src, key), v=shown))


def _parameters(src, count):
    """Parameters and their values."""
    out, keys, kinds = [], set(), set()
    while len(out) < count:
        slot = src.pick(SLOTS)
        if src.chance(0.5):
            told = _named(src)
        elif slot in kinds or any(set(slot.said) & set(other.said) for other in kinds):
            continue
        else:
            kinds.add(slot)
            told = _natural(src, slot)
        if told.key not in keys:
            keys.add(told.key)
            out.append(told)
    # What is told as free text comes last: nothing can follow it.
    out.sort(key=lambda told: told.said.startswith(":"))
    return out


def _third(verb):
    """`opens`, `pushes`."""
    if verb.endswith(("s", "x", "ch", "sh", "z", "o")):
        return verb + "es"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"


def _doing(verb):
    """`opening`, `pushing`, `stopping`."""
    if verb.endswith("e") and not verb.endswith(("ee", "ye", "oe")):
        return verb[:-1] + "ing"
    short = sum(letter in "aeiou" for letter in verb) == 1 and len(verb) > 2
    if short and verb[-1] not in "aeiouwxy" and verb[-2] in "aeiou":
        return verb + verb[-1] + "ing"
    return verb + "ing"


def ordered(src, do):
    """A request to do something: `do` begins with its verb."""
    verb, _, rest = do.partition(" ")
    doing = f"{_doing(verb)} {rest}"
    return src.say(_ACTS, do=do, Do=cap(do), doing=doing, Doing=cap(doing))


def join(src, parts):
    """Words as a name of a tool."""
    style = src.weighted({"snake": 6, "camel": 2.5, "pascal": 0.7, "kebab": 0.7, "dot": 0.3, "plain": 0.3})
    if style == "snake":
        return "_".join(parts)
    if style == "camel":
        return parts[0] + "".join(map(cap, parts[1:]))
    if style == "pascal":
        return "".join(map(cap, parts))
    return {"kebab": "-", "dot": ".", "plain": ""}[style].join(parts)


def _tool_name(src, verb, quality, noun):
    """A name that tells what the tool does, or one that does not."""
    if src.chance(0.2):
        return join(src, [values.word(src) for _ in range(src.number(1, 3))])
    parts = [verb, noun] if src.chance(0.75) else [noun, verb]
    if quality and src.chance(0.7):
        parts.insert(parts.index(noun), quality)
    if src.chance(0.25):
        parts.insert(0 if src.chance(0.6) else len(parts), src.pick((values.word(src), "my", "do", "api", "v2", "tool", "the", "new")))
    return join(src, parts)


_ACTS = pool((
    "[Please |]{do}[.|]", "[Please |]{do}[.|]", "{Do}[, please|][.|!|]", "[Can|Could|Will|Would] you {do}[?| for me?|, please?]", "[Can|Could] you please {do}?", "I [want|need|would like|expect] you to {do}[.|]", "I'd like you to {do}.", "I [want|need|have|would like|wish] to {do}[.|]", "I'd like to {do}.", "You should {do}.", "You must {do}.",
    "Let us {do}.", "Let's {do}[.|!]", "We [have|need|want|ought] to {do}.", "[Now|Next|Then|First|So|Ok, now|And now|After that|Finally] {do}[.|]", "My [boss|mother|friend|teacher|neighbour|sister] [wants|told|asked] me to {do}.", "My [boss|mother|friend|neighbour] wants you to {do}.", "Help me [to |]{do}.", "[Do|Would] you mind {doing}?", "How about {doing}?", "What about {doing}?", "I am thinking of {doing}.",
    "Your [task|job|turn|order|next task]: {do}[.|]", "Task: {do}", "To do: {do}", "[Can|May|Could] I ask you to {do}?", "Be so kind [and|as to] {do}.", "[Start|Begin] {doing}.", "[Remember|Don't forget|Do not forget] to {do}.", "It would be [good|nice|great|helpful] to {do}.", "It would be [great|nice|kind] if you could {do}.", "Is it possible to {do}?", "Are you able to {do}?", "I was told to {do}.", "Someone has to {do}.", "Someone must {do}.",
    "{Do} right away.", "{Do} now[.|!]", "{Do} as soon as you can.", "Quickly {do}.", "Why don't you {do}?", "Make sure to {do}.", "The plan is to {do}.", "What I want is to {do}.", "I cannot {do} myself.", "Kindly {do}.", "Hey, {do}!", "[Hi|Hello], can you {do}?", "Your job is to {do}.", "All I need is to {do}.", "Today we {do}.", "I need help {doing}.", "I need help to {do}.", "You have to {do}.", "Do me a favour: {do}.", "One more thing: {do}.",
    "I am not able to {do}, can you?", "[I trust|I count on|I depend on|I leave it to|I beg|I order|I command|I invite|I urge|I hire|I pay|I wait for|I hope for|I call on|I turn to] you to {do}.", "It is [your|my|our|his|her] [turn|job|task|duty|plan|wish|choice|call|time] to {do}.", "It is [good|better|right|best|late|early|high time|important|urgent|necessary|easy|no problem|fine|up to us|about time] to {do}.", "Would it be [possible|ok|okay|fine|good|hard|easy|too much] to {do}?", "[Is|Was] it [ok|okay|fine|possible|time|hard|easy|wise] to {do}?", "[Go|Come|Come on|Run|Hurry|Move|Get up|Step in|Stay] and {do}[.|!]", "There is [something|a thing|work|one job|a task|one more job] [to do|for you|left over|ahead][:|,] {do}[.|]",
    "[Somebody|Someone|Anybody|One of us|You or I|The machine|A tool] [should|could|might|has to|ought to|needs to] {do}.", "[Before|After|During|Until|Since] [dinner|lunch|work|school|the meeting|the trip|that], {do}[.|]", "[In|On|At] [the morning|my way|the evening|the end|this point|the moment|our street], {do}[.|]", "[He|She|They|The boss|The customer|A friend|The plan|The rule|My list|The note] [says|said|asks|demands]: {do}[.|]", "[Good|Great|Fine|Right|Well|Sure|Thanks|Alright|Perfect|Oh|Ah|Wait|Look|Listen], {do}[.|]", "[I am here|We are here|I came|I wrote|I called|I pay you] to {do}.", "[Never mind the rest|Forget that|First things first|No rush|Last thing|Small thing|New job|Quick one|Easy one][:|,] {do}[.|]", "[Feel free|Get ready|Take a moment|Find a way|Find time|Do your best|Prepare|Agree|Offer|Promise|Manage|Hurry] to {do}.", "[What if|Suppose|Imagine|Say] you {do}?", "[I will|I shall|We shall|We will|I would] [be glad|be happy|be pleased|feel better|sleep better] if you {do}.", "[Glad|Happy|Pleased] if you {do}.", "[Nothing is|Nothing will be] done until you {do}.", "I forgot to {do}.", "They want me to {do}.", "Could somebody {do}?", "I ask you to {do}.", "Please try to {do}.", "Just {do}.", "Would you be able to {do}?", "Do you know how to {do}? Then do it.", "Here is what I want: {do}.", "I think we should {do}.", "Maybe you can {do}.", "I hope you can {do}.", "{Do} for me.", "{Do} for me, will you?", "{Doing} would be nice.", "I want {doing} done.",
), (
    "I rely on you to {do}.", "It is up to you to {do}.", "Would it be all right to {do}?", "Go on and {do}.", "There is one thing left: {do}."))
_CALLS = pool((
    "[Use|Call|Run|Try|Start|Execute|Apply] {n}{l}[.|]", "[Use|Call|Run|Try] the tool {n}{l}[.|]", "[Please |]call {n}{l}[.|]", "[Can|Could] you [call|use|run] {n}{l}?", "I want you to [call|use|run] {n}{l}.", "{n}{l}", "Make a call to {n}{l}.", "Use the function {n}{l}.", "[Launch|Invoke|Trigger|Kick off|Activate|Open|Fetch|Take|Employ|Perform|Send|Push|Get|Go for|Engage] {n}{l}[.|]", "[Let|Make|See|Get|Help] {n} [work|go|start|do it|act]{l}[.|]", "{n} [please|now|next|again|once]{l}[.|]", "It is time for {n}{l}.", "The tool {n}{l}.", "I [wish|need|want] {n}{l}.", "[Now|Next|Then|First] {n}{l}.", "Call the function {n}{l}.", "[Do|Make] {n}{l}.", "[With|Using] the tool {n}, {do}.", "{Do} with {n}.", "Use {n} to {do}.", "Use the {n} tool to {do}.", "Call {n} and {do}.", "We need {n}{l}.", "Let us call {n}{l}.",
), (
    "Fire up {n}{l}.", "Have {n} run{l}."))


@dataclass(frozen=True)
class Deed:
    """What a tool does: to a thing (`open the red window`), or finding something out (`the width of the window`)."""

    verb: str
    quality: str
    noun: str
    asks: bool  # whether it finds something out

    @property
    def thing(self):
        return f"{self.quality} {self.noun}".strip()

    @property
    def kind(self):
        return f"{self.verb} {self.thing}"


_FINDERS = "get fetch find show read look_up check query retrieve lookup ask give return load request see tell".split()


def deed(src):
    """Something that a tool may do."""
    quality = src.pick(lexicon.QUALITIES) if src.chance(0.25) else ""
    noun = src.pick(lexicon.TOOL_NOUNS) if src.chance(0.9) else words.made_up(src)
    if src.chance(0.3):
        return Deed(src.pick(_FINDERS), quality, noun, True)
    return Deed(src.pick(lexicon.TOOL_VERBS) if src.chance(0.95) else words.made_up(src), quality, noun, False)


def near(src, other):
    """A deed that is easily taken for another one."""
    if other.asks:
        return Deed(other.verb, other.quality, src.pick(lexicon.TOOL_NOUNS), True)
    if src.chance(0.5):
        return Deed(src.pick(lexicon.TOOL_VERBS), other.quality, other.noun, False)
    return Deed(other.verb, other.quality if src.chance(0.5) else "", src.pick(lexicon.TOOL_NOUNS), False)


def _description(src, done):
    verb, thing = done.verb.replace("_", " "), done.thing
    if done.asks:
        return src.say(src.pick(("[Get|Find|Show|Returns|Looks up|Gives|Fetch|Read|Tells] the {t}", "[Get|Find|Show|Returns|Looks up|Gives] the {t} of something", "The {t}", "{T}", "Tells you the {t}", "Answers questions about the {t}", "What the {t} is", "Returns the current {t}.", "{T} lookup", "Information about {at}")), t=thing, T=cap(thing), at=a(thing))
    return src.say(src.pick(("{V} {at}", "{V} the {t}", "{Vs} {at}", "{Vs} the {t}.", "{Vs} {at}.", "Use this to {v} {at}", "Use this tool to {v} the {t}.", "Can {v} {at}", "Lets you {v} {at}", "Tool to {v} {at}", "To {v} the {t}", "A tool that {vs} {at}", "Call this when the user wants to {v} {at}", "{Ving} {at}", "This function {vs} the {t}.")),
                   v=verb, V=cap(verb), vs=_third(verb), Vs=cap(_third(verb)), Ving=cap(_doing(verb)), t=thing, at=a(thing))


def _schema(src, done, told):
    """The tool's entry in the list, with parameters that nobody mentions at times."""
    listed_, required = [(each.key, each.property) for each in told], [each.key for each in told]
    if src.chance(0.2):
        key = values.field(src)
        if key not in required:
            more = {"type": src.pick(("string", "integer", "boolean"))}
            if src.chance(0.5):
                more["description"] = f"Optional {values.word(src)}"
            listed_.append((key, more))
    if src.chance(0.3):
        src.random.shuffle(listed_)
    elif src.chance(0.2):
        required = required[:1]
    description = _description(src, done)
    name = _tool_name(src, done.verb, done.quality, done.noun)
    return schema_of(src, name, description, dict(listed_), required)


def _arguments_told(src, told):
    """The arguments one after the other, by their names."""
    if not told:
        return src.pick(("", "", "", " without arguments"))
    style = src.number(0, 4)
    if style == 4:
        return " with " + json.dumps({each.key: each.value for each in told}, ensure_ascii=False)
    parts = [[f"{each.key} {_plain(each.value)}", f"{each.key}={_plain(each.value)}", f"{each.key}: {_plain(each.value)}", f"{each.key} = {_plain(each.value)}"][style] for each in told]
    return src.pick((" with ", " with ", ": ", " for ", ", ")) + (listed(parts) if style == 0 else ", ".join(parts))


def _plain(value):
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def use(src):
    """A use of a tool that was never heard of."""
    while True:
        made = _use(src, deed(src))
        if src.fresh("any", made.ask, *map(str, made.calls)):
            return made


def other(src, used):
    """A tool beside one that is used: at times one that looks like it."""
    done = near(src, used.deed) if isinstance(used.deed, Deed) and src.chance(0.45) else deed(src)
    return _use(src, done)


def _use(src, done):
    count = src.weighted({0: 0.18, 1: 0.42, 2: 0.25, 3: 0.12, 4: 0.03})
    told = _parameters(src, count)
    schema = _schema(src, done, told)
    name = schema["function"]["name"]
    tail = "".join(each.said for each in told)
    verb, article = done.verb.replace("_", " "), src.pick(("the", "the", "the", "my", "our", "this"))
    if done.asks:
        noun = f"{article} {done.thing}{tail}"
        if src.chance(0.15):
            ask = _called(src, name, told, f"get {noun}", f"getting {noun}")
        elif src.chance(0.25):
            finding = src.pick(("get", "find", "show me", "tell me", "look up", "check", "give me", "fetch"))
            ask = ordered(src, f"{finding} {noun}")
        else:
            ask = phrasing.know(src, noun)
        return _found(src, done, schema, ask, name, told)
    do = src.pick((f"{verb} {article} {done.thing}{tail}",) * 4 + (f"{verb} {a(done.thing)}{tail}",))
    ask = _called(src, name, told, do, do.replace(verb, _doing(verb), 1)) if src.chance(0.15) else ordered(src, do)
    return _did(src, done, schema, cap(ask) if src.chance(0.8) else ask, name, told)


def _called(src, name, told, do, doing):
    return src.say(_CALLS, n=name, l=_arguments_told(src, told), do=do, Do=cap(do))


def _arguments(schema, told):
    """The arguments in the order of the list."""
    found = {each.key: each.value for each in told}
    return {key: found[key] for key in schema["function"]["parameters"]["properties"] if key in found}


_OK = ('{"status": "ok"}', '{"success": true}', "ok", "done", '{"result": "done"}', "OK", '{"ok": true}', "true", '{"status": "success"}', "finished", '{"done": true}')


def _did(src, done, schema, ask, name, told):
    if src.chance(0.06):
        return _failed(src, done, schema, ask, name, told)
    result = src.pick(_OK) if src.chance(0.7) else json.dumps({src.pick(("status", "state", "result")): src.pick(("ok", "done", "success")), values.field(src): values.word(src)}, ensure_ascii=False)
    answer = f"Done: {done.verb} the {done.thing}."
    return Use(schema, ask, [(name, _arguments(schema, told))], [result], answer, ("done", done.noun), done.kind, done)


def _failed(src, done, schema, ask, name, told):
    reason = src.pick(("not found", "no access", "timeout", "busy", "out of order", "no connection", "not allowed", "unknown error", "too many requests")) if src.chance(0.6) else values.two_or_more(src, 1, 3)
    result = src.pick((json.dumps({"error": reason}), f"error: {reason}", f"Error: {reason}", json.dumps({"status": "error", "message": reason})))
    return Use(schema, ask, [(name, _arguments(schema, told))], [result], f"That did not work: {reason}.", (reason,), done.kind, done)


def _found(src, done, schema, ask, name, told):
    if src.chance(0.06):
        return _failed(src, done, schema, ask, name, told)
    value = src.pick((values.whole, values.number, values.word, values.two_or_more, values.title, values.place, values.person, values.clock, values.date, values.code))(src)
    value = value if not isinstance(value, str) else value.strip(".")
    key = src.pick((done.noun, "result", "value", "answer", values.field(src)))
    found = {key: value}
    if src.chance(0.25):
        found |= {src.pick(("status", "ok", "source", "unit", "id")): src.pick(("ok", True, values.word(src), src.number(1, 99)))} if key != "status" else {}
    result = src.pick((_plain(value), json.dumps(found, ensure_ascii=False), json.dumps(found, ensure_ascii=False)))
    if len(found) > 1 and list(found.values())[0] is not value:
        result = _plain(value)
    return Use(schema, ask, [(name, _arguments(schema, told))], [result], f"The {done.thing} is {_plain(value)}.", (_plain(value), done.noun), done.kind, done)
