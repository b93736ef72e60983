"""Frames around what is asked for, shared by all skills, and what people say before and after a question."""

from . import lexicon, words
from .source import a, cap, pool

# Around something that is to be known: `{n}` is `the capital of France`, `7 + 5`, `the weather in Rome`.
KNOW = pool((
    "What is {n}?", "[What's|whats] {n}[?|]", "Tell me {n}[.|, please.]", "{N}?", "{N}", "Give me {n}[.|, please.]", "Name {n}.", "Say {n}.", "I need {n}.", "I want {n}.", "{N}, please[.|]", "Do you know {n}?", "Can you tell me {n}?", "Could you [tell|give] me {n}?",
    "Please tell me {n}.", "I [want|would like|need] to know {n}.", "Do you know what {n} is?", "Can you tell me what {n} is?", "I wonder what {n} is[.|]", "Tell me what {n} is.", "I forgot {n}.", "I forgot what {n} is.", "Remind me of {n}.", "What was {n}[ again|]?", "{N} is what?", "{N} is?", "{N} is",
    "I am looking for {n}.", "My [son|daughter|friend|mother|teacher|boss|neighbour|uncle] [asks for|asks me for|wants|wants to know|needs] {n}.", "My [son|daughter|friend|mother|teacher|boss] asks what {n} is.", "[For|In] [my homework|school|a quiz|a puzzle|a crossword|work] I need {n}.", "The question is: what is {n}?", "Find {n}[.| for me.]",
    "Let me know {n}.", "Write {n}.", "Please [say|name|find|give me] {n}.", "Help me with {n}.", "Hi, what is {n}?", "Would you tell me {n}?", "Any idea what {n} is?", "Have you any idea what {n} is?", "I am not sure about {n}.", "Quick: {n}?", "Now {n}.", "Next, {n}[.|?]", "[Look up|Check|Work out|Figure out] {n}.", "How about {n}?",
    "I have to know {n}.", "We need {n}.", "Show me {n}.", "Answer me: what is {n}?", "Someone asked me for {n}.", "Someone asked me what {n} is.", "What could {n} be?", "What do you think {n} is?", "What might {n} be?", "I can't remember {n}.", "I do not remember {n}.", "Please explain {n}.", "Is it possible to know {n}?", "What exactly is {n}?",
    "So what is {n}?", "And what is {n}?", "Then what is {n}?", "Ok, what is {n}?", "Good, now tell me {n}.", "I would be glad to hear {n}.", "It would help me to know {n}.", "You surely know {n}.", "You know {n}, right?", "May I ask what {n} is?", "Can I ask you for {n}?", "Let us see: {n}?", "My question: {n}.", "Do tell me {n}.", "What should {n} be?",
    "[Could|Can|Would|Will] you [remind me of|give me|find|name|state|provide|supply|recall] {n}?", "I'd [like|love] to [know|hear|have|learn] {n}[.|, please.]", "It is {n} that I [need|want|look for].", "What I [want|need] to know is {n}.", "[First|Second|Last|New|Another|Small] question: {n}[.|?]", "Here is a question: what is {n}?", "Hmm, {n}?", "{N}, what is it?", "{N} - what is it?", "{N} would be?", "My [quiz|test|book|teacher|boss] asks for {n}.",
    "I have a question about {n}.", "[Inform|Teach|Enlighten] me about {n}.", "Explain {n} to me.", "The answer I need is {n}.", "I [never|don't|cannot] remember {n}.", "I keep forgetting {n}.", "Nobody could tell me {n}.", "[Can anybody|Can anyone|Can someone] tell me {n}?", "Does [anyone|anybody|someone here] know {n}?", "Who knows {n}?", "[Somebody|Someone] must know {n}.", "Is there a way to find out {n}?", "Help: {n}?", "{N} please", "pls {n}", "quick, {n}", "We are looking for {n}.",
    "I [bet|guess|hope|think|believe|am sure] you know {n}.", "[Surely|Maybe|Perhaps] you can tell me {n}[?|.]", "I [wonder|have been wondering|am thinking|want to ask] about {n}.", "If you know {n}, tell me.", "If you can, tell me {n}.", "[Type|Output|Return|Print|Report|Recall|Identify|Determine|Specify|Supply|State|Mention|Confirm|Clarify] {n}[.|]", "[Tell|Show|Teach] us {n}.", "We [want|would like|have|wish] to [know|hear|learn] {n}.", "[He|She|My friend|The customer] [wants|would like|has] to know {n}.", "I'm [asking|looking] for {n}.", "I'm here [for|because of] {n}.", "[Yes|No|Well|Right|Great|Thanks], and {n}?", "[Then|So|And|But] {n}?", "what's {n}", "Let us find out {n}.", "Let us [start|begin|go on] with {n}.", "Time for a question: {n}?", "I do not know {n}.", "I have no idea what {n} is.", "I'd [guess|say] you know {n}.", "{N}, [quickly|now|again|if you know it][.|]",
), (
    "Would you know {n}?", "I must find out what {n} is.", "We have to find {n}.", "Could I hear {n}?", "Can you say what {n} is?", "Please let me know what {n} is.", "I was asked for {n}.", "Now I need to know {n}."))
# Around something that is to be made: `{n}` is `a story about a fox`, `a JSON object with ...`.
WANT = pool((
    "Give me {n}[.|, please.]", "Write {n}[.|, please.]", "Write me {n}[.|]", "Make {n}[.|]", "Make me {n}.", "Create {n}[.|]", "I need {n}.", "I want {n}[.|]", "I would like {n}.", "I'd like {n}.", "{N}, please[.|]", "{N}", "{N}.", "Can you [give me|write|make|create] {n}?", "Could you [give me|write|make|create] {n}?", "Please [write|make|create|give me|produce] {n}[.|]",
    "Produce {n}.", "Generate {n}.", "Return {n}.", "Show me {n}.", "Let me have {n}.", "May I have {n}?", "Will you [write|make] {n}[ for me|]?", "Would you [write|make|create] {n}[ for me|]?", "My [son|daughter|friend|teacher|boss|program|neighbour] [wants|needs|asks for] {n}.", "[For|In] [my homework|school|a test|work] I need {n}.", "We need {n}.", "How about {n}?",
    "Now {n}.", "Next, {n}.", "Prepare {n}.", "Do {n}.", "Try {n}.", "Please let me see {n}.", "I am waiting for {n}.", "Come on, {n}!", "Compose {n}.", "Think of {n}.", "It is time for {n}.", "Print {n}.", "Output {n}.", "Reply with {n}.", "Answer with {n}.", "What I need is {n}.", "What I want is {n}.", "Help me to write {n}.", "Build {n}.", "I hope for {n}.",
    "[Draft|Put together|Set up|Deliver|Supply|Hand me|Get me|Bring me|Form|Construct|Design|Invent|Provide me with] {n}[.|]", "[I'd love|I would love|I am after|I was hoping for|I could use|I am in need of|I ask for|I require] {n}[.|]", "Could I [get|have|see] {n}?", "Is it possible to [make|write|create|get] {n}?", "All I [need|want] is {n}.", "One thing: {n}.", "Today I [want|need] {n}.", "Surprise me with {n}.", "Treat me to {n}.", "{N} for me, please.", "{N} would be [nice|great|lovely|good].", "{N} would help.", "Start with {n}.", "Do me a favour: {n}.", "I want to see {n}.",
    "I want you to [write|make|create|give me] {n}.", "You should [write|make|create] {n}.", "Time for {n}.", "[My boss|My friend|My teacher|The customer|She|He] [would like|wants to see|hopes for|is waiting for] {n}.", "Your task: {n}.", "Can we have {n}?", "[Well|So|Ok|Right], {n}.", "{n}",
), (
    "Please could I have {n}?", "Send me {n}.", "Can I get {n}?", "Please show me {n}.", "I am looking for {n}."))


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


_TAILS = [", please", ", thanks", ", will you?", ", if you can", ", and be quick", ", I am in a hurry", ", my friend", ", that would be great", ", okay?", ", can you?", ", would you?", ", it is for {n}", ", {n} wants to know", ", what do you say?", ", that is all", ", I need it for my {x}", ", and thanks", ", {n} asks", ", it is urgent", ", as I said", ", can you do that?",
          ", the {x} can wait", ", before I go to the {x}", ", {n} is waiting", ", and then we are done", ", or I will forget it", ", you know", ", nothing else", ", I think", ", my {x} is not here"]
_CLOSE_TAILS = [" now", " for me", " right away", " please", " again", " today", " if possible", " and nothing else", " when you can", " soon"]


def trailed(src, ask, values):
    """A request that goes on behind what it asks for; not where its end is a text that might go on itself."""
    bare = ask.rstrip("?.!")
    last = next((value for value in values if bare.endswith(value)), "")
    if any(mark in ask for mark in ':"={(\n') or " " in last and not last[:1].isupper():
        return ask
    tails = _TAILS if last or src.chance(0.6) else _CLOSE_TAILS
    return bare + src.say(src.pick(tails), n=src.pick(words.NAMES), x=src.pick(words.WORDS))


_ORDERS = frozenset("Find Get Show Search Play Book Set Read Open Add Put Send Text Tell Track Convert Roll Create Check Give Look Turn Switch Start Write Translate Calculate Compute Call Use Report Note Reserve Load Wake".split())


def strange(src, ask):
    """A request whose first word nobody knows: what is meant can be told from the rest, and from the tools at hand."""
    first, _, rest = ask.partition(" ")
    return f"{cap(words.made_up(src))} {rest}" if first in _ORDERS and rest.count(" ") > 1 else ask


_LOOSE = frozenset("""what what's which is are the a an of do does did you know can could would will tell me please i we my our to give it has have need
want like find say name for so and now then there that this be would should one us let your how about would""".split())
_FILLERS = "well just really now maybe actually kindly then quickly exactly again please oh um so hmm simply also only perhaps here right okay".split()


def shaken(src, ask):
    """A question in which small words are lost, put in, or others that are beside the point, as if spoken in a hurry: the
    words that matter stay."""
    out = []
    rate = src.pick((0.06, 0.12, 0.25, 0.4))
    for word in ask.split(" "):
        loose = word.lower().strip("?,.!:") in _LOOSE
        if loose and src.chance(rate):
            if src.chance(0.45):
                out.append(src.pick(_SWAPS) if src.chance(0.55) else src.pick(lexicon.ALL) if src.chance(0.7) else words.made_up(src))
            continue
        if src.chance(rate * 0.15):
            out.append(src.pick(_FILLERS))
        out.append(word)
    return " ".join(out) if out else ask


_SWAPS = tuple(sorted(_LOOSE - {"and", "how", "to"}))
