"""Files of rootkit detection as objects: names of files and trojans, and checks (RCL)."""

import re
from typing import Any

_COMMENT = re.compile(r"\s*#")
_VARIABLE = re.compile(r"\s*\$(\w+) *=(.*)", re.ASCII)
_TITLE = re.compile(r"\[([^\]]*)\]\s*\[([^\]]*)\]\s*\[([^\]]*)\]")
_TAG = re.compile(r"\{(CIS|PCI)[^{}:]*:\s*([^{}]*)\}")
_CHECK = re.compile(r"\s*(\w:.*)", re.ASCII)


def parse_rootkit_files(text: str) -> list[dict[str, str]]:
    """Lines ``file ! name ::link``; other lines are ignored."""
    found = []
    for line in _lines(text):
        head, _, link = line.partition("::")
        filename, mark, name = head.partition("!")
        if mark and filename.strip():
            found.append({"filename": filename.strip(), "name": name.strip(), "link": link.strip()})
    return found


def parse_rootkit_trojans(text: str) -> list[dict[str, str]]:
    """Lines ``file !what to look for!description``; others are passed over."""
    found = []
    for line in _lines(text):
        parts = [part.strip() for part in line.split("!", 2)]
        if len(parts) == 3 and parts[0]:
            found.append({"filename": parts[0], "name": parts[1], "description": parts[2]})
    return found


def parse_checks(text: str) -> dict[str, Any]:
    """``{"vars": values by name, "controls": list}``.

    A control is a title ``[name {CIS: ...} {PCI: ...}] [condition] [reference]`` with the checks that follow it.
    """
    variables: dict[str, str] = {}
    controls: list[dict[str, Any]] = []
    for line in _lines(text):
        if title := _TITLE.fullmatch(line.strip()):
            controls.append(_control(*(part.strip() for part in title.groups())))
        elif variable := _VARIABLE.fullmatch(line):
            variables[variable[1]] = variable[2].strip().removesuffix(";")
        elif (check := _CHECK.fullmatch(line)) and controls:
            controls[-1]["checks"].append(check[1].strip())
    return {"vars": variables, "controls": controls}


def _control(name: str, condition: str, reference: str) -> dict[str, Any]:
    tags = _TAG.findall(name)
    control: dict[str, Any] = {"name": name.partition("{")[0].strip().removesuffix("-").strip()}
    for kind in ("CIS", "PCI"):
        if found := [value.strip() for tag, value in tags if tag == kind]:
            control[kind.lower()] = found
    return control | {"condition": condition, "reference": reference, "checks": []}


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not _COMMENT.match(line)]
