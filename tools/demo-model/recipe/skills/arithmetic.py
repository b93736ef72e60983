"""Arithmetic of small numbers: sums, word problems, comparing, counting. Operands are held out, and ways to ask."""

from .. import phrasing, words, world
from ..source import cap, is_held, listed, pool
from ..turn import Turn

PLUS = pool(["{p} + {q}", "{p}+{q}", "{p} + {q} =", "{p} + {q} = ?", "{p}+{q}=", "[What is|What's|whats|How much is|Calculate|Compute|Work out|Tell me] {p} [+|plus|and] {q}[?|]",
             "{p} plus {q}[?|]", "Add {p} and {q}.", "[What is|Give me|Find] the sum of {p} and {q}[?|]", "[What do you get|What is the result] if you add {q} to {p}?",
             "Can you add {p} and {q}[?| for me?]", "What does {p} + {q} [make|equal]?", "Please [add|sum up] {p} and {q}.", "{p} and {q} together is?",
             "If I add {p} and {q}, what do I get?", "Do you know what {p} plus {q} is?", "I need {p} + {q}."],
            ["Take {p} and put {q} on top of it: how much is that?", "Would you sum {p} and {q} for me?", "My calculator broke: {p} plus {q}?", "Tell me the total of {p} and {q}."])
MINUS = pool(["{p} - {q}", "{p}-{q}", "{p} - {q} =", "{p} - {q} = ?", "{p}-{q}=", "[What is|What's|whats|How much is|Calculate|Compute|Work out|Tell me] {p} [-|minus] {q}[?|]",
              "{p} minus {q}[?|]", "[Subtract|Take] {q} from {p}.", "[What is|Give me|Find] the difference [of|between] {p} and {q}[?|]", "[What do you get|What is left] if you take {q} away from {p}?",
              "Can you subtract {q} from {p}?", "What does {p} - {q} [make|equal]?", "{p} take away {q} is?", "How much is left of {p} after {q} is taken away?",
              "Do you know what {p} minus {q} is?", "I need {p} - {q}."],
             ["Start at {p} and go down by {q}: where are you?", "Would you subtract {q} from {p} for me?", "My calculator broke: {p} minus {q}?", "What remains of {p} when {q} go?"])
TIMES = pool(["{p} * {q}", "{p}*{q}", "{p} x {q}", "{p} × {q}", "{p} * {q} =", "{p} × {q} = ?", "[What is|What's|whats|How much is|Calculate|Compute|Work out|Tell me] {p} [*|times|×|x|multiplied by] {q}[?|]",
              "{p} times {q}[?|]", "Multiply {p} [by|and|with] {q}.", "[What is|Give me|Find] the product of {p} and {q}[?|]", "[What do you get|What is the result] if you multiply {p} by {q}?",
              "Can you multiply {p} by {q}?", "What does {p} × {q} [make|equal]?", "Do you know what {p} times {q} is?", "I need {p} times {q}."],
             ["How much do I have if I take {p} exactly {q} times?", "Would you multiply {p} and {q} for me?", "My calculator broke: {p} times {q}?", "From the times table: {p} by {q}?"])
OVER = pool(["{p} / {q}", "{p}/{q}", "{p} ÷ {q}", "{p} : {q}", "{p} / {q} =", "{p} ÷ {q} = ?", "[What is|What's|whats|How much is|Calculate|Compute|Work out|Tell me] {p} [/|÷|divided by|over] {q}[?|]",
             "{p} divided by {q}[?|]", "Divide {p} by {q}.", "[What is|Give me|Find] the quotient of {p} and {q}[?|]", "How often does {q} go into {p}?", "How many times does {q} fit into {p}?",
             "Can you divide {p} by {q}?", "What does {p} / {q} [make|equal]?", "Do you know what {p} divided by {q} is?", "I need {p} divided by {q}."],
            ["Share {p} among {q}: how much for each?", "Would you divide {p} by {q} for me?", "My calculator broke: {p} divided by {q}?", "Split {p} into {q} equal parts, how big is one?"])
SIGNS = {"+": PLUS, "-": MINUS, "×": TIMES, "÷": OVER}


NOUNS = {"+": ["{p} + {q}", "{p} plus {q}", "the sum of {p} and {q}", "{p}+{q}"], "-": ["{p} - {q}", "{p} minus {q}", "the difference of {p} and {q}", "{p}-{q}"],
         "×": ["{p} × {q}", "{p} * {q}", "{p} times {q}", "the product of {p} and {q}"], "÷": ["{p} ÷ {q}", "{p} / {q}", "{p} divided by {q}"]}


def asked(src, sign, p, q):
    """A question for a sum."""
    if src.chance(0.4):
        return phrasing.know(src, src.say(src.pick(NOUNS[sign]), p=p, q=q))
    return cap(src.say(SIGNS[sign], p=p, q=q))


def value(p, sign, q):
    return {"+": p + q, "-": p - q, "×": p * q, "÷": p // q if q else 0}[sign]


def operands(src, sign=None):
    """Two numbers and a sign. Sums: the pair lies on this side of the line. Tables: all pairs are trained on."""
    sign = sign or src.weighted({"+": 4, "-": 4, "×": 2.5, "÷": 1.5})
    while True:
        if sign == "×":
            p, q = (src.number(2, 12), src.number(2, 12)) if src.chance(0.9) else (src.number(0, 100), src.pick([0, 1, 10, 100]))
            return (p, sign, q) if src.chance(0.5) else (q, sign, p)
        if sign == "÷":
            q, result = src.number(1, 12), src.number(1, 12)
            return q * result, sign, q
        size = src.weighted({9: 2, 20: 2, 99: 6, 999: 2.5})
        p, q = src.number(0, size), src.number(0, size)
        if sign == "-" and p < q and not (p <= 20 and q <= 20 and src.chance(0.15)):
            p, q = q, p
        if is_held("sum", sign, max(p, q), min(p, q)) == src.held:
            return p, sign, q


def steps(p, sign, q):
    """How one works it out."""
    result = value(p, sign, q)
    if sign in "+-" and p >= 10 and q >= 10 and p >= q:
        tens, ones = p - p % 10, p % 10
        tens_q, ones_q = q - q % 10, q % 10
        if sign == "+":
            return f"{tens} + {tens_q} = {tens + tens_q}, {ones} + {ones_q} = {ones + ones_q}, {tens + tens_q} + {ones + ones_q} = {result}."
        return f"{p} - {tens_q} = {p - tens_q}, {p - tens_q} - {ones_q} = {result}."
    if sign == "×" and q > 1 and p > 10:
        return f"10 × {q} = {10 * q}, {p - 10} × {q} = {(p - 10) * q}, {10 * q} + {(p - 10) * q} = {result}." if p < 20 else f"{p} × {q} = {result}."
    if sign == "÷":
        return f"{q} × {result} = {p}, so {p} ÷ {q} = {result}."
    return f"{p} {sign} {q} = {result}."


def plain(src):
    """A bare sum."""
    p, sign, q = operands(src)
    result = value(p, sign, q)
    shown = {"p": p, "q": q}
    if 0 <= p <= 20 and 0 <= q <= 20 and src.chance(0.12):
        shown = {"p": world.in_words(p), "q": world.in_words(q)}
    turn = Turn(asked(src, sign, **shown), f"{p} {sign} {q} = {result}.", str(result), steps(p, sign, q), (f"= {result}.",), skill="arithmetic")
    if src.chance(0.15) and 0 <= result <= 90:
        turn.more = [_further(src, result)]
    return turn


def _further(src, base):
    for _ in range(50):
        sign, q = src.pick("+-"), src.number(1, 20)
        result = value(base, sign, q)
        if result >= 0 and is_held("sum", sign, max(base, q), min(base, q)) == src.held:
            ask = src.say({"+": "[And|Now|Then] [plus|add] {q}[?|.]", "-": "[And|Now|Then] [minus|take away|subtract] {q}[?|.]"}[sign], q=q)
            return Turn(ask, f"{base} {sign} {q} = {result}.", str(result), steps(base, sign, q), (f"= {result}.",), skill="follow-up")
    return Turn("Thanks!", "You are welcome!", skill="talk")


def two_by_one(src):
    """Two digits times one, worked out in the answer."""
    while True:
        p, q = src.number(13, 99), src.number(2, 9)
        if is_held("product", p, q) == src.held:
            break
    tens, ones = p - p % 10, p % 10
    work = f"{tens} × {q} + {ones} × {q} = {tens * q} + {ones * q} = {p * q}" if ones else f"{p * q}"
    return Turn(asked(src, "×", p, q), f"{p} × {q} = {work}.", None, f"{tens} × {q} = {tens * q}, {ones} × {q} = {ones * q}, together {p * q}.", (f"= {p * q}.",), skill="arithmetic")


_THREE = pool(["{p} + {q} + {r}", "[What is|How much is|Calculate] {p} [+|plus] {q} [+|plus] {r}[?|]", "Add {p}, {q} and {r}.", "[What is|Give me] the sum of {p}, {q} and {r}[?|]"],
              ["{p} plus {q} plus {r}[?|]", "[What is|How much is|Tell me|Give me|I need] the [total|result] of {p}, {q} and {r}[?|]", "[Total|Sum|Sum of|Total of|The sum of|The total of]: {p}, {q}, {r}", "The sum of {p}, {q} and {r}[?|, please.]", "[Sum|Sum up|Add|Add up|Total|Count together] {p}, {q} and {r}[.|]", "How much [do|are|is] {p}, {q} and {r} [together|in all|in total|make]?", "Can you add {p}, {q} and {r}?", "I have to add {p}, {q} and {r}.", "Find the sum of {p}, {q}, {r}.", "If I add {p}, {q} and {r}, what is it?", "Put together {p}, {q} and {r}: how much is it?", "Would you add up {p}, {q} and {r}?"])


def three(src):
    """Three numbers added."""
    p, q, r = (src.number(1, 20) for _ in range(3))
    if not src.fresh("three", p, q, r):
        return three(src)
    return Turn(src.say(_THREE, p=p, q=q, r=r), f"{p} + {q} + {r} = {p + q} + {r} = {p + q + r}.", None, f"{p} + {q} = {p + q}, {p + q} + {r} = {p + q + r}.", (f"= {p + q + r}.",), skill="arithmetic")


_DOUBLE = pool(["[What is|How much is] [twice|double] {p}?", "Double {p}.", "[Twice|Two times] {p}?", "Tell me twice {p}."], ["If I double {p}, what do I get?"])
_HALF = pool(["[What is|How much is] half of {p}?", "Halve {p}.", "Half of {p}?"], ["If I cut {p} in half, what do I get?"])
_SQUARE = pool(["[What is|How much is] {p} squared?", "[What is|Tell me] the square of {p}[?|]"], ["If I square {p}, what do I get?"])
_NEXT = pool(["[What|Which] number [comes after|follows|is after] {p}?", "What is the number after {p}?", "What comes after {p}?"], ["Which number do I say after {p} when I count?"])
_PREV = pool(["[What|Which] number [comes before|is before] {p}?", "What is the number before {p}?"], ["Which number do I say before {p} when I count?"])


def single(src):
    """One number changed."""
    kind = src.pick(("double", "half", "square", "next", "prev"))
    while True:
        p = src.number(1, 50) if kind in ("double", "half") else src.number(1, 12) if kind == "square" else src.number(1, 120)
        p = p * 2 if kind == "half" else p
        if kind == "square" or src.fresh(kind, p):
            break
    table = {"double": (_DOUBLE, f"2 × {p} = {2 * p}.", 2 * p), "half": (_HALF, f"{p} ÷ 2 = {p // 2}.", p // 2), "square": (_SQUARE, f"{p} × {p} = {p * p}.", p * p),
             "next": (_NEXT, f"After {p} comes {p + 1}.", p + 1), "prev": (_PREV, f"Before {p} comes {p - 1}.", p - 1)}
    asks, answer, result = table[kind]
    return Turn(src.say(asks, p=p), answer, str(result), answer, (f" {result}.",), skill="arithmetic")


_WORD_PLUS = pool([
    "If {n} has {p} {t} and [buys|finds] another {q}, how many are there?",
    "{n} has {p} {t} and [buys|gets|finds] {q} more. How many {t} [has {n}|does {n} have] [now|in all|altogether]?", "There are {p} {t} on the table. {n} puts {q} more there. How many {t} are on the table[ now|]?",
    "{n} has {p} {t}. A friend gives {h} {q} {t}. How many {t} [has {n}|does {n} have][ now|]?", "In a box are {p} {t}. {n} adds {q} {t}. How many are in the box?",
    "{n} collected {p} {t} yesterday and {q} {t} today. How many {t} is that together?",
    "{n} has {p} {t} and then [buys|finds] {q} {t}. How many {t} are there?", "{p} {t} are in a bag. {n} puts {q} {t} into it. How many {t} are in the bag?"],
    ["Yesterday {n} owned {p} {t}; today {q} new ones arrived. How many {t} now?", "{n} carries {p} {t} in one bag and {q} in another. How many {t} does {n} carry?"])
_WORD_MINUS = pool([
    "{n} has {p} {t} and [loses|sells|gives away|eats|breaks] {q}[ of them|]. How many {t} [are left|has {n} left|does {n} have left]?", "There are {p} {t} on the table. {n} takes {q} away. How many {t} are left[ on the table|]?",
    "{n} had {p} {t}. {n} gave {q} [of them |]to a friend. How many {t} [are left|remain]?", "In a box are {p} {t}. {n} takes out {q}. How many are still in the box?", "From {p} {t}, {n} uses {q}. How many are left?",
    "{n} has {p} {t} and takes {q} away. How many {t} remain?", "In a bag are {p} {t}. {n} [sells|eats] {q} of them. How many {t} are left?"],
    ["{n} owned {p} {t} but {q} of them fell into the river. How many {t} remain?", "Of {n}'s {p} {t} a goat swallowed {q}. How many are still there?"])
_WORD_TIMES = pool([
    "{n} has {p} [boxes|bags|baskets] with {q} {t} each. How many {t} [are there|has {n}|does {n} have][ in all|]?", "There are {p} [rows|groups] of {q} {t}. How many {t} are there?",
    "{n} buys {p} packs. Each pack holds {q} {t}. How many {t} is that?", "{p} children have {q} {t} each. How many {t} do they have together?", "In each of {p} boxes are {q} {t}. How many {t} are there?"],
    ["On each of {p} shelves lie {q} {t}. How many {t} lie there in all?", "{n} fills {p} jars, {q} {t} into each. How many {t} are in the jars?"])
_WORD_OVER = pool([
    "{n} shares {p} {t} [among|between] {q} friends. How many {t} does each [friend |]get?", "{p} {t} are divided among {q} children. How many does each child get?", "{n} puts {p} {t} into {q} boxes, the same number in each. How many {t} are in one box?"],
    ["{n} [divides|splits|sorts|packs|lays|fills] {p} {t} into {q} [bags|baskets|rows|groups|piles|jars], the same number [in|into] each. How many {t} are in [each|one|a] [bag|basket|row|group|pile|jar]?", "{n} puts {p} {t} into {q} [bags|baskets|jars|rows], [equally|evenly|all the same]. How many {t} are in each?", "{p} {t} lie in {q} boxes, the same in each. How many are in one?", "{n} has {p} {t} and {q} boxes. How many {t} go into each box?", "{n} gives {p} {t} to {q} children, the same to each. How many {t} has each child?", "There are {p} {t} for {q} friends. How many {t} for each of them?", "{q} children share {p} {t}. How many {t} does each child get?", "{p} {t} in {q} equal rows: how many {t} in a row?", "{n} deals out {p} {t} to {q} guests, all get the same. How many {t} for one guest?"])
_DONE = {"+": "{p} + {q} = {r}. [There are {r} {t}|That makes {r} {t}].", "-": "{p} - {q} = {r}. There are {r} {t} left.", "×": "{p} × {q} = {r}. There are {r} {t}.", "÷": "{p} ÷ {q} = {r}. Each gets {r} {t}."}


def word_problem(src):
    """A sum in a little story."""
    sign = src.weighted({"+": 3, "-": 3, "×": 1.5, "÷": 1})
    while True:
        p, q = (src.number(2, 30), src.number(1, 30)) if sign in "+-" else (src.number(2, 12), src.number(2, 12))
        p = p * q if sign == "÷" else p
        if (sign != "-" or p > q + 1) and (sign in "×÷" or is_held("sum", sign, max(p, q), min(p, q)) == src.held):
            break
    result = value(p, sign, q)
    if result == 1:
        return word_problem(src)
    name, things = src.pick(words.NAMES), src.pick(words.COUNTABLE)
    slots = {"n": name, "h": "her" if name in words.HER else "him", "p": p, "q": q, "t": things, "r": result}
    asks = {"+": _WORD_PLUS, "-": _WORD_MINUS, "×": _WORD_TIMES, "÷": _WORD_OVER}[sign]
    verb = {"+": "added", "-": "taken away", "×": "multiplied", "÷": "divided"}[sign]
    return Turn(src.say(asks, **slots), src.say(_DONE[sign], **slots), str(result), f"The numbers are {p} and {q}, they are {verb}. {steps(p, sign, q)}", (f"= {result}.",), rough=False, skill="word problems")


_BIGGER = pool(["[Which|What] [number |]is [bigger|larger|greater|more], {p} or {q}?", "[Bigger|Larger|Greater]: {p} or {q}?", "Is {p} or {q} [bigger|larger|greater]?", "What is more: {p} or {q}?", "Which is the [bigger|larger] [number|one]: {p} or {q}?"],
               ["I have to choose the bigger one of {p} and {q}.", "Out of {p} and {q}, which is the larger?"])
_SMALLER = pool(["[Which|What] [number |]is [smaller|less], {p} or {q}?", "[Smaller|Less]: {p} or {q}?", "Is {p} or {q} smaller?", "What is less: {p} or {q}?", "Which is the smaller [number|one]: {p} or {q}?"],
                ["I have to choose the smaller one of {p} and {q}.", "Out of {p} and {q}, which is the smaller?"])
_IS_BIGGER = pool(["Is {p} [bigger|larger|greater|more] than {q}?", "Is {p} > {q}?", "Would you say that {p} is [bigger|more] than {q}?"], ["Am I right that {p} is more than {q}?"])


def compare(src):
    """The larger of two numbers."""
    while True:
        size = src.pick((20, 100, 1000))
        p, q = src.number(0, size), src.number(0, size)
        if p != q and src.fresh("pair", p, q):
            break
    big, small = max(p, q), min(p, q)
    kind = src.pick(("bigger", "smaller", "is"))
    if kind == "is":
        yes = "Yes" if p > q else "No"
        return Turn(src.say(_IS_BIGGER, p=p, q=q), f"{yes}, {p} is {'bigger' if p > q else 'smaller'} than {q}.", yes, f"{p} compared with {q}: {'bigger' if p > q else 'smaller'}.", (yes.lower(), "bigger" if p > q else "smaller"), skill="comparing")
    ask, first, last = (_BIGGER, big, small) if kind == "bigger" else (_SMALLER, small, big)
    return Turn(src.say(ask, p=p, q=q), f"{first} is {kind} than {last}.", str(first), f"{big} is more than {small}.", (f"{first} is",), skill="comparing")


_COUNT = pool(["Count [from {p} to {q}|{p} to {q}][.|, please.]", "[Can you|Please] count from {p} to {q}[?|.]", "[Write|List|Say] the numbers from {p} to {q}.", "Give me the numbers {p} to {q}.", "Count up from {p} to {q}."],
              ["Would you count for me, beginning with {p} and ending with {q}?", "All numbers between {p} and {q}, both included, please."])
_DOWN = pool(["Count [down |backwards ]from {q} to {p}[.|, please.]", "[Can you|Please] count down from {q} to {p}[?|.]", "Count backwards from {q} to {p}."], ["Start a countdown at {q} and stop at {p}."])


def count(src):
    """Counting up and down."""
    p = 1 if src.chance(0.5) else src.number(0, 80)
    q = p + src.number(2, 19)
    if not src.fresh("count", p, q):
        return count(src)
    numbers = list(range(p, q + 1))
    if p < q and src.chance(0.3):
        return Turn(src.say(_DOWN, p=p, q=q), ", ".join(map(str, reversed(numbers))) + ".", None, f"I start at {q} and go down to {p}.", (", ".join(map(str, reversed(numbers))),), skill="counting")
    return Turn(src.say(_COUNT, p=p, q=q), ", ".join(map(str, numbers)) + ".", None, f"I start at {p} and stop at {q}.", (", ".join(map(str, numbers)),), skill="counting")


_EVEN = pool(["Is {p} [even or odd|odd or even|an even or an odd number]?", "Is the number {p} even?", "Is {p} an odd number?", "Even or odd: {p}?"], ["Can {p} be divided by two, is it even or odd?"])


def even(src):
    """Even or odd."""
    p = src.number(0, 200)
    if not src.fresh("even", p):
        return even(src)
    kind = "even" if p % 2 == 0 else "odd"
    return Turn(src.say(_EVEN, p=p), f"{p} is {kind}.", cap(kind), f"The last digit of {p} is {p % 10}, which is {kind}.", (f"is {kind}",), skill="comparing")


_MAX = pool(["[What|Which] is the [largest|biggest|highest] [of|number of] {l}?", "[Largest|Biggest] of {l}?", "[Find|Give me|Tell me] the [maximum|largest number] of {l}.", "{l}: which is the largest?", "Of {l}, which is the biggest?"], ["Out of {l}, which number is at the top?"])
_MIN = pool(["[What|Which] is the [smallest|lowest] [of|number of] {l}?", "Smallest of {l}?", "[Find|Give me|Tell me] the [minimum|smallest number] of {l}.", "{l}: which is the smallest?", "Of {l}, which is the smallest?"], ["Out of {l}, which number is at the bottom?"])
_SORT = pool(["Sort [these numbers|the numbers|]: {l}", "Put {l} in order.", "[Sort|Order] {l}[ from small to large|].", "Can you sort {l}?"], ["Arrange {l} by size, the smallest first."])


def among(src):
    """The largest and the smallest of some numbers, and all in order."""
    numbers = src.some(range(100), src.number(3, 5))
    if not src.fresh("among", *numbers):
        return among(src)
    kind = src.pick(("max", "min", "sort"))
    shown = listed(numbers) if kind != "sort" or src.chance(0.5) else ", ".join(map(str, numbers))
    if kind == "sort":
        answer = ", ".join(map(str, sorted(numbers))) + "."
        return Turn(src.say(_SORT, l=shown), answer, None, f"The smallest is {min(numbers)}, the largest is {max(numbers)}.", (answer[:-1],), skill="sorting")
    best = max(numbers) if kind == "max" else min(numbers)
    word = "largest" if kind == "max" else "smallest"
    return Turn(src.say(_MAX if kind == "max" else _MIN, l=shown), f"The {word} is {best}.", str(best), f"I compare {listed(numbers)}: the {word} is {best}.", (f"is {best}.",), skill="comparing")


_SIZE = pool(["[Which|What] [animal |]is [bigger|larger], {x} or {y}?", "Is {x} [bigger|larger] than {y}?", "[Bigger|Larger]: {x} or {y}?"], ["Stand {x} beside {y}: which is bigger?"])


def size(src):
    """The larger of two animals."""
    p, q = src.some(range(len(world.SIZES)), 2)
    if abs(p - q) < 3:
        return size(src)
    x, y = ("a " + world.SIZES[i] if world.SIZES[i][0] not in "ae" else "an " + world.SIZES[i] for i in (p, q))
    big, small = (x, y) if p > q else (y, x)
    ask = src.say(_SIZE, x=x, y=y)
    if ask.startswith("Is "):
        yes = "Yes" if p > q else "No"
        return Turn(ask, f"{yes}, {big} is bigger than {small}.", yes, f"{cap(big)} is bigger than {small}.", (yes.lower(), f"{big} is bigger"), skill="comparing")
    return Turn(ask, f"{cap(big)} is bigger than {small}.", cap(big), f"{cap(big)} is bigger than {small}.", (f"{big} is bigger",), skill="comparing")


_TOO_BIG = pool(["[What is|How much is|Calculate|Compute] {e}?", "{e}", "{e} =", "Can you work out {e}?"], ["Solve {e} for me."])


def too_big(src):
    """Sums beyond this model, which it should not guess at."""
    kind = src.number(0, 4)
    p, q = src.number(1000, 99999), src.number(1000, 99999)
    e = [f"{p} * {q}", f"{p} × {q // 10}", f"the square root of {p}", f"{p} / {q // 100 + 3}", f"{p}.{src.number(1, 99)} * {q % 90}.{src.number(1, 9)}"][kind]
    if not src.fresh("big", e):
        return too_big(src)
    return Turn(src.say(_TOO_BIG, e=e), "That is too much for me: I am a tiny demo model and only do sums with small numbers. A bigger model, or a calculator, will know.",
                None, "These numbers are too large for me. I should say so.", ("too much for me",), skill="refusals")
