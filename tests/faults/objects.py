"""The kinds of objects that clients work on: the requests that create, change, delete and read one, and the answers."""

import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import httpx

GROUPS = tuple(f"choice{number}" for number in range(6))
"""Groups that exist from the start, for agents to be put into."""
_TURN = re.compile(r"turn-\d+\b")
_turns = itertools.count(1)


class Request(NamedTuple):
    method: str
    path: str
    options: Mapping[str, Any] = {}


class Seen(NamedTuple):
    """What an answer says: the value, None if there is no object; with ``other``, that it is not ``value``."""

    value: str | None
    other: bool = False


@dataclass
class Object:
    """One object, as the client that makes it knows it."""

    kind: "Kind"
    name: str
    values: list[str] = field(default_factory=list)
    """All that it has had, or may have had."""
    number: str = ""
    """The id that it was given."""

    @property
    def key(self) -> str:
        return f"{self.kind.name} {self.name}"


class Kind(ABC):
    """``weight``: how often clients choose it."""

    name: str
    weight: int

    def next_value(self) -> str:
        """A value that no object has had."""
        return f"turn-{next(_turns)}"

    def first_value(self) -> str:
        """The value that a new one has."""
        return self.next_value()

    @abstractmethod
    def create(self, thing: Object, value: str) -> Request: ...

    @abstractmethod
    def change(self, thing: Object, value: str) -> Request: ...

    @abstractmethod
    def delete(self, thing: Object) -> Request: ...

    @abstractmethod
    def read(self, thing: Object) -> Request: ...

    @abstractmethod
    def seen(self, thing: Object, response: httpx.Response) -> Seen | None:
        """What the answer to :meth:`read` says; None: nothing."""

    def number(self, body: Mapping[str, Any]) -> str:
        """The id in the answer to :meth:`create`."""
        return ""


class Users(Kind):
    """The value is in the password: logins are reads that every node answers from its own copy."""

    name, weight = "user", 4

    def create(self, thing: Object, value: str) -> Request:
        return Request("POST", "/security/users", {"json": {"username": thing.name, "password": f"Aa1-{value}"}})

    def change(self, thing: Object, value: str) -> Request:
        return Request("PUT", f"/security/users/{thing.number}", {"json": {"password": f"Aa1-{value}"}})

    def delete(self, thing: Object) -> Request:
        return Request("DELETE", f"/security/users?user_ids={thing.number}")

    def read(self, thing: Object) -> Request:
        return Request("POST", "/security/user/authenticate", {"auth": (thing.name, f"Aa1-{thing.values[-1]}")})

    def seen(self, thing: Object, response: httpx.Response) -> Seen | None:
        return {200: Seen(thing.values[-1]), 401: Seen(thing.values[-1], other=True)}.get(response.status_code)

    def number(self, body: Mapping[str, Any]) -> str:
        return str(body["data"]["affected_items"][0]["id"])


class Agents(Kind):
    """The value is the group, of which one that was made by a client has none at first."""

    name, weight = "agent", 4

    def next_value(self) -> str:
        return GROUPS[next(_turns) % len(GROUPS)]

    def first_value(self) -> str:
        return ""

    def create(self, thing: Object, value: str) -> Request:
        return Request("POST", "/agents", {"json": {"name": thing.name}})

    def change(self, thing: Object, value: str) -> Request:
        return Request("PUT", f"/agents/{thing.number}/group/{value}?force_single_group=true")

    def delete(self, thing: Object) -> Request:
        return Request("DELETE", f"/agents?agents_list={thing.number}&status=all&older_than=0s")

    def read(self, thing: Object) -> Request:
        return Request("GET", f"/agents?agents_list={thing.number}&select=id,group")

    def seen(self, thing: Object, response: httpx.Response) -> Seen | None:
        if response.status_code != 200:
            return None
        data = response.json()["data"]
        groups = [",".join(item.get("group", [])) for item in data["affected_items"]]
        absent = [failed["error"]["code"] for failed in data["failed_items"]] == [1701]
        return Seen(groups[0]) if groups else Seen(None) if absent else None

    def number(self, body: Mapping[str, Any]) -> str:
        return str(body["data"]["id"])


class Groups(Kind):
    """The value is in ``agent.conf``; a new one has a copy of the template."""

    name, weight = "group", 2

    def first_value(self) -> str:
        return ""

    def create(self, thing: Object, value: str) -> Request:
        return Request("POST", "/groups", {"json": {"group_id": thing.name}})

    def change(self, thing: Object, value: str) -> Request:
        text = f'<agent_config><labels><label key="turn">{value}</label></labels></agent_config>'
        return Request("PUT", f"/groups/{thing.name}/configuration", _body(text, "xml"))

    def delete(self, thing: Object) -> Request:
        return Request("DELETE", f"/groups?groups_list={thing.name}")

    def read(self, thing: Object) -> Request:
        return Request("GET", f"/groups/{thing.name}/files/agent.conf/xml")

    def seen(self, thing: Object, response: httpx.Response) -> Seen | None:
        if response.status_code == 404:
            return Seen(None)
        return Seen(_turn(response.text)) if response.status_code == 200 else None


class Rules(Kind):
    """Files of one rule; the value is in its description."""

    name, weight = "rules", 1

    def create(self, thing: Object, value: str) -> Request:
        rule = f'<rule id="{100_000 + int(value[5:]) % 19_000}" level="3"><description>{value}</description></rule>'
        text = f'<group name="faults,">{rule}</group>'
        return Request("PUT", f"/rules/files/{thing.name}.xml?overwrite=true", _body(text, "octet-stream"))

    def change(self, thing: Object, value: str) -> Request:
        return self.create(thing, value)

    def delete(self, thing: Object) -> Request:
        return Request("DELETE", f"/rules/files/{thing.name}.xml")

    def read(self, thing: Object) -> Request:
        return Request("GET", f"/rules/files/{thing.name}.xml?raw=true")

    def seen(self, thing: Object, response: httpx.Response) -> Seen | None:
        if response.status_code != 200:
            return None
        if response.headers["content-type"].startswith("application/json"):
            codes = [failed["error"]["code"] for failed in response.json()["data"]["failed_items"]]
            return Seen(None) if codes == [1415] else None
        return Seen(_turn(response.text))


def _body(text: str, subtype: str) -> Mapping[str, Any]:
    return {"content": text, "headers": {"Content-Type": f"application/{subtype}"}}


def _turn(text: str) -> str:
    found = _TURN.search(text)
    return found[0] if found else ""


KINDS: tuple[Kind, ...] = (Users(), Agents(), Groups(), Rules())
QUICK_KINDS: tuple[Kind, ...] = (Users(), Agents(), Groups())
"""Whose requests take a moment: not those for which a ruleset is compiled."""
