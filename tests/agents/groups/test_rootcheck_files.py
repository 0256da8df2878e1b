"""Files of rootkit detection."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.agents.groups.rootcheck_files import parse_checks, parse_rootkit_files, parse_rootkit_trojans

CHECKS = """\
# a comment
$home_dirs=/usr2/home/*,/home/*,/home;
$rc = /etc/rc.d

[CIS - Debian - 1.4 - Robust partition scheme - /tmp is not apart {CIS: 1.4 Debian} {PCI_DSS: 2.2.4}] [any] [https://x.example/cis]
f:/etc/fstab -> !r:/tmp;
 f:/etc/fstab -> r:x;

[Web vulnerabilities] [all] []
d:$web_dirs -> ^.php$;
"""


def test_checks() -> None:
    assert parse_checks(CHECKS) == {
        "vars": {"home_dirs": "/usr2/home/*,/home/*,/home", "rc": "/etc/rc.d"},
        "controls": [
            {
                "name": "CIS - Debian - 1.4 - Robust partition scheme - /tmp is not apart",
                "cis": ["1.4 Debian"],
                "pci": ["2.2.4"],
                "condition": "any",
                "reference": "https://x.example/cis",
                "checks": ["f:/etc/fstab -> !r:/tmp;", "f:/etc/fstab -> r:x;"],
            },
            {
                "name": "Web vulnerabilities",
                "condition": "all",
                "reference": "",
                "checks": ["d:$web_dirs -> ^.php$;"],
            },
        ],
    }


def test_rootkit_files() -> None:
    text = "# c\ntmp/mcliZokhb           ! Bash door ::/rootkits/bashdoor.php\n*/.proc ! Proc ::\nnothing here\n"
    assert parse_rootkit_files(text) == [
        {"filename": "tmp/mcliZokhb", "name": "Bash door", "link": "/rootkits/bashdoor.php"},
        {"filename": "*/.proc", "name": "Proc", "link": ""},
    ]


def test_rootkit_trojans() -> None:
    text = "ls          !bash|^/bin/sh|file\\.h!\n  # c\nnetstat !hide! An old one!\nno mark\n! x !\n"
    assert parse_rootkit_trojans(text) == [
        {"filename": "ls", "name": "bash|^/bin/sh|file\\.h", "description": ""},
        {"filename": "netstat", "name": "hide", "description": "An old one!"},
    ]


@settings(max_examples=150)
@given(st.text(alphabet="[]{}CISP: !#$=f;ax\n\t", max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    assert parse_checks(text).keys() == {"vars", "controls"}
    assert all(each["filename"] for each in [*parse_rootkit_files(text), *parse_rootkit_trojans(text)])


@pytest.mark.parametrize(
    "line", ["[" * 2_000_000, " " * 2_000_000 + "!", "[" + "{CIS" * 500_000 + "] [] []x", "$a" + " " * 2_000_000]
)
def test_the_effort_grows_with_the_length_of_a_line(line: str) -> None:
    """Effort that grew with its square would exceed the time limit of a test by far."""
    assert parse_checks(line) == {"vars": {}, "controls": []}
    assert parse_rootkit_files(line) == []
    assert parse_rootkit_trojans(line) == []


def test_the_effort_grows_with_the_length_of_a_title() -> None:
    (control,) = parse_checks("[a " + "{CIS" * 500_000 + "] [any] []")["controls"]
    assert (control["name"], control.get("cis")) == ("a", None)
