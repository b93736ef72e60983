"""Plain word lists that several skills share."""

from .source import divided

WOMEN = """Ada Alice Amelia Amina Amy Ana Anna Astrid Aya Bea Bella Carla Celia Chloe Clara Dana Daisy Diana Dora Edith Elena
Elin Elsa Emily Emma Erika Eva Fatima Fiona Flora Freya Gina Grace Greta Hana Hannah Hazel Heidi Helen Ida Ines Ingrid Irene
Iris Ivy Jane Jasmine Jenny Joan Judy Julia June Karin Kate Kira Laila Lara Laura Layla Lea Lena Leona Lily Lina Linda Lisa
Lola Lotte Lucy Luna Maja Maria Marie Martha Mary Maya Megan Mia Mila Mina Miriam Molly Mona Nadia Nancy Naomi Nell Nina Nora
Olga Olivia Paula Pearl Penny Petra Pia Polly Priya Rachel Rita Rosa Rose Ruby Ruth Sally Sara Selma Sofia Sonia Stella Sue
Tara Tess Tina Uma Ursula Vera Viola Wanda Wendy Willa Yara Yasmin Yuki Zara Zoe""".split()
MEN = """Aaron Adam Ahmed Akira Alan Albert Alex Ali Anders Andy Anton Arne Arthur Axel Ben Bill Bjorn Bob Boris Bruno Carl
Carlos Chris Colin Dan Daniel Dave David Dennis Diego Dirk Ed Eli Elias Emil Eric Ernest Ethan Felix Finn Frank Fred Gabriel
George Gus Hans Harry Hassan Hector Henry Hugo Hugh Ian Igor Isaac Ivan Jack Jacob James Jan Jasper Jens Joe Joel John Jonas
Jorge Josef Julian Kai Karim Karl Ken Kenji Kevin Kurt Lars Leo Leon Levi Liam Louis Luca Lucas Luis Luke Magnus Marco Mark
Martin Matt Max Miguel Mike Milo Moritz Ned Neil Nick Nico Niels Noah Olaf Oliver Omar Oscar Otto Owen Paco Pablo Patrick Paul
Pedro Pete Peter Philip Pierre Rafael Ralph Ravi Ray Rob Robin Roger Roman Rory Sam Samir Sean Simon Stan Steve Sven Theo
Thomas Tim Tobias Tom Tony Umar Victor Vincent Walter Will Xavier Yann Yusuf Zack""".split()
NAMES = divided(WOMEN + MEN)
HER = frozenset(WOMEN)
SURNAMES = divided("""Abbott Baker Becker Berg Bishop Black Brown Carter Chen Clark Cole Cook Costa Cruz Dahl Davis Diaz Dixon
Evans Fisher Ford Foster Fox Garcia Gray Green Hall Hansen Hill Holm Hughes Hunt Ito Jensen Jones Kelly Khan Kim King Klein
Lane Larsen Lee Lewis Lopez Lund Marsh Mason Meyer Miller Moore Moreno Morris Nelson Novak Olsen Ortiz Owens Park Patel Perez
Price Quinn Reed Reyes Rivera Rossi Sato Schmidt Scott Shaw Silva Singh Smith Stone Tanaka Taylor Turner Vega Wagner Walker
Wang Ward Watson Weber West White Wolf Wood Wright Yang Young""".split())

# Towns for tools and people; capitals are in `world`.
TOWNS = """Aachen Aberdeen Adelaide Alicante Antalya Antwerp Atlanta Auckland Austin Baltimore Barcelona Bari Basel Bergen
Bilbao Birmingham Bologna Bordeaux Boston Bremen Brighton Brisbane Bristol Bruges Busan Calgary Cambridge Cardiff Casablanca
Chennai Chicago Cleveland Cologne Cork Dallas Delhi Denver Detroit Dortmund Dresden Dubai Dundee Durban Edinburgh Essen Exeter
Florence Frankfurt Galway Gdansk Geneva Genoa Ghent Glasgow Gothenburg Granada Graz Groningen Haifa Halifax Hamburg Hanover
Hiroshima Houston Innsbruck Istanbul Izmir Jena Johannesburg Karachi Kazan Kiel Kobe Kolkata Krakow Kyoto Lagos Lausanne Leeds
Leipzig Leuven Liverpool Lodz Lyon Malaga Malmo Manchester Marseille Melbourne Memphis Miami Milan Montreal Mumbai Munich
Nagoya Nantes Naples Nice Nottingham Nuremberg Odense Odessa Oporto Orlando Osaka Oxford Palermo Perth Phoenix Pisa Plymouth
Portland Porto Poznan Quebec Rotterdam Rouen Salzburg Seattle Seville Shanghai Sheffield Siena Split Stuttgart Sydney Tampere
Tartu Toledo Toronto Toulouse Trieste Trondheim Turin Uppsala Utrecht Valencia Vancouver Venice Verona Vigo Winnipeg Wroclaw
Yokohama York Zagora Zurich""".replace(" Zagora", "").split()

COLOURS = "red blue green yellow orange purple pink brown black white grey turquoise violet silver golden beige".split()

FRUITS = """apple pear plum peach cherry banana orange lemon lime grape melon mango papaya kiwi apricot fig date strawberry
raspberry blueberry blackberry pineapple coconut grapefruit pomegranate""".split()
VEGETABLES = """carrot potato onion cabbage cucumber pea bean leek radish turnip spinach pumpkin celery broccoli cauliflower
beetroot lettuce asparagus parsnip""".split()
FOODS = """bread cheese soup rice pasta pizza cake pie pancake sandwich salad omelette porridge butter honey jam biscuit noodle
waffle dumpling muffin""".split()
DRINKS = "water milk tea coffee juice lemonade cocoa cider".split()
MAMMALS = """cat dog horse cow pig sheep goat lion tiger bear wolf fox rabbit hare mouse rat squirrel hedgehog badger otter
beaver deer moose elephant giraffe zebra monkey gorilla camel donkey hippo rhino kangaroo koala panda whale dolphin seal bat
hamster weasel leopard cheetah buffalo antelope mole""".split()
BIRDS = """sparrow robin crow raven owl eagle hawk falcon swan duck goose hen rooster turkey pigeon dove parrot penguin ostrich
stork heron gull swallow magpie woodpecker blackbird peacock flamingo canary cuckoo""".split()
FISH = "salmon trout cod herring tuna shark carp pike eel sardine".split()
INSECTS = "bee wasp ant fly butterfly moth beetle ladybird grasshopper cricket mosquito dragonfly flea".split()
REPTILES = "snake lizard crocodile turtle tortoise gecko iguana chameleon".split()
TREES = "oak pine birch beech maple willow elm ash fir spruce poplar linden chestnut cedar palm".split()
FLOWERS = "rose tulip daisy lily sunflower daffodil violet poppy orchid iris carnation snowdrop crocus dandelion".split()
TOOLS = "hammer saw screwdriver spade rake axe drill wrench chisel shovel hoe scissors".replace("scissors", "pliers").split()
INSTRUMENTS = """piano violin guitar flute drum trumpet harp cello clarinet trombone accordion organ banjo oboe
saxophone tuba""".split()
FURNITURE = "table chair bed sofa wardrobe shelf desk cupboard bench stool armchair".split()
CLOTHES = "shirt coat hat scarf sock shoe glove dress skirt jacket jumper boot belt cap".split()
VEHICLES = "car bus train bicycle boat ship plane lorry tram helicopter motorcycle ferry van taxi".split()
BUILDINGS = "house school church castle hospital library museum theatre tower barn factory station hotel".split()
SPORTS = "football tennis basketball hockey swimming running cycling skiing volleyball rowing golf boxing".split()
METALS = "iron gold silver copper tin lead zinc aluminium nickel".split()
THINGS = """book pen pencil cup plate spoon fork knife bottle key clock lamp candle mirror box basket bag umbrella brush comb
soap towel pillow blanket button coin stamp letter map ring ladder rope bucket broom needle kettle pan bowl ticket torch
wheel kite ball doll marble whistle balloon""".split()

SIMPLE_NOUNS = tuple(dict.fromkeys(FRUITS + VEGETABLES + MAMMALS + BIRDS + INSECTS + FLOWERS + THINGS + FURNITURE + CLOTHES + VEHICLES
                                   + BUILDINGS + INSTRUMENTS))
COUNTABLE = """apples pears plums books pencils marbles coins stamps eggs cookies balloons shells buttons flowers stickers cards
oranges candles cups chairs tickets keys nuts stones leaves toys fish sweets cherries lemons carrots bottles boxes letters
socks spoons""".split()

WORDS = divided(SIMPLE_NOUNS + tuple("""river mountain forest garden window door street bridge village island valley meadow harbour
market kitchen winter summer morning evening shadow thunder whisper silver copper planet rocket engine pepper butter hunter
winner dinner number letter master sister brother mother father doctor teacher painter singer farmer sailor pilot baker friend
stranger king queen prince castle dragon giant wizard pirate robot cloud storm rain snow wind fire smoke stone sand field hill
lake ocean beach desert jungle cave bright quiet gentle clever simple honest hungry thirsty happy angry gloomy jump dance sing
swim climb write read paint build travel wander listen laugh""".split()))

_ONSET = "b br bl c cl cr d dr f fl fr g gl gr h j k l m n p pl pr qu r s sc sh sl st str t th tr v w x z".split() + [""]
_NUCLEUS = "a e i o u ai ea ee io oo ou y".split()
_CODA = "b ck d g l ll m n nd ng nt p r rd rk s ss st t th x".split() + ["", "", "", ""]


def made_up(src):
    """A word that is in no dictionary: what a model can only copy."""
    while True:
        kind = src.random.random()
        if kind < 0.4:
            word = "".join(src.pick(_ONSET) + src.pick(_NUCLEUS) + src.pick(_CODA) for _ in range(src.number(1, 3)))
        elif kind < 0.85:
            first, last = src.pick(_PARTS), src.pick(_PARTS)
            word = first[: src.number(1, len(first))] + last[-src.number(1, len(last)) :]
        else:
            word = "".join(src.pick("abcdefghijklmnopqrstuvwxyz") for _ in range(src.number(3, 8)))
        if 3 <= len(word) <= 12 and src.fresh("made up", word):
            return word


_PARTS = tuple(word.lower() for word in (*WORDS.train, *NAMES.train, *TOWNS, *SURNAMES.train))
