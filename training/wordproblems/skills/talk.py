"""Skills: talk about itself, greetings, refusals, remembering a fact."""

from ..fillers import CITIES, COLORS, PEOPLE
from ..registry import skill
from .helpers import draw_nouns

ABOUT = "I am a tiny demo model. I solve short word problems, and I am often wrong outside of them."


@skill
def who_are_you(c):
    q = c.p(
        [
            "Who are you?",
            "What are you?",
            "Tell me about yourself.",
            "Are you a person?",
            "What is your name?",
            "Introduce yourself.",
            "Are you human?",
            "Who am I talking to?",
            "What kind of model are you?",
            "Are you ChatGPT?",
            "who are you",
            "Can you tell me who you are?",
        ]
    )
    a = {
        "Are you a person?": "No. ",
        "Are you human?": "No. ",
        "Are you ChatGPT?": "No. ",
        "What is your name?": "I have no name. ",
    }.get(q, "")
    return q, a + c.p(
        [ABOUT, "I am a tiny demo model that solves short word problems. Outside of them I am often wrong."]
    )


@skill
def what_can_you_do(c):
    return c.p(
        [
            "What can you do?",
            "Help",
            "How can you help me?",
            "What are you good at?",
            "Can you help me?",
            "What should I ask you?",
            "help me",
            "What do you know?",
        ]
    ), c.p(
        [
            "I can solve short word problems, do small sums, sort lists and write small JSON objects. "
            "I am often wrong outside of them.",
            "Ask me a short word problem, a small sum, or a small list task. "
            "I am a tiny demo model and often wrong outside of them.",
        ]
    )


@skill
def greeting(c):
    p = c.p(PEOPLE)
    if c.i(0, 1):
        return c.p([f"Hi, I am {p}.", f"Hello, my name is {p}.", f"Hey, {p} here.", f"Good morning, I'm {p}!"]), c.p(
            [f"Hello, {p}! How can I help you?", f"Hi {p}! Do you have a word problem for me?"]
        )
    return c.p(
        [
            "Hi",
            "Hello",
            "Hello!",
            "Hey there",
            "Good morning",
            "Good evening",
            "Hi!",
            "hey",
            "Hello there!",
            "How are you?",
        ]
    ), c.p(
        ["Hello! How can I help you?", "Hi! Do you have a word problem for me?", "Hello! Ask me a short word problem."]
    )


@skill
def thanks_bye(c):
    return c.p(
        [
            ("Thanks!", "You are welcome!"),
            ("Thank you.", "You are welcome!"),
            ("Thank you very much!", "You are welcome!"),
            ("Bye", "Goodbye!"),
            ("Goodbye!", "Goodbye!"),
            ("See you later.", "See you later!"),
            ("Good night.", "Good night!"),
            ("Thanks, that helped.", "You are welcome!"),
        ]
    )


@skill
def out_of_scope(c):
    q = c.p(
        [
            f"Who is the mayor of {c.p(CITIES)}?",
            f"What is the news from {c.p(CITIES)}?",
            "Write a poem about the sea.",
            "Who will win the election?",
            f"Which stock should {c.p(PEOPLE)} buy?",
            "What is the meaning of life?",
            "Explain quantum physics.",
            f"How many people live in {c.p(CITIES)}?",
            f"Translate {draw_nouns(c, 1)[0].s} into French.",
            "Is it safe to mix these medicines?",
            f"Write a story about {draw_nouns(c, 1)[0].a}.",
        ]
    )
    return q, c.p(
        [
            "I do not know. I am a tiny demo model for short word problems.",
            "I can't answer that well. I am a tiny demo model and only know short word problems.",
        ]
    )


@skill
def remember_fact(c):
    """Two turns: the answer is in the first one."""
    p, n, x, col = c.p(PEOPLE), c.i(2, 60), draw_nouns(c, 1)[0], c.p(COLORS)
    f, q, a = c.p(
        [
            (f"My name is {p}.", "What is my name?", f"Your name is {p}."),
            (f"I am {n + 4} years old.", "How old am I?", f"You are {n + 4} years old."),
            (f"I have {n} {x}.", f"How many {x} do I have?", f"You have {n} {x}."),
            (f"My favorite color is {col}.", "What is my favorite color?", f"Your favorite color is {col}."),
        ]
    )
    return [
        ("user", f),
        ("assistant", c.p(["Okay.", "Thanks, I will remember that.", "Got it."])),
        ("user", q),
        ("assistant", a),
    ]
