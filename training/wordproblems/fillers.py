"""The words that templates draw from: names, nouns with prices, places, days, colours and other lists.

The order inside each list matters: a draw picks by index, so inserting a word changes every text that follows.
"""

import re

FEMALE = """Ana Maria Julia Emma Olivia Sophia Mia Amelia Harper Evelyn Abigail Emily Ella Grace
Chloe Lily Hannah Nora Zoe Stella Hazel Violet Lucy Anna Sarah Alice Clara Ruby Ivy Naomi Elena
Leah Lydia Julie Rosa Diana Nina Daisy Fiona Gina Heidi Irene Jane Karen Laura Megan Natalie
Paula Rachel Sandra Tina Vera Wendy Yara Zara Aisha Amina Fatima Leila Mei Priya Anika Divya Kavya
Yuki Sakura Hana Keiko Ingrid Astrid Freya Greta Helga Sofia Lucia Carmen Isabel Pilar Marta Beatriz
Camila Valeria Gabriela Daniela Mariana Chiara Giulia Bianca Francesca Elise Margot Simone Colette
Odette Tanya Olga Irina Natasha Svetlana Zofia Kasia Agata Ewa Nkechi Adaeze Zainab Wanjiru Thandi
Lindiwe Joy Faith Hope Pearl Rose Betty Carol Donna Tracy Holly Molly Penny Sally Tessa""".split()
MALE = """Tom Ben Sam Max Jack Noah Liam Ethan Lucas Mason Logan James Daniel Henry Owen Samuel David
Joseph Carter Wyatt John Luke Dylan Gabriel Isaac Anthony Leo Lincoln Joshua Andrew Theo Caleb Ryan
Nathan Adrian Thomas Aaron Eli Charles Connor Hunter Jeremy Robert Simon Victor Walter Peter Paul
Oscar Martin Mark Kevin Keith Jason Ivan Hugo Harold George Frank Felix Erik Edward Dennis Carl
Brian Arthur Albert Omar Ali Hassan Yusuf Karim Tariq Raj Arjun Vikram Rohan Sanjay Anil Kenji Hiro
Takeshi Wei Jun Bao Minh Sven Lars Bjorn Anders Nils Diego Carlos Mateo Javier Pablo Miguel Luis
Pedro Jorge Rafael Marco Luca Paolo Giovanni Pierre Antoine Marcel Dmitri Boris Sergei Pavel Jakub
Tomasz Kofi Kwame Emeka Chidi Tunde Jabari Sipho Bill Bob Greg Phil Steve Todd Wade Zack""".split()


class Person(str):
    """A name that knows its pronouns; prints as the name."""

    __slots__ = ("he", "him", "his", "female")

    def __new__(cls, name, female):
        p = str.__new__(cls, name)
        p.female = female
        p.he, p.him, p.his = ("she", "her", "her") if female else ("he", "him", "his")
        return p

    @property
    def s(self) -> str:
        """The possessive form, as in "Ana's"."""
        return self + "'s"


PEOPLE = [Person(n, True) for n in FEMALE] + [Person(n, False) for n in MALE]

# kind -> (lowest price, highest price, nouns); "mouse/mice" gives an irregular plural
NOUN_TEXT = {
    "fruit": (
        1,
        4,
        """apple orange pear peach plum banana mango lemon lime kiwi apricot fig melon
        pineapple coconut grapefruit tangerine nectarine papaya avocado""",
    ),
    "veg": (
        1,
        4,
        """carrot potato/potatoes tomato/tomatoes onion cucumber pepper radish turnip beet
        pumpkin cabbage eggplant zucchini leek artichoke sweet_potato/sweet_potatoes parsnip""",
    ),
    "bakery": (
        1,
        6,
        """muffin cookie cupcake bagel croissant donut brownie scone pretzel roll pastry
        biscuit pancake waffle tart cinnamon_bun eclair macaron sandwich burrito""",
    ),
    "sweet": (
        1,
        3,
        """candy lollipop caramel gumdrop mint toffee jelly_bean chocolate_bar truffle
        licorice_stick marshmallow gummy_bear""",
    ),
    "stationery": (
        1,
        9,
        """pencil pen notebook eraser marker crayon ruler folder notepad highlighter
        paintbrush sharpener envelope binder sketchbook stapler glue_stick index_card poster stencil""",
    ),
    "toy": (
        3,
        25,
        """toy_car doll puzzle kite yo-yo teddy_bear toy_robot board_game toy_train
        toy_boat puppet spinning_top toy_dinosaur toy_plane water_gun jump_rope slinky toy_truck
        action_figure whistle""",
    ),
    "clothing": (
        5,
        60,
        """shirt hat scarf/scarves sweater jacket dress skirt belt cap coat hoodie vest
        blouse tie T-shirt raincoat bathrobe swimsuit apron headband""",
    ),
    "collectible": (
        1,
        9,
        """marble sticker stamp coin button seashell trading_card bead postcard
        badge comic_book baseball_card magnet keychain bottle_cap pin pebble crystal fossil feather
        acorn pinecone medal ticket_stub bookmark figurine""",
    ),
    "flower": (
        1,
        8,
        """rose tulip daisy lily sunflower orchid daffodil carnation violet poppy peony
        marigold iris dahlia""",
    ),
    "plant": (
        4,
        30,
        """cactus/cacti fern rosebush tomato_plant strawberry_plant pepper_plant
        seedling sapling shrub bonsai_tree olive_tree""",
    ),
    "read": (
        4,
        20,
        """book magazine novel cookbook atlas dictionary diary comic storybook textbook
        coloring_book songbook""",
    ),
    "household": (
        4,
        45,
        """lamp vase candle pillow towel blanket mug bowl plate teapot basket clock
        mirror picture_frame rug cushion bucket broom tray jug spoon fork glass bottle candlestick
        lantern curtain kettle frying_pan cutting_board""",
    ),
    "tool": (
        4,
        40,
        """hammer screwdriver wrench shovel rake paint_roller tape_measure flashlight saw
        ladder drill hose watering_can toolbox trowel""",
    ),
    "sport": (
        5,
        50,
        """basketball soccer_ball tennis_ball baseball_bat tennis_racket skateboard
        football golf_ball hockey_stick volleyball helmet swim_cap frisbee yoga_mat water_bottle""",
    ),
    "craft": (
        2,
        15,
        """bracelet necklace keyring paper_crane birdhouse clay_pot greeting_card
        friendship_bracelet wooden_spoon quilt candle_holder paper_lantern tote_bag bar_of_soap/bars_of_soap
        painting wreath leather_wallet""",
    ),
    "gadget": (
        10,
        90,
        """headset keyboard phone_case charger speaker calculator radio alarm_clock
        desk_fan camera power_bank""",
    ),
    "farm": (20, 90, "cow sheep/sheep goat pig horse donkey llama"),
    "bird": (5, 30, "chicken duck goose/geese turkey hen"),
    "pet": (5, 50, "dog cat rabbit hamster parrot turtle guinea_pig puppy kitten goldfish/goldfish"),
}


def _plural(s: str) -> str:
    if re.search(r"(s|x|ch|sh|z)$", s):
        return s + "es"
    return s[:-1] + "ies" if re.search(r"[^aeiou]y$", s) else s + "s"


class Noun:
    """A thing that can be counted: `s` singular, `pl` plural (also what it prints as), `a` with its article, `Pl` the
    plural capitalised, `lo`..`hi` its usual price in dollars."""

    __slots__ = ("s", "pl", "a", "kind", "lo", "hi", "Pl")

    def __init__(self, text, kind, lo=1, hi=9):
        s, _, pl = text.replace("_", " ").partition("/")
        self.s, self.pl, self.kind, self.lo, self.hi = s, pl or _plural(s), kind, lo, hi
        self.a = ("an " if s[0] in "aeiou" and s[:3] != "uni" else "a ") + s
        self.Pl = self.pl[0].upper() + self.pl[1:]

    def __str__(self):
        return self.pl


NOUNS = {k: [Noun(w, k, lo, hi) for w in t.split()] for k, (lo, hi, t) in NOUN_TEXT.items()}
SMALL = ("fruit", "sweet", "stationery", "collectible", "bakery")
GOODS = tuple("fruit veg bakery stationery toy clothing flower read household tool sport craft".split())
HOLD = ("collectible", "collectible", "stationery", "sweet", "toy", "read", "fruit", "flower")
MAKE = ("craft", "bakery", "toy", "household")

BOXES = [Noun(w, "box") for w in "box bag basket crate packet carton bin sack tub case".split()]
CITIES = """Oslo Paris Rome Lima Cairo Tokyo Delhi Madrid Berlin Vienna Prague Athens Dublin Lisbon
Nairobi Accra Toronto Boston Denver Chicago Seattle Austin Sydney Perth Seoul Hanoi Bogota Quito
Helsinki Warsaw Geneva Milan Naples Bergen Porto Kyoto Tunis Dakar""".split()
SHOPS = ["store", "shop", "market", "supermarket", "mall", "corner shop", "fair", "flea market"]
TOWNS = """Millbrook Oakdale Riverton Fairview Greenville Maplewood Pinecrest Lakeside Hillsboro
Stonebridge Ashford Cedarville Brookfield Westfield Northgate Eastham Southport Clearwater Rosewood
Elmwood Redhill Silverton Harborview Meadowbrook Foxley Birchwood Thornton Kingsfield Larkspur""".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = """January February March April May June July August September October November
December""".split()
RELATIVES = ["sister", "brother", "cousin", "neighbor", "best friend", "classmate", "roommate"]
COLORS = "red blue green yellow white black purple orange pink brown gray".split()
WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
TIMES = {2: "twice", 3: "three times", 4: "four times", 5: "five times", 6: "six times"}
NTH = {2: "half", 3: "one third", 4: "one quarter", 5: "one fifth", 6: "one sixth", 8: "one eighth", 10: "one tenth"}
FLAVOR = [
    "[S] lives in {city}.",
    "[S] grew up in {city}.",
    "[P] favorite color is {color}.",
    "[S] is visiting a friend in {city}.",
    "[S] loves {color} hats.",
    "[S] enjoys long walks.",
    "[S] is good at planning.",
    "[S] likes to keep track of things.",
    "[S] wakes up early.",
    "[S] has a {color} bicycle.",
    "[S] moved to {city} last year.",
    "[S] likes mathematics.",
    "[S] is always busy on {day}s.",
    "[S] works hard.",
    "[S] lives near the park.",
    "[S] writes everything down in a {color} notebook.",
]
