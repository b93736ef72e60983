"""Tool calls: a list of tools, a request, the call, the tool's answer, and the sentence made of it.

Names, parameters and descriptions of tools vary, so that a call can only be right when it was read off the list.
"""

import json
from dataclasses import dataclass

from .. import phrasing, words, world
from ..source import a, cap, divided, pool
from . import arithmetic
from .records import CITIES

PLACES = CITIES


@dataclass
class Use:
    """One use of a tool."""

    schema: dict  # as the API takes it
    ask: str
    calls: list  # [(name, arguments)]
    results: list  # texts of the tool, one a call
    answer: str
    expect: tuple  # what the last answer contains
    kind: str = ""  # what the tool is for


def _schema(name, description, parameters, required=None):
    properties = {key: ({"type": kind, "description": text} if text else {"type": kind}) for key, kind, text in parameters}
    return {"type": "function", "function": {"name": name, "description": description,
                                             "parameters": {"type": "object", "properties": properties, "required": required or list(properties)}}}


_PREFIX = divided("acme home my city local nova east blue fast smart simple core demo test lab data sky sun star river open easy prime super hyper neo alpha beta delta omega".split())


def _name(src, names):
    """A tool's name: one of the kind's own, at times with something before or behind it."""
    name = src.pick(names)
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
                    ["Find out what the weather is doing in {c}.", "My aunt lives in {c}; what weather does she have?", "Before I leave for {c}: what about the weather?", "Any idea how warm it is over in {c}?"])
_SKY = "sunny cloudy rainy snowy windy foggy stormy clear".split()


def _place(src):
    return cap(words.made_up(src)) if src.chance(0.35) else src.pick(PLACES)


def _asked(src, asks, noun, **slots):
    """A request in its own words, or put into one of the common frames."""
    return phrasing.know(src, src.say(noun, **slots)) if src.chance(0.4) else src.say(asks, **slots)


def weather(src):
    key, city = _key(src, _PLACE_KEYS), _place(src)
    if not src.fresh("weather", city, key):
        return weather(src)
    name = _name(src, _WEATHER_NAMES)
    parameters = [(key, "string", _optional(src, src.pick(["The city", "Name of the city", "The place to look at", "A town", "Where"])))]
    ask, arguments, required = _asked(src, _WEATHER_ASK, "[the weather|the current weather|the temperature|the forecast] [in|for] {c}", c=city), {key: city}, [key]
    unit = None
    if src.chance(0.3):
        unit_key = src.pick(["unit", "units", "scale"]) if key != "unit" else "scale"
        parameters.append((unit_key, "string", _optional(src, "celsius or fahrenheit")))
        if src.chance(0.6):
            unit = src.pick(["celsius", "fahrenheit"])
            ask = src.say("{q} [In {U}, please.|Use {u}.|In {u}.]", q=ask if ask[-1] in ".?" else ask + ".", u=unit, U=cap(unit))
            arguments[unit_key] = unit
    schema = _schema(name, src.pick(["Get the weather of a city", "Current weather", "The weather at a place", "Looks up the weather", "Returns the weather for a location", "Weather report", "Get the current weather in a given location"]), parameters, required)
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
                 ["Let the machine tell us {e}.", "Run the numbers for me: {e}", "My homework says {e}. What comes out?"])


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
    schema = _schema(name, src.pick(["Calculate an arithmetic expression", "Evaluates an expression", "A calculator", "Does arithmetic", "Compute the value of a formula"]), [(key, "string", _optional(src, "The expression"))])
    shown = src.pick([str(result), json.dumps({"result": result}), json.dumps({"value": result}), f"{expression} = {result}"])
    return Use(schema, _asked(src, _CALC_ASK, "{e}", e=expression), [(name, {key: expression})], [shown], f"{expression} = {result}.", (f"= {result}",), "calculator")


_TIME_NAMES = pool("get_time time current_time get_current_time clock what_time time_in world_clock local_time getTime now_in".split(), "tell_time timeOf check_clock read_clock".split())
_TIME_ASK = pool(["What time is it in {c}[?| now?| right now?]", "[What is|What's|Tell me] the [time|local time|current time] in {c}[?|]", "How late is it in {c}?", "Time in {c}[?|]", "Can you tell me what time it is in {c}?", "I want to call a friend in {c}, what time is it there?"],
                 ["What does the clock show in {c}?", "Is it already late in {c}? Tell me the time.", "My cousin moved to {c}. What hour is it for her?"])


def time(src):
    city, key = _place(src), _key(src, _PLACE_KEYS)
    if not src.fresh("time", city, key):
        return time(src)
    name = _name(src, _TIME_NAMES)
    schema = _schema(name, src.pick(["The current time in a city", "Get the time at a place", "Tells the time", "Returns the local time", "World clock"]), [(key, "string", _optional(src, src.pick(["The city", "Name of the place"])))])
    clock = f"{src.number(0, 23):02d}:{src.number(0, 59):02d}"
    result = src.pick([clock, json.dumps({"time": clock}), json.dumps({"hour": clock, "zone": "local"}), json.dumps({"local_time": clock})])
    return Use(schema, _asked(src, _TIME_ASK, "the [time|local time|current time] in {c}", c=city), [(name, {key: city})], [result], f"In {city} it is {clock}.", (clock, city), "time")


@dataclass(frozen=True)
class Kind:
    """A plain tool: its names, what it takes, how one asks, and what it answers."""

    names: object
    descriptions: tuple
    parameters: tuple  # (keys, JSON type, slot)
    asks: object
    results: tuple  # templates; with {j} a JSON object
    answer: str
    expect: tuple  # slots


def _kind(names, held_names, descriptions, parameters, asks, held_asks, results, answer, expect):
    return Kind(pool(names.split(), held_names.split()), tuple(descriptions), tuple((tuple(keys.split()), kind, slot) for keys, kind, slot in parameters), pool(asks, held_asks), tuple(results), answer, tuple(expect))


def _word(src):
    return words.made_up(src) if src.chance(0.3) else src.pick(words.WORDS)


def _slots(src):
    """Values that requests are made of, fresh ones of this side of the line."""
    return {"city": _place(src), "name": cap(words.made_up(src)) if src.chance(0.35) else src.pick(words.NAMES), "word": _word(src), "item": _word(src), "topic": src.say("{x} {y}", x=_word(src), y=_word(src)), "n": src.number(2, 99), "m": src.number(2, 60),
            "lang": src.pick(["French", "German", "Spanish", "Italian", "Dutch", "Polish", "Finnish", "Greek"]), "hour": f"{src.number(0, 23)}:{src.number(0, 59):02d}", "room": src.pick("kitchen bathroom bedroom garage hall office cellar attic garden library nursery".split()),
            "day": src.pick(world.DAYS), "code": f"{src.pick('ABCDEFGHKLMNPRSTUVWXZ')}{src.number(100, 9999)}", "file": src.say("{x}.{e}", x=_word(src), e=src.pick("txt md csv json log".split())), "song": cap(_word(src)) + " " + cap(_word(src)), "free": words.made_up(src),
            "message": src.say("[I am late|see you at {h}|call me back|the {x} is ready|bring {y}|happy birthday|good luck|dinner at {h}|I found the {x}]", h=src.number(1, 12), x=src.pick(words.WORDS), y=a(src.pick(words.WORDS))), "r": src.number(1, 999), "p": src.number(1, 400), "q": src.number(1, 20)}


KINDS = (
    _kind("search web_search search_web find lookup query_web", "look_up internet_search", ["Search the web", "Finds pages about a query", "Web search"], [("query q text terms", "string", "topic")],
          ["[Search|Search the web|Look] for {topic}[.|]", "[Find|Look up] {topic}[ on the web|][.|]", "What does the web say about {topic}?", "Can you search for {topic}?", "Google {topic}."], ["Browse the internet and bring me something on {topic}.", "Dig up pages on {topic}."],
          ["{q} pages found", '{{"hits": {q}}}'], "I found {q} pages about {topic}.", ("q", "topic")),
    _kind("translate translate_text translator to_language", "translate_words translation", ["Translate text", "Translates a text into a language"], [("text words phrase", "string", "word"), ("language target target_language to", "string", "lang")],
          ["[Translate|Please translate] {word} [into|to] {lang}[.|]", "How do you say {word} in {lang}?", "What is {word} in {lang}?", "Put {word} into {lang}."], ["Turn the word {word} into {lang}.", "Render {word} in {lang} for me."],
          ["{free}", '{{"translation": "{free}"}}', '{{"text": "{free}"}}'], "In {lang}, {word} is {free}.", ("free",)),
    _kind("send_message message send_text send_sms text_message write_message", "sendMessage deliver_message", ["Send a message to someone", "Sends a text message"], [("to recipient name person", "string", "name"), ("text message body content", "string", "message")],
          ["[Send|Text] {name} [the message|the words]: {message}", "Tell {name}: {message}", "Send a message to {name}: {message}", "Write to {name}: {message}", "Message {name}: {message}"], ["Let {name} know this: {message}", "Drop {name} a line: {message}"],
          ["sent", "ok", '{{"status": "sent"}}'], "I have sent your message to {name}.", ("name",)),
    _kind("set_timer timer start_timer countdown new_timer", "begin_timer setTimer", ["Start a timer", "Sets a timer of some minutes"], [("minutes duration length min", "integer", "m")],
          ["[Set|Start] a timer [for|of] {m} minutes[.|]", "Timer for {m} minutes[, please|][.|]", "Wake me in {m} minutes.", "Count down {m} minutes.", "Remind me in {m} minutes."], ["Give me a sign when {m} minutes are over.", "I need {m} minutes on the clock."],
          ["started", "ok", '{{"status": "running"}}'], "The timer is set for {m} minutes.", ("m",)),
    _kind("set_alarm alarm wake_up create_alarm new_alarm", "alarm_clock setAlarm", ["Set an alarm", "Sets an alarm clock"], [("time at hour when", "string", "hour")],
          ["Set an alarm [for|at] {hour}[.|]", "Wake me [up |]at {hour}[.|]", "Alarm at {hour}[, please|][.|]", "I have to get up at {hour}, set an alarm."], ["Make sure that I am awake at {hour}.", "Ring the bell at {hour}."],
          ["ok", "set", '{{"status": "set"}}'], "The alarm is set for {hour}.", ("hour",)),
    _kind("switch_light light set_light turn_light lights lamp_control", "light_switch toggle_lamp", ["Switch a light", "Turns the light in a room on or off"], [("room place where", "string", "room"), ("state status mode", "string", "on")],
          ["[Turn|Switch] {on} the light in the {room}[.|]", "[Turn|Switch] the {room} light {on}[.|]", "Light {on} in the {room}[, please|][.|]", "Can you turn the light in the {room} {on}?"], ["I want the lamp in the {room} {on}.", "Make the {room} light go {on}."],
          ["ok", "done", '{{"state": "{on}"}}'], "The light in the {room} is {on}.", ("room", "on")),
    _kind("add_item add_to_list shopping_list list_add add_to_cart", "put_on_list append_item", ["Add an item to the shopping list", "Puts something on a list"], [("item thing product entry", "string", "item"), ("amount count quantity number", "integer", "q")],
          ["[Add|Put] {q} {item} [to|on] [the|my] [shopping |]list[.|]", "I need {q} {item}, [put it on the list|add it to my list].", "Shopping list: {q} {item}", "Add to my list: {q} {item}"], ["We ran out of {item}. Note {q} for the shopping.", "Write {q} {item} on the list, will you?"],
          ["added", "ok", '{{"items": {q}}}'], "I have put {q} {item} on the list.", ("q", "item")),
    _kind("find_contact get_contact contact phone_book lookup_contact get_phone", "phone_of contactInfo", ["Look up a contact", "Finds the number of a person"], [("name person contact who", "string", "name")],
          ["What is the [phone |]number of {name}?", "[Find|Look up|Give me] {name}'s number[.|]", "How can I reach {name}?", "I want to call {name}, what is the number?"], ["Under which number do I get hold of {name}?", "Dig out the telephone number of {name}."],
          ["{phone}", '{{"phone": "{phone}"}}', '{{"number": "{phone}"}}'], "The number of {name} is {phone}.", ("name", "phone")),
    _kind("get_price price stock_price quote get_stock price_of", "priceCheck ask_price", ["Get the price of something", "Looks up a price"], [("item product name symbol", "string", "item")],
          ["[What is|What's|Tell me] the price of {item}[?|]", "How much [is|does] {item}[ cost|]?", "What does {item} cost?", "Price of {item}?", "Look up what {item} costs."], ["What would I have to pay for {item}?", "Is {item} expensive? Check the price."],
          ["{p}", "{p} euros", '{{"price": {p}}}', '{{"price": {p}, "currency": "EUR"}}'], "The price of {item} is {p} euros.", ("item", "p")),
    _kind("play_music play music play_song start_music", "playTrack put_on_song", ["Play a song", "Plays music"], [("title song track name", "string", "song")],
          ["Play {song}[.|, please.]", "[I want to hear|Put on] {song}[.|]", "Can you play {song}?", "Play the song {song}."], ["Let me listen to {song}.", "It is time for some music: {song}!"],
          ["playing", "ok", '{{"status": "playing"}}'], "Now playing {song}.", ("song",)),
    _kind("book_table reserve reserve_table make_reservation booking", "tableBooking order_table", ["Book a table at a restaurant", "Reserves a table"], [("people guests persons seats", "integer", "q"), ("time at hour when", "string", "hour")],
          ["[Book|Reserve] a table for {q} at {hour}[.|]", "A table for {q} at {hour}, please.", "We are {q} and want to eat at {hour}, book a table.", "Can you reserve a table for {q} people at {hour}?"], ["Dinner for {q} at {hour}: get us a table.", "At {hour} we come with {q} people. Please arrange a table."],
          ["booked", "ok", '{{"status": "booked"}}'], "I have booked a table for {q} at {hour}.", ("q", "hour")),
    _kind("read_file open_file load_file cat_file file_read get_file", "fileContents show_file", ["Read a file", "Returns what a file holds"], [("path file filename name", "string", "file")],
          ["[Read|Open|Show me] [the file |]{file}[.|]", "What is in {file}?", "What does the file {file} say?", "Can you open {file}?"], ["Let me see what {file} holds.", "Print {file} for me."],
          ["{topic}", '{{"text": "{topic}"}}'], "The file {file} says: {topic}.", ("file", "topic")),
    _kind("track_order order_status get_order parcel where_is_order", "orderInfo find_parcel", ["Track an order", "Where a parcel is"], [("order order_id id number code", "string", "code")],
          ["Where is [my |]order {code}?", "Track [my |]order {code}[.|]", "[What is|Tell me] the status of order {code}[?|]", "Has order {code} been sent?", "When will {code} arrive?"], ["I am still waiting for {code}.", "Any news about parcel {code}?"],
          ["in {city}", '{{"place": "{city}"}}', '{{"status": "in {city}"}}'], "Your order {code} is in {city}.", ("code", "city")),
    _kind("convert convert_currency exchange currency change_money", "toCurrency money_convert", ["Convert money", "Changes an amount into another currency"], [("amount value sum", "integer", "p"), ("from source from_currency", "string", "cur"), ("to target to_currency", "string", "cur2")],
          ["[Convert|Change] {p} {cur} [to|into] {cur2}[.|]", "How much [is|are] {p} {cur} in {cur2}?", "What are {p} {cur} in {cur2}?", "{p} {cur} in {cur2}?"], ["If I have {p} {cur}, how many {cur2} do I get?", "I want to swap {p} {cur} for {cur2}."],
          ["{r}", '{{"result": {r}}}', '{{"amount": {r}}}'], "{p} {cur} are {r} {cur2}.", ("p", "r")),
    _kind("roll_dice dice roll throw_dice random_dice", "diceRoll cast_dice", ["Roll dice", "Throws a die with some sides"], [("sides faces n", "integer", "m")],
          ["Roll a [die|dice] with {m} sides[.|]", "Throw a {m}-sided [die|dice][.|]", "[Give me|Roll] a random number up to {m}[.|]", "Roll the dice, it has {m} sides."], ["Let chance decide: a die of {m} sides.", "I need a throw of a die, {m} faces."],
          ["{q}", '{{"result": {q}}}', '{{"roll": {q}}}'], "The die shows {q}.", ("q",)),
    _kind("get_news news headlines read_news latest_news", "newsFor fetch_headlines", ["Get the news", "Headlines about a topic"], [("topic subject about", "string", "topic")],
          ["[What is|What's|Any] news about {topic}?", "[Show|Read|Get] me the news about {topic}[.|]", "What happened with {topic}?", "Headlines on {topic}?"], ["Did the papers write about {topic}?", "What do the headlines say on {topic}?"],
          ["{word} and {item}", '{{"headline": "{word} and {item}"}}'], "The news about {topic}: {word} and {item}.", ("topic", "word")),
    _kind("create_event add_event calendar schedule new_event", "eventCreate make_appointment", ["Create a calendar event", "Adds an entry to the calendar"], [("title name what event", "string", "word"), ("day date when", "string", "day")],
          ["[Add|Put] {word} [to|in] [my|the] calendar [for|on] {day}[.|]", "Create an event {word} on {day}[.|]", "Schedule {word} for {day}[.|]", "On {day} I have {word}, put it in the calendar."], ["Do not let me forget {word} on {day}.", "My {day} needs an entry: {word}."],
          ["created", "ok", '{{"status": "created"}}'], "{Word} is in your calendar for {day}.", ("word", "day")),
)
_CURRENCIES = "euros dollars pounds yen francs kroner pesos rupees".split()


def _fill(src, kind):
    slots = _slots(src)
    slots["on"] = src.pick(["on", "off"])
    slots["cur"], slots["cur2"] = src.some(_CURRENCIES, 2)
    slots["Word"] = cap(slots["word"])
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
    schema = _schema(name, src.pick(kind.descriptions), [(key, types, cap(names[0]) if key not in names else _optional(src, cap(names[0]))) for key, (names, types, _) in zip(keys, kind.parameters)])
    result = src.pick(kind.results).format(**slots)
    return Use(schema, src.say(kind.asks, **slots), [(name, arguments)], [result], kind.answer.format(**slots), tuple(str(slots[slot]) for slot in kind.expect), kind.answer)


_VERBS = divided("start stop open close check count clean fill lock move pause paint push pull read reset save scan sell show sort test unlock wash water wrap archive publish print copy delete rename feed".split())
_OBJECTS = divided("door window gate pump engine robot printer oven heater fan camera drone boiler lift server backup report invoice ticket garden fountain plant fridge blind curtain sprinkler washing_machine lamp valve train crane mixer toaster kettle radio".split())


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
    schema = _schema(name, f"{cap(verb)} {a(spoken) if src.chance(0.5) else 'the ' + spoken}", parameters)
    ask = src.say(pool(["[Please |Can you |Could you |]{v} the {o}{t}[.|]", "I want you to {v} the {o}{t}.", "{V} the {o}{t}[, please|][.|!]", "It is time to {v} the {o}{t}."],
                       ["Somebody should {v} the {o}{t}. Will you?", "Go ahead and {v} the {o}{t}."]), v=verb, o=spoken, t=tail, V=cap(verb))
    return Use(schema, cap(ask), [(name, arguments)], [src.pick(["ok", "done", '{"status": "ok"}', '{"success": true}'])], f"Done: {verb} the {spoken}{tail}.", ("done", spoken), f"{verb} {noun}")


def two(src):
    """Two places in one request, a call for each."""
    first, second = src.some(PLACES, 2)
    key = _key(src, _PLACE_KEYS)
    name = _name(src, _WEATHER_NAMES)
    if not src.fresh("two", first, second):
        return two(src)
    schema = _schema(name, src.pick(["Get the weather of a city", "Current weather", "The weather at a place"]), [(key, "string", "")])
    ask = src.say(pool(["[What is|How is] the weather in {x} and [in |]{y}?", "[Tell me|Compare] the weather in {x} and {y}[.|]", "Weather in {x} and {y}?"], ["Which weather do they have in {x}, and which in {y}?"]), x=first, y=second)
    degrees = [src.number(-15, 38) for _ in range(2)]
    return Use(schema, ask, [(name, {key: first}), (name, {key: second})], [f"{degree} degrees" for degree in degrees], f"In {first} it is {degrees[0]} degrees, in {second} {degrees[1]} degrees.", (str(degrees[0]), str(degrees[1]), first, second), "weather")


def use(src):
    """A use of some tool."""
    return src.weighted({weather: 4, calculator: 3, time: 3, plain: 7, generic: 3, two: 0.7})(src)


def with_others(src, used):
    """The list of tools of a conversation: the one that is used, and others."""
    schemas, names = [used.schema], {used.schema["function"]["name"]}
    while src.chance(0.5) and len(schemas) < 4:
        other = use(src).schema
        if other["function"]["name"] not in names and other["function"]["description"] != used.schema["function"]["description"]:
            names.add(other["function"]["name"])
            schemas.append(other)
    src.random.shuffle(schemas)
    return schemas


def thought(src, used):
    """Why the tool is called."""
    return "There is a tool for this. I call it." if len(used.calls) == 1 else "There is a tool for this. I call it twice."
