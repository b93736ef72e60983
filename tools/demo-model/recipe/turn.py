"""One question and its answer, and what a correct answer must hold."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Turn:
    """A question and its answer."""

    ask: str
    answer: str
    short: str | None = None  # the answer in a word or two, where there is such a one
    think: str | None = None  # the thoughts before it, for a conversation with thinking on
    expect: tuple = ()  # what a correct answer contains, whatever its case: for the evaluation
    rough: bool = True  # whether the question may be typed carelessly
    skill: str = ""
    more: list = field(default_factory=list)  # turns that only make sense after this one
