"""Small facts."""

CAPITALS = dict(line.rsplit(": ", 1) for line in """Afghanistan: Kabul
Albania: Tirana
Algeria: Algiers
Andorra: Andorra la Vella
Angola: Luanda
Argentina: Buenos Aires
Armenia: Yerevan
Australia: Canberra
Austria: Vienna
Azerbaijan: Baku
the Bahamas: Nassau
Bahrain: Manama
Bangladesh: Dhaka
Barbados: Bridgetown
Belarus: Minsk
Belgium: Brussels
Belize: Belmopan
Benin: Porto-Novo
Bhutan: Thimphu
Bolivia: Sucre
Bosnia and Herzegovina: Sarajevo
Botswana: Gaborone
Brazil: Brasilia
Brunei: Bandar Seri Begawan
Bulgaria: Sofia
Burkina Faso: Ouagadougou
Burundi: Gitega
Cambodia: Phnom Penh
Cameroon: Yaounde
Canada: Ottawa
Cape Verde: Praia
Chad: N'Djamena
Chile: Santiago
China: Beijing
Colombia: Bogota
Costa Rica: San Jose
Croatia: Zagreb
Cuba: Havana
Cyprus: Nicosia
the Czech Republic: Prague
Denmark: Copenhagen
Djibouti: Djibouti
the Dominican Republic: Santo Domingo
Ecuador: Quito
Egypt: Cairo
El Salvador: San Salvador
Eritrea: Asmara
Estonia: Tallinn
Ethiopia: Addis Ababa
Fiji: Suva
Finland: Helsinki
France: Paris
Gabon: Libreville
the Gambia: Banjul
Georgia: Tbilisi
Germany: Berlin
Ghana: Accra
Greece: Athens
Guatemala: Guatemala City
Guinea: Conakry
Guyana: Georgetown
Haiti: Port-au-Prince
Honduras: Tegucigalpa
Hungary: Budapest
Iceland: Reykjavik
India: New Delhi
Indonesia: Jakarta
Iran: Tehran
Iraq: Baghdad
Ireland: Dublin
Italy: Rome
Ivory Coast: Yamoussoukro
Jamaica: Kingston
Japan: Tokyo
Jordan: Amman
Kazakhstan: Astana
Kenya: Nairobi
Kuwait: Kuwait City
Kyrgyzstan: Bishkek
Laos: Vientiane
Latvia: Riga
Lebanon: Beirut
Lesotho: Maseru
Liberia: Monrovia
Libya: Tripoli
Liechtenstein: Vaduz
Lithuania: Vilnius
Luxembourg: Luxembourg
Madagascar: Antananarivo
Malawi: Lilongwe
Malaysia: Kuala Lumpur
the Maldives: Male
Mali: Bamako
Malta: Valletta
Mauritania: Nouakchott
Mauritius: Port Louis
Mexico: Mexico City
Moldova: Chisinau
Monaco: Monaco
Mongolia: Ulaanbaatar
Montenegro: Podgorica
Morocco: Rabat
Mozambique: Maputo
Myanmar: Naypyidaw
Namibia: Windhoek
Nepal: Kathmandu
the Netherlands: Amsterdam
New Zealand: Wellington
Nicaragua: Managua
Niger: Niamey
Nigeria: Abuja
North Korea: Pyongyang
North Macedonia: Skopje
Norway: Oslo
Oman: Muscat
Pakistan: Islamabad
Panama: Panama City
Papua New Guinea: Port Moresby
Paraguay: Asuncion
Peru: Lima
the Philippines: Manila
Poland: Warsaw
Portugal: Lisbon
Qatar: Doha
Romania: Bucharest
Russia: Moscow
Rwanda: Kigali
Samoa: Apia
San Marino: San Marino
Saudi Arabia: Riyadh
Senegal: Dakar
Serbia: Belgrade
the Seychelles: Victoria
Sierra Leone: Freetown
Singapore: Singapore
Slovakia: Bratislava
Slovenia: Ljubljana
Somalia: Mogadishu
South Africa: Pretoria
South Korea: Seoul
South Sudan: Juba
Spain: Madrid
Sri Lanka: Colombo
Sudan: Khartoum
Suriname: Paramaribo
Sweden: Stockholm
Switzerland: Bern
Syria: Damascus
Taiwan: Taipei
Tajikistan: Dushanbe
Tanzania: Dodoma
Thailand: Bangkok
Togo: Lome
Tonga: Nuku'alofa
Tunisia: Tunis
Turkey: Ankara
Turkmenistan: Ashgabat
Uganda: Kampala
Ukraine: Kyiv
the United Arab Emirates: Abu Dhabi
the United Kingdom: London
the United States: Washington
Uruguay: Montevideo
Uzbekistan: Tashkent
Vanuatu: Port Vila
Venezuela: Caracas
Vietnam: Hanoi
Yemen: Sana'a
Zambia: Lusaka
Zimbabwe: Harare""".splitlines())

_CONTINENTS = {
    "Europe": """Albania Andorra Austria Belarus Belgium Bulgaria Croatia Denmark Estonia Finland France Germany Greece Hungary
Iceland Ireland Italy Latvia Liechtenstein Lithuania Luxembourg Malta Moldova Monaco Montenegro Norway Poland Portugal Romania
Serbia Slovakia Slovenia Spain Sweden Switzerland Ukraine""",
    "Africa": """Algeria Angola Benin Botswana Burundi Cameroon Chad Djibouti Egypt Eritrea Ethiopia Gabon Ghana Guinea Kenya
Lesotho Liberia Libya Madagascar Malawi Mali Mauritania Morocco Mozambique Namibia Niger Nigeria Rwanda Senegal Somalia Sudan
Tanzania Togo Tunisia Uganda Zambia Zimbabwe""",
    "Asia": """Afghanistan Bahrain Bangladesh Bhutan Brunei Cambodia China India Indonesia Iran Iraq Japan Jordan Kuwait
Kyrgyzstan Laos Lebanon Malaysia Mongolia Myanmar Nepal Oman Pakistan Qatar Singapore Syria Taiwan Tajikistan Thailand
Turkmenistan Uzbekistan Vietnam Yemen""",
    "South America": "Argentina Bolivia Brazil Chile Colombia Ecuador Guyana Paraguay Peru Suriname Uruguay Venezuela",
    "North America": "Canada Cuba Guatemala Haiti Honduras Jamaica Mexico Nicaragua Panama",
}
CONTINENT = [(country, continent) for continent, names in _CONTINENTS.items() for country in names.split()]

CURRENCY = [tuple(line.split(": ")) for line in """Japan: yen
the United Kingdom: pound
the United States: dollar
India: rupee
China: yuan
Russia: rouble
Switzerland: franc
Poland: zloty
Sweden: krona
Norway: krone
Denmark: krone
Mexico: peso
Brazil: real
South Africa: rand
South Korea: won
Thailand: baht
Turkey: lira
Israel: shekel
Hungary: forint
the Czech Republic: koruna
Germany: euro
France: euro
Italy: euro
Spain: euro
Ireland: euro
Austria: euro
Finland: euro
Canada: dollar
Australia: dollar
Vietnam: dong
Nigeria: naira
Kenya: shilling
Egypt: pound
Argentina: peso""".splitlines()]

LANGUAGE = [tuple(line.split(": ")) for line in """France: French
Germany: German
Austria: German
Italy: Italian
Spain: Spanish
Mexico: Spanish
Argentina: Spanish
Chile: Spanish
Cuba: Spanish
Portugal: Portuguese
Brazil: Portuguese
Japan: Japanese
China: Chinese
Russia: Russian
Poland: Polish
Sweden: Swedish
Norway: Norwegian
Denmark: Danish
Iceland: Icelandic
Finland: Finnish
Estonia: Estonian
Latvia: Latvian
Lithuania: Lithuanian
Hungary: Hungarian
Greece: Greek
Turkey: Turkish
Egypt: Arabic
Morocco: Arabic
Thailand: Thai
Vietnam: Vietnamese
South Korea: Korean
Iran: Persian
the Netherlands: Dutch
Romania: Romanian
Bulgaria: Bulgarian
Croatia: Croatian
Slovakia: Slovak
Slovenia: Slovenian
Ukraine: Ukrainian
Albania: Albanian
Australia: English
the United States: English
the United Kingdom: English
New Zealand: English""".splitlines()]


def _pairs(text):
    return [tuple(entry.strip().split(":")) for entry in text.replace("\n", " ").split(",")]


SOUNDS = _pairs("""cat:meow, dog:woof, cow:moo, sheep:baa, pig:oink, horse:neigh, duck:quack, hen:cluck, rooster:cock-a-doodle-doo,
lion:roar, tiger:roar, bear:growl, wolf:howl, owl:hoot, mouse:squeak, bee:buzz, snake:hiss, frog:croak, crow:caw, donkey:hee-haw,
goat:bleat, turkey:gobble, pigeon:coo, sparrow:chirp, cricket:chirp, goose:honk, fly:buzz, raven:caw, dove:coo""")
LEGS = [(animal, "4") for animal in """cat dog horse cow pig sheep goat lion tiger bear wolf fox rabbit mouse elephant giraffe zebra
camel donkey frog lizard crocodile turtle tortoise deer squirrel hedgehog hippo rhino leopard""".split()] + [
    (animal, "6") for animal in "bee ant fly butterfly beetle wasp grasshopper cricket mosquito moth ladybird dragonfly".split()] + [
    (animal, "2") for animal in "hen duck swan owl sparrow penguin ostrich eagle crow robin goose parrot stork flamingo".split()] + [
    ("spider", "8"), ("scorpion", "8"), ("crab", "10"), ("lobster", "10"), ("snake", "0"), ("worm", "0"), ("salmon", "0"),
    ("shark", "0"), ("whale", "0"), ("snail", "0")]
BABIES = _pairs("""cat:kitten, dog:puppy, cow:calf, horse:foal, sheep:lamb, goat:kid, pig:piglet, hen:chick, duck:duckling,
goose:gosling, swan:cygnet, lion:cub, bear:cub, wolf:cub, fox:cub, deer:fawn, frog:tadpole, kangaroo:joey, owl:owlet,
eagle:eaglet, elephant:calf, whale:calf, tiger:cub, seal:pup, butterfly:caterpillar""")
HOMES = _pairs("""bee:hive, bird:nest, dog:kennel, horse:stable, pig:sty, fox:den, rabbit:burrow, spider:web, lion:den,
beaver:lodge, hen:coop, cow:barn, ant:anthill, squirrel:drey, bear:cave, mole:tunnel, wolf:den, owl:tree hollow""")
GROUPS = _pairs("""sheep:flock, cows:herd, wolves:pack, fish:school, lions:pride, bees:swarm, birds:flock, ants:colony,
elephants:herd, whales:pod, geese:gaggle, crows:murder, puppies:litter, dolphins:pod, soldiers:army, sailors:crew, singers:choir""")
EATS = _pairs("""cow:grass, horse:hay, panda:bamboo, koala:eucalyptus leaves, rabbit:grass, lion:meat, wolf:meat, cat:mice,
squirrel:nuts, bee:nectar, monkey:fruit, giraffe:leaves, sheep:grass, owl:mice, penguin:fish, otter:fish, frog:insects,
spider:insects, hedgehog:insects, shark:fish, seal:fish, caterpillar:leaves, anteater:ants""")
GIVES = _pairs("""cow:milk, bee:honey, hen:eggs, sheep:wool, goose:feathers, silkworm:silk, goat:milk, apple tree:apples, oak:acorns,
vine:grapes, baker:bread, tailor:clothes, carpenter:furniture, cook:meals, brewer:beer, potter:pots, author:books,
composer:music, painter:paintings, sculptor:statues, cobbler:shoes, clockmaker:clocks""")
COLOUR_OF = _pairs("""grass:green, the sky:blue, snow:white, coal:black, blood:red, a banana:yellow, a lemon:yellow, an orange:orange,
a carrot:orange, a strawberry:red, a tomato:red, a cucumber:green, milk:white, chocolate:brown, the sun:yellow, a raven:black,
a crow:black, a swan:white, a frog:green, a flamingo:pink, a pig:pink, ink:blue, a leaf:green, a pea:green, sugar:white, salt:white,
a polar bear:white, a canary:yellow, a ruby:red, an emerald:green, a sapphire:blue, a pumpkin:orange, a lime:green, a plum:purple,
a fire engine:red, charcoal:black, cream:white, gold:golden, silver:silver, an elephant:grey, a mouse:grey, butter:yellow,
a sunflower:yellow, spinach:green, lettuce:green, an eggplant:purple, lavender:purple, a cherry:red, soot:black, cotton:white,
rust:brown, mud:brown, a goldfish:orange, a ladybird:red, the sea:blue, a crocodile:green, honey:golden, a cloud:white""")
MIXES = [("red", "yellow", "orange"), ("blue", "yellow", "green"), ("red", "blue", "purple"), ("red", "white", "pink"),
         ("black", "white", "grey"), ("red", "green", "brown")]
OPPOSITES = _pairs("""hot:cold, big:small, tall:short, fast:slow, old:young, rich:poor, happy:sad, light:dark, hard:soft, wet:dry,
full:empty, early:late, open:closed, strong:weak, clean:dirty, loud:quiet, high:low, near:far, thick:thin, wide:narrow, deep:shallow,
heavy:light, sweet:sour, sharp:blunt, rough:smooth, day:night, up:down, left:right, in:out, on:off, yes:no, black:white, good:bad,
true:false, right:wrong, first:last, begin:end, start:stop, buy:sell, give:take, push:pull, love:hate, win:lose, laugh:cry,
arrive:leave, come:go, friend:enemy, war:peace, life:death, north:south, east:west, summer:winter, king:queen, man:woman, boy:girl,
mother:father, brother:sister, aunt:uncle, husband:wife, front:back, top:bottom, inside:outside, above:below, over:under, before:after,
always:never, often:rarely, everything:nothing, more:less, many:few, same:different, easy:difficult, simple:complicated, cheap:expensive,
safe:dangerous, brave:cowardly, polite:rude, kind:cruel, honest:dishonest, patient:impatient, possible:impossible, lucky:unlucky,
visible:invisible, friendly:unfriendly, asleep:awake, alive:dead, guilty:innocent, lazy:hard-working, generous:stingy, modern:ancient,
public:private, natural:artificial, asked:answered, question:answer, entrance:exit, victory:defeat, success:failure, problem:solution,
beautiful:ugly, wise:foolish, calm:nervous, bright:dim, fresh:stale, raw:cooked, tight:loose, straight:crooked, solid:liquid,
male:female, import:export, increase:decrease, remember:forget, accept:refuse, attack:defend, build:destroy, find:lose, float:sink,
rise:fall, lend:borrow, teach:learn, sunrise:sunset, maximum:minimum, optimist:pessimist, expand:shrink, arrival:departure,
tomorrow:yesterday, ahead:behind, together:apart, absent:present, ordinary:special, shy:bold, noisy:silent""")
OPPOSITES = [pair for pair in OPPOSITES if pair[0] != "asked"]
_AMBIGUOUS = {"light", "right", "short", "lose", "white", "leave"}
OPPOSITE_OF = {}
for _word, _other in OPPOSITES:
    OPPOSITE_OF.setdefault(_word, _other)
for _word, _other in OPPOSITES:
    if _other not in _AMBIGUOUS:
        OPPOSITE_OF.setdefault(_other, _word)
for _word, _other in {"light": "dark", "right": "wrong", "short": "tall", "white": "black"}.items():
    OPPOSITE_OF[_word] = _other
OPPOSITE_OF = sorted(OPPOSITE_OF.items())
SYNONYMS = _pairs("""big:large, small:little, happy:glad, sad:unhappy, fast:quick, clever:smart, begin:start, end:finish, angry:furious,
afraid:scared, rich:wealthy, tired:sleepy, shout:yell, jump:leap, beautiful:pretty, strange:odd, quiet:silent, easy:simple,
difficult:hard, correct:right, stone:rock, road:street, gift:present, ship:vessel, doctor:physician, forest:woods, shop:store,
answer:reply, help:assist, buy:purchase, speak:talk, brave:courageous, funny:amusing, huge:enormous, tiny:minute, calm:peaceful,
rabbit:bunny, sick:ill, near:close, hurry:rush, repair:mend, choose:select, error:mistake, famous:well-known, perhaps:maybe""")
IRREGULAR_PLURALS = _pairs("""man:men, woman:women, child:children, foot:feet, tooth:teeth, goose:geese, mouse:mice, ox:oxen,
sheep:sheep, deer:deer, fish:fish, person:people, leaf:leaves, wolf:wolves, knife:knives, wife:wives, life:lives, half:halves,
loaf:loaves, shelf:shelves, thief:thieves, calf:calves, scarf:scarves, cactus:cacti, louse:lice, moose:moose, salmon:salmon,
trout:trout, cod:cod, herring:herring, tuna:tuna""")
PAST = _pairs("""go:went, see:saw, eat:ate, drink:drank, run:ran, swim:swam, sing:sang, write:wrote, read:read, speak:spoke, take:took,
give:gave, come:came, begin:began, break:broke, bring:brought, buy:bought, catch:caught, choose:chose, cut:cut, draw:drew, drive:drove,
fall:fell, feel:felt, fight:fought, find:found, fly:flew, forget:forgot, get:got, grow:grew, hear:heard, hide:hid, hold:held,
keep:kept, know:knew, leave:left, lend:lent, lose:lost, make:made, meet:met, pay:paid, put:put, ride:rode, ring:rang, say:said,
sell:sold, send:sent, shine:shone, sit:sat, sleep:slept, stand:stood, steal:stole, teach:taught, tell:told, think:thought,
throw:threw, understand:understood, wake:woke, wear:wore, win:won, walk:walked, play:played, jump:jumped, dance:danced, cook:cooked,
paint:painted, laugh:laughed, climb:climbed, open:opened, close:closed, help:helped, ask:asked, answer:answered, look:looked,
try:tried, carry:carried, study:studied, cry:cried, stop:stopped, plan:planned, hop:hopped, be:was, have:had, do:did, build:built""")
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
MONTH_DAYS = list(zip(MONTHS, (str(n) for n in (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31))))
ORDINALS = """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth""".split()
SEASON_OF = _pairs("""December:winter, January:winter, February:winter, March:spring, April:spring, May:spring, June:summer, July:summer,
August:summer, September:autumn, October:autumn, November:autumn""")
SEASONS = "spring summer autumn winter".split()
PLANETS = "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune".split()
UNITS = [(many, one, count) for one, many, count in [tuple(entry.split("/")) for entry in """a minute/seconds/60
an hour/minutes/60
a day/hours/24
a week/days/7
a year/months/12
a year/days/365
a year/weeks/52
a leap year/days/366
a decade/years/10
a century/years/100
a millennium/years/1000
a metre/centimetres/100
a kilometre/metres/1000
a centimetre/millimetres/10
a kilogram/grams/1000
a tonne/kilograms/1000
a litre/millilitres/1000
a foot/inches/12
a yard/feet/3
a dozen/things/12
a pair/things/2
a pound/ounces/16
a byte/bits/8
a dollar/cents/100
a euro/cents/100
a football team/players/11
a deck/cards/52
an alphabet/letters/26
a right angle/degrees/90
a full circle/degrees/360""".splitlines()]]
SHAPES = _pairs("""triangle:3, square:4, rectangle:4, pentagon:5, hexagon:6, octagon:8, heptagon:7, decagon:10, rhombus:4""")
RHYMES = [group.split() for group in """cat hat mat rat bat
dog fog log frog
house mouse blouse
tree bee sea key knee
star car far jar
night light kite bright
moon spoon soon tune
cake lake snake rake
boat goat coat float
bear chair pear hair
ring king sing wing
ball tall fall wall
day play way say
rain train plane chain
sky fly pie high
bed red head bread
fish dish wish
sun run fun bun
rose nose toes
book cook look hook
bell shell well
snow go crow show
fox box socks rocks
hand sand land band
mice rice nice ice
door floor four more
duck truck luck
nest best west rest
sheep sleep deep jeep
flower tower shower hour
clock sock rock
money honey funny bunny
stone phone bone alone
hill mill bill still
bug rug mug hug
pig wig dig big
heart start art part
ship trip lip
road toad load
cold gold old bold""".splitlines()]
TRANSLATE = {
    "French": _pairs("""cat:chat, dog:chien, house:maison, water:eau, bread:pain, milk:lait, book:livre, sun:soleil, moon:lune, tree:arbre,
flower:fleur, red:rouge, blue:bleu, green:vert, black:noir, white:blanc, one:un, two:deux, three:trois, yes:oui, no:non, hello:bonjour,
thank you:merci, goodbye:au revoir, friend:ami, day:jour, night:nuit, apple:pomme, cheese:fromage, fish:poisson"""),
    "German": _pairs("""cat:Katze, dog:Hund, house:Haus, water:Wasser, bread:Brot, milk:Milch, book:Buch, sun:Sonne, moon:Mond, tree:Baum,
flower:Blume, red:rot, blue:blau, green:grün, black:schwarz, white:weiß, one:eins, two:zwei, three:drei, yes:ja, no:nein, hello:hallo,
thank you:danke, goodbye:auf Wiedersehen, friend:Freund, day:Tag, night:Nacht, apple:Apfel, cheese:Käse, fish:Fisch"""),
    "Spanish": _pairs("""cat:gato, dog:perro, house:casa, water:agua, bread:pan, milk:leche, book:libro, sun:sol, moon:luna, tree:árbol,
flower:flor, red:rojo, blue:azul, green:verde, black:negro, white:blanco, one:uno, two:dos, three:tres, yes:sí, no:no, hello:hola,
thank you:gracias, goodbye:adiós, friend:amigo, day:día, night:noche, apple:manzana, cheese:queso, fish:pescado"""),
    "Italian": _pairs("""cat:gatto, dog:cane, house:casa, water:acqua, bread:pane, milk:latte, book:libro, sun:sole, moon:luna, tree:albero,
flower:fiore, red:rosso, blue:blu, green:verde, black:nero, white:bianco, one:uno, two:due, three:tre, yes:sì, no:no, hello:ciao,
thank you:grazie, goodbye:arrivederci, friend:amico, day:giorno, night:notte, apple:mela, cheese:formaggio, fish:pesce"""),
}
ELEMENTS = _pairs("""hydrogen:H, helium:He, carbon:C, nitrogen:N, oxygen:O, sodium:Na, iron:Fe, gold:Au, silver:Ag, copper:Cu, zinc:Zn,
lead:Pb, tin:Sn, calcium:Ca, potassium:K, chlorine:Cl, neon:Ne, sulphur:S, aluminium:Al, silicon:Si, nickel:Ni, mercury:Hg, uranium:U,
magnesium:Mg, phosphorus:P, iodine:I, lithium:Li, titanium:Ti""")
JOBS = [tuple(line.split(": ")) for line in """baker: bakes bread
teacher: teaches children
doctor: helps sick people
nurse: cares for sick people
farmer: grows food
pilot: flies planes
sailor: works on a ship
cook: prepares meals
painter: paints pictures
writer: writes books
singer: sings songs
carpenter: builds things of wood
plumber: repairs pipes
gardener: looks after gardens
firefighter: puts out fires
dentist: takes care of teeth
tailor: sews clothes
butcher: sells meat
librarian: looks after books
postman: brings letters
astronomer: studies the stars
mechanic: repairs cars
judge: decides in court
photographer: takes photographs
shepherd: looks after sheep
fisherman: catches fish
miner: digs for coal and ore
florist: sells flowers
barber: cuts hair
vet: helps sick animals
architect: plans houses
programmer: writes software
translator: translates languages
electrician: repairs electric wires
beekeeper: keeps bees
clown: makes people laugh""".splitlines()]
USES = [tuple(line.split(": ")) for line in """a knife: cut food
a pen: write
a hammer: drive in nails
a saw: cut wood
a spoon: eat soup
a key: open a lock
a clock: tell the time
an umbrella: stay dry in the rain
a broom: sweep the floor
a towel: dry yourself
a kettle: boil water
a lamp: give light
a mirror: see yourself
a ladder: climb up
a spade: dig holes
a needle: sew
a comb: tidy your hair
a map: find the way
a telescope: look at the stars
a thermometer: measure temperature
a scale: weigh things
a ruler: measure length
a bed: sleep
a bucket: carry water
a fridge: keep food cold
an oven: bake
a bicycle: ride
a boat: cross the water
a bell: ring
a compass: find north
a torch: see in the dark
soap: wash your hands
glue: stick things together
a pillow: rest your head
a net: catch fish
a calendar: see the date
a dictionary: look up words
a camera: take pictures""".splitlines()]
BODY = _pairs("""eyes:see, ears:hear, nose:smell, tongue:taste, legs:walk, teeth:bite, lungs:breathe, brain:think, hands:hold things,
skin:feel, heart:pump blood, stomach:digest food""")
MADE_OF = _pairs("""bread:flour, a window:glass, cheese:milk, butter:milk, wine:grapes, paper:wood, a jumper:wool, a snowman:snow,
a candle:wax, a tyre:rubber, an omelette:eggs, chips:potatoes, juice:fruit, chocolate:cocoa beans, a coin:metal, a brick:clay,
ice:water, jam:fruit and sugar, a sandcastle:sand, raisins:grapes, a book:paper, a bottle:glass, a shoe:leather""")
TRIVIA = [tuple(line.split("|")) for line in """wrote Romeo and Juliet|William Shakespeare
wrote Hamlet|William Shakespeare
wrote Don Quixote|Miguel de Cervantes
wrote Faust|Johann Wolfgang von Goethe
wrote Oliver Twist|Charles Dickens
wrote Pride and Prejudice|Jane Austen
wrote Alice in Wonderland|Lewis Carroll
wrote the Odyssey|Homer
wrote Frankenstein|Mary Shelley
wrote Moby Dick|Herman Melville
wrote War and Peace|Leo Tolstoy
painted the Mona Lisa|Leonardo da Vinci
painted the Sistine Chapel|Michelangelo
painted the Starry Night|Vincent van Gogh
painted Guernica|Pablo Picasso
composed the Moonlight Sonata|Ludwig van Beethoven
composed the Magic Flute|Wolfgang Amadeus Mozart
composed the Four Seasons|Antonio Vivaldi
invented the telephone|Alexander Graham Bell
invented dynamite|Alfred Nobel
invented the printing press|Johannes Gutenberg
was the first man on the moon|Neil Armstrong
was the first man in space|Yuri Gagarin
discovered penicillin|Alexander Fleming
discovered radium|Marie Curie
found the law of gravity|Isaac Newton
wrote the theory of relativity|Albert Einstein
wrote the first computer program|Ada Lovelace
sailed to America in 1492|Christopher Columbus
was the first president of the United States|George Washington""".splitlines()]
SUPERLATIVES = [tuple(line.split("|")) for line in """largest|planet|Jupiter
smallest|planet|Mercury
hottest|planet|Venus
nearest|planet to the sun|Mercury
farthest|planet from the sun|Neptune
largest|ocean|the Pacific Ocean
largest|continent|Asia
smallest|continent|Australia
highest|mountain in the world|Mount Everest
longest|river in Africa|the Nile
longest|river in South America|the Amazon
largest|animal|the blue whale
tallest|animal|the giraffe
fastest|land animal|the cheetah
largest|land animal|the elephant
largest|bird|the ostrich
largest|country|Russia
smallest|country|Vatican City
largest|hot desert|the Sahara
coldest|continent|Antarctica
nearest|star to the Earth|the sun
hardest|natural material|diamond
lightest|element|hydrogen
shortest|month|February
longest|day of the year in the north|21 June
deepest|lake|Lake Baikal
largest|island|Greenland""".splitlines()]
PLACES = [tuple(line.split("|")) for line in """the Eiffel Tower|Paris
the Colosseum|Rome
Big Ben|London
the Statue of Liberty|New York
the Acropolis|Athens
the Kremlin|Moscow
the Brandenburg Gate|Berlin
the Sagrada Familia|Barcelona
the Opera House with the white sails|Sydney
the Great Wall|China
the Taj Mahal|India
the pyramids of Giza|Egypt
Machu Picchu|Peru
the Little Mermaid|Copenhagen
the Prado|Madrid
the Blue Mosque|Istanbul
Mount Fuji|Japan
the Grand Canyon|the United States
the Matterhorn|Switzerland
the leaning tower|Pisa""".splitlines()]
STATES = [("ice", "melts", "water"), ("water", "freezes", "ice"), ("water", "boils", "steam"), ("snow", "melts", "water"),
          ("a caterpillar", "grows up", "a butterfly"), ("a tadpole", "grows up", "a frog"), ("dough", "is baked", "bread"),
          ("a seed", "grows", "a plant"), ("a lamb", "grows up", "a sheep"), ("a puppy", "grows up", "a dog"),
          ("wood", "burns", "ash"), ("milk", "turns sour", "curd"), ("a kitten", "grows up", "a cat"), ("a calf", "grows up", "a cow")]
SIZES = """flea ant bee mouse sparrow hedgehog rabbit cat fox dog sheep pig deer lion bear horse cow giraffe elephant whale""".split()
SPEEDS = "snail tortoise hen sheep cat dog horse cheetah".split()
CATEGORIES_EXTRA = {}
NUMBER_WORDS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty""".split()
TENS = {20: "twenty", 30: "thirty", 40: "forty", 50: "fifty", 60: "sixty", 70: "seventy", 80: "eighty", 90: "ninety"}


def in_words(n):
    """A number up to a hundred in words."""
    if n <= 20:
        return NUMBER_WORDS[n]
    if n == 100:
        return "one hundred"
    return TENS[n - n % 10] + ("-" + NUMBER_WORDS[n % 10] if n % 10 else "")


MADE_UP_COUNTRIES_A = "Blor Zan Quar Tor Vel Mor Fen Gal Hes Ix Jor Kel Lun Nar Ost Pel Rav Sil Tul Ulm Vor Wex Yil Zor".split()
MADE_UP_COUNTRIES_B = "avia onia istan landia ovia aria endia ubia oria athia eska ulia".split()
FICTION = ["Atlantis", "Narnia", "Wonderland", "Oz", "Utopia", "El Dorado", "Lilliput", "Ruritania", "the Moon", "Mars", "Middle-earth"]
