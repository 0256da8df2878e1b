"""Which generations of the link understand each other, so that nodes can be upgraded one after the other.

Generation 2: workers send the token of their client, and masters believe nothing else about who asks.
Generation 3: columns, fields and tables that a node does not know are ignored, those that are missing have their
defaults, and a digest of the security state says of which version of its tables it is.

A release that changes columns of replicated tables raises MIN_PROTOCOL to 3 at least: nodes of generation 2 do not
ignore them. New tables of the security state are not sent to these nodes (``master/generation_2.py``).
"""

PROTOCOL = 3
"""Generation that this version speaks."""
MIN_PROTOCOL = 2
"""Oldest generation that this version understands."""


def compatible(protocol: int, min_protocol: int) -> bool:
    """Whether this node understands a peer that speaks ``protocol`` and understands ``min_protocol`` and later."""
    return protocol >= MIN_PROTOCOL and min_protocol <= PROTOCOL


def spoken(protocol: int, min_protocol: int) -> str:
    """The range in words, for refusals."""
    return f"generations {min_protocol} to {protocol}"
