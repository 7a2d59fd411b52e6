"""All frames that go on with a running value, the closing questions, and idle sentences."""

from __future__ import annotations

from specguard_core.training.other_events import OTHER_EVENTS
from specguard_core.training.thing_events import THING_EVENTS
from specguard_core.training.wording import Domain, Frame, Wordings

EVENTS: tuple[Frame, ...] = THING_EVENTS + OTHER_EVENTS

QUESTIONS: dict[Domain, Wordings] = {
    "things": ("How many {o} does {N} have now?", "How many {o} does {N} have in the end?"),
    "dollars": ("How many dollars does {N} have now?", "How much money does {N} have in the end?"),
    "minutes": ("How many minutes is that for {N}?", "How long does it take {N} in all?"),
    "kilometers": ("How many kilometers is that for {N}?", "How far does {N} go in all?"),
}

STILL_DISTRACTORS: Wordings = (
    "{N} is {n} years old.",
    "The shop has {n} windows.",
    "It is {n} degrees outside.",
    "{F} lives {n} streets away.",
    "There are {n} {x} on the table.",
    "{N} also has {n} {x}.",
    "The {x} cost {n} dollars each.",
)
"""Idle sentences about the scene; {x} are things that the problem does not ask about."""

EVENT_DISTRACTORS: Wordings = (
    "{F} has {n} {y}.",
    "{F} buys {n} {y}.",
    "Then {F} finds {n} {y}.",
    "{F} gives {n} {y} to {G}.",
    "{F} has {n} more {y} than {G}.",
    "{F} loses {n} {y}.",
    "{F} earns {n} dollars.",
    "Then {F} spends {n} dollars.",
    "Then {F} waits for {n} minutes.",
    "{F} runs {n} kilometers.",
)
"""Idle sentences that tell what a real event tells, but of people whom the question is not about.

{y} may be the very things that are counted.
"""
