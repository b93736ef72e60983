"""Small facts: a table of relations, each with ways to ask that training sees and ways that it never sees."""

from dataclasses import dataclass

from .. import phrasing, words, world
from ..source import Pool, a, cap, listed, pool
from ..turn import Turn


@dataclass(frozen=True, eq=False)
class Relation:
    """Rows `(x, y)`, and how one asks for `y`."""

    name: str
    nouns: tuple  # names of what is asked for, to be put into frames
    rows: tuple
    asks: Pool
    answer: str  # `{X}`, `{Y}`: with a capital
    think: str
    weight: float = 1.0
    proper: bool = False  # whether `y` keeps its capital in a one-word answer anyhow


def _relation(name, nouns, rows, common, rare, answer, think, weight=1.0, proper=False):
    return Relation(name, tuple(nouns), tuple(tuple(row) for row in rows), pool(common, rare), answer, think, weight, proper)


_NOUNS = {}
for _kind, _list in (("fruit", words.FRUITS), ("vegetable", words.VEGETABLES), ("drink", words.DRINKS), ("bird", words.BIRDS),
                     ("fish", words.FISH), ("insect", words.INSECTS), ("reptile", words.REPTILES), ("tree", words.TREES),
                     ("flower", words.FLOWERS), ("tool", words.TOOLS), ("musical instrument", words.INSTRUMENTS),
                     ("piece of furniture", words.FURNITURE), ("piece of clothing", words.CLOTHES), ("vehicle", words.VEHICLES),
                     ("building", words.BUILDINGS), ("sport", words.SPORTS), ("metal", words.METALS), ("mammal", words.MAMMALS),
                     ("colour", words.COLOURS)):
    for _word in _list:
        _NOUNS.setdefault(_word, _kind)
_MASS = set(words.DRINKS + words.SPORTS + words.METALS + words.COLOURS + ["spinach", "celery", "broccoli", "asparagus", "lettuce"])
KINDS = [(word if word in _MASS else a(word), a(kind)) for word, kind in _NOUNS.items() if word not in ("palm", "orange", "violet")]

RELATIONS = (
    _relation("capital", ['the capital of {x}', 'the capital of {x}', 'the capital city of {x}', "{x}'s capital"], world.CAPITALS.items(), [
        "[What is|What's|whats|Name|Tell me|Give me] the capital [of|city of] {x}[?|]", "[Which|What] city is the capital of {x}?",
        "The capital of {x}?", "[What is|Name|Tell me] {x}'s capital[?|]", "Capital of {x}[?|]", "{X}: what is the capital?",
        "[Do you know|Can you tell me|Could you tell me|I want to know|Please tell me] the capital of {x}[?|]",
        "[Do you know|Can you tell me|I wonder] what the capital of {x} is[?|]", "The capital city of {x} is called what?",
        "Where does the government of {x} sit?", "I forgot the capital of {x}[.|, what is it?| again]",
        "For my homework I need the capital of {x}.", "Which city is {x} governed from?", "What city serves as capital of {x}?",
        "My son asks what the capital of {x} is."], [
        "Quick quiz: capital of {x}, please?", "If I travel to {x}, which city is the capital there?",
        "Could you remind me which city is {x}'s capital?", "{X} has which capital city?", "Help me out: {x} and its capital?"],
        "The capital of {x} is {y}.", "The user asks for the capital of {x}. That is {y}.", 5.0, True),
    _relation("country", ["the country with the capital {x}", "the country whose capital is {x}"], [(y, x) for x, y in world.CAPITALS.items() if x != y], [
        "[Which country has|What country has] the capital {x}?", "{x} is the capital of [which country|what]?",
        "Of which country is {x} the capital?", "{x} is the capital of", "[Which|What] country is {x} the capital of?",
        "[Name|Tell me] the country whose capital is {x}."], [
        "Whose capital is {x}?", "In what country would I find the capital {x}?", "I am flying to {x}: which country has it as its capital?"],
        "{X} is the capital of {y}.", "{X} is a capital. Its country is {y}.", 2.0, True),
    _relation("continent", ["the continent of {x}", "the continent that {x} is in"], world.CONTINENT, [
        "[Which|What] continent is {x} [in|on|part of]?", "[On|In] which continent [is|lies] {x}?", "Where is {x}?", "{x} is on which continent?",
        "[Tell me|Name] the continent of {x}.", "What continent does {x} belong to?"], [
        "{x} lies on what continent?", "Which part of the world is {x} in, I mean the continent?", "To which continent does {x} belong?"],
        "{X} is in {y}.", "The user asks where {x} is. It is in {y}.", 1.5, True),
    _relation("language", ["the language of {x}", "the language that people speak in {x}"], world.LANGUAGE, [
        "[What|Which] language [do they speak|do people speak|is spoken] in {x}?", "What do people speak in {x}?",
        "[Tell me|Name] the language of {x}.", "What is the language of {x}?", "Which language would I need in {x}?"], [
        "If I go to {x}, what language will I hear?", "What language should I learn before a trip to {x}?", "{X}: main language?"],
        "In {x} people speak {y}.", "The language of {x} is {y}.", 1.0, True),
    _relation("currency", ['the currency of {x}', 'the currency in {x}', "{x}'s currency"], world.CURRENCY, [
        "[What|Which] currency [is used|do they use|do people use] in {x}?", "What is the currency of {x}?", "What money do they have in {x}?",
        "[Tell me|Name] the currency of {x}.", "How do you pay in {x}?", "What is {x}'s currency?"], [
        "Which money should I take along to {x}?", "With what currency do I pay in {x}?", "{X}: which currency?"],
        "The currency of {x} is the {y}.", "In {x} one pays with the {y}.", 1.0),
    _relation("sound", ["the sound of {ax}", "the sound that {ax} makes"], world.SOUNDS, [
        "[What|Which] sound does [a|the] {x} make?", "What does [a|the] {x} say?", "What noise does [a|the] {x} make?", "The {x} goes?",
        "How does {ax} sound?", "[Tell me|Name] the sound of {ax}."], [
        "If you meet {ax}, what do you hear?", "Which noise would {ax} make?", "What is the sound that {ax} makes?"],
        "{aX} says {y}.", "The sound of {ax} is {y}.", 1.2),
    _relation("legs", ["the number of legs of {ax}", "the number of legs that {ax} has"], world.LEGS, [
        "How many legs does [{ax}|the {x}] have?", "How many legs has {ax}?", "[Tell me|What is] the number of legs of {ax}[.|?]",
        "Legs of {ax}?", "{aX} has how many legs?", "On how many legs does {ax} walk?", "How many legs do you see on {ax}?"], [
        "Count the legs of {ax} for me.", "What number of legs does {ax} have?", "If I draw {ax}, how many legs must I draw?"],
        "{aX} has {y} legs.", "I think of {ax}: it has {y} legs.", 1.6),
    _relation("baby", ["the name of a baby {x}", "the word for a young {x}", "the word for a baby {x}"], world.BABIES, [
        "What is a baby {x} called?", "What do you call a [young|baby] {x}?", "[Name|Tell me the name of] the young of {ax}.",
        "The baby of {ax} is called?", "How is a young {x} called?", "What is the word for a baby {x}?"], [
        "A little {x} that was just born is a what?", "Which word do we use for the young of the {x}?", "What is the child of {ax} called?"],
        "A young {x} is called a {y}.", "The word for a young {x} is {y}.", 1.0),
    _relation("home", ["the home of {ax}"], world.HOMES, [
        "Where does {ax} live?", "What is the home of {ax} called?", "What do you call the home of {ax}?", "In what does {ax} live?",
        "Name the home of {ax}.", "Where does the {x} sleep?"], [
        "Which home does {ax} have?", "Where would you find {ax} at home?"],
        "{aX} lives in {ay}.", "The home of {ax} is {ay}.", 0.8),
    _relation("group", ["the word for a group of {x}", "the name of a group of {x}"], world.GROUPS, [
        "What is a group of {x} called?", "What do you call a group of {x}?", "A group of {x} is called?", "Name a group of {x}.",
        "What is the word for many {x} together?"], [
        "Many {x} together form a what?", "Which word means a group of {x}?"],
        "A group of {x} is called {ay}.", "The word for a group of {x} is {y}.", 0.8),
    _relation("eats", ["the food of {ax}"], world.EATS, [
        "What does [a|the] {x} eat?", "What do you give {ax} to eat?", "What is the food of {ax}?", "Tell me what {ax} eats.",
        "What do you feed {ax}?", "What does {ax} like to eat?"], [
        "What is on the menu of {ax}?", "On what does {ax} feed?"],
        "{aX} eats {y}.", "The food of {ax} is {y}.", 0.8),
    _relation("gives", (), world.GIVES, [
        "What does {ax} [make|give|produce]?", "What do we get from {ax}?", "Tell me what {ax} makes.", "What comes from {ax}?"], [
        "What can one get from {ax}?", "Name a thing that {ax} produces."],
        "{aX} gives us {y}.", "From {ax} we get {y}.", 0.8),
    _relation("colour", ["the colour of {x}", "the color of {x}"], world.COLOUR_OF, [
        "[What|Which] [colour|color] is {x}?", "What is the [colour|color] of {x}?", "[Tell me|Name] the [colour|color] of {x}.",
        "{X} is [what|which] [colour|color]?", "[In what|Which] [colour|color] would you paint {x}?", "[Colour|Color] of {x}?",
        "What [colour|color] does {x} have?", "I want to draw {x}, [what|which] [colour|color] do I need?"], [
        "Which crayon do I take for {x}?", "If you look at {x}, which colour do you see?", "The colour of {x} is what?"],
        "{X} is {y}.", "I picture {x}: it is {y}.", 2.0),
    _relation("opposite", ["the opposite of {x}", "the opposite of {x}", "the antonym of {x}", "the contrary of {x}", "the opposite of the word {x}"], world.OPPOSITE_OF, [
        "[What is|What's|whats|Tell me|Give me|Name] the opposite of [{x}|\"{x}\"|the word {x}][?|]", "Opposite of {x}[?|]",
        "What is the [contrary|antonym] of {x}?", "The opposite of {x} is", "[Which|What] word means the opposite of {x}?",
        "{X}: what is the opposite?", "Not {x} but?", "[Do you know|Can you tell me] the opposite of {x}?", "Antonym of {x}?",
        "Say the opposite of {x}."], [
        "I say {x}, you say the opposite:", "Which word is opposite in meaning to {x}?", "What would be the reverse of {x}?",
        "If it is not {x}, what is its opposite?"],
        "The opposite of {x} is {y}.", "The user wants the opposite of {x}. It is {y}.", 3.5),
    _relation("synonym", ["a synonym of {x}", "a synonym for {x}", "another word for {x}"], world.SYNONYMS, [
        "[What is|Give me|Tell me] [another word|a synonym] for {x}[?|]", "Which word means the same as {x}?", "Synonym of {x}?",
        "How else can I say {x}?", "[Name|Find] a word that means {x}.", "A synonym for {x}, please."], [
        "I need a different word for {x}.", "What word has the same meaning as {x}?"],
        "Another word for {x} is {y}.", "A word with the meaning of {x} is {y}.", 1.0),
    _relation("plural", ["the plural of {x}", "the plural form of {x}"], world.IRREGULAR_PLURALS, [
        "What is the plural of {x}?", "[Plural of|The plural of] {x}[?|]", "[Tell me|Give me|Name] the plural of {x}.", "One {x}, two what?",
        "How do you write more than one {x}?", "The plural form of {x} is?", "What is {x} in the plural?"], [
        "One {x}, many ...?", "If there are several, what does {x} become?", "Which is the plural form of the word {x}?"],
        "The plural of {x} is {y}.", "One {x}, many {y}.", 1.2),
    _relation("past", ["the past tense of {x}", "the past form of {x}", "the past of {x}"], world.PAST, [
        "What is the past tense of {x}?", "[Past tense of|The past tense of] {x}[?|]", "[Tell me|Give me|Name] the past tense of {x}.",
        "Today I {x}, yesterday I?", "What is {x} in the past tense?", "The past of {x} is?", "What is the past form of the verb {x}?"], [
        "Put the verb {x} into the past.", "How do you say {x} when it was yesterday?", "Which word is the past tense of to {x}?"],
        "The past tense of {x} is {y}.", "Yesterday: {y}.", 1.6),
    _relation("day after", ["the day after {x}", "the day that comes after {x}"], zip(world.DAYS, world.DAYS[1:] + world.DAYS[:1]), [
        "[What|Which] day [comes after|follows|is after] {x}?", "What is the day after {x}?", "Day after {x}?",
        "If today is {x}, what [day is|is] tomorrow?", "Today is {x}. What is tomorrow?", "After {x} comes?", "[Tell me|Name] the day after {x}."], [
        "It is {x} now, so which day will it be tomorrow?", "Name the day that follows {x}.", "{X} is over: which day begins?"],
        "The day after {x} is {y}.", "After {x} comes {y}.", 0.8, True),
    _relation("day before", ["the day before {x}", "the day that comes before {x}"], zip(world.DAYS[1:] + world.DAYS[:1], world.DAYS), [
        "[What|Which] day [comes before|is before] {x}?", "What is the day before {x}?", "Day before {x}?",
        "If today is {x}, what was yesterday?", "Today is {x}. What was yesterday?", "[Tell me|Name] the day before {x}."], [
        "It is {x} now, so which day was it yesterday?", "Which day precedes {x}?"],
        "The day before {x} is {y}.", "Before {x} comes {y}.", 0.8, True),
    _relation("month after", ["the month after {x}", "the month that comes after {x}"], zip(world.MONTHS, world.MONTHS[1:] + world.MONTHS[:1]), [
        "[What|Which] month [comes after|follows|is after] {x}?", "What is the month after {x}?", "Month after {x}?", "After {x} comes which month?",
        "[Tell me|Name] the month after {x}.", "It is {x}. What is the next month?", "After {x} which month comes?"], [
        "Which month do we have when {x} is over?", "Name the month that follows {x}.", "{X} ends and which month starts?"],
        "The month after {x} is {y}.", "After {x} comes {y}.", 0.9, True),
    _relation("month before", ["the month before {x}", "the month that comes before {x}"], zip(world.MONTHS[1:] + world.MONTHS[:1], world.MONTHS), [
        "[What|Which] month [comes before|is before] {x}?", "What is the month before {x}?", "It is {x}. What was last month?",
        "[Tell me|Name] the month before {x}.", "Month before {x}?"], [
        "Which month precedes {x}?", "{X} has just begun: which month was it before?"],
        "The month before {x} is {y}.", "Before {x} comes {y}.", 0.9, True),
    _relation("month number", ["the {x} month of the year", "the {x} month"], zip(world.ORDINALS, world.MONTHS), [
        "What is the {x} month of the year?", "Which month is the {x}?", "Name the {x} month.", "The {x} month of the year is?",
        "Tell me the {x} month."], [
        "Which month comes {x} in the year?", "In the calendar, what is the {x} month?"],
        "The {x} month is {y}.", "Counting from January, the {x} is {y}.", 0.7, True),
    _relation("month days", ["the number of days in {x}", "the number of days of {x}"], world.MONTH_DAYS, [
        "How many days [does {x} have|has {x}|are in {x}|are there in {x}]?", "Days in {x}?", "How long is {x}?", "[Tell me|What is] the number of days in {x}[.|?]",
        "{X} has how many days?"], [
        "What number of days does the month of {x} have?", "After how many days is {x} over?"],
        "{X} has {y} days.", "{X} is a month of {y} days.", 0.8),
    _relation("season", ["the season of {x}"], world.SEASON_OF, [
        "[What|Which] season is {x} in?", "In which season [is|lies] {x}?", "{X} is in which season?", "What season do we have in {x}?",
        "Which season does {x} belong to?"], [
        "{X}: which season is that?", "What time of the year is {x}, I mean the season?"],
        "{X} is in {y}.", "In the north {x} lies in {y}.", 0.7),
    _relation("season after", ["the season after {x}"], zip(world.SEASONS, world.SEASONS[1:] + world.SEASONS[:1]), [
        "[What|Which] season [comes after|follows|is after] {x}?", "After {x} comes which season?", "What is the season after {x}?",
        "Which season is next after {x}?"], [
        "When {x} is over, which season begins?", "Name the season that follows {x}."],
        "After {x} comes {y}.", "The season after {x} is {y}.", 0.4),
    _relation("letter after", ["the letter after {x}", "the letter that comes after {x}"], zip("ABCDEFGHIJKLMNOPQRSTUVWXY", "BCDEFGHIJKLMNOPQRSTUVWXYZ"), [
        "What is the letter after {x}?", "The next letter after {x}?", "In the alphabet, what comes after {x}?", "After {x} comes which letter?",
        "[Tell me|Name] the letter after {x}.", "Which letter follows {x}?", "[What|Which] letter comes after {x}?"], [
        "Which letter stands right behind {x} in the alphabet?", "Name the letter that follows {x}."],
        "The letter after {x} is {y}.", "The alphabet goes {x}, {y}.", 0.9, True),
    _relation("letter before", ["the letter before {x}", "the letter that comes before {x}"], zip("BCDEFGHIJKLMNOPQRSTUVWXYZ", "ABCDEFGHIJKLMNOPQRSTUVWXY"), [
        "What is the letter before {x}?", "In the alphabet, what comes before {x}?", "Before {x} comes which letter?",
        "[Tell me|Name] the letter before {x}.", "Which letter precedes {x}?", "[What|Which] letter comes before {x}?"], [
        "Which letter stands right in front of {x} in the alphabet?", "Name the letter that precedes {x}."],
        "The letter before {x} is {y}.", "The alphabet goes {y}, {x}.", 0.9, True),
    _relation("planet number", ["the {x} planet from the sun", "the {x} planet"], zip(world.ORDINALS[:8], world.PLANETS), [
        "[What|Which] is the {x} planet from the sun?", "Which planet is {x} from the sun?", "Name the {x} planet.",
        "Tell me the {x} planet from the sun.", "The {x} planet is?"], [
        "Counting from the sun, which planet is the {x}?", "What planet comes {x} when you start at the sun?"],
        "The {x} planet from the sun is {y}.", "Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus, Neptune: the {x} is {y}.", 0.6, True),
    _relation("superlative", ["the {x}"], [(f"{s} {t}", y) for s, t, y in world.SUPERLATIVES], [
        "[What|Which] is the {x}?", "[Tell me|Name] the {x}.", "[What's|Which one is] the {x}?", "The {x} is?", "[Do you know|Can you name] the {x}?"], [
        "What do we call the {x}?", "Which one would you say is the {x}?", "I am looking for the {x}."],
        "The {x} is {y}.", "The user asks for the {x}. It is {y}.", 1.5, True),
    _relation("trivia", ["the name of the person who {x}", "the person who {x}"], world.TRIVIA, [
        "Who {x}?", "[Tell me|Do you know|Can you tell me] who {x}[.|?]", "Which person {x}?", "Name the person who {x}.",
        "Who was it that {x}?"], [
        "What is the name of the person who {x}?", "I forgot who {x}.", "Somebody {x}: who?"],
        "{Y} {x}.", "The one who {x} is {y}.", 1.5, True),
    _relation("place", ["the place where {x} is"], world.PLACES, [
        "[Where|In which place] is {x}?", "Where can I [see|find|visit] {x}?", "{X} is where?", "[Tell me|Do you know] where {x} is[.|?]",
        "Where do I have to go to see {x}?"], [
        "To what place do I travel for {x}?", "In what place does {x} stand?"],
        "{X} is in {y}.", "The user asks for the place of {x}. It is in {y}.", 1.0, True),
    _relation("element", ["the symbol of {x}", "the chemical symbol of {x}", "the chemical symbol for {x}"], world.ELEMENTS, [
        "[What is|Tell me|Give me] the [chemical symbol|symbol] [of|for] {x}[?|]", "Symbol of {x}?", "Which symbol does {x} have?",
        "What does {x} look like in the periodic table?", "Chemical symbol for {x}?"], [
        "How do chemists write {x}?", "Which letters stand for {x} in chemistry?"],
        "The symbol of {x} is {y}.", "Chemists write {x} as {y}.", 0.9, True),
    _relation("job", ["the work of {ax}", "the job of {ax}"], world.JOBS, [
        "What does {ax} do?", "What is the job of {ax}?", "What is {ax}?", "Tell me what {ax} does.", "What is the work of {ax}?"], [
        "How does {ax} spend the working day?", "Explain the job of {ax}."],
        "{aX} {y}.", "{aX} is someone who {y}.", 0.9),
    _relation("who works", ["the word for someone who {x}", "the word for a person who {x}"], [(y, x) for x, y in world.JOBS], [
        "Who {x}?", "What do you call someone who {x}?", "Which job is it: someone who {x}?", "What is the word for a person who {x}?",
        "What is somebody who {x} called?"], [
        "A person who {x} is a what?", "Name the job of a person who {x}."],
        "A {y} {x}.", "Someone who {x} is a {y}.", 0.8),
    _relation("use", ["the use of {x}", "the purpose of {x}"], world.USES, [
        "What is {x} for?", "What do you [use|need] {x} for?", "What can [you|I|one] do with {x}?", "What is the use of {x}?",
        "Why do people have {x}?", "Tell me what {x} is for."], [
        "For what purpose does one have {x}?", "I found {x}: what do I do with it?"],
        "You use {x} to {y}.", "With {x} one can {y}.", 0.9),
    _relation("what for", ["a thing to {x} with"], [(y, x) for x, y in world.USES], [
        "What do you use to {x}?", "What do I need to {x}?", "With what do you {x}?", "[Name|Tell me] a thing to {x} with.",
        "What is used to {x}?", "Which thing helps you to {x}?"], [
        "I want to {x}: what should I take?", "Which object do people take to {x}?"],
        "You use {y} to {x}.", "The thing to {x} is {y}.", 0.9),
    _relation("body", ["the use of the {x}"], world.BODY, [
        "What do you do with your {x}?", "What are your {x} for?", "What do we use the {x} for?", "What does the {x} do?", "Why do we have {x}?"], [
        "For what do people need the {x}?", "Your {x} help you to do what?"],
        "You use your {x} to {y}.", "The {x} are there to {y}.", 0.4),
    _relation("made of", ["the material of {x}"], world.MADE_OF, [
        "What is {x} made [of|from]?", "Of what is {x} made?", "What do you need to make {x}?", "Which material is {x} made of?",
        "Tell me what {x} is made of."], [
        "From what does one make {x}?", "What is inside {x}, what is it made from?"],
        "{X} is made of {y}.", "One makes {x} from {y}.", 0.7),
    _relation("becomes", (), [(f"{x} {how}", y) for x, how, y in world.STATES], [
        "What happens when {x}?", "What do you get when {x}?", "When {x}, what does it become?", "What does it turn into when {x}?"], [
        "{X}: what is it afterwards?", "If {x}, what is the result?"],
        "When {x}, it becomes {y}.", "The result is {y}.", 0.5),
    _relation("unit", ["the number of {m} in {o}"], [(f"{many} are in {one}", y, many, one) for many, one, y in world.UNITS], [
        "{M} in {o}?", "How many {x}?", "How many {m} [does {o} have|has {o}|make {o}|are there in {o}]?", "[Tell me|What is] the number of {m} in {o}[.|?]",
        "{O} has how many {m}?"], [
        "What number of {m} makes up {o}?", "I have {o}: how many {m} is that?", "How many {m} do I count in {o}?"],
        "There are {y} {m} in {o}.", "{O} has {y} {m}.", 1.8),
    _relation("sides", ["the number of sides of {ax}", "the number of corners of {ax}"], world.SHAPES, [
        "How many [sides|corners] does [a|an|the] {x} have?", "How many sides has {ax}?", "[Sides|Corners] of {ax}?",
        "{aX} has how many [sides|corners]?", "Tell me how many sides {ax} has."], [
        "If I draw {ax}, how many sides do I draw?", "What number of sides belongs to {ax}?"],
        "{aX} has {y} sides.", "{aX} is a shape with {y} sides.", 0.6),
    _relation("kind", (), KINDS, [
        "What is {x}?", "What kind of thing is {x}?", "Tell me what {x} is.", "What's {x}?", "What do you know about {x}?", "Define {x}.",
        "{X}: what is that?", "Do you know what {x} is?", "Explain what {x} is."], [
        "To what group of things does {x} belong?", "How would you classify {x}?", "What sort of thing is {x}?"],
        "{X} is {y}.", "The user asks what {x} is. It is {y}.", 3.0),
)
_WEIGHTS = {relation: relation.weight for relation in RELATIONS}


def fact(src):
    """A question about a small fact."""
    return of_relation(src, src.weighted(_WEIGHTS))


def of_relation(src, relation):
    """A question of one relation."""
    return ask(src, relation, src.pick(relation.rows))


def ask(src, relation, row):
    """A question about one row."""
    x, y = row[0], row[1]
    slots = {"x": x, "y": y, "X": cap(x), "Y": cap(y), "ax": a(x), "aX": cap(a(x)), "ay": a(y)}
    if len(row) == 4:
        slots |= {"m": row[2], "o": row[3], "M": cap(row[2]), "O": cap(row[3])}
    framed = relation.nouns and src.chance(0.5)
    asked = phrasing.know(src, src.say(src.pick(relation.nouns), **slots)) if framed else src.say(relation.asks, **slots)
    return Turn(ask=asked, answer=src.say(relation.answer, **slots), short=y if relation.proper else cap(y),
                think=src.say(relation.think, **slots), expect=(y,), skill="facts", more=_follow(src, relation, row))


_AND = ["And [of|for|that of] {x}?", "And {x}?", "What about {x}?", "How about {x}?", "[ok|Good|Thanks|Fine], and {x}?"]


def _follow(src, relation, row):
    """A second question that leans on the first one."""
    if relation.name not in ("capital", "opposite", "colour", "legs", "sound", "plural", "past") or not src.chance(0.3):
        return []
    x, y = src.pick(relation.rows)[:2]
    if x == row[0]:
        return []
    shown = a(x) if relation.name in ("legs", "sound") else x
    slots = {"x": x, "y": y, "X": cap(x), "Y": cap(y), "ax": a(x), "aX": cap(a(x))}
    return [Turn(ask=src.say(src.pick(_AND), x=shown), answer=src.say(relation.answer, **slots), short=cap(y),
                 think=src.say(relation.think, **slots), expect=(y,), skill="follow-up")]


# Questions whose answer is yes or no.

_YES_NO = pool([
    "Is {x} {y}?", "[True or false|Right or wrong]: {x} is {y}[.|?]", "[Would you say|Is it true|Do you think] that {x} is {y}?", "{X} is {y}, [right|correct|isn't it]?",
    "Tell me whether {x} is {y}.", "Is {x} {y} or not?", "Would you call {x} {y}?", "I think that {x} is {y}, is it so?", "Say yes or no: is {x} {y}?"], ["Yes or no: is {x} {y}?", "Answer yes or no: is {x} {y}?", "Please say yes or no. Is {x} {y}?", "Yes or no, {x} is {y}?", "Only yes or no: is {x} {y}?", "Tell me yes or no: is {x} {y}?", "True or false: {x} is {y}?", "Right or wrong: {x} is {y}?", "Decide: is {x} {y}?", "{X}, is that {y}?", "{X} is {y}, yes or no?", "Is {x} {y}, yes or no?", "Can you say whether {x} is {y}?", "I ask you: is {x} {y}?", "Am I right that {x} is {y}?", "Someone told me that {x} is {y}. Is that so?",
    "[Is it|Is that] [right|correct|so|true]: {x} is {y}?", "{X} is {y}. [True or false|Right or wrong|Yes or no|Is that true|Is it true|Am I right|Correct|Do you agree]?", "Does {x} count as {y}?", "[I think|I believe|I guess|They say|My book says] [that |]{x} is {y}. [Right|Is that right|Correct|True|Do you agree]?", "Do you agree that {x} is {y}?", "Tell me if {x} is {y}.", "[Check|Verify|Judge|Say|Answer]: is {x} {y}?", "{X}: {y} or not?", "[Would it be|Is it] [right|correct|wrong] to call {x} {y}?", "is {x} {y}", "[Yes or no|True or false|Right or wrong][:|,] {x} is {y}[?|.|]", "Is {x} really {y}?", "[So|And|Then|But] is {x} {y}?", "Is {x} {y}, [do you think|what do you think|what would you say]?", "{X}, [yes or no|true or false|right or wrong]: is it {y}?"])


def yes_no(src):
    """Whether a thing is of a kind."""
    x, y = src.pick(KINDS)
    if src.chance(0.5):
        return Turn(src.say(_YES_NO, x=x, y=y, X=cap(x)), f"Yes, {x} is {y}.", "Yes", f"{cap(x)} is {y}, so yes.", ("yes",), skill="yes or no")
    other = src.pick(KINDS)[1]
    if other == y:
        return yes_no(src)
    return Turn(src.say(_YES_NO, x=x, y=other, X=cap(x)), f"No, {x} is {y}.", "No", f"{cap(x)} is {y}, not {other}, so no.", ("no,",), skill="yes or no")


_EXAMPLES = pool([
    "[Name|Tell me|Give me|List] {n} {k}[.|, please.]", "{N} {k}[, please.|.]", "Can you [name|list] {n} {k}?", "I need {n} {k}.", "What are {n} {k}?",
    "[Give me|Write|Make] a list of {n} {k}."], ["Which {n} {k} come to your mind?", "Think of {n} {k}."])
_KIND_LISTS = {"fruits": words.FRUITS, "vegetables": words.VEGETABLES, "birds": words.BIRDS, "fish": words.FISH, "insects": words.INSECTS,
               "trees": words.TREES, "flowers": words.FLOWERS, "tools": words.TOOLS, "musical instruments": words.INSTRUMENTS,
               "pieces of furniture": words.FURNITURE, "clothes": words.CLOTHES, "vehicles": words.VEHICLES, "sports": words.SPORTS,
               "metals": words.METALS, "colours": words.COLOURS[:12], "animals": words.MAMMALS, "drinks": words.DRINKS,
               "foods": words.FOODS, "planets": world.PLANETS, "months": world.MONTHS, "days": world.DAYS,
               "European countries": world._CONTINENTS["Europe"].split(), "African countries": world._CONTINENTS["Africa"].split(),
               "Asian countries": world._CONTINENTS["Asia"].split(), "capitals": list(world.CAPITALS.values())}


def examples(src):
    """Some things of a kind."""
    kind = src.pick(tuple(_KIND_LISTS))
    n = src.number(2, 5)
    things = src.some(_KIND_LISTS[kind], n)
    ask = src.say(_EXAMPLES, n=world.NUMBER_WORDS[n] if src.chance(0.7) else n, N=cap(world.NUMBER_WORDS[n]), k=kind)
    answer = cap(listed(things)) + "."
    if src.chance(0.25):
        ask += src.pick([" As a numbered list.", " Number them.", " One on each line, numbered."])
        answer = "\n".join(f"{i}. {cap(thing)}" for i, thing in enumerate(things, 1))
    return Turn(ask, answer, None, f"The user wants {n} {kind}.", (), skill="lists")


_WHOLE = {
    "days": ([x for x in world.DAYS], "[What are|Name|List|Tell me|Say] [the|all|all the] [days of the week|weekdays|seven days][.|]"),
    "months": ([x for x in world.MONTHS], "[What are|Name|List|Tell me|Say] [the|all|all the|the twelve] months[ of the year|][.|]"),
    "seasons": (world.SEASONS, "[What are|Name|List|Tell me] [the|the four|all] seasons[.|]"),
    "planets": (world.PLANETS, "[What are|Name|List|Tell me] [the|all|the eight] planets[ of the solar system|][.|]"),
    "alphabet": (list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), "[Say|Tell me|Write|Recite|What is] the alphabet[.|]"),
    "continents": (["Africa", "Antarctica", "Asia", "Australia", "Europe", "North America", "South America"],
                   "[What are|Name|List|Tell me] [the|all|the seven] continents[.|]"),
    "oceans": (["the Pacific", "the Atlantic", "the Indian Ocean", "the Southern Ocean", "the Arctic Ocean"],
               "[What are|Name|List|Tell me] [the|all|the five] oceans[.|]"),
    "vowels": (list("AEIOU"), "[What are|Name|List|Tell me] [the|all|the five] vowels[.|]"),
    "rainbow": (["red", "orange", "yellow", "green", "blue", "indigo", "violet"],
                "[What are|Name|List|Tell me] the [colours|colors] of the rainbow[.|]"),
    "senses": (["sight", "hearing", "smell", "taste", "touch"], "[What are|Name|List|Tell me] [the|the five] senses[.|]"),
    "compass": (["north", "east", "south", "west"], "[What are|Name|List|Tell me] [the|the four] [points of the compass|directions][.|]"),
    "primary": (["red", "yellow", "blue"], "[What are|Name|List|Tell me] [the|the three] primary [colours|colors][.|]"),
}


def whole_list(src):
    """All of a short list, in its order."""
    things, ask = _WHOLE[src.pick(tuple(_WHOLE))]
    ask = src.say(ask)
    if src.held:
        ask = "Please recite for me: " + ask[:1].lower() + ask[1:]
    elif ask.startswith("What"):
        ask = ask.rstrip(".") + "?"
    answer = listed(things) if len(things) < 20 else ", ".join(things)
    return Turn(ask, cap(answer) + ".", None, f"I list them in order: {len(things)}.", tuple(str(t) for t in things), skill="lists")


_MIX = pool(["What [colour|color] do you get [if you mix|when you mix|from] {x} and {y}?", "[Mix|Mixing] {x} and {y} [gives|makes] what?", "{X} and {y} make [what|which colour]?",
             "What do {x} and {y} make?"], ["I stir {x} paint into {y} paint. Which colour comes out?", "Blend {x} with {y}: what is the result?"])


def mix(src):
    """Two colours mixed."""
    x, y, result = src.pick(world.MIXES)
    if src.chance(0.5):
        x, y = y, x
    return Turn(src.say(_MIX, x=x, y=y, X=cap(x)), f"{cap(x)} and {y} make {result}.", cap(result), f"Mixing {x} with {y} gives {result}.", (result,), skill="facts")


_TRANSLATE = pool([
    "[How do you say|What is|What's] {x} in {l}?", "[Translate|Put] {x} into {l}[.|, please.]", "{X} in {l}?", "What is the {l} word for {x}?",
    "[Tell me|Give me|Say] {x} in {l}.", "Translate to {l}: {x}", "How would I say {x} in {l}?"], [
    "I am learning {l}. What does {x} mean there?", "Which word do they have in {l} for {x}?", "In {l}, how is {x} called?"])


def translate(src):
    """A word in another language."""
    language = src.pick(tuple(world.TRANSLATE))
    x, y = src.pick(world.TRANSLATE[language])
    shown = f'"{x}"' if src.chance(0.4) else x
    return Turn(src.say(_TRANSLATE, x=shown, l=language, X=cap(x)), f"In {language}, {x} is {y}.", y, f"The {language} word for {x} is {y}.", (y,), skill="translation")
