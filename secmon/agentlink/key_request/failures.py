"""Why a request yields no key; the text is the cause, for the log."""


class NoKey(Exception):
    """``counter`` names what is counted."""

    counter = "failed"


class Refused(NoKey):
    """The source knows no such agent, or the registry takes none like this."""

    counter = "refused"


class Failed(NoKey):
    """The source cannot be asked, or what it says is no answer; it would be the same with any other agent."""


class TimedOut(NoKey):
    """The source has not answered in time."""

    counter = "timed_out"
