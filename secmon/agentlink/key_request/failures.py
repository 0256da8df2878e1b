"""Reasons why a request yields no key; the text is logged."""


class NoKey(Exception):
    """``counter`` is the counter that it increments."""

    counter = "failed"


class Refused(NoKey):
    """The source knows no such agent, or the registry refuses it."""

    counter = "refused"


class Failed(NoKey):
    """The source cannot be reached, or its answer is invalid: it would fail for every agent."""


class TimedOut(NoKey):
    """The source has not answered in time."""

    counter = "timed_out"
