"""Frames that a problem begins with: they give the first running value. Data only."""

from __future__ import annotations

from specguard_core.training.wording import (
    BATCH,
    GROUPS,
    HAS,
    N_PLUS_M,
    N_TIMES_M,
    PAY,
    TIME,
    WAY,
    Frame,
)

SMALL = ("small", "small")

OPENERS: tuple[Frame, ...] = (
    Frame(
        "own",
        "start",
        (),
        ("add",),
        ("{N} has {n} {o}.", "{N} starts with {n} {o}.", "{n} {o} belong to {N}."),
        (),
        "things",
        weight=3,
    ),
    Frame(
        "groups",
        "start",
        N_TIMES_M,
        ("small", "small"),
        (
            "{N} has {n} {c} with {m} {o} each.",
            "{N} has {n} {c}. Each of them holds {m} {o}.",
            "{N} fills {n} {c} with {m} {o} each.",
        ),
        (GROUPS,),
        "things",
        weight=2,
    ),
    Frame(
        "two_kinds",
        "start",
        N_PLUS_M,
        ("add", "add"),
        (
            "{N} has {n} red {o} and {m} blue {o}.",
            "{N} has {n} old {o} and {m} new {o}.",
            "{N} has {n} big {o} and {m} small {o}.",
        ),
        (HAS,),
        "things",
    ),
    Frame(
        "rows",
        "start",
        N_TIMES_M,
        ("small", "small"),
        ("{N} lays out {n} rows of {m} {o}.", "{N} has {n} rows with {m} {o} in each."),
        (
            (
                "The rows hold {e} {o}.",
                "That is {e} {o}.",
                "So in all the rows there are {e} {o}.",
                "Together, the number of {o} is {e}.",
            ),
        ),
        "things",
    ),
    Frame(
        "collect_rate",
        "start",
        N_TIMES_M,
        ("small", "small"),
        (
            "{N} collects {n} {o} a day for {m} days.",
            "Every day {N} gets {n} {o}, for {m} days.",
            "{N} makes {n} {o} an hour for {m} hours.",
        ),
        (BATCH,),
        "things",
        weight=1.5,
    ),
    Frame(
        "dozens",
        "start",
        (("n", "*", "12"),),
        ("tiny",),
        ("{N} has {n} dozen {o}.", "{N} buys {n} dozen {o}."),
        (BATCH,),
        "things",
    ),
    Frame(
        "weeks",
        "start",
        (("n", "*", "7"),),
        ("tiny",),
        (
            "{N} gets one of the {o} every day for {n} weeks.",
            "For {n} weeks, {N} finds one of the {o} each day.",
        ),
        (
            (
                "That is {e} {o}.",
                "The days give {e} {o}.",
                "So in all these weeks it is {e} {o}.",
                "With seven a week, the number of {o} is {e}.",
            ),
        ),
        "things",
    ),
    Frame(
        "wallet",
        "start",
        (),
        ("add",),
        ("{N} has {n} dollars.", "{N} starts with {n} dollars."),
        (),
        "dollars",
        weight=1.5,
    ),
    Frame(
        "wages",
        "start",
        N_TIMES_M,
        ("small", "small"),
        (
            "{N} earns {n} dollars an hour for {m} hours.",
            "{N} works {m} days for {n} dollars a day.",
        ),
        (PAY,),
        "dollars",
        weight=1.5,
    ),
    Frame(
        "walk_and_ride",
        "start",
        N_PLUS_M,
        ("add", "add"),
        (
            "{N} walks for {n} minutes and then runs for {m} minutes.",
            "{N} is on a train for {n} minutes and on a bus for {m} minutes.",
        ),
        (TIME,),
        "minutes",
    ),
    Frame(
        "chores",
        "start",
        N_TIMES_M,
        ("small", "small"),
        (
            "{N} does {n} chores that take {m} minutes each.",
            "{N} plays {n} songs of {m} minutes each.",
        ),
        (TIME,),
        "minutes",
    ),
    Frame(
        "speed",
        "start",
        N_TIMES_M,
        ("small", "small"),
        (
            "{N} rides {n} kilometers an hour for {m} hours.",
            "{N} rides for {m} hours at {n} kilometers an hour.",
        ),
        (WAY,),
        "kilometers",
    ),
    Frame(
        "daily_way",
        "start",
        N_TIMES_M,
        ("small", "small"),
        (
            "{N} runs {n} kilometers a day for {m} days.",
            "{N} goes on {n} walks of {m} kilometers each.",
        ),
        (WAY,),
        "kilometers",
    ),
)
