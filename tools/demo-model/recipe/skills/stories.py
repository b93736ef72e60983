"""Short stories: a hero, a place, something that goes wrong, and an end."""

from .. import phrasing, words
from ..source import a, cap, divided, is_held, listed, pool
from ..turn import Turn

ANIMALS = """fox bear rabbit mouse owl hedgehog squirrel cat dog frog duck goose hen pig lamb goat pony donkey cow lion tiger
elephant giraffe zebra monkey panda koala penguin seal otter beaver badger mole hare deer wolf raven crow robin sparrow swallow
parrot swan turtle tortoise snail beetle ant bee butterfly dragonfly camel kangaroo hippo rhino whale dolphin crab lizard puppy
kitten hamster stork pigeon""".split()
ROLES = """baker farmer fisherman sailor painter gardener shepherd carpenter tailor teacher cook miller potter singer writer
beekeeper clockmaker postman librarian knight prince princess king queen wizard witch giant pirate blacksmith musician
inventor astronaut robot dragon ghost snowman lighthouse keeper""".replace("lighthouse keeper", "").split()
CHILDREN = ["boy", "girl"]
FEMALE = frozenset("princess queen witch hen cow goose girl".split())
THINGS_ALIVE = frozenset("robot snowman ghost dragon giant".split())
TRAITS = """little small young old clever kind shy brave curious lazy cheerful lonely hungry gentle proud quiet merry careful
clumsy friendly grumpy honest patient playful polite silly sleepy stubborn thoughtful tiny wise busy dreamy""".split()
ADJ_PLACE = "quiet green sunny deep dark wide small old lovely windy misty faraway peaceful snowy golden".split()
PLACES = [("forest", "in"), ("village", "in"), ("valley", "in"), ("town", "in"), ("meadow", "in"), ("garden", "in"), ("wood", "in"), ("harbour", "by"),
          ("island", "on"), ("hill", "on"), ("farm", "on"), ("lake", "by"), ("river", "by"), ("mountain", "on"), ("castle", "in"), ("park", "in"), ("orchard", "in"),
          ("city", "in"), ("sea", "by"), ("pond", "by"), ("bridge", "near"), ("mill", "near")]
OBJECTS = """key ring map lantern kite drum flute whistle ball bell book basket button scarf hat umbrella mirror compass clock
cup teapot blanket doll wagon sledge boat feather shell stone coin marble crown necklace letter violin trumpet bucket ladder spoon
candle bicycle balloon paintbrush telescope watch""".split()
OBJ_ADJ = "red blue green golden silver old shiny tiny wooden beautiful favourite bright little round striped precious".split()
FOOD = ["an apple pie", "a loaf of bread", "a basket of berries", "a bowl of soup", "a big cheese", "a honey cake", "a bag of nuts", "a pot of jam", "a basket of pears",
        "a chocolate cake", "a plate of pancakes", "a jar of honey", "a pumpkin", "a basket of plums", "a sack of potatoes", "a warm bun"]
SKILLS = [("swim", "the water"), ("whistle", "the sound"), ("dance", "the steps"), ("sing", "the song"), ("read", "the letters"), ("skate", "the ice"), ("climb", "the height"),
          ("juggle", "the three balls"), ("cook", "the fire"), ("paint", "the brush"), ("write", "the pen"), ("play the flute", "the notes"), ("ride a bicycle", "the wheels"),
          ("row a boat", "the oars"), ("play the drum", "the beat"), ("bake bread", "the dough"), ("fly a kite", "the wind")]
FEARS = [("the dark", "dark"), ("thunder", "loud"), ("deep water", "deep"), ("heights", "high"), ("strangers", "new"), ("the old well", "deep"), ("the night", "black"), ("big dogs", "big"),
         ("the forest", "dark"), ("storms", "wild"), ("spiders", "strange"), ("the cellar", "dark")]
GOALS = [("the sea", "the waves were blue and endless"), ("the top of the mountain", "the whole world lay below"), ("the great waterfall", "the water sang and sparkled"),
         ("the big city", "a thousand lights were shining"), ("the end of the rainbow", "the grass shone in seven colours"), ("the old tower", "the bells rang over the fields"),
         ("the desert", "the sand was warm and golden"), ("the snow", "everything was white and still"), ("the secret lake", "the stars swam in the water"), ("the northern lights", "the sky danced in green"),
         ("the giant tree", "its branches touched the clouds"), ("the island of birds", "a thousand birds were singing")]
CONTESTS = [("race", "ran"), ("singing contest", "sang"), ("baking contest", "baked"), ("dancing contest", "danced"), ("drawing contest", "drew"), ("kite contest", "flew the kite"),
            ("swimming race", "swam"), ("boat race", "rowed"), ("spelling contest", "spelled"), ("storytelling contest", "told a tale")]
SOUNDS = [("a strange humming", "a beehive in the chimney"), ("a soft knocking", "a branch that touched the window"), ("a sad whining", "a puppy behind the door"), ("a low rumbling", "an old cart on the stones"),
          ("a tiny tapping", "a woodpecker at its hole"), ("a strange whistling", "the wind in an empty bottle"), ("a loud snoring", "a badger asleep under the floor"), ("a bright jingling", "a cat with a bell"),
          ("a silver rustling", "a hedgehog in the leaves"), ("a slow creaking", "the old gate in the wind"), ("a quiet singing", "a cricket under the stove"), ("a hollow booming", "a frog inside a bucket")]
SEEDS = ["sunflower", "pumpkin", "apple", "bean", "rose", "cherry", "tulip", "melon", "pear", "oak"]
PRESENTS = ["a warm scarf", "a little boat", "a honey cake", "a painted box", "a kite of paper", "a song", "a wooden flute", "a picture", "a string of shells", "a cushion", "a lantern", "a poem", "a pair of mittens"]
WEATHER = ["sunny", "windy", "rainy", "foggy", "cold", "warm", "snowy", "bright", "grey", "stormy"]
TIMES = ["One morning", "One day", "One evening", "One {w} morning", "One {w} day", "One spring day", "One summer evening", "One autumn morning", "One winter day", "On a {w} afternoon", "One Sunday"]
PET_NAMES = divided("""Pip Momo Bruno Rusty Snowy Tilly Biscuit Pepper Poppy Socks Waffle Ziggy Bubbles Coco Dusty Fern Ginger Hazelnut Juno Kiki Lulu
Maple Nibbles Oscar Patch Pumpkin Rolo Sunny Toffee Twig Velvet Willow Bramble Clover Digby Echo Flicker Gus Hopper Inky Jolly Kettle Misty Nutmeg Olive
Pebble Quill Rocket Skipper Thistle Whiskers Acorn Bento Cricket Domino Frodo Goldie Mango Noodle Pickle Scout Teddy Truffle""".split())


class Hero:
    """Someone in a story: how to name them, and their pronouns."""

    def __init__(self, src, kind=None, name=None, taken=()):
        if kind is None:
            kind = src.pick(ANIMALS if src.chance(0.55) else ROLES if src.chance(0.65) else CHILDREN)
            while kind in taken:
                kind = src.pick(ANIMALS)
        self.kind = kind
        person = kind in CHILDREN or kind in ROLES
        if kind == "girl" or kind in FEMALE:
            self.she = True
        elif kind in ("boy", "prince", "king", "knight", "wizard", "fisherman", "postman"):
            self.she = False
        else:
            self.she = src.chance(0.5)
        if name is not None:
            self.name = name
            if name in words.HER or name in words.MEN:
                self.she = name in words.HER
        elif person and kind not in THINGS_ALIVE:
            self.name = src.pick(words.NAMES)
            while (self.name in words.HER) != self.she:
                self.name = src.pick(words.NAMES)
        else:
            self.name = src.pick(PET_NAMES)
        self.trait = src.pick(TRAITS)
        self.he, self.his, self.him = ("she", "her", "her") if self.she else ("he", "his", "him")

    def slots(self, prefix):
        """The slots of this hero; capitals begin sentences."""
        full = f"{a(self.trait)} {self.kind}" if self.trait else a(self.kind)
        return {prefix + "n": self.name, prefix + "k": self.kind, prefix + "full": full, prefix + "he": self.he, prefix + "his": self.his, prefix + "him": self.him,
                prefix + "He": cap(self.he), prefix + "His": cap(self.his), prefix + "t": self.trait}


_OPEN = ["Once upon a time there was {full} called {n}.", "Once upon a time there lived {full} named {n} {at}.", "There once was {full} whose name was {n}.", "{n} was {full} who lived {at}.",
         "Long ago, {at}, there lived {full} called {n}.", "{Place} there lived {full}. [{His} name was {n}|Everyone called {him} {n}].", "Once there was {full} named {n} who lived {at}."]
_CLOSE = ["And from that day on {n} {ever}.", "[That night|That evening] {n} fell asleep with a smile.", "{n} never forgot that day.", "And if you walk past {the_place} today, you can still hear them laugh.",
          "\"What a day,\" said {n}, and yawned happily.", "Since then {n} and {bn} have been [the best of friends|friends for life].", "And so it all ended well.", "[The two of them|Both] laughed until the stars came out.",
          "[It was the best day of the year|It was a day to remember]."]
_EVER = ["shared everything with {bn}", "was never lonely again", "smiled every morning", "listened to good advice", "knew that a friend is worth more than gold", "helped everyone who needed help", "was a little wiser"]

_PLOTS = {
    "lost": [
        "[{n} loved {his} {o} more than anything|The thing {n} liked best was {his} {o}|{n} had {ao} and took it everywhere].", "{time} the {ob} was gone[!|.]",
        "{n} looked under the bed, behind the door and [in the garden|on the roof|in the kitchen], but it was nowhere.", "[{He} sat down and [cried|sighed]|{He} was very sad|{n} did not know what to do].",
        "Then {bn} the {bk} came by. \"[Why are you so sad?|What is the matter?]\" {bhe} asked.", "\"I have lost my {ob},\" said {n}. \"[Let us look together|I will help you|Four eyes see more than two],\" said {bn}.",
        "They [searched the whole day|followed the path|looked behind every tree], and at last they found the {ob} [under a bush|beside the well|in a bird's nest|behind a big stone|in the tall grass].",
        "{n} [hugged {bn}|danced for joy|jumped up and down]. \"[Thank you|Thank you, my friend]!\" {he} said."],
    "friend": [
        "{n} had a warm house and plenty to eat, but [no friend|nobody to play with].", "[Every day {he} played alone|{He} often looked out of the window and sighed|{He} talked to the clouds because there was no one else].",
        "{time} a stranger came along the road: {bfull} called {bn}.", "\"[Are you new here?|Who are you?|Where do you come from?]\" asked {n}. \"I come from far away,\" said {bn}, \"and I do not know anyone.\"",
        "\"Then we are two,\" said {n}. \"[Would you like some tea?|Will you play with me?|Come in and have some soup.]\"", "They [played|talked|laughed] until it was dark, and {bn} showed {n} {ao}.",
        "\"May I come back tomorrow?\" asked {bn}. \"[Come every day|Of course|I would love that]!\" said {n}."],
    "storm": [
        "{time} black clouds came up, and [the wind began to howl|thunder rolled over the hills|rain fell in buckets].", "{n} ran home and shut the door. [Inside it was warm and dry|The fire was burning, and it was cosy].",
        "Then there was a knock. Outside stood {bn} the {bk}, [wet to the bone|shaking with cold|tired and hungry].", "\"My house has lost its roof,\" said {bn}. \"[May I stay here tonight?|Can I come in?]\"",
        "{n} [thought of the small bed and the last piece of bread|looked at {his} little room], but {he} opened the door wide. \"[Come in|Quick, sit by the fire]!\"",
        "They shared {food} and told each other stories while the storm [raged|roared] outside.", "In the morning the sun shone again, and together they [built a new roof|mended the house of {bn}|carried new boards up the ladder]."],
    "journey": [
        "{n} had one great wish: {he} wanted to see {goal}.", "{time} {he} packed {food} and {ao}, and set out.", "{He} walked [over hills|through fields], across [bridges|rivers] and past [sleeping villages|old mills|tall trees].",
        "On the way {he} met {bn} the {bk}, who was [stuck in the mud|lost|sitting by the road with a sore foot].", "{n} stopped and helped {bhim}. \"[Where are you going?|What is your way?]\" asked {bn}. \"To see {goal},\" said {n}. \"May I come too?\"",
        "[Three days later|After a long walk|At sunset] they were there, and {sight}.", "They stood still and [said nothing for a long time|held their breath]. \"[It is even better with you|I am glad that you came along],\" said {n}."],
    "fear": [
        "{n} was good at many things, but {he} was afraid of {fear}.", "[The others laughed at {him}|Nobody knew about it], and {n} [felt small|felt ashamed].", "{time} {his} friend {bn} the {bk} did not come home.",
        "\"[Someone must go and look|We must find {bhim}]!\" said everybody. But [no one moved|nobody dared to go].", "{n} took {ao} and a deep breath. {His} knees were shaking, but {he} thought of {bn} and went on, step by step.",
        "At last {he} heard a small voice: \"[I am here|Help]!\" It was {bn}, [caught in a thorn bush|stuck in a hole|with a hurt foot].", "{n} [pulled {bhim} out|helped {bhim} up] and brought {bhim} home.",
        "\"Were you not afraid?\" asked {bn}. \"Yes,\" said {n}, \"but [you were more important than my fear|being brave means to go anyway].\""],
    "contest": [
        "Every year there was a {contest} {at_short}, and this time {n} wanted to [win|take part].", "{He} practised every day, [early in the morning|in rain and sunshine|until the moon came up].", "{bn} the {bk} wanted to win too, and was [very good|faster than anyone|very proud].",
        "[Then|At last] the great day came, and all the neighbours [clapped|came to watch].", "{n} [did {his} best|was doing well], but then {he} saw that {bn} had [fallen over|hurt {bhis} foot|started to cry].", "{n} stopped and helped {bhim} up. So [neither of them won|someone else won the prize].",
        "But everybody cheered for {n}, and {bn} gave {him} {ao}. \"[You are the real winner|Next year we practise together],\" said {bn}."],
    "gift": [
        "It was nearly the birthday of {bn} the {bk}, and {n} wanted to give {bhim} something special.", "{He} had no money, so {he} decided to make {present}.", "[It was not easy|The first one went wrong|At first nothing worked], but {n} [tried again|did not give up] and worked [all night|for three days].",
        "{time} {n} went to {bn} with the present under {his} arm. On the way {he} [fell into a puddle|slipped on the wet grass], and the present [got dirty|got wet].", "{n} was sad. \"It is not beautiful any more,\" {he} said.",
        "But {bn} [smiled|beamed|laughed with joy]. \"You made it yourself, just for me. [It is the best present of all|I will keep it for ever]!\""],
    "lost way": [
        "{time} {n} followed [a blue butterfly|a bright butterfly|the sound of a bell|a hopping rabbit] deep into the forest.", "When {he} looked around, [everything looked the same|the path was gone], and it was getting dark.", "{n} [called|shouted], but only the echo answered.",
        "Then {he} saw a small light. It was {bn} the {bk} with {ao}.", "\"[Are you lost?|What are you doing out here?]\" asked {bn}. \"Do not be afraid. I know every tree in this forest.\"", "[Hand in hand|Side by side] they walked under the stars, past the old oak and over the little bridge.",
        "[Soon|At last] {n} saw the lights of home. \"[Will you come in for supper?|Stay with us tonight],\" {he} said, and {bn} was glad to."],
    "sharing": [
        "{time} {n} found {food} [by the road|on the doorstep|under a tree].", "\"[All mine|What luck]!\" thought {n} and [hid it|carried it home].", "On the way {he} met {bn} the {bk}, who had not eaten since [yesterday|the day before].", "{n} walked past. But {his} steps became slower and slower, because [{he} kept thinking of {bn}|{his} heart was heavy].",
        "At last {he} turned round. \"[There is enough for two|Let us share],\" said {n}.", "They sat down in the grass and ate. And it is strange, but [it tasted twice as good|half of it made {him} twice as happy].", "The next day {bn} brought {ao} for {n}. \"[For you|Because you are kind],\" {bhe} said."],
    "mystery": [
        "[One night|One {w} night] {n} woke up in the middle of the night. There was {sound}!", "[{He} pulled the blanket over {his} head|{His} heart beat fast|{He} lay very still]. What could it be? A ghost?", "{n} ran to {bn} the {bk}, who lived next door. \"[Did you hear it too?|Come quickly]!\" {he} whispered.",
        "Together they took {ao} and crept [up the stairs|through the dark|along the wall]. The sound came [nearer and nearer|from behind the shed].", "{bn} counted to three, and they looked. It was only {cause}!", "They laughed so much that [the whole street woke up|the owl flew away|their bellies hurt]."],
    "wish": [
        "{time} {n} found {ao} [on the beach|in the attic|in the grass]. When {he} rubbed it, a voice said: \"You have one wish.\"", "{n} thought of [gold|a palace|a mountain of sweets]. {He} thought of it for a whole day.", "In the evening {bn} the {bk} came by, and {bhe} was [ill|very sad|so tired that {bhe} could not walk].",
        "Then {n} knew what to wish for. \"I wish that my friend is [well|happy|strong] again,\" {he} said.", "There was a flash, and {bn} [jumped up|began to smile|danced around the room].", "The {ob} never spoke again. But {n} [did not mind|was richer than before], for {he} had a friend."],
    "learning": [
        "{n} could do many things, but {he} could not {skill}.", "\"I will never learn it,\" {he} said, because {hard} [scared {him}|was too much for {him}].", "{time} {he} met {bn} the {bk}, who could {skill} better than anyone.", "\"[Nobody is born a master|I fell a hundred times before I could do it],\" said {bn}. \"Come, I will show you.\"",
        "The first day went badly. The second day was [a little better|not much better]. On the third day {n} wanted to give up.", "\"[Once more|One last time],\" said {bn}. {n} closed {his} eyes, tried once more, and suddenly it worked!", "\"I can {skill}!\" {n} shouted. [Everyone came to see|The whole neighbourhood clapped]."],
    "garden": [
        "{time} {bn} the {bk} gave {n} a tiny {seed} seed. \"Plant it and be patient,\" {bhe} said.", "{n} planted it and gave it water. The next morning {he} looked: nothing. The day after: nothing.", "\"[It does not work|Perhaps it is asleep],\" said {n}. [{He} sang it a song|{He} told it stories|{He} put a fence around it].",
        "It rained, and the sun shone, and one morning there was [a small green tip|a tiny leaf].", "It grew and grew, [up to the window|over the wall|higher than the house], until it was the finest {seed} plant far and wide.", "In the autumn {n} and {bn} had a great feast [under its leaves|in the garden], and all the neighbours came."],
    "rescue": [
        "{time} {n} heard a weak cry. In the grass lay {bfull} with a hurt [leg|foot|back].", "\"[Do not be afraid|Lie still],\" said {n}. {He} took {ao} to carry {bhim} home.", "Every day {n} brought water and {food}, and told {bhim} what was going on outside.",
        "Slowly {bn}, for that was the name of the {bk}, [got better|became strong again]. One day {bhe} could [walk|stand up] again and had to go home.", "{n} was [sad|quiet], and the house felt empty.", "But in the spring there was a knock at the door. It was {bn}, and {bhe} had brought [the whole family|flowers|{food}]!"],
    "quarrel": [
        "{n} and {bn} the {bk} were friends and did everything together.", "{time} they found {ao}. \"[I saw it first|It is mine]!\" said {n}. \"No, [I did|it is mine]!\" said {bn}.", "They [pulled and shouted|quarrelled all day], and in the end each went home [angry|without a word].",
        "The next days were [long and boring|grey and silent]. {n} [missed the laughter of {bn}|had nobody to talk to].", "At last {n} took the {ob} and went to {bn}. \"You can have it,\" {he} said. \"[I would rather have you|A thing is only a thing].\"", "\"I was just coming to you to say the same,\" said {bn}. So they put the {ob} on the wall between their houses, where [both could see it|it belonged to both]."],
}
THEMES = {"lost": "a lost {ob}", "friend": "friendship", "storm": "a storm", "journey": "a journey", "fear": "being brave", "contest": "a contest", "gift": "a birthday present", "lost way": "getting lost",
          "sharing": "sharing", "mystery": "a strange sound", "wish": "a wish", "learning": "learning", "garden": "a {seed} seed", "rescue": "helping others", "quarrel": "a quarrel"}
_SHORT = {"lost": (0, 1, 6), "friend": (0, 2, 4, 5), "storm": (0, 2, 4, 6), "journey": (0, 1, 5), "fear": (0, 2, 4, 6), "contest": (0, 4, 5, 6), "gift": (0, 1, 2, 5), "lost way": (0, 1, 3, 6), "sharing": (0, 2, 4, 5),
          "mystery": (0, 2, 4), "wish": (0, 2, 3, 4), "learning": (0, 2, 5), "garden": (0, 1, 3, 4), "rescue": (0, 1, 3, 5), "quarrel": (0, 1, 4, 5)}


def tell(src, plot=None, kind=None, name=None, friend=None, place=None, thing=None, short=False):
    """A story with what was asked for in it; returns its text and its slots."""
    plot = plot or src.pick(tuple(_PLOTS))
    hero = Hero(src, kind, name)
    other = Hero(src, friend, taken=(hero.kind,))
    while other.name == hero.name:
        other = Hero(src, friend, taken=(hero.kind,))
    where, preposition = place or src.pick(PLACES)
    described = f"the {where}" if where in ("sea",) else f"a {src.pick(ADJ_PLACE)} {where}"
    described = described.replace("a old", "an old")
    thing = thing or src.pick(OBJECTS)
    adjective = src.pick(OBJ_ADJ)
    goal, sight = src.pick(GOALS)
    sound, cause = src.pick(SOUNDS)
    skill, hard = src.pick(SKILLS)
    slots = hero.slots("") | other.slots("b") | {
        "at": f"{preposition} {described}", "Place": cap(f"{preposition} {described}"), "at_short": f"{preposition} the {where}", "the_place": f"the {where}",
        "o": f"{adjective} {thing}", "ao": a(f"{adjective} {thing}"), "ob": thing, "time": src.say(src.pick(TIMES), w=src.pick(WEATHER)), "food": src.pick(FOOD), "w": src.pick(WEATHER), "goal": goal, "sight": sight, "sound": sound, "cause": cause,
        "skill": skill, "hard": hard, "fear": src.pick(FEARS)[0], "contest": src.pick(CONTESTS)[0], "present": src.pick(PRESENTS), "seed": src.pick(SEEDS)}
    slots["ever"] = src.say(src.pick(_EVER), **slots)
    sentences = [src.say(src.pick(_OPEN), **slots)]
    lines = _PLOTS[plot]
    sentences += [src.say(lines[i], **slots) for i in (_SHORT[plot] if short else range(len(lines)))]
    sentences.append(src.say(src.pick(_CLOSE), **slots))
    text = " ".join(cap(sentence) for sentence in sentences)
    for doubled, mark in (('?,"', '?"'), ('!,"', '!"'), ('?!"', '?"')):
        text = text.replace(doubled, mark)
    return text, slots | {"theme": THEMES[plot].format(**slots), "where": where}


_WISH = "[Tell me|Write|Write me|Can you tell me|Can you write|I want|I would like|Please tell me|Make up|Give me] "
_ANY = pool([_WISH + "a [short |little |nice |new |bedtime |]story[.|, please.|]", "[Story|A story], please.", "[Another|One more] story[, please|]!", "Do you know a [good |]story?", "I am bored, tell me a story."],
            ["My daughter wants to hear a story before she sleeps.", "Entertain us with a little tale, will you?"])
_ABOUT = pool([_WISH + "a [short |little |nice |bedtime |]story about {x}[.|, please.|]", "[A story|Story] about {x}[, please|].", "[Story|A tale] about {x}", "Do you know a story about {x}?", "I'd like to hear [a story|something] about {x}: make it a story."],
              ["Could there be a little tale in which {x} plays a part?", "My daughter loves {x}. Make up a bedtime story for her."])
_SHORT_ASK = pool([_WISH + "a very short story about {x}[.|]", "[Tell|Write] a story about {x} in a few sentences.", "A very short story about {x}, please.", "A tiny story about {x}."], ["Make it really short: a story about {x}."])


def story(src):
    """A story on request."""
    kind = src.pick(("any", "hero", "hero", "named", "two", "place", "thing", "theme", "short", "short"))
    hero = src.pick(ANIMALS) if src.chance(0.6) else src.pick(ROLES + CHILDREN)
    if kind == "any":
        text, slots = tell(src)
        return Turn(src.say(_ANY), text, None, f"A story: I take {slots['full']} called {slots['n']}, and it is about {slots['theme']}.", (), skill="stories")
    if kind in ("hero", "short"):
        while not src.fresh("story", hero, trait := src.pick(TRAITS)):
            hero = src.pick(ANIMALS)
        text, slots = tell(src, kind=hero, short=kind == "short")
        if src.chance(0.4):
            text = text.replace(a(slots["t"]) + " " + hero, a(trait) + " " + hero, 1)
            about = a(trait) + " " + hero
        else:
            about = a(hero)
        return _told(src, _SHORT_ASK if kind == "short" else _ABOUT, about, text, slots, hero)
    if kind == "named":
        name = cap(words.made_up(src)) if src.chance(0.3) else src.pick(words.NAMES if hero in ROLES + CHILDREN else PET_NAMES)
        text, slots = tell(src, kind=_fits(hero, name), name=name)
        about = f"{a(slots['k'])} [called|named] {name}"
        return _told(src, _ABOUT, src.say(about), text, slots, name)
    if kind == "two":
        friend = src.pick(ANIMALS)
        if friend == hero or not src.fresh("two", hero, friend):
            return story(src)
        text, slots = tell(src, kind=hero, friend=friend)
        return _told(src, _ABOUT, f"{a(hero)} and {a(friend)}", text, slots, friend)
    if kind == "place":
        place = src.pick(PLACES)
        text, slots = tell(src, kind=hero, place=place)
        text = _named_place(text, slots)
        return _told(src, _ABOUT, f"{a(hero)} {place[1]} {'the' if place[0] == 'sea' else 'a' if place[0][0] not in 'aeiou' else 'an'} {place[0]}", text, slots, hero)
    if kind == "thing":
        thing = src.pick(OBJECTS)
        if not src.fresh("thing", hero, thing):
            return story(src)
        text, slots = tell(src, plot=src.pick(("lost", "wish", "quarrel", "fear", "friend", "lost way")), kind=hero, thing=thing)
        return _told(src, _ABOUT, f"{a(hero)} and {a(thing)}", text, slots, thing)
    plot = src.pick(tuple(_PLOTS))
    text, slots = tell(src, plot=plot)
    return _told(src, _ABOUT, slots["theme"] if not slots["theme"].startswith("a lost") else f"a lost {slots['ob']}", text, slots, "")


def _fits(kind, name):
    """A hero's kind that goes with a name."""
    if name in words.HER:
        return {"boy": "girl", "prince": "princess", "king": "queen", "wizard": "witch", "knight": "painter", "fisherman": "sailor", "postman": "baker"}.get(kind, kind)
    if name in words.MEN:
        return {"girl": "boy", "princess": "prince", "queen": "king", "witch": "wizard"}.get(kind, kind)
    return kind


def _named_place(text, slots):
    return text if slots["where"] in text.split(".")[0] + text.split(".")[1] else text.replace(f"called {slots['n']}.", f"called {slots['n']}, who lived {slots['at']}.", 1).replace(
        f"whose name was {slots['n']}.", f"called {slots['n']}, who lived {slots['at']}.", 1)


def _told(src, asks, about, text, slots, expect):
    asked = phrasing.want(src, src.say("a [short |little |nice |bedtime ||]story about {x}", x=about)) if asks is _ABOUT and src.chance(0.5) else src.say(asks, x=about)
    return Turn(asked, text, None, f"The story is about {about}. I call the {slots['k']} {slots['n']}.", (expect,) if expect else (), skill="stories")


def raw(src):
    """A story as plain text."""
    text, slots = tell(src)
    return (f"{cap(src.pick(['the', 'the story of the', 'tale of the']))} {slots['k']} and the {slots['bk']}\n\n" if src.chance(0.2) else "") + text


# Small verses.

_POEMS = [
    "The {x} is {c}, the sky is blue,\n[a little song I bring to you|the wind is singing something new]. \nThe day is long, the night is near,\nand I am glad that you are here.",
    "A {x} sat down beside the sea\nand said: \"[Who wants to play with me?|How big the world can be!]\"\nThe waves came in, the waves went out,\nand that is what this song is about.",
    "I saw a {x} in the snow,\nit asked me where the wild winds go.\n\"They go,\" I said, \"from east to west,\nand when they tire, they take a rest.\"",
    "Good night, my {x}, close your eyes,\nthe moon is climbing up the skies.\nThe stars are out, the wind is still,\nand all is quiet on the hill.",
    "One {x} here, one {x} there,\none {x} in the evening air.\nI count them all, I count to ten,\nand then I start to count again.",
    "O {x}, {x}, small and bright,\nyou make the morning full of light.\nI write for you this little rhyme\nand wish you well until next time.",
]
_POEM = pool(["[Write|Write me|Tell me|Give me|Can you write] a [short |little |]poem[.|, please.|]", "[Write|Give me|Can you write] a [short |little |]poem about {ax}[.|]", "A poem about {ax}, please.", "[Write|Make] a rhyme about {ax}."],
             ["Turn {ax} into verse for me.", "I would love to read a few rhymes about {ax}."])


def poem(src):
    """Four lines that rhyme."""
    x = src.pick(ANIMALS + words.FLOWERS + ["star", "boat", "cloud", "tree"])
    text = src.say(src.pick(_POEMS), x=x, c=src.pick(("red", "white", "small", "fair", "brown"))).replace(" \n", "\n")
    asked = phrasing.want(src, f"a poem about {a(x)}") if src.chance(0.4) else src.say(_POEM, ax=a(x))
    return Turn(asked, text, None, f"A short poem, four lines, with a {x} in it.", (), skill="poems")
