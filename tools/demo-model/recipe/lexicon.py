"""Words for names of things: of fields, tools and parameters. Far more than the recipe talks about, so that a model
learns to copy any word to any place and not a list of words to its usual places."""

import re

from . import words, world
from .source import divided

VERBS = """accept activate add adjust align allow analyse announce answer apply approve arrange assign attach backup bake balance ban
bind block boost boot brew broadcast browse brush buffer build burn buy calibrate call cancel capture carve cast catch change charge
check choose clean clear clone close collect colour combine compare compile compress confirm connect convert cook cool copy count
crop cut debug decode decorate decrease delete deliver deploy describe detect dial dim disable display divide dock draft drain draw
drop dry duplicate edit eject empty enable encode encrypt end erase estimate evict examine execute expand explain export extend
extract fade feed fetch fill filter find finish fix flag flip flush fold follow format forward freeze generate grade grant grind
group guard guess heat hide highlight hire hold identify ignore import improve include increase index inform insert inspect install
invite invoice iron join judge jump keep kick label launch lend level lift light limit link list load locate lock log lower mail
make map mark match measure melt merge mix mock modify monitor mount mount move multiply mute name notify number offer open optimise
order pack paint park parse patch pause pay peel pick ping plan plant play plot plug polish post pour predict press preview print
process produce protect prove prune publish pull pump punch purge push put query queue quote raise rank rate read rebuild receive
record recycle reduce refill refresh refund register reject release reload remind remove rename render rent repair repeat replace
reply report request rescue reserve reset resize resolve restart restore resume return review rewind rinse roast roll rotate route
run sail salt save scan schedule score scrape scrub seal search seed select sell send separate serve set shake share sharpen shift
shine ship shorten show shred shrink shuffle shut sign skip slice slow smooth snap soak solve sort spin split spray spread sprinkle
stack stage stamp start steer sterilise stir stop store stretch submit subscribe subtract suggest summon supply suspend swap sweep
switch sync tag take tap taste teach tear test tie tighten toast toggle touch trace track trade train transfer transform transmit
trap trim tune turn twist uninstall unload unlock unpack unplug update upgrade upload use validate verify view visit wake warm warn
wash watch water weigh weld whisk widen wipe withdraw wrap write zip zoom""".split()

NOUNS = """account action activity adapter agenda alarm album alert alias amount anchor angle answer antenna apartment archive area
article artist asset audience author avatar backup badge bakery balance band bank banner bar barcode barrel base battery bay beacon
bell bench bike bill bin bit blade blanket blender blind block board body boiler bolt bonus bookmark border boss bottle bowl branch
brand brick broker browser brush bucket budget buffer bug builder bulb bundle button buyer cabin cabinet cable cache calendar camera
camp campaign canal candidate canvas card cargo carpet cart case cash catalogue ceiling cell chain channel chapter charger chart chat
chimney chip circuit clause client clinic closet cluster coach code collar column comment company compass concert conference
connection console contact container contract conveyor cooler corner counter country coupon course courier court cover crane crate
credit crew crop crowd cube culture cup curtain customer cycle dashboard database dataset deadline dealer debt deck delivery demo
department depot depth desk device dial diary digest dinner direction director disc discount dishwasher display district dock document
domain door dose draft drawer driver drone drum dryer duty echo edge editor elevator email employee engine entrance entry envelope
episode error escalator event exam example exhibit exit expense export face factor fan farm feature fee feed fence field figure file
filter fireplace firmware flag flash flat flight floor flow folder font footer forklift form formula fountain frame freezer frequency
fridge friend fuel function furnace fuse gadget gallery gallon game garage gas gate gauge gear generator gift glass glue goal grade
graph grid grill group guest guide gym habit hall handle harbour header heater hedge height helmet holiday home hook host hotel hour
house icon idea image income index inbox insurance invoice item jar jet job joint journal journey joystick jug junction kettle keyboard
kiosk kit kite label laboratory lamp lane laptop latch laundry law layer layout leader league leak lease lecture ledger lens lesson
level library licence lid lift line link list lobby location lock locker log loop lounge luggage lunch machine magazine mailbox
manager manual map margin mask mast match material meal measure medal medicine meeting member memo menu message meter method metric
microphone minute mirror mixer mode model module moment monitor mood motor mount mouse movie nail neighbour network news node noise
note notebook notice object office offer opinion option order organ origin outlet outline output oven owner package page pairing
panel paper parcel park part partner party pass password patch path patient pattern payment peak pedal penalty people period permit
person phase phone photo picture piece pipe pipeline pixel plan planet plant plate platform player plot plug pocket poem point policy
poll pool port portion post poster pot power prefix present president pressure price printer prize probe problem process product
profile profit program project promise proof property protocol province pulse pump pupil purchase purpose quality quantity quarter
query question queue quiz quota race rack radar radiator radio rail ramp range rank rate ratio reason receipt recipe record reference
refund region register relay release report request reservation resort resource result reward rhythm ribbon right ring risk road
robot role roof root rotor route router row rule sail salary sale salt sample satellite sauna scale scanner scene schedule schema
scope score screen script seal season seat second secret section sector seed segment seller sensor series server service session
shadow shape share sheet shelf shell shift ship shop shutter shuttle side sign signal silo sink site size skill slide slot smoke
socket software soil song sound source space speaker spice spot spray sprinkler square stack staff stage stairs stall star state
statement station statue status stock store story stove strategy stream street string stroke student studio style subject suffix
suitcase summary supply survey switch symbol system table tablet tail tally tank target task tax team temple tenant tent term
terminal test text theme theory thermostat thread threshold ticket tide tile timeline title toaster token toll tool topic torch total
tour tower town track tractor traffic trailer transfer transport trap travel treaty tree trend trial trip trophy truck tube tunnel
turbine tutor type unit update user valve value variable vault vehicle vendor venue version vessel video view visitor voice volume
vote voucher wall wallet warehouse warning washer watch wave weapon website wedding weight wheel width window winner wire witness
word workflow workshop yard year yield zone""".split()

ADJECTIVES = """active annual basic big blank blue bright broken busy cheap clean clear closed cold common current daily dark dead deep
dense digital direct double dry dusty early east eastern electric empty equal exact extra fair false famous fast final first fixed
flat free fresh front full future general gentle global golden good green grey half happy hard heavy hidden high hollow hot huge
idle inner internal large last late left light linear little live local lonely long loud low lower lucky main major manual mean mild
minor mobile modern narrow new next noisy normal north northern odd old open orange outer past pending plain poor popular present
primary private proud public pure purple quick quiet random rapid rare raw ready rear recent red remote rich right rough round royal
safe second secret sharp short silent simple single slow small smart smooth soft solid sour south southern spare special spicy
square stable steady steep strange strict strong sudden sunny sweet tall tame temporary thick thin third tidy tight tiny total true
upper urgent usual valid visible warm weak wet white whole wide wild wise yellow young""".split()

_NO_NAMES = frozenset("and or with where the is are as of for in on at to from true false null yes no not an it its this that into by be".split())


def _strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for pair in value.items():
            yield from _strings(pair)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _strings(item)


def _of(*modules):
    """All plain words of some modules' tables."""
    for module in modules:
        for name, value in sorted(vars(module).items()):
            if not name.startswith("__"):
                for text in _strings(value):
                    yield from re.findall(r"(?<![A-Za-z])[a-z]{2,12}(?![A-Za-z])", text)


ALL = tuple(sorted({word for word in (*_of(words, world), *VERBS, *NOUNS, *ADJECTIVES) if word not in _NO_NAMES}))
TOOL_VERBS = divided(sorted(set(VERBS)))
TOOL_NOUNS = divided(sorted(set(NOUNS) | set(words.SIMPLE_NOUNS)))
QUALITIES = divided(sorted(set(ADJECTIVES)))
