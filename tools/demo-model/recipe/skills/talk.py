"""Small talk, and what a user tells about themselves."""

from .. import phrasing, words, world
from ..source import a, cap, divided, pool
from ..turn import Turn
from .records import CITIES

# (questions of training, held out, answers)
_TALK = [
    (["hi", "hello", "hey", "Hello!", "Hi!", "Hey!", "Hi there[!|]", "Hello there[!|]", "hello?", "Hey there[!|]", "Good [morning|afternoon|evening|day][!|.|]", "Greetings[!|]", "Howdy[!|]", "Hello, [model|bot|tokenmill|demo][!|]", "Hi, [model|bot|tokenmill|demo][!|]", "Yo", "hiya", "Is anybody there?", "Are you there?", "ping", "test", "Hello, world!"],
     ["A very good morning to you!", "Hello hello!", "Hey you!", "Hi again, little model!"],
     ["Hello! [How can I help you?|What can I do for you?|Ask me something.]", "Hi! [How can I help you?|What can I do for you?|What would you like to know?]"]),
    (["How are you[?| today?| doing?]", "How do you do?", "How is it going?", "How's it going?", "Are you [well|ok|fine]?", "What's up?", "How are things?", "How do you feel[ today|]?", "You ok?", "How have you been?"],
     ["Is everything fine with you?", "How goes it today?"],
     ["I am fine, thank you! [And you?|What can I do for you?|How are you?]"]),
    (["[Thanks|Thank you|Thx|Many thanks|Thanks a lot|Thank you very much|Thank you so much|Great, thanks|Perfect, thanks|Ok thanks][!|.|]", "That helped[, thanks|].", "I am grateful."],
     ["You have my thanks!", "Cheers, that was kind of you."],
     ["You are welcome!", "You are welcome! [Anything else?|Just ask if you need more.]"]),
    (["[Bye|Goodbye|Bye bye|See you|See you later|Good night|Farewell|Take care|Until tomorrow|I have to go|I must go now][!|.|]", "That is all for today.", "I am leaving."],
     ["It is time for me to leave.", "So long, little model!"],
     ["Goodbye! [Come back soon.|Have a nice day.|See you.]"]),
    (["I am [fine|well|good|great|ok|happy][, thanks|, thank you|][.|!|]", "[Fine|Good|Great|Very well], [thanks|thank you][.|!|]", "I feel [great|good|wonderful][ today|].", "I'm [good|doing well]."],
     ["Everything is splendid on my side."],
     ["I am glad to hear that! What can I do for you?"]),
    (["I am [sad|tired|ill|sick|not well|unhappy|lonely|stressed|bored|angry][.|]", "I feel [bad|sad|lonely|awful|down|terrible][ today|][.|]", "I had a bad day.", "Today was [awful|terrible|hard].", "My day was bad.", "I'm [tired|sad]."],
     ["Nothing went right for me today.", "I am in low spirits."],
     ["I am sorry to hear that. [Shall I tell you a story?|Would a little story help?] I hope that you feel better soon."]),
    (["You are [great|nice|clever|smart|funny|the best|cool|amazing|wonderful|good][!|.|]", "I like you[!|.]", "Good [bot|job|work|model][!|.]", "Well done[!|.|]", "Nice[!|]", "[Wow|Awesome|Cool|Great|Perfect|Excellent][!|]", "I love [you|this]!", "That was [great|good|nice]."],
     ["You did that really well!", "What a clever little thing you are!"],
     ["Thank you! [That is kind of you.|I do my best.|I am glad that you like it.]"]),
    (["You are [stupid|dumb|bad|useless|wrong|silly|boring][!|.|]", "That is [wrong|not right|false|nonsense|incorrect][!|.|]", "I hate you.", "Bad [bot|answer][!|.]", "You made a mistake.", "This is bad.", "No, that's wrong."],
     ["What a useless answer that was.", "You got that wrong, my friend."],
     ["I am sorry. I am only a tiny demo model and make mistakes."]),
    (["[Ok|Okay|Yes|I see|Alright|Sure|Fine|Got it|Understood|Right|Hmm|Good|Aha][.|!|]", "ok", "yes", "cool", "k", "Yes, please."],
     ["I understand it now.", "All right then."],
     ["Good! [What else can I do for you?|Is there anything else?|What would you like to do next?]"]),
    (["No[.|!|]", "Nope[.|]", "No[,|] thanks[.|]", "No, that is all.", "Nothing[.|]", "Never mind[.|]", "Not now.", "no"],
     ["Not at the moment, no."],
     ["All right. [I am here if you need me.|Just ask when you need something.]"]),
    (["[Sorry|I am sorry|Excuse me|Pardon|My bad][.|!|]", "Sorry about that.", "I apologize."],
     ["Please forgive me."],
     ["No problem at all!"]),
    (["[What|huh|What?|Pardon?|I don't understand|I do not understand|What do you mean?|Say that again]", "Sorry, what?"],
     ["That went over my head."],
     ["Sorry, I may not have been clear. Ask me again in other words, please."]),
    (["[Can|Could] you help me[?| please?]", "I need [help|your help|some help][.|!|]", "Help me[, please|][.|!]", "May I ask [you |]something?", "Can I ask you a question?", "I have a question.", "I want to ask you something."],
     ["Would you lend me a hand?"],
     ["Of course! What would you like to know?"]),
    (["Let us [talk|chat].", "Talk to me.", "Can we [talk|chat]?", "I want to [talk|chat].", "Say something.", "Tell me something.", "Entertain me.", "I am bored."],
     ["Shall we have a little chat?"],
     ["Gladly! I could tell you a story, or you ask me for a capital, an opposite or a small sum. What do you like?"]),
    (["[Merry Christmas|Happy New Year|Happy Easter|Happy holidays][!|]"], ["The best wishes for the holidays!"], ["Thank you, the same to you!"]),
    (["It is my birthday[ today|][.|!]", "Today is my birthday[!|.]"], ["I turned a year older today."], ["Happy birthday! Have a wonderful day."]),
    (["[Sing|Sing me|Can you sing] [a song|something][.|?|]"], ["Would you sing for me?"], ["La la la, the mill goes round, la la la, with a clicking sound!"]),
    (["Do you [love|like] me?", "Will you marry me?", "Are you my friend?", "Can we be friends?", "Be my friend."], ["Is there friendship between us?"], ["I am only a tiny demo model, but I am glad that you are here."]),
    (["[What is|What's] new?", "Any news?", "What are you doing[ right now|]?", "What do you do all day?"], ["Has anything happened on your side?"], ["Nothing much: I wait for the next token. What can I do for you?"]),
]

_JOKES = [
    "Why did the bicycle fall over? It was two tired.", "What do you call a bear with no teeth? A gummy bear.", "Why do bees have sticky hair? They use honeycombs.", "What did the zero say to the eight? Nice belt!", "Why did the book go to the doctor? It hurt its spine.",
    "What has four wheels and flies? A garbage truck.", "Why is six afraid of seven? Because seven ate nine.", "What do you get from a pampered cow? Spoiled milk.", "Why did the computer go to bed? It needed to crash.", "What do you call a sleeping bull? A bulldozer.",
    "Why can your nose not be twelve inches long? Then it would be a foot.", "What do clouds wear? Thunderwear.", "How does a snowman get to work? By icicle.", "What kind of key opens a banana? A monkey.", "Why did the scarecrow win a prize? He was outstanding in his field.", "What do you call a fish without an eye? A fsh.",
]
_JOKE = pool(["[Tell me|Tell|Do you know|Give me|Can you tell me] a [good |funny |short |]joke[.|?|!|, please.]", "[A joke|Joke], please[.|!|]", "Make me laugh[.|!|]", "[Another|One more] joke[!|, please.]", "Do you know any jokes?", "Say something funny."], ["I could use a laugh right now.", "Cheer me up with something funny.", "Be funny.", "Tell me something funny.", "Do you know something funny?", "Say something that makes me laugh.", "I want to laugh.", "Have you a joke for me?", "Something funny, please.", "Can you be funny?", "joke", "Got a joke?", "Crack a joke.", "Let me hear a joke.", "I need a joke.", "Which jokes do you know?", "Joke time!"])
_FUN = [
    "Honey can keep for thousands of years.", "An octopus has three hearts.", "A day on Venus is longer than its year.", "Bananas are berries, but strawberries are not.", "Penguins propose with pebbles.", "A snail can sleep for very long.", "Butterflies taste with their feet.", "The heart of a shrimp is in its head.",
    "Lightning is hotter than the surface of the sun.", "Cats cannot taste sweet things.", "Wombats make square droppings.", "A group of flamingos is called a flamboyance.", "Giraffes sleep only a little each day.", "Otters hold hands when they sleep.", "Water covers most of the Earth.", "Trees can talk to each other through their roots.",
]
_FUN_ASK = pool(["[Tell me|Give me|Do you know] a [fun |funny |interesting |strange |small |]fact[.|?|, please.]", "[A fun fact|Fun fact], please.", "Tell me something [interesting|new].", "Teach me something[ new|].", "Surprise me."], ["Amaze me with something true.", "What is a curious thing to know?", "Astonish me.", "Tell me anything.", "Tell me something that I do not know.", "Give me a surprise.", "Something interesting, please.", "What should everyone know?", "I am bored, tell me something.", "Do you know something interesting?", "Any fun facts?", "Say something interesting.", "Tell me something surprising.", "Can you surprise me?", "I want to learn something."])
_RIDDLES = [
    "What has hands but cannot clap? A clock.", "What has a neck but no head? A bottle.", "What gets wetter the more it dries? A towel.", "What has keys but opens no door? A piano.", "What has teeth but cannot bite? A comb.", "What goes up and never comes down? Your age.", "What has one eye but cannot see? A needle.",
    "What can you catch but not throw? A cold.", "What has legs but does not walk? A table.", "What is full of holes and still holds water? A sponge.",
]
_RIDDLE = pool(["[Tell me|Give me|Do you know] a riddle[.|?|, please.]", "[A riddle|Riddle], please[.|]", "Ask me a riddle."], ["I would like something to puzzle over, a riddle."])
_COIN = pool(["[Flip|Toss] a coin[.|]", "Heads or tails?"], ["Let a coin decide for me."])
_PICK = pool(["[Pick|Choose|Tell me|Give me] a [random |]number [between|from] 1 [and|to] {n}[.|]"], ["Any number up to {n}, whatever you like."])
_CHOOSE = pool(["[Pick|Choose] one: {x} or {y}[.|?|]", "{X} or {y}?", "[Should I take|What is better,|Which do you prefer,] {x} or {y}?"], ["I cannot decide between {x} and {y}, you choose."])
_HAIKU = ["Rain on the mill wheel,\nturning slowly through the night.\nMorning brings new bread.", "A small blue dragonfly\nrests upon the quiet pond.\nThe summer is long.", "Snow on the old roof.\nA cat looks out of the window\nand dreams of the spring."]
_HAIKU_ASK = pool(["[Write|Give me|Can you write] a haiku[.|, please.|]", "A haiku, please."], ["Seventeen syllables, please."])


def small(src):
    """Something said in passing."""
    kind = src.weighted({"talk": 12, "joke": 1.2, "fun": 1, "riddle": 0.6, "coin": 0.2, "pick": 0.3, "choose": 0.6, "haiku": 0.2})
    if kind == "joke":
        return Turn(src.say(_JOKE), src.pick(_JOKES), None, "I tell a joke that I know.", ("?",), skill="talk")
    if kind == "fun":
        return Turn(src.say(_FUN_ASK), src.pick(_FUN), None, "I tell a small fact.", (".",), skill="talk")
    if kind == "riddle":
        return Turn(src.say(_RIDDLE), src.pick(_RIDDLES), None, "I tell a riddle that I know.", ("?",), skill="talk")
    if kind == "coin":
        return Turn(src.say(_COIN), src.pick(["Heads.", "Tails."]), None, "Heads or tails.", (), skill="talk")
    if kind == "pick":
        n = src.pick([6, 10, 20, 50, 100])
        return Turn(src.say(_PICK, n=n), f"{src.number(1, n)}.", None, f"A number up to {n}.", (), skill="talk")
    if kind == "choose":
        x, y = src.some(words.FRUITS + words.FOODS + words.COLOURS[:10] + words.SPORTS, 2)
        chosen = src.pick((x, y))
        return Turn(src.say(_CHOOSE, x=x, y=y, X=cap(x)), f"I would take {chosen}.", cap(chosen), f"I choose {chosen}.", (), skill="talk")
    if kind == "haiku":
        return Turn(src.say(_HAIKU_ASK), src.pick(_HAIKU), None, "Three lines.", (), skill="talk")
    train, held, answers = src.pick(_TALK[:5]) if src.chance(0.5) else src.pick(_TALK)
    return Turn(src.say(pool(train, held)), src.say(src.pick(answers)), None, "The user makes small talk. I answer in a friendly way.", (), skill="talk")


# What a user tells, and is asked for later. (key, how it is told, what is answered, how one asks, the answer)

_HOBBIES = divided(words.SPORTS + "painting cooking reading gardening chess dancing singing hiking fishing drawing knitting sewing climbing skating baking sailing camping photography".split())
_NOTES = [
    ("name", pool(["My name is {v}[.|]", "I am {v}[.|]", "I'm {v}[.|]", "[Hello|Hi|Hey], [I am|I'm|my name is|this is] {v}[.|!|]", "[Call me|You can call me] {v}[.|]", "My friends call me {v}.", "[Hello|Hi]! {v} here.", "Remember my name: {v}.", "my name's {v}"], ["They named me {v} when I was born.", "You may say {v} to me."]),
     "Nice to meet you, {v}! [How can I help you?|What can I do for you?|]", pool(["[What is|What's|Do you know|Do you remember|Tell me|Say] my name[?|]", "Who am I?", "How am I called?", "What was my name[ again|]?", "[Do you remember|Do you know|Can you tell me] [who I am|what I am called|what my name is]?"], ["My name is?", "My name?", "Say who I am.", "Do you still know my name?", "What name did I tell you?", "Which name is mine?", "By what name do I go?", "Can you still recall my name?"]), "Your name is {v}."),
    ("colour", pool(["My favourite colour is {v}[.|]", "My favorite color is {v}[.|]", "I like {v} best of all colours.", "{V} is my favourite colour."], ["Of all colours I prefer {v}."]), "{V} is a lovely colour.",
     pool(["[What is|What's|Tell me|Do you remember] my [favourite|favorite] [colour|color][?|]", "Which colour do I like best?", "What colour did I say I like?", "Which is my favourite colour?", "Which colour did I tell you?"], ["What is the colour that I like?", "What colour do I like?", "Tell me the colour that I like best.", "Do you know my favourite colour?", "My favourite colour is?", "What was my favourite colour?", "Which colour is it that I like?", "Name my favourite colour.", "What colour did I name?", "What colour did I tell you?", "Which colour did I say?", "Say my favourite colour.", "Can you still recall which colour is my favourite?"]), "Your favourite colour is {v}."),
    ("pet", pool(["I have a {k} called {v}[.|]", "My {k}'s name is {v}[.|]", "My {k} is called {v}[.|]", "We have a {k}, {v}."], ["At home a {k} by the name of {v} waits for me."]), "{v} is a fine name for a {k}.",
     pool(["[What is|What's|Tell me|Do you remember] the name of my {k}[?|]", "[What is|What's] my {k} called?", "How is my {k} called?", "What did I say is the name of my {k}?", "Do you remember my {k}?", "My {k} is called what?", "Which name does my {k} have?"], ["What name does my {k} have?", "What name has my {k}?", "My {k}'s name?", "Tell me how my {k} is called.", "The name of my {k}?", "Do you know my {k}'s name?", "What do I call my {k}?", "Which name did I give my {k}?", "Say the name of my {k}.", "Can you still recall how my {k} is called?"]), "Your {k} is called {v}."),
    ("city", pool(["I live in {v}[.|]", "I am from {v}[.|]", "I come from {v}[.|]", "My home is {v}[.|]", "I moved to {v}."], ["{v} is where my house stands."]), "{v} must be a fine place to live.",
     pool(["Where do I live?", "[What is|Tell me] my [home town|city|town][?|]", "Do you remember where I live?", "Which town did I say I am from?", "In which town do I live?", "Where am I from?"], ["Where do I come from?", "Where is my home?", "From which town am I?", "From where am I?", "What town am I from?", "Which town do I live in?", "What is my home?", "I am from where?", "Do you know where I am from?", "Tell me where I live.", "Where did I say I live?", "My town?", "Can you still recall where my home is?"]), "You live in {v}."),
    ("age", pool(["I am {v} years old[.|]", "I'm {v} years old[.|]", "I am {v}.", "My age is {v}."], ["I have lived for {v} years."]), "{v} is a good age.",
     pool(["How old am I?", "[What is|Tell me] my age[?|]", "Do you remember how old I am?", "What did I say about my age?", "How many years old am I?", "I am how old?"], ["My age?", "How many years am I?", "How old did I say I am?", "Tell me how old I am.", "Do you know my age?", "I am how many years old?", "Say how old I am.", "Of what age am I?", "Can you still recall my age?"]), "You are {v} years old."),
    ("job", pool(["I work as {av}[.|]", "I am {av}[.|]", "My job is {v}.", "I'm {av}."], ["By trade I am {av}."]), "Being {av} must be interesting.",
     pool(["[What is|What's|Tell me|Do you remember] my job[?|]", "What do I work as?", "What do I do for a living?", "What is my profession?", "Do you know my job?", "Which job do I have?"], ["My job?", "What is my work?", "Tell me what I work as.", "What job do I have?", "What job did I tell you?", "As what do I work?", "Say what my job is.", "Can you still recall how I earn my money?"]), "You work as {av}."),
    ("hobby", pool(["My hobby is {v}[.|]", "I like {v}[.|]", "In my free time I do {v}.", "I love {v}[.|!]", "I enjoy {v}."], ["Nothing beats {v} for me."]), "{V} sounds like fun.",
     pool(["[What is|What's|Tell me|Do you remember] my hobby[?|]", "What do I like to do?", "What do I enjoy?", "Which hobby do I have?", "Tell me what I like to do."], ["What hobby do I have?", "What is it that I like to do?", "Tell me what I enjoy.", "My hobby?", "What do I love?", "Do you know what I like to do?", "What do I do in my free time?", "Name my hobby.", "Say what I like to do.", "What did I say I like?", "Can you still recall my hobby?"]), "Your hobby is {v}."),
    ("word", pool(["[Remember|Keep in mind|Note|Please remember] [the word|this word:|the secret word] {v}[.|]", "The [password|secret word|code word] is {v}[.|]", "The magic word is {v}."], ["I trust you with this word: {v}."]), "I will remember it: {v}.",
     pool(["[What was|What is|Tell me] the [word|secret word|password|code word|magic word][?|]", "What did I ask you to remember?", "What was the word that I told you?", "Do you remember the word?", "Which word did I [give|tell] you?"], ["What word did I tell you?", "The word?", "Say the word.", "Tell me the word again.", "What was that word?", "Give me the word.", "Which word was it?", "What is the word that you keep?", "Can you still recall the word?"]), "The word is {v}."),
    ("number", pool(["[Remember|Keep in mind|Note|Please remember] the number {v}[.|]", "My [lucky |favourite |]number is {v}[.|]", "The code is {v}[.|]"], ["I trust you with this number: {v}."]), "I will remember it: {v}.",
     pool(["[What was|What is|Tell me] [the|my] number[?|]", "Which number did I [give|tell] you?", "What was the code?", "Do you remember the number?", "Which number did I say?"], ["The number?", "What number was it?", "Say the number.", "Tell me the number again.", "What number did I tell you?", "Give me the number.", "What is the number that you keep?", "Which number was it?", "Can you still recall the number?"]), "The number is {v}."),
    ("friend", pool(["My best friend is {v}[.|]", "My friend's name is {v}[.|]", "My [sister|brother|teacher|boss] is called {v}[.|]".replace("[sister|brother|teacher|boss]", "best friend")], ["I have a best friend by the name of {v}."]), "{v} is lucky to have you as a friend.",
     pool(["[Who is|What is the name of|Tell me the name of] my best friend[?|]", "How is my best friend called?", "Do you remember my best friend?"], ["My best friend is who?", "My best friend?", "Name my best friend.", "Which friend did I tell you about?", "Who did I say is my best friend?", "What is my best friend called?", "Can you still recall who my best friend is?"]), "Your best friend is {v}."),
]


_TOLD = {"name": "my name", "colour": "my favourite [colour|color]", "pet": "the name of my {k}", "city": "[my town|the town that I live in|my home]", "age": "my age", "job": "my [job|profession]", "hobby": "my hobby",
         "word": "the [word|secret word|word that I told you|word I gave you]", "number": "the number[ that I told you| I gave you|]", "friend": "[my best friend|the name of my best friend]"}


_RECALL = pool(["[Do you still know|Do you recall|Can you recall|Do you remember|Can you still tell me] {t}?", "[What did I tell you|What did I say|What have I told you|What do you know] about {t}?", "I told you {t}, what was it?", "Earlier I told you {t}[.|:] [What was it|Say it|Repeat it|Tell me again][?|.]", "[What|Which] was {t} again?", "I mentioned {t}[.|, you remember it?|, what was it?]", "Now [tell me|say|repeat|recall] {t}.", "You should [know|remember] {t}.", "You have not forgotten {t}, have you?", "[Show|Prove] that you remember {t}."],
               ["I hope you still remember {t}."])


def _recalled(src, key, asks, **slots):
    """A question for what was told: in its own words, in a frame of all skills, or in one of remembering."""
    kind = src.random.random()
    if kind < 0.5:
        return src.say(asks, **slots)
    told = src.say(_TOLD[key], **slots)
    return phrasing.know(src, told) if kind < 0.8 else src.say(_RECALL, t=told)


def note(src, taken=()):
    """Something told, and the question that is asked later: two turns, and the key."""
    while True:
        key, told, answer, asks, recall = src.pick(_NOTES)
        if key not in taken:
            break
    v = {"name": _name, "friend": _name, "colour": lambda s: s.pick(words.COLOURS), "pet": _name, "city": lambda s: s.pick(CITIES) if s.chance(0.7) else cap(words.made_up(s)), "age": lambda s: str(s.number(5, 99)),
         "job": lambda s: s.pick(world.JOBS)[0], "hobby": lambda s: s.pick(_HOBBIES), "word": lambda s: s.pick(words.WORDS) if s.chance(0.5) else words.made_up(s), "number": lambda s: str(s.number(1, 9999))}[key](src)
    slots = {"v": v, "V": cap(v), "av": a(v), "k": src.pick(["cat", "dog", "horse", "hamster", "parrot", "rabbit", "goldfish", "turtle"])}
    first = Turn(src.say(told, **slots), src.say(answer, **slots).strip(), None, f"The user tells me something: {v}. I will remember it.", (v,), rough=False, skill="memory")
    asked = _recalled(src, key, asks, **slots)
    later = Turn(asked, src.say(recall, **slots), cap(v), f"The user told me before: {v}.", (v,), skill="memory")
    return key, first, later


def _name(src):
    return cap(words.made_up(src)) if src.chance(0.4) else src.pick(words.NAMES)


_UNTOLD = {"name": "your name", "colour": "your favourite colour", "city": "where you live", "age": "your age", "job": "your job", "hobby": "your hobby", "friend": "the name of your best friend"}


def untold(src, told):
    """A question for something that was never told; `None` where everything was."""
    left = [key for key in _UNTOLD if key not in told]
    if not left:
        return None
    key = src.pick(left)
    asks = next(entry[3] for entry in _NOTES if entry[0] == key)
    asked = _recalled(src, key, asks, k="cat")
    return Turn(asked, f"You have not told me {_UNTOLD[key]} yet.", None, "The user has not told me this.", ("have not told me",), skill="memory")
