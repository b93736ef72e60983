"""Tool calls: a list of tools, a request, the call, the tool's answer, and the sentence made of it.

Names, parameters and descriptions of tools vary, so that a call can only be right when it was read off the list.
"""

import json
from dataclasses import dataclass

from .. import phrasing, values, words, world
from ..source import a, cap, divided, pool
from . import any_tools, arithmetic, tool_deeds
from .records import CITIES
from .tool_use import Use, schema_of

PLACES = CITIES


def _schema(src, name, description, parameters, required=None):
    properties = {key: ({"type": kind, "description": text} if text else {"type": kind}) for key, kind, text in parameters}
    required = required or list(properties)
    if src.wider(0.3):
        return schema_of(src, name, description, properties, required)
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {"type": "object", "properties": properties, "required": required}}}


_PREFIX = divided("acme home my city local nova east blue fast smart simple core demo test lab data sky sun star river open easy prime super hyper neo alpha beta delta omega".split())


def _name(src, names):
    """A tool's name: one of the kind's own, at times with something before or behind it."""
    name = src.pick(names)
    if src.wider(0.25):
        parts = name.split("_") if src.chance(0.7) else [values.word(src) for _ in range(src.number(1, 3))]
        return any_tools.join(src, parts if src.chance(0.5) else [*parts, values.word(src)] if src.chance(0.5) else [values.word(src), *parts])
    if src.chance(0.3):
        odd = words.made_up(src)
        return src.pick((odd, f"{odd}_{name}", f"{name}_{odd}", f"{src.pick(words.WORDS)}_{odd}", f"{src.pick(words.WORDS)}{cap(odd)}", f"{src.pick(words.WORDS)}_{src.pick(words.WORDS)}"))
    if src.chance(0.3):
        name = f"{src.pick(_PREFIX)}_{name}" if src.chance(0.7) else f"{name}_{src.pick(['v2', 'tool', 'api', 'now', 'x', '2', 'service'])}"
    return name


def _key(src, keys):
    """A parameter's name: one of the usual ones, or an odd one."""
    if src.chance(0.65):
        return src.pick(keys)
    if src.wider(0.5):
        return values.field(src)
    odd = words.made_up(src) if src.chance(0.6) else src.pick(words.WORDS)
    return src.pick((odd, f"{odd}_{src.pick(keys)}", f"{src.pick(keys)}_{odd}", f"{src.pick(keys)}{src.number(1, 9)}"))


def _optional(src, text):
    return text if src.chance(0.6) else ""


_WEATHER_NAMES = pool("get_weather weather current_weather get_current_weather lookup_weather weather_report fetch_weather getWeather forecast get_forecast weather_lookup weatherInfo city_weather show_weather ask_weather".split(),
                      "check_weather weatherNow read_weather fetch_forecast weather_of".split())
_PLACE_KEYS = pool("city location place town city_name where".split(), "spot destination locality".split())
_WEATHER_ASK = pool(["[What is|What's|How is|Tell me|Give me|Check|Can you check|Can you tell me] the weather [in|for] {c}[?|]", "[What is|How is] the weather like in {c}?", "How is the weather in {c} [today|now|right now|at the moment]?", "Weather in {c}[?|]",
                     "Is it [raining|sunny|cold|warm|windy] in {c}[ today|]?", "Do I need [an umbrella|a coat|a jacket] in {c}[ today|]?", "What is the temperature in {c}?", "How [warm|cold|hot] is it in {c}?", "I am going to {c}. How is the weather there?",
                     "I'm travelling to {c}, what will the weather be?", "Please look up the weather in {c}."],
                    ["My [aunt|uncle|son|daughter|sister|brother|mother|father|cousin|boss|colleague|neighbour|grandmother] [lives|works|is|stays|has a house] in {c}[.|:|,|;] [how is|what is|how about|what about] the weather [there|over there|at that place][?|]", "I [have|know|met] a [aunt|uncle|son|daughter|sister|brother|mother|father|cousin|boss|colleague|neighbour|grandmother] in {c}[.|,] [is it warm there|does it rain there|how is the weather there][?|]", "[I am|We are] [going|driving|flying|moving|walking|sailing|off|on my way|on the way] to {c}[.|,|:] [how will the weather be|what weather will we have|will it rain|is it cold there|do I need a coat|what is the weather there][?|]", "[Tomorrow|Today|Tonight|Next week|On Sunday] [I|we] [go|drive|fly|walk|move] to {c}[.|,|:] [how will the weather be|what will it be like there|is it warm there|any rain|what about rain][?|]", "I [live|work|stay|am|sit|wait|stand] in {c}[.|,] [will it rain|is it cold outside|what is the weather|how warm is it|do I need an umbrella][?|]", "If I [visit|see|go to|fly to|drive to] {c}, [what weather|which weather|how much rain|what temperature] [will I have|can I expect|is there]?", "[Find out|Look up|Check|See|Ask|Report|Say|Show] [how|whether] [warm|cold|wet|windy|it rains|it snows] [it is |]in {c}[.|]", "Please [check|find out|tell me|look up|report|give me] [the temperature|how it looks outside|the forecast] [in|for] {c}.", "Any [rain|snow|sun|wind|clouds] in {c}[ today| now|]?", "[Rain|Snow|Sun|Wind|Clouds] in {c}?", "Weather {c}", "{c} weather", "{c}: weather?", "How is {c} today, weather-wise?", "I live in {c}. What is the weather?", "My [sister|son|friend|boss] is in {c}. [How is|What is] the weather there?", "We [are|drive|fly|go] to {c} [tomorrow|today|soon]. What about the weather?", "[Will|Does] it [rain|snow] in {c}?", "Is it nice outside in {c}?", "Is there [snow|rain|sun|fog|wind] in {c}?", "[What|Which] weather do they have in {c}?", "What should I wear in {c}?", "Can I go for a walk in {c}, or is it raining?", "How many degrees are there in {c}?", "What does the sky look like in {c}?", "I wonder about the weather in {c}.", "I want to know [how the weather is|what the weather is like] in {c}.", "Show me the weather for {c}.", "[Could|Can|Would] you look up the weather in {c}[?| for me?]", "Get me the [weather|forecast|temperature] [for|of|in] {c}.", "Tell me about the weather in {c}.", "Let me know how cold it is in {c}.", "Is {c} [warm|cold|sunny|rainy] [now|today|at the moment]?", "Report the weather for {c}.", "Give me a weather report for {c}.", "I am in {c}: do I need an umbrella?", "I plan a trip to {c}. Is the weather good?", "Tell me how warm it is in {c}.", "Temperature in {c}, please.", "And the weather in {c}?", "Check [whether|if] it rains in {c}.", "Find out what the weather is doing in {c}.", "My aunt lives in {c}; what weather does she have?", "Before I leave for {c}: what about the weather?", "Any idea how warm it is over in {c}?"])
_SKY = "sunny cloudy rainy snowy windy foggy stormy clear".split()


def _place(src):
    if src.wider(0.4):
        return values.place(src)
    return cap(words.made_up(src)) if src.chance(0.35) else src.pick(PLACES)


def _asked(src, key, asks, noun, **slots):
    """A request in its own words, or put into one of the common frames."""
    return phrasing.know(src, src.say(noun, **slots)) if src.chance(0.3) else tool_deeds.asked(src, key, asks, **slots)


def weather(src):
    key, city = _key(src, _PLACE_KEYS), _place(src)
    if not src.fresh("weather", city, key):
        return weather(src)
    name = _name(src, _WEATHER_NAMES)
    parameters = [(key, "string", _optional(src, src.pick(["The city", "Name of the city", "The place to look at", "A town", "Where"])))]
    ask, arguments, required = _asked(src, "weather", _WEATHER_ASK, "[the weather|the current weather|the temperature|the forecast] [in|for] {c}", c=city), {key: city}, [key]
    unit = None
    if src.chance(0.3):
        unit_key = src.pick(["unit", "units", "scale"]) if key != "unit" else "scale"
        parameters.append((unit_key, "string", _optional(src, "celsius or fahrenheit")))
        if src.chance(0.6):
            unit = src.pick(["celsius", "fahrenheit"])
            ask = src.say("{q} [In {U}, please.|Use {u}.|In {u}.]", q=ask if ask[-1] in ".?" else ask + ".", u=unit, U=cap(unit))
            arguments[unit_key] = unit
    schema = _schema(src, name, src.pick(["Get the weather of a city", "Current weather", "The weather at a place", "Looks up the weather", "Returns the weather for a location", "Weather report", "Get the current weather in a given location"]), parameters, required)
    if len(parameters) > 1 and src.chance(0.5):
        schema["function"]["parameters"]["properties"][unit_key]["enum"] = ["celsius", "fahrenheit"]
    degrees, sky = src.number(-15, 38), src.pick(_SKY)
    result, answer, expect = _weather_result(src, city, degrees, sky, unit)
    return Use(schema, ask, [(name, arguments)], [result], answer, expect, "weather")


def _weather_result(src, city, degrees, sky, unit):
    kind = src.number(0, 3)
    u = {"celsius": " Celsius", "fahrenheit": " Fahrenheit"}.get(unit, "")
    if kind == 0:
        return f"{degrees} degrees and {sky}", f"In {city} it is {sky} with {degrees} degrees{u}.", (str(degrees), sky, city)
    if kind == 1:
        key = src.pick(["temperature", "temp", "degrees"])
        sky_key = src.pick(["condition", "sky", "weather", "description"])
        return json.dumps({key: degrees, sky_key: sky}), f"In {city} it is {sky} with {degrees} degrees{u}.", (str(degrees), sky, city)
    if kind == 2:
        return json.dumps({src.pick(["temperature", "temp", "degrees"]): degrees}), f"In {city} it is {degrees} degrees{u}.", (str(degrees), city)
    wind = src.number(0, 80)
    return json.dumps({"temperature": degrees, "sky": sky, "wind": wind}), f"In {city} it is {sky} with {degrees} degrees{u} and wind of {wind} km/h.", (str(degrees), sky, str(wind), city)


_CALC_NAMES = pool("calculator calculate calc compute evaluate math do_math evaluate_expression arithmetic solve run_calculation".split(), "work_out mathCalc eval_math calculate_value".split())
_EXPRESSION_KEYS = pool("expression expr formula input calculation".split(), "term equation".split())
_CALC_ASK = pool(["[What is|What's|How much is|Calculate|Compute|Work out] {e}[?|]", "{e}", "{e} = ?", "Can you [calculate|compute|work out] {e}[?| for me?]", "I need the result of {e}.", "Use the calculator: {e}", "Please calculate {e}."],
                 ["Please [compute|work out|evaluate|solve|do|find|check] {e}[.|]", "My [boss|son|teacher|neighbour|daughter] [asked for|wants|needs|asks for] {e}[.|]", "We were asked for {e}.", "[The teacher|Someone|My friend] asked me [for|about] {e}.", "[Quickly|Now|Next|First|Then] {e}[.|]", "I need to [calculate|compute|work out|know|have] {e}.", "How much would {e} be?", "[Could|Would] you please [compute|evaluate|solve] {e}?", "Evaluate {e}", "[Evaluate|Solve|Do] {e}[.|]", "{e}, please.", "Please: {e}", "The result of {e}?", "Tell me what {e} is.", "What does {e} give?", "What does {e} make?", "How much does {e} make?", "What do I get for {e}?", "I have to [calculate|compute|work out] {e}.", "Sum: {e}", "Calculate this: {e}", "Compute: {e}", "Work this out: {e}", "I want to know {e}.", "Can you do {e}?", "Could you do the sum {e}?", "Would you calculate {e}?", "Help me with {e}.", "{e} is how much?", "{e} equals?", "Find the value of {e}.", "Give me the answer to {e}.", "What is the value of {e}?", "Do the maths: {e}", "I need to know how much {e} is.", "Enter {e} into the calculator.", "Type {e} into the calculator.", "Let us compute {e}.", "Let the machine tell us {e}.", "Run the numbers for me: {e}", "My homework says {e}. What comes out?"])


def calculator(src):
    sign = src.pick("+-*/")
    p, q = src.number(2, 9999), src.number(2, 999)
    if sign == "/":
        p = p // 10 * q
    result = {"+": p + q, "-": p - q, "*": p * q, "/": p // q}[sign]
    expression = f"{p} {sign} {q}"
    if not src.fresh("calc", expression):
        return calculator(src)
    name, key = _name(src, _CALC_NAMES), _key(src, _EXPRESSION_KEYS)
    schema = _schema(src, name, src.pick(["Calculate an arithmetic expression", "Evaluates an expression", "A calculator", "Does arithmetic", "Compute the value of a formula"]), [(key, "string", _optional(src, "The expression"))])
    shown = src.pick([str(result), json.dumps({"result": result}), json.dumps({"value": result}), f"{expression} = {result}"])
    return Use(schema, _asked(src, "calculator", _CALC_ASK, "{e}", e=expression), [(name, {key: expression})], [shown], f"{expression} = {result}.", (f"= {result}",), "calculator")


_TIME_NAMES = pool("get_time time current_time get_current_time clock what_time time_in world_clock local_time getTime now_in".split(), "tell_time timeOf check_clock read_clock".split())
_TIME_ASK = pool(["What time is it in {c}[?| now?| right now?]", "[What is|What's|Tell me] the [time|local time|current time] in {c}[?|]", "How late is it in {c}?", "Time in {c}[?|]", "Can you tell me what time it is in {c}?", "I want to call a friend in {c}, what time is it there?"],
                 ["My [aunt|uncle|son|daughter|sister|brother|mother|father|cousin|boss|colleague|neighbour|grandmother] [lives|works|is|stays|waits] in {c}[.|:|,|;] [what time|which hour|how late] is it [there|over there|for them][?|]", "I [have|need|must|plan|hope|wish] to [ring|phone|speak to|write to|reach|meet|visit] [someone|somebody|people|a [aunt|uncle|son|daughter|sister|brother|mother|father|cousin|boss|colleague|neighbour|grandmother]|my [aunt|uncle|son|daughter|sister|brother|mother|father|cousin|boss|colleague|neighbour|grandmother]] in {c}[.|,|:] [what is the time there|how late is it there|is it late there|which hour is it there|do they sleep now][?|]", "[I am|We are] [flying|going|driving|off|on the way] to {c}[.|,|:] [what time is it there|how late is it there|what is the time over there][?|]", "A [aunt|uncle|son|daughter|sister|brother|mother|father|cousin|boss|colleague|neighbour|grandmother] of mine is in {c}[.|,] [how late is it there|what is the time there][?|]", "We have a meeting with [people|the team|our office|a customer] in {c}[.|,] [what time is it there|how late is it there|what is their time][?|]", "I [live|work|stay|am|sit] in {c}[.|,] [what time is it|how late is it|what is the time][?|]", "[Look up|Find out|Check|See|Ask|Report|Say|Show] [what time it is|how late it is|the hour] in {c}[.|]", "Before I [call|write to|wake|disturb] [them|him|her|anyone] in {c}[.|,|:] [how late is it there|what is the time there][?|]", "Time {c}", "{c} time", "{c}: what time is it?", "Do you know the time in {c}?", "I live in {c}. What time is it?", "My [sister|son|friend|boss|aunt] is in {c}. What time is it there?", "I have to phone someone in {c}. How late is it there?", "Before I ring {c}: what is the time there?", "Is it [night|day|morning|evening] in {c}?", "Is it [early|late] in {c} now?", "What hour is it in {c}?", "[Which|What] time do they have in {c}?", "Tell me how late it is in {c}.", "Tell me what time it is in {c}.", "How late is it now in {c}?", "[Could|Would] you tell me the time in {c}?", "Look at the clock in {c}.", "[What|Which] time is it at the moment in {c}?", "Let me know the time in {c}.", "I want to know what time it is in {c}.", "Show me the clock of {c}.", "Are people in {c} asleep now? What time is it?", "Give me the [time|local time] [of|for|in] {c}.", "When it is now here, what time is it in {c}?", "And the time in {c}?", "Check the time in {c}.", "Look up the time in {c}.", "Time check for {c}.", "What does the clock show in {c}?", "Is it already late in {c}? Tell me the time.", "My cousin moved to {c}. What hour is it for her?"])


def time(src):
    city, key = _place(src), _key(src, _PLACE_KEYS)
    if not src.fresh("time", city, key):
        return time(src)
    name = _name(src, _TIME_NAMES)
    schema = _schema(src, name, src.pick(["The current time in a city", "Get the time at a place", "Tells the time", "Returns the local time", "World clock"]), [(key, "string", _optional(src, src.pick(["The city", "Name of the place"])))])
    clock = f"{src.number(0, 23):02d}:{src.number(0, 59):02d}"
    result = src.pick([clock, json.dumps({"time": clock}), json.dumps({"hour": clock, "zone": "local"}), json.dumps({"local_time": clock})])
    return Use(schema, _asked(src, "time", _TIME_ASK, "the [time|local time|current time] in {c}", c=city), [(name, {key: city})], [result], f"In {city} it is {clock}.", (clock, city), "time")


@dataclass(frozen=True, eq=False)
class Kind:
    """A plain tool: its first name, all its names, what it takes, how one asks, and what it answers."""

    key: str
    names: object
    descriptions: tuple
    parameters: tuple  # (keys, JSON type, slot)
    asks: object
    results: tuple  # templates; with {j} a JSON object
    answer: str
    expect: tuple  # slots


def _kind(names, held_names, descriptions, parameters, asks, held_asks, results, answer, expect):
    return Kind(names.split()[0], pool(names.split(), held_names.split()), tuple(descriptions), tuple((tuple(keys.split()), kind, slot) for keys, kind, slot in parameters), pool(asks, held_asks), tuple(results), answer, tuple(expect))


def _word(src):
    if src.wider(0.5):
        return values.word(src)
    return words.made_up(src) if src.chance(0.3) else src.pick(words.WORDS)


def _slots(src):
    """Values that requests are made of, fresh ones of this side of the line."""
    wide = {slot: make(src) for slot, make in _WIDE.items() if src.wider(0.4)}
    return _usual(src) | wide


_WIDE = {"name": values.person, "topic": lambda src: values.two_or_more(src, 1, 4), "n": lambda src: src.number(2, 999), "code": values.code, "file": values.path, "song": values.title, "message": values.text, "hour": values.clock, "free": lambda src: values.two_or_more(src, 1, 3),
         "room": lambda src: src.pick(any_tools.ROOMS), "day": values.date, "p": lambda src: src.number(1, 99999), "m": lambda src: src.number(2, 999), "q": lambda src: src.number(1, 500)}


def _usual(src):
    return {"city": _place(src), "name": cap(words.made_up(src)) if src.chance(0.35) else src.pick(words.NAMES), "word": _word(src), "item": _word(src), "topic": src.say("{x} {y}", x=_word(src), y=_word(src)), "n": src.number(2, 99), "m": src.number(2, 60),
            "lang": src.pick(["French", "German", "Spanish", "Italian", "Dutch", "Polish", "Finnish", "Greek"]), "hour": f"{src.number(0, 23)}:{src.number(0, 59):02d}", "room": src.pick("kitchen bathroom bedroom garage hall office cellar attic garden library nursery".split()),
            "day": src.pick(world.DAYS), "code": f"{src.pick('ABCDEFGHKLMNPRSTUVWXZ')}{src.number(100, 9999)}", "file": src.say("{x}.{e}", x=_word(src), e=src.pick("txt md csv json log".split())), "song": cap(_word(src)) + " " + cap(_word(src)), "free": words.made_up(src),
            "message": src.say("[I am late|see you at {h}|call me back|the {x} is ready|bring {y}|happy birthday|good luck|dinner at {h}|I found the {x}]", h=src.number(1, 12), x=src.pick(words.WORDS), y=a(src.pick(words.WORDS))), "r": src.number(1, 999), "p": src.number(1, 400), "q": src.number(1, 20)}


KINDS = (
    _kind("search web_search search_web find lookup query_web", "look_up internet_search", ["Search the web", "Finds pages about a query", "Web search"], [("query q text terms", "string", "topic")],
          ["[Search|Search the web|Look] for {topic}[.|]", "[Find|Look up] {topic}[ on the web|][.|]", "What does the web say about {topic}?", "Can you search for {topic}?", "Google {topic}."], ["[Bing|Yahoo|Duck|Query|Explore|Scan|Research|Investigate|Hunt|Seek|Surf|Hit|Crawl|Ask the web about|Look into|Read up on|Check out|Find|Get me] {topic}[.|]", "[Bing|Duck|Research|Query|Hunt|Surf] for {topic}[.|]", "Please [research|bing|query|find|investigate|look up|explore] {topic}[.|]", "[Can|Could|Will|Would] you [research|bing|query|find|investigate|look up|explore] {topic}?", "I [want|need|have] to [research|bing|query|find|look up|explore] {topic}.", "Let us [research|bing|find|look up|explore] {topic}.", "{topic}: search the web", "Search: {topic}", "Search for {topic}, please.", "Web search: {topic}", "What can you find [on|about] {topic}?", "Find [pages|something|information|articles] [on|about] {topic}.", "Do a web search for {topic}.", "Please search {topic}.", "I want to read about {topic}, search for it.", "Look on the web for {topic}.", "Use the web to find {topic}.", "Search online for {topic}.", "Are there pages about {topic}?", "I am looking for pages on {topic}.", "Show me what the internet says about {topic}.", "Browse the internet and bring me something on {topic}.", "Dig up pages on {topic}."],
          ["{q} pages found", '{{"hits": {q}}}'], "I found {q} pages about {topic}.", ("q", "topic")),
    _kind("translate translate_text translator to_language", "translate_words translation", ["Translate text", "Translates a text into a language"], [("text words phrase", "string", "word"), ("language target target_language to", "string", "lang")],
          ["[Translate|Please translate] {word} [into|to] {lang}[.|]", "How do you say {word} in {lang}?", "What is {word} in {lang}?", "Put {word} into {lang}."], ["[Bring|Turn|Change|Convert|Render|Write|Transfer|Move|Transform|Make] {word} [into|to] {lang}[.|]", "[Can|Could|Would] you [put|turn|bring|write] {word} [into|in|to] {lang}?", "I want {word} [put into|turned into|written in] {lang}.", "Please [put|turn|bring|render|write] {word} [into|in] {lang}.", "{word}: [put it|turn it|bring it] into {lang}.", "{word} in {lang}?", "Say {word} in {lang}.", "{word} to {lang}", "Translate to {lang}: {word}", "What does {word} mean in {lang}?", "I need {word} in {lang}.", "[What is|Give me|Tell me] the {lang} word for {word}[.|?]", "How does one say {word} in {lang}?", "Can you translate {word} into {lang}?", "In {lang}, what is {word}?", "Give me {word} in {lang}.", "Write {word} in {lang}.", "My friend speaks {lang}. How do I say {word}?", "Which word is {word} in {lang}?", "Turn the word {word} into {lang}.", "Render {word} in {lang} for me."],
          ["{free}", '{{"translation": "{free}"}}', '{{"text": "{free}"}}'], "In {lang}, {word} is {free}.", ("free",)),
    _kind("send_message message send_text send_sms text_message write_message", "sendMessage deliver_message", ["Send a message to someone", "Sends a text message"], [("to recipient name person", "string", "name"), ("text message body content", "string", "message")],
          ["[Send|Text] {name} [the message|the words]: {message}", "Tell {name}: {message}", "Send a message to {name}: {message}", "Write to {name}: {message}", "Message {name}: {message}"], ["[Ping|Notify|Mail|Email|Warn|Remind|Contact|Answer|Call|Inform|Whisper to|Reply to|Wire|Note to|Alert|SMS|Poke|Address|Reach|Cable] {name}: {message}", "[Please |][ping|notify|mail|warn|remind|contact|answer|inform|alert|message] {name} with [this|these words]: {message}", "[Ping|Notify|Mail|Warn|Remind|Contact|Alert] {name} that says: {message}", "For {name}: {message}", "To {name}: {message}", "{name}: {message}", "Words for {name}: {message}", "I [have|want|need] to [ping|notify|mail|warn|remind|inform] {name}: {message}", "My words to {name}: {message}", "Say this to {name}: {message}", "[Can|Could] you tell {name}: {message}", "Please tell {name}: {message}", "Text {name}: {message}", "Text to {name}: {message}", "Message to {name}: {message}", "Send {name} a message: {message}", "Send {name} this: {message}", "Send to {name}: {message}", "I want to tell {name}: {message}", "Say to {name}: {message}", "Send the text {message} to {name}.", "Send \"{message}\" to {name}.", "Write \"{message}\" to {name}.", "Inform {name}: {message}", "New message for {name}: {message}", "{name} should read this: {message}", "Let {name} know this: {message}", "Drop {name} a line: {message}"],
          ["sent", "ok", '{{"status": "sent"}}'], "I have sent your message to {name}.", ("name",)),
    _kind("set_timer timer start_timer countdown new_timer", "begin_timer setTimer", ["Start a timer", "Sets a timer of some minutes"], [("minutes duration length min", "integer", "m")],
          ["[Set|Start] a timer [for|of] {m} minutes[.|]", "Timer for {m} minutes[, please|][.|]", "Wake me in {m} minutes.", "Count down {m} minutes.", "Remind me in {m} minutes."], ["[Call|Ring|Ping|Wake|Stop|Warn|Alert|Tell|Disturb|Notify|Poke|Nudge] me [in|after] {m} minutes[.|]", "[Call|Ring|Ping|Warn|Alert|Tell|Notify] [us|him|her] in {m} minutes.", "In {m} minutes [call|ring|ping|wake|warn|tell|stop] me.", "After {m} minutes [call|ring|ping|wake|warn|tell|stop] me.", "{m} minutes, please.", "{m} minutes timer", "Start a timer for {m} minutes.", "Start a timer of {m} minutes.", "Timer: {m} minutes", "New timer, {m} minutes.", "Call me in {m} minutes.", "Tell me when {m} minutes have passed.", "Beep after {m} minutes.", "Ring in {m} minutes.", "Let me know in {m} minutes.", "The pizza needs {m} minutes, set a timer.", "The eggs take {m} minutes. Timer, please.", "Can you set a timer for {m} minutes?", "I want a timer for {m} minutes.", "Stop me after {m} minutes.", "Please count {m} minutes.", "Put {m} minutes on the timer.", "Give me a sign when {m} minutes are over.", "I need {m} minutes on the clock."],
          ["started", "ok", '{{"status": "running"}}'], "The timer is set for {m} minutes.", ("m",)),
    _kind("set_alarm alarm wake_up create_alarm new_alarm", "alarm_clock setAlarm", ["Set an alarm", "Sets an alarm clock"], [("time at hour when", "string", "hour")],
          ["Set an alarm [for|at] {hour}[.|]", "Wake me [up |]at {hour}[.|]", "Alarm at {hour}[, please|][.|]", "I have to get up at {hour}, set an alarm."], ["I [must|want to|have to|need to|should|will] [rise|stand up|leave|be awake|go|wake up|start] at {hour}[.|,|:|;] [set an alarm|an alarm, please|wake me|please wake me][.|]", "At {hour} I [must|have to|need to|want to] [rise|be up|leave|get up|be awake][.|,] [wake me|set the alarm|alarm, please][.|]", "My [day|train|bus|work|school|shift] [begins|starts|leaves] at {hour}[.|,] [wake me|set an alarm][.|]", "Alarm {hour}", "An alarm for {hour}, please.", "{hour} alarm", "Wake me tomorrow at {hour}.", "I want to wake up at {hour}.", "Can you wake me at {hour}?", "I must be up at {hour}.", "Set the alarm clock to {hour}.", "Put the alarm on {hour}.", "Please set an alarm for {hour}.", "New alarm: {hour}", "I need an alarm at {hour}.", "Get me out of bed at {hour}.", "My train is early: wake me at {hour}.", "Make sure that I am awake at {hour}.", "Ring the bell at {hour}."],
          ["ok", "set", '{{"status": "set"}}'], "The alarm is set for {hour}.", ("hour",)),
    _kind("switch_light light set_light turn_light lights lamp_control", "light_switch toggle_lamp", ["Switch a light", "Turns the light in a room on or off"], [("room place where", "string", "room"), ("state status mode", "string", "on")],
          ["[Turn|Switch] {on} the light in the {room}[.|]", "[Turn|Switch] the {room} light {on}[.|]", "Light {on} in the {room}[, please|][.|]", "Can you turn the light in the {room} {on}?"], ["{Room} light {on}", "Light in the {room}: {on}", "Light {on}, {room}", "{on} with the light in the {room}", "Please turn {on} the {room} light.", "Turn the {room} lamp {on}.", "Switch the light in the {room} {on}.", "I am in the {room}, turn the light {on}.", "I want light {on} in the {room}.", "The light in the {room} should be {on}.", "Put the light in the {room} {on}.", "Set the {room} light to {on}.", "Could you switch {on} the lamp in the {room}?", "The {room} needs its light {on}.", "I want the lamp in the {room} {on}.", "Make the {room} light go {on}."],
          ["ok", "done", '{{"state": "{on}"}}'], "The light in the {room} is {on}.", ("room", "on")),
    _kind("add_item add_to_list shopping_list list_add add_to_cart", "put_on_list append_item", ["Add an item to the shopping list", "Puts something on a list"], [("item thing product entry", "string", "item"), ("amount count quantity number", "integer", "q")],
          ["[Add|Put] {q} {item} [to|on] [the|my] [shopping |]list[.|]", "I need {q} {item}, [put it on the list|add it to my list].", "Shopping list: {q} {item}", "Add to my list: {q} {item}"], ["{q} {item} on the list, please.", "Put {q} {item} on the list.", "Please add {q} {item}.", "Add {q} {item} to the shopping list.", "I want to buy {q} {item}.", "We need {q} {item}.", "Shopping: {q} {item}", "Note {q} {item}.", "Remember to buy {q} {item}.", "Get {q} {item} onto my list.", "The list needs {q} {item}.", "Can you add {q} {item} to my list?", "{q} {item}, add them to the list.", "Buy {q} {item}: put it on the list.", "We ran out of {item}. Note {q} for the shopping.", "Write {q} {item} on the list, will you?"],
          ["added", "ok", '{{"items": {q}}}'], "I have put {q} {item} on the list.", ("q", "item")),
    _kind("find_contact get_contact contact phone_book lookup_contact get_phone", "phone_of contactInfo", ["Look up a contact", "Finds the number of a person"], [("name person contact who", "string", "name")],
          ["What is the [phone |]number of {name}?", "[Find|Look up|Give me] {name}'s number[.|]", "How can I reach {name}?", "I want to call {name}, what is the number?"], ["I [have|need|must|plan|hope|wish|would like] to [ring|phone|reach|speak to|talk to|text] {name}[.|,|:] [which number do I need|what number is it|give me the number|which number|the number][?|]", "[Calling|Phoning|Ringing] {name}: which number?", "{name}, [what is the number|which number|the phone number][?|]", "Which number [must|do|should|can] I [dial|call|ring|take] for {name}?", "Phone number of {name}?", "{name}'s phone number?", "Number of {name}", "What number does {name} have?", "Give me the number of {name}.", "I need to phone {name}.", "I need {name}'s number.", "Do you have the number of {name}?", "Look for {name} in my contacts.", "Contact: {name}", "Find {name} in the phone book.", "Which number has {name}?", "Tell me {name}'s phone number.", "How do I call {name}?", "I have to speak with {name}, which number do I dial?", "Show me the contact {name}.", "Under which number do I get hold of {name}?", "Dig out the telephone number of {name}."],
          ["{phone}", '{{"phone": "{phone}"}}', '{{"number": "{phone}"}}'], "The number of {name} is {phone}.", ("name", "phone")),
    _kind("get_price price stock_price quote get_stock price_of", "priceCheck ask_price", ["Get the price of something", "Looks up a price"], [("item product name symbol", "string", "item")],
          ["[What is|What's|Tell me] the price of {item}[?|]", "How much [is|does] {item}[ cost|]?", "What does {item} cost?", "Price of {item}?", "Look up what {item} costs."], ["[Find out|Check|Tell me|See|Ask|Say|Show me] [what|how much] {item} [is|costs][.|]", "[Find out|Check|See|Ask] [what they want for|the price of] {item}.", "I [wonder|need to know|want to know|would like to know|have to know] [what|how much] {item} costs.", "Price of {item}", "{item} price", "{item}: how much?", "How much for {item}?", "How much money is {item}?", "How expensive is {item}?", "Check the price of {item}.", "Tell me what {item} costs.", "What is {item} worth?", "I want to buy {item}, what does it cost?", "What do they want for {item}?", "Find the price of {item}.", "Get me the price of {item}.", "The price for {item}, please.", "What do I pay for {item}?", "Can I afford {item}? How much is it?", "What would I have to pay for {item}?", "Is {item} expensive? Check the price."],
          ["{p}", "{p} euros", '{{"price": {p}}}', '{{"price": {p}, "currency": "EUR"}}'], "The price of {item} is {p} euros.", ("item", "p")),
    _kind("play_music play music play_song start_music", "playTrack put_on_song", ["Play a song", "Plays music"], [("title song track name", "string", "song")],
          ["Play {song}[.|, please.]", "[I want to hear|Put on] {song}[.|]", "Can you play {song}?", "Play the song {song}."], ["[Start|Put on|Turn on|Sing|Run|Spin|Begin|Hear] the [song|track|tune|piece|title] {song}[.|]", "[Spin|Sing|Begin|Hear] {song}[.|]", "The [song|track|tune|piece] {song}, please[.|]", "Music: {song}", "Song: {song}", "{song}, please.", "Please play {song}.", "Put {song} on.", "Start {song}.", "Start the song {song}.", "I would like to hear {song}.", "Could you put on {song}?", "Play me {song}.", "Let us hear {song}.", "Now play {song}.", "Turn on {song}.", "I love {song}, play it.", "Next song: {song}", "Let {song} play.", "Let me listen to {song}.", "It is time for some music: {song}!"],
          ["playing", "ok", '{{"status": "playing"}}'], "Now playing {song}.", ("song",)),
    _kind("book_table reserve reserve_table make_reservation booking", "tableBooking order_table", ["Book a table at a restaurant", "Reserves a table"], [("people guests persons seats", "integer", "q"), ("time at hour when", "string", "hour")],
          ["[Book|Reserve] a table for {q} at {hour}[.|]", "A table for {q} at {hour}, please.", "We are {q} and want to eat at {hour}, book a table.", "Can you reserve a table for {q} people at {hour}?"], ["[Can|Could|Would|Will] you [book|get|find|order|arrange] [a table|us a table|me a table] [for {q} at {hour}|at {hour} for {q}|for {q} guests at {hour}|for {q} persons at {hour}]?", "[There are|It is for] {q} of us, [at|we come at|we eat at] {hour}[.|,] [book a table|get us a table|a table, please][.|]", "Dinner at {hour} for {q}[.|, please.]", "Table for {q}, {hour}", "Table for {q} people at {hour}.", "Reserve for {q} at {hour}.", "Book for {q} at {hour}, please.", "I want a table for {q} at {hour}.", "We need a table at {hour} for {q}.", "At {hour}, a table for {q}.", "{q} people, {hour}, book it.", "I would like to book a table for {q} at {hour}.", "Please reserve a table at {hour} for {q} people.", "We come at {hour}, {q} of us. Reserve a table.", "Get us a table for {q} at {hour}.", "Make a reservation for {q} at {hour}.", "Dinner for {q} at {hour}: get us a table.", "At {hour} we come with {q} people. Please arrange a table."],
          ["booked", "ok", '{{"status": "booked"}}'], "I have booked a table for {q} at {hour}.", ("q", "hour")),
    _kind("read_file open_file load_file cat_file file_read get_file", "fileContents show_file", ["Read a file", "Returns what a file holds"], [("path file filename name", "string", "file")],
          ["[Read|Open|Show me] [the file |]{file}[.|]", "What is in {file}?", "What does the file {file} say?", "Can you open {file}?"], ["[Can|Could|Would|Will] you [read|show|load|print|display|look into] [the file |]{file}[?| for me?]", "[Load|Print|Display|View|List|Look at|Look into|Type|Dump|Get|Cat] [the file |]{file}[.|]", "What [does|did] {file} [hold|contain|say|tell]?", "I [want|need|have] to [read|see|open|view] [the file |]{file}.", "{file}: read it", "Read {file}, please.", "Show {file}.", "Show me what is in {file}.", "Tell me what {file} says.", "I want to see {file}.", "Open the file {file}.", "Could you read {file}?", "Load {file}.", "Contents of {file}?", "What does {file} contain?", "What is written in {file}?", "Look into {file}.", "Display {file}.", "Get the contents of {file}.", "Give me the text of {file}.", "What have I written in {file}?", "Let me see what {file} holds.", "Print {file} for me."],
          ["{topic}", '{{"text": "{topic}"}}'], "The file {file} says: {topic}.", ("file", "topic")),
    _kind("track_order order_status get_order parcel where_is_order", "orderInfo find_parcel", ["Track an order", "Where a parcel is"], [("order order_id id number code", "string", "code")],
          ["Where is [my |]order {code}?", "Track [my |]order {code}[.|]", "[What is|Tell me] the status of order {code}[?|]", "Has order {code} been sent?", "When will {code} arrive?"], ["When [will|does|can|should] {code} [come|be here|get here|be delivered|reach me|get to me|land|be at my door]?", "When [will|does|can] [my |the |]order {code} [come|arrive|get here|reach me]?", "When [will|do] I [get|have|receive|see] {code}?", "How [soon|long|late] [will|does] {code} [come|take|be]?", "[Will|Does|Can] {code} [arrive|come|get here] [today|tomorrow|soon|this week]?", "Has {code} [come|left|been sent|shipped|been delivered]?", "Is {code} [here|there|sent|shipped|late|lost|ready]?", "[Find|Follow|Trace|Locate|Check|Look up|Search] {code}[.|]", "I [wait|am waiting|hope|look] for {code}[.|, where is it?]", "{code} [has not come|is late|is missing|did not arrive][.|, where is it?]", "{code}: where is it?", "Order {code}?", "Where is {code} now?", "Where is my parcel {code}?", "Track {code}.", "Track parcel {code}.", "Find order {code}.", "What about order {code}?", "Is {code} on its way?", "Has {code} arrived?", "Look up order {code}.", "Status of {code}?", "I want to know where {code} is.", "I ordered {code}. Where is it?", "Check order {code}.", "Check on my order {code}, please.", "Did you send {code}?", "How far is {code}?", "My order is {code}, where is it?", "When do I get order {code}?", "I am still waiting for {code}.", "Any news about parcel {code}?"],
          ["in {city}", '{{"place": "{city}"}}', '{{"status": "in {city}"}}'], "Your order {code} is in {city}.", ("code", "city")),
    _kind("convert convert_currency exchange currency change_money", "toCurrency money_convert", ["Convert money", "Changes an amount into another currency"], [("amount value sum", "integer", "p"), ("from source from_currency", "string", "cur"), ("to target to_currency", "string", "cur2")],
          ["[Convert|Change] {p} {cur} [to|into] {cur2}[.|]", "How much [is|are] {p} {cur} in {cur2}?", "What are {p} {cur} in {cur2}?", "{p} {cur} in {cur2}?"], ["[Swap|Exchange|Turn|Trade|Switch|Bring|Put|Make] {p} {cur} [to|into|for] {cur2}[.|]", "{p} {cur} [make|give|are|is] how [many|much] {cur2}?", "What [will|do|would] {p} {cur} [be|make|give] in {cur2}?", "{p} {cur} to {cur2}", "Convert {p} {cur} to {cur2}.", "Exchange {p} {cur} for {cur2}.", "{p} {cur}: how much in {cur2}?", "What is {p} {cur} in {cur2}?", "How many {cur2} are {p} {cur}?", "How many {cur2} do I get for {p} {cur}?", "I have {p} {cur} and need {cur2}.", "Give me {p} {cur} in {cur2}.", "Turn {p} {cur} into {cur2}.", "I want to change {p} {cur} into {cur2}.", "Tell me how much {p} {cur} are in {cur2}.", "Calculate {p} {cur} in {cur2}.", "If I have {p} {cur}, how many {cur2} do I get?", "I want to swap {p} {cur} for {cur2}."],
          ["{r}", '{{"result": {r}}}', '{{"amount": {r}}}'], "{p} {cur} are {r} {cur2}.", ("p", "r")),
    _kind("roll_dice dice roll throw_dice random_dice", "diceRoll cast_dice", ["Roll dice", "Throws a die with some sides"], [("sides faces n", "integer", "m")],
          ["Roll a [die|dice] with {m} sides[.|]", "Throw a {m}-sided [die|dice][.|]", "[Give me|Roll] a random number up to {m}[.|]", "Roll the dice, it has {m} sides."], ["[Throw|Cast|Toss|Roll|Shake|Play] [a|the|one] [die|dice|cube] [of|with|that has] {m} [sides|faces][.|]", "The [die|dice] has {m} sides[.|,] [roll it|throw it|cast it][.|]", "A [throw|roll|cast] of a die with {m} [sides|faces][.|, please.]", "Roll a die with {m} faces.", "Dice, {m} sides", "d{m}", "Roll d{m}.", "Roll a d{m}, please.", "Roll one die, {m} sides.", "Throw the dice, {m} sides.", "Can you roll a die with {m} sides?", "My turn: roll a die of {m} sides.", "A die with {m} sides, please.", "Give me a roll of a {m}-sided die.", "I want to roll a die with {m} sides.", "Random number from 1 to {m}, please.", "Let chance decide: a die of {m} sides.", "I need a throw of a die, {m} faces."],
          ["{q}", '{{"result": {q}}}', '{{"roll": {q}}}'], "The die shows {q}.", ("q",)),
    _kind("get_news news headlines read_news latest_news", "newsFor fetch_headlines", ["Get the news", "Headlines about a topic"], [("topic subject about", "string", "topic")],
          ["[What is|What's|Any] news about {topic}?", "[Show|Read|Get] me the news about {topic}[.|]", "What happened with {topic}?", "Headlines on {topic}?"], ["What [happens|happened|goes on|is happening|is going on|did happen] [with|about|around|to] {topic}?", "[Show|Read|Get|Give|Bring|Fetch|Find|Tell] me [the |][news|headlines|stories] [on|about|for] {topic}[.|]", "News: {topic}", "{topic} news", "Latest news on {topic}?", "What is new about {topic}?", "What's new with {topic}?", "Give me the news on {topic}.", "Tell me the news about {topic}.", "Is there any news about {topic}?", "Anything new on {topic}?", "I want news about {topic}.", "Show me headlines about {topic}.", "What do they write about {topic}?", "Find news about {topic}.", "Read the news on {topic} to me.", "What is going on with {topic}?", "Did the papers write about {topic}?", "What do the headlines say on {topic}?"],
          ["{word} and {item}", '{{"headline": "{word} and {item}"}}'], "The news about {topic}: {word} and {item}.", ("topic", "word")),
    _kind("create_event add_event calendar schedule new_event", "eventCreate make_appointment", ["Create a calendar event", "Adds an entry to the calendar"], [("title name what event", "string", "word"), ("day date when", "string", "day")],
          ["[Add|Put] {word} [to|in] [my|the] calendar [for|on] {day}[.|]", "Create an event {word} on {day}[.|]", "Schedule {word} for {day}[.|]", "On {day} I have {word}, put it in the calendar."], ["On {day} [comes|is|there is|I have|we have|I go to|I do] {word}[.|,|:|;] [add it to my calendar|note it|write it down|remember it|plan it|enter it][.|]", "I [have|do|plan|expect|need] {word} on {day}[.|,|:] [put it in my calendar|note it|calendar, please|add it|enter it][.|]", "{day} is for {word}[.|,] [note it|add it|enter it][.|]", "[Note|Plan|Enter|Book|Schedule|Write down|Add|Mark|Put down] {word} [on|for] {day}[.|]", "{Word} on {day}", "{day}: {word}", "{day} {word}, calendar", "Put {word} on {day}.", "Add {word} on {day}.", "Enter {word} for {day}.", "Note {word} for {day}.", "Calendar: {word} on {day}", "New event: {word}, {day}", "I have {word} on {day}, please note it.", "There is {word} on {day}, add it to the calendar.", "Plan {word} for {day}.", "Can you put {word} in my calendar for {day}?", "Make an appointment for {word} on {day}.", "On {day} there will be {word}. Write it down.", "My calendar should say {word} on {day}.", "Write {word} into my calendar on {day}.", "On {day} comes {word}, add it.", "Mark {day} for {word}.", "Do not let me forget {word} on {day}.", "My {day} needs an entry: {word}."],
          ["created", "ok", '{{"status": "created"}}'], "{Word} is in your calendar for {day}.", ("word", "day")),
)
_CURRENCIES = "euros dollars pounds yen francs kroner pesos rupees".split()


def _fill(src, kind):
    slots = _slots(src)
    slots["on"] = src.pick(["on", "off"])
    slots["cur"], slots["cur2"] = src.some(_CURRENCIES, 2)
    slots["Word"], slots["Room"] = cap(slots["word"]), cap(slots["room"])
    slots["phone"] = f"{slots['r']}{slots['p']}"
    return slots


def plain(src):
    """A use of one of the plain tools."""
    kind = src.pick(KINDS)
    slots = _fill(src, kind)
    name = _name(src, kind.names)
    keys = [_key(src, names) for names, _, _ in kind.parameters]
    if len(set(keys)) < len(keys):
        return plain(src)
    arguments = {key: slots[slot] for key, (_, _, slot) in zip(keys, kind.parameters)}
    if not src.fresh("call", name, *arguments.values()):
        return plain(src)
    schema = _schema(src, name, src.pick(kind.descriptions), [(key, types, cap(names[0]) if key not in names else _optional(src, cap(names[0]))) for key, (names, types, _) in zip(keys, kind.parameters)])
    result = src.pick(kind.results).format(**slots)
    ask = tool_deeds.asked(src, kind.key, kind.asks, slots["message"] if kind.key == "send_message" else None, **slots)
    return Use(schema, ask, [(name, arguments)], [result], kind.answer.format(**slots), tuple(str(slots[slot]) for slot in kind.expect), kind.answer)


_VERBS = divided("start stop open close check count clean fill lock move pause paint push pull read reset save scan sell show sort test unlock wash water wrap archive publish print copy delete rename feed".split())
_OBJECTS = divided("door window gate pump engine robot printer oven heater fan camera drone boiler lift server backup report invoice ticket garden fountain plant fridge blind curtain sprinkler washing_machine lamp valve train crane mixer toaster kettle radio".split())


_GENERIC_ASK = pool(["[Please |Can you |Could you |]{v} the {o}{t}[.|]", "I want you to {v} the {o}{t}.", "{V} the {o}{t}[, please|][.|!]", "It is time to {v} the {o}{t}."],
                    ["[The|This] [moment|hour|day|minute] has come to {v} the {o}{t}.", "[Today|Now|Soon|Tonight|At last|Finally|Once more|Later] [we|I|you] [should|must|can|will|may] {v} the {o}{t}.", "It is [good|right|better|best|necessary|important|urgent|late|early] to {v} the {o}{t}.", "It is [my|your|our|his|her] [turn|job|task|plan|wish] to {v} the {o}{t}.", "[There is|We have|I have] [time|a reason|a plan|a need] to {v} the {o}{t}.", "[Hurry|Run|Try|Start|Help|Prepare|Hasten|Get ready] [and|to] {v} the {o}{t}[.|!]", "[Someone|Anyone|Somebody|Nobody else] can {v} the {o}{t}[.|, so do it.]", "[He|She|They|The boss|My wife|The guest] [says|said|thinks] that you should {v} the {o}{t}.", "Somebody should {v} the {o}{t}. Will you?", "Go ahead and {v} the {o}{t}.", "I [want|need|would like] to {v} the {o}{t}.", "Let us {v} the {o}{t}.", "Now {v} the {o}{t}.", "We have to {v} the {o}{t}.", "Can somebody {v} the {o}{t}?", "My [boss|mother|neighbour] wants you to {v} the {o}{t}.", "Would you {v} the {o}{t}?",
                     "{V} my {o}{t}.", "Help me {v} the {o}{t}.", "I forgot to {v} the {o}{t}.", "Please {v} our {o}{t} now.", "You should {v} the {o}{t}.", "Be so kind and {v} the {o}{t}.", "Is it possible to {v} the {o}{t}?", "I need you to {v} the {o}{t}.", "{V} the {o}{t} right away.", "Make sure to {v} the {o}{t}.", "Your task: {v} the {o}{t}."])


def generic(src):
    """A tool that was never heard of: verb, noun, and a parameter or two."""
    verb, noun = src.pick(_VERBS), src.pick(_OBJECTS)
    style = src.number(0, 3)
    name = [f"{verb}_{noun}", f"{noun}_{verb}", f"{verb}{''.join(map(cap, noun.split('_')))}", f"{src.pick(_PREFIX)}_{verb}_{noun}"][style]
    spoken = noun.replace("_", " ")
    parameters, arguments, tail, result_tail = [], {}, "", ""
    kind = src.number(0, 3)
    if kind == 1:
        key, value = _key(src, ["number", "id", "index", "level", "unit"]), src.number(1, 99)
        parameters, arguments, tail = [(key, "integer", _optional(src, "Which one"))], {key: value}, src.pick((f" number {value}", f" {value}", f" {key.replace('_', ' ')} {value}"))
    elif kind == 2:
        key, value = _key(src, ["room", "place", "location"]), src.pick("kitchen bathroom bedroom garage hall office cellar attic garden library".split())
        parameters, arguments, tail = [(key, "string", _optional(src, "Where"))], {key: value}, f" in the {value}"
    elif kind == 3:
        key, value = _key(src, ["name", "label", "tag", "code"]), src.pick([words.made_up(src), f"{src.pick('ABCDEFGH')}{src.number(10, 999)}"])
        parameters, arguments, tail = [(key, "string", _optional(src, cap(key)))], {key: value}, f" {value}"
    if not src.fresh("generic", name, *arguments.values()):
        return generic(src)
    schema = _schema(src, name, f"{cap(verb)} {a(spoken) if src.chance(0.5) else 'the ' + spoken}", parameters)
    ask = src.say(_GENERIC_ASK, v=verb, o=spoken, t=tail, V=cap(verb))
    return Use(schema, cap(ask), [(name, arguments)], [src.pick(["ok", "done", '{"status": "ok"}', '{"success": true}'])], f"Done: {verb} the {spoken}{tail}.", ("done", spoken), f"{verb} {noun}")


_TWO_ASK = pool(["[What is|How is] the weather in {x} and [in |]{y}?", "[Tell me|Compare] the weather in {x} and {y}[.|]", "Weather in {x} and {y}?"],
                ["[Weather|Temperature|Forecast|Rain|Sun] [for|of|at|over] {x} and {y}[?|]", "[Show|Give|Get|Find|Report|Bring] [me |]the [weather|forecast|temperature] [of|for|in|at] {x} and [in |for |]{y}[.|]", "How [warm|cold|wet|windy|hot] [is it|are] in {x} and {y}?", "{x}, {y}: [weather|temperature|forecast][?|]", "Which weather do they have in {x}, and which in {y}?", "Is it warmer in {x} or in {y}?", "How is the weather in {x}, and how is it in {y}?", "I travel from {x} to {y}. What about the weather in both places?", "Temperature in {x} and in {y}, please.", "The weather of {x} and of {y}, please.", "Give me the weather for {x} and {y}.", "{x} and {y}: weather?", "Do I need an umbrella in {x}? And in {y}?", "Check the weather in {x} and {y}.", "Where is it colder, in {x} or in {y}?"])


def two(src):
    """Two places in one request, a call for each."""
    first, second = (values.place(src), values.place(src)) if src.wider(0.6) else src.some(PLACES, 2)
    if first == second or "," in first + second:
        return two(src)
    key = _key(src, _PLACE_KEYS)
    name = _name(src, _WEATHER_NAMES)
    if not src.fresh("two", first, second):
        return two(src)
    schema = _schema(src, name, src.pick(["Get the weather of a city", "Current weather", "The weather at a place"]), [(key, "string", "")])
    ask = src.say(_TWO_ASK, x=first, y=second)
    degrees = [src.number(-15, 38) for _ in range(2)]
    return Use(schema, ask, [(name, {key: first}), (name, {key: second})], [f"{degree} degrees" for degree in degrees], f"In {first} it is {degrees[0]} degrees, in {second} {degrees[1]} degrees.", (str(degrees[0]), str(degrees[1]), first, second), "weather")


def use(src):
    """A use of some tool."""
    return src.weighted({weather: 4, calculator: 3, time: 3, plain: 7, generic: 3, two: 0.7})(src)


def with_others(src, used):
    """The tool that is used and others beside it, in any order: uses, of which only the entries in the list count."""
    uses, wanted = [used], src.weighted({1: 0.34, 2: 0.27, 3: 0.2, 4: 0.12, 5: 0.05, 6: 0.02})
    while len(uses) < wanted:
        other = any_tools.other(src, used) if src.chance(0.5) else use(src)
        if not clash(other, uses):
            uses.append(other)
    src.random.shuffle(uses)
    return uses


def schemas(uses):
    """The list of tools."""
    return [each.schema for each in uses]


def clash(other, uses):
    """Whether a tool has the name of one of others, or could serve as well as one of them."""
    return any(other.schema["function"]["name"] == used.schema["function"]["name"] or other.kind == used.kind or _alike(other, used) or _alike(used, other) for used in uses)


def _alike(other, used):
    """Whether a request for one tool may be taken for a request for the other: it finds out what the request names."""
    return other.deed is not None and other.deed.asks and (used.deed is None or used.deed.asks) and other.deed.noun in f"{used.ask} {used.schema}".lower()


def thought(src, used):
    """Why the tool is called."""
    return "There is a tool for this. I call it." if len(used.calls) == 1 else "There is a tool for this. I call it twice."
