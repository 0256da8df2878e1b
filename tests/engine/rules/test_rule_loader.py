"""Parents of rules, as hostile or careless people write them (ruleset.md 6.3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secmon.engine.rules import rule_loader
from secmon.engine.ruleset.diagnostics import RulesetError
from tests.engine.rules_kit import NODE_DECODER, ruleset

PARENTS = ("if_sid", "if_level", "if_matched_sid", "if_group", "if_matched_group")
MANY = "9" * 5000


def warnings(element: str, text: str) -> list[int]:
    rule = f'<rule id="100001" level="3"><{element}>{text}</{element}><description>x</description></rule>'
    return [message.number for message in ruleset(NODE_DECODER, f'<group name="x,">{rule}</group>').messages]


@pytest.mark.parametrize(
    ("element", "text", "expected"),
    [
        ("if_matched_sid", "²", [7615]),
        ("if_matched_sid", MANY, [7615]),
        ("if_level", "²", [7609]),
        ("if_level", MANY, [7609]),
        ("if_level", "0", [7609]),
        ("if_sid", "٣", [7618]),
        ("if_sid", MANY, [7617, 7619]),
        ("if_sid", f"{MANY}, 0001", [7617]),
        ("if_sid", "0", [7617, 7619]),
    ],
)
def test_what_is_no_number_of_a_rule(element: str, text: str, expected: list[int]) -> None:
    assert warnings(element, text) == expected


@given(st.sampled_from(PARENTS), st.text(st.characters(codec="utf-8"), max_size=20))
def test_no_text_of_a_parent_raises_anything_else(element: str, text: str) -> None:
    try:
        warnings(element, text)
    except RulesetError:
        pass


@pytest.mark.parametrize("element", ["if_group", "if_matched_group"])
def test_rules_of_many_links_are_refused(monkeypatch: pytest.MonkeyPatch, element: str) -> None:
    """Each is a child of all before it: the largest file that may be uploaded would take days."""
    monkeypatch.setattr(rule_loader, "MAX_LINKS", 2000)
    rules = "".join(
        f'<rule id="{100001 + at}" level="3"><{element}>many</{element}><description>x</description></rule>\n'
        for at in range(100)
    )
    first = '<rule id="100000" level="3"><match>x</match><description>x</description></rule>\n'
    assert len(ruleset(NODE_DECODER, f'<group name="few,">{first}{rules}</group>').rules.by_id) < 10
    with pytest.raises(RulesetError, match="more than 2000 links") as caught:
        ruleset(NODE_DECODER, f'<group name="many,">{first}{rules}</group>')
    assert caught.value.message.line > 10
