"""Frames around what is asked for, shared by all skills, and what people say before and after a question."""

from . import words
from .source import Pool, a, cap

# Around something that is to be known: `{n}` is `the capital of France`, `7 + 5`, `the weather in Rome`.
KNOW = Pool((
    "What is {n}?", "[What's|whats] {n}[?|]", "Tell me {n}[.|, please.]", "{N}?", "{N}", "Give me {n}[.|, please.]", "Name {n}.", "Say {n}.", "I need {n}.", "I want {n}.", "{N}, please[.|]", "Do you know {n}?", "Can you tell me {n}?", "Could you [tell|give] me {n}?",
    "Please tell me {n}.", "I [want|would like|need] to know {n}.", "Do you know what {n} is?", "Can you tell me what {n} is?", "I wonder what {n} is[.|]", "Tell me what {n} is.", "I forgot {n}.", "I forgot what {n} is.", "Remind me of {n}.", "What was {n}[ again|]?", "{N} is what?", "{N} is?", "{N} is",
    "I am looking for {n}.", "My [son|daughter|friend|mother|teacher|boss|neighbour|uncle] [asks for|asks me for|wants|wants to know|needs] {n}.", "My [son|daughter|friend|mother|teacher|boss] asks what {n} is.", "[For|In] [my homework|school|a quiz|a puzzle|a crossword|work] I need {n}.", "The question is: what is {n}?", "Find {n}[.| for me.]",
    "Let me know {n}.", "Write {n}.", "Please [say|name|find|give me] {n}.", "Help me with {n}.", "Hi, what is {n}?", "Would you tell me {n}?", "Any idea what {n} is?", "Have you any idea what {n} is?", "I am not sure about {n}.", "Quick: {n}?", "Now {n}.", "Next, {n}[.|?]", "[Look up|Check|Work out|Figure out] {n}.", "How about {n}?",
    "I have to know {n}.", "We need {n}.", "Show me {n}.", "Answer me: what is {n}?", "Someone asked me for {n}.", "Someone asked me what {n} is.", "What could {n} be?", "What do you think {n} is?", "What might {n} be?", "I can't remember {n}.", "I do not remember {n}.", "Please explain {n}.", "Is it possible to know {n}?", "What exactly is {n}?",
    "So what is {n}?", "And what is {n}?", "Then what is {n}?", "Ok, what is {n}?", "Good, now tell me {n}.", "I would be glad to hear {n}.", "It would help me to know {n}.", "You surely know {n}.", "You know {n}, right?", "May I ask what {n} is?", "Can I ask you for {n}?", "Let us see: {n}?", "My question: {n}.", "Do tell me {n}.", "What should {n} be?",
), (
    "Would you know {n}?", "I must find out what {n} is.", "We have to find {n}.", "Could I hear {n}?", "Can you say what {n} is?", "Please let me know what {n} is.", "I was asked for {n}.", "Now I need to know {n}."), True)
# Around something that is to be made: `{n}` is `a story about a fox`, `a JSON object with ...`.
WANT = Pool((
    "Give me {n}[.|, please.]", "Write {n}[.|, please.]", "Write me {n}[.|]", "Make {n}[.|]", "Make me {n}.", "Create {n}[.|]", "I need {n}.", "I want {n}[.|]", "I would like {n}.", "I'd like {n}.", "{N}, please[.|]", "{N}", "{N}.", "Can you [give me|write|make|create] {n}?", "Could you [give me|write|make|create] {n}?", "Please [write|make|create|give me|produce] {n}[.|]",
    "Produce {n}.", "Generate {n}.", "Return {n}.", "Show me {n}.", "Let me have {n}.", "May I have {n}?", "Will you [write|make] {n}[ for me|]?", "Would you [write|make|create] {n}[ for me|]?", "My [son|daughter|friend|teacher|boss|program|neighbour] [wants|needs|asks for] {n}.", "[For|In] [my homework|school|a test|work] I need {n}.", "We need {n}.", "How about {n}?",
    "Now {n}.", "Next, {n}.", "Prepare {n}.", "Do {n}.", "Try {n}.", "Please let me see {n}.", "I am waiting for {n}.", "Come on, {n}!", "Compose {n}.", "Think of {n}.", "It is time for {n}.", "Print {n}.", "Output {n}.", "Reply with {n}.", "Answer with {n}.", "What I need is {n}.", "What I want is {n}.", "Help me to write {n}.", "Build {n}.", "I hope for {n}.",
), (
    "Please could I have {n}?", "Send me {n}.", "Can I get {n}?", "Please show me {n}.", "I am looking for {n}."), True)


def know(src, thing):
    """A question for something that is to be known."""
    return src.say(KNOW, n=thing, N=cap(thing))


def want(src, thing):
    """A request for something that is to be made."""
    return src.say(WANT, n=thing, N=cap(thing))


# What has nothing to do with the question.

_BEFORE = [
    "[I am|We are] [writing|reading|preparing|looking at|working on|thinking about] [a|the|my] {x}.", "[My|Our|The] {x} is [new|old|broken|ready|too small|at home|in the {y}|very nice].", "It is [late|early|cold|warm|dark|raining|a nice day].", "I [have|had|saw|bought|found|lost] {ax} [today|yesterday|last week|this morning].",
    "{n} [and I are|is] [here|at home|on the way|in the garden|a bit tired|learning a lot].", "I am [at school|at work|on a train|in the kitchen|a teacher|a student|new here|in a hurry].", "My {x} expects a good answer.", "[I have|Here is] [a question|another question|one more question|something for you].", "We play a [quiz|game].",
    "[Hello|Hi|Hey|Good morning|Good evening][,| there,| again,] [I hope you are well|nice to see you|I am {n}|it is me].", "[Thanks|Thank you] [for the answer|for that|a lot].", "This is [easy|hard|important|for {n}|for my {x}|for school].", "[I like|We like|{n} likes] {ax}.", "[Listen|Look|Wait|Okay|Right|Well then|Good]:", "You can do this.", "Do not worry.", "I read about it in a {x}.",
    "The {x} and the {y} are [in the garden|on the table|not here|next to each other].", "My [calculator|phone|computer|book] is [broken|gone|not here|too old].", "[Somebody|Someone|A friend|{n}] asked me this [today|yesterday|at work|at school].", "Let us [begin|start|go on|try something else].", "Now [something else|something different|the next one|a new question].",
]
_AFTER = ["Thanks!", "Thank you.", "Please be quick.", "I am curious.", "It is for {n}.", "It is for my {x}.", "I need it for school.", "You are kind.", "{n} wants to know.", "What do you say?", "I have to know it.", "Be honest.", "It is important.", "I hope you know it.", "Please answer.", "Take your time.", "That is all.", "I forgot it."]


def surrounded(src, ask, after=True):
    """A question with something beside the point before it, or `after` it."""
    slots = {"x": src.pick(words.WORDS), "y": src.pick(words.WORDS), "n": src.pick(words.NAMES)}
    slots["ax"] = a(slots["x"])
    if not after or src.chance(0.7):
        return f"{src.say(src.pick(_BEFORE), **slots)} {ask}"
    return f"{ask if ask[-1:] in '.?!' else ask + src.pick('.?')} {src.say(src.pick(_AFTER), **slots)}"


_LOOSE = frozenset("""what what's which is are the a an of do does did you know can could would will tell me please i we my our to give it has have need
want like find say name for so and now then there that this be would should one us let your how about would""".split())
_FILLERS = "well just really now maybe actually kindly then quickly exactly again please oh um so hmm simply also only perhaps here right okay".split()


def shaken(src, ask):
    """A question in which small words are lost, doubled or put in, as if spoken in a hurry: the words that matter stay."""
    out = []
    rate = src.pick((0.06, 0.12, 0.25, 0.4))
    for word in ask.split(" "):
        loose = word.lower().strip("?,.!:") in _LOOSE
        if loose and src.chance(rate):
            if src.chance(0.3):
                out.append(src.pick(_SWAPS))
            continue
        if src.chance(rate * 0.15):
            out.append(src.pick(_FILLERS))
        out.append(word)
    return " ".join(out) if out else ask


_SWAPS = tuple(sorted(_LOOSE - {"and", "how", "to"}))
