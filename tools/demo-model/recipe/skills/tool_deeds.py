"""What plain tools do, told as orders and as things to be known: for the frames that all skills share."""

from .. import phrasing
from ..source import cap
from . import any_tools

# By the first name of the tool: orders, and things to be known.
DEEDS = {
    "weather": (("[check|look up|find out|report|get|show me|tell me] the [weather|temperature|forecast] [in|for] {c}", "[check|find out|see|tell me|look up] how [warm|cold|hot|wet|windy] it is in {c}", "[check|see|find out] whether it [rains|snows] in {c}"), ()),
    "calculator": (("[calculate|compute|work out|evaluate|solve] {e}", "[find out|tell me|see] what {e} is", "find the value of {e}", "[find out|tell me] how much {e} makes"), ()),
    "time": (("[check|look up|find out|get|tell me|show me] the [local |]time in {c}", "[check|find out|see|tell me|look up] [what time it is|how late it is] in {c}", "look at the clock in {c}"), ()),
    "search": (("search [the web |]for {topic}", "[find|look for] [something|pages|articles|information] [about|on] {topic}", "look up {topic}[ on the web| online| on the internet|]", "[look for|find] {topic} [on the web|online|on the internet]", "ask the web about {topic}"), ()),
    "translate": (("translate {word} [into|to] {lang}", "[say|write] {word} in {lang}", "[put|turn|bring] {word} into {lang}", "tell me what {word} is in {lang}"), ("the {lang} word for {word}", "{word} in {lang}", "the translation of {word} into {lang}")),
    "send_message": (("[send|write] {name} [a message|a text|a note|the words]: {message}", "[tell|text|message|notify] {name}: {message}", "[send|write] [a message|a text|a note|the words] to {name}: {message}", "let {name} know: {message}"), ()),
    "set_timer": (("[set|start|run|make] a timer [for|of|with] {m} minutes", "[count|time] {m} minutes[ for me|]", "[wake|call|remind|warn|ring|tell] me [in|after] {m} minutes", "let me know when {m} minutes have passed"), ()),
    "set_alarm": (("set [an|the|my] alarm [for|at|to] {hour}", "[wake|call|ring] me [up |]at {hour}", "wake us at {hour}", "get me up at {hour}", "make an alarm for {hour}"), ()),
    "switch_light": (("[turn|switch] {on} the [light|lamp] in the {room}", "[turn|switch|put] the {room} [light|lamp] {on}", "[turn|switch|put] the [light|lamp] in the {room} {on}", "set the light in the {room} to {on}"), ()),
    "add_item": (("[add|put|write] {q} {item} [to|on] [the|my|our] [shopping |]list", "[note|write down|put down] {q} {item} for the shopping", "buy {q} {item}", "remember to buy {q} {item}"), ()),
    "find_contact": (("[find|look up|get|check|tell me|give me|show me] [the [phone |]number of {name}|{name}'s [phone |]number]", "look for {name} in [the phone book|my contacts]", "find out how I can reach {name}"), ("the [phone |]number of {name}", "{name}'s [phone |]number")),
    "get_price": (("[check|look up|find out|get|tell me|show me] the price of {item}", "[check|look up|find out|see|tell me] [what {item} costs|how much {item} is|what I pay for {item}]"), ("the price of {item}", "the cost of {item}", "the price for {item}")),
    "play_music": (("play [the song |the track |me |]{song}", "[put on|start] [the song |]{song}", "let me hear {song}", "listen to {song}"), ()),
    "book_table": (("[book|reserve|get|find] [a table|us a table|me a table] [for {q} at {hour}|at {hour} for {q}|for {q} people at {hour}|for {q} guests at {hour}]", "reserve for {q} at {hour}", "eat out at {hour} with {q} people, so book a table"), ()),
    "read_file": (("[read|open|show me|print|load|display] [the file |]{file}", "[tell me|see|find out|show me] what [is in|stands in|is written in] {file}", "look into {file}"), ("the [contents|text|words] of {file}", "the text in {file}")),
    "track_order": (("[track|find|check|look up|follow] [my |the |]order {code}", "[find out|check|tell me|see] where [my order |my parcel |]{code} is", "[find out|check|tell me|see] when {code} [comes|arrives|will be here]"), ("the [status|place|whereabouts] of [my |the |]order {code}", "the place where [my |]parcel {code} is")),
    "convert": (("[convert|change|exchange|turn|swap] {p} {cur} [to|into|for] {cur2}", "[find out|tell me|see|check] how much {p} {cur} are in {cur2}"), ("{p} {cur} in {cur2}", "the value of {p} {cur} in {cur2}")),
    "roll_dice": (("[roll|throw|cast|toss] a [die|dice] with {m} sides", "[roll|throw] a {m}-sided [die|dice]", "roll a d{m}"), ()),
    "get_news": (("[get|read|show|tell|find] me the [latest |]news [about|on] {topic}", "[check|look up|read|find] the [latest |]news [about|on] {topic}", "find out what is new about {topic}", "show me headlines about {topic}"), ("the [latest |]news [about|on] {topic}", "what is new about {topic}")),
    "create_event": (("[add|put|enter|write] {word} [to|in|into] [my|the|our] calendar [for|on] {day}", "[plan|schedule|note|book] {word} [for|on] {day}", "make an appointment for {word} on {day}", "keep {day} free for {word}"), ()),
}


def asked(src, key, asks, last=None, **slots):
    """A request in its own words, or in a frame around what the tool does. With `last`, the request ends with it."""
    deeds, things = DEEDS[key]
    for _ in range(8):
        if src.chance(0.55):
            break
        if things and src.chance(0.4):
            ask = phrasing.know(src, src.say(src.pick(things), **slots))
        else:
            ask = any_tools.ordered(src, src.say(src.pick(deeds), **slots))
        if last is None or ask.endswith(last):
            return cap(ask) if src.chance(0.85) else ask
    return src.say(asks, **slots)
