"""The keys of lists: an indicator in the one form in which it is looked up."""

import ipaddress
import re
from collections.abc import Callable, Mapping

from secmon.knowledge.lists.feeds_yml import Kind

_DOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]{0,62})(?:\.[a-z0-9_][a-z0-9_-]{0,62})+", re.ASCII)
_HASH = re.compile(r"[0-9a-f]{32}(?:[0-9a-f]{8}|[0-9a-f]{32}|[0-9a-f]{64}|[0-9a-f]{96})?", re.ASCII)


def normal_key(kind: Kind, text: str) -> str | None:
    """The key for an indicator of a feed; None: it is none of this kind.

    Addresses and networks are in the shortest form (host bits of networks are cleared, a network of one address is that
    address), domains in lower case without the last full stop, hashes (MD5 to SHA-512) in lower case.
    """
    return _FORMS[kind](text.strip())


def _address(text: str) -> str | None:
    if "%" in text:  # a scope, which means nothing on another host
        return None
    try:
        if "/" not in text:
            return str(ipaddress.ip_address(text))
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
    return str(network.network_address) if network.num_addresses == 1 else str(network)


def _domain(text: str) -> str | None:
    name = text.lower().removesuffix(".")
    return name if _DOMAIN.fullmatch(name) and not name.rpartition(".")[2].isdigit() else None


def _hash(text: str) -> str | None:
    digits = text.lower()
    return digits if _HASH.fullmatch(digits) else None


_FORMS: Mapping[Kind, Callable[[str], str | None]] = {
    "text": lambda text: text or None,
    "address": _address,
    "domain": _domain,
    "hash": _hash,
}
