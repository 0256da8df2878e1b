"""Secrets in the text: hidden as the JSON form hides them, and put back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.common.errors import SecmonError
from secmon.config.as_json import MASK, convert_main, mask_secrets
from secmon.config.masking import is_secret, mask_text, restore_text
from secmon.config.xml import XmlError, parse_xml
from tests.config.example import XML

TEXT = """\
<!-- old: <key>commented-secret</key>, <port>1516</port> -->
<ossec_config>
  <cluster>
    <name>eu</name>
    <key>cluster-secret</key> <!-- mind the key -->
  </cluster>
  <integration><name>slack</name><hook_url>https://hooks/slack-secret</hook_url></integration>
  <integration>
    <name>virustotal</name>
    <API_KEY note='x > y'>vt<!-- cut -->-secret</API_KEY>
  </integration>
  <labels><label key="rack">b7</label></labels>
</ossec_config>
<ossec_config>
  <wodle name="aws-s3"><bucket type="trail"><secret_key><![CDATA[cdata-secret]]></secret_key></bucket></wodle>
  <auth password="attribute-secret"/><syscheck><nodiff>a & b < c</nodiff></syscheck>
</ossec_config>
"""


def as_json(text: str) -> object:
    return convert_main(parse_xml(text, "x"))


def test_no_secret_is_left_and_nothing_else_is_changed() -> None:
    masked = mask_text(TEXT)
    assert "secret" not in masked.replace("secret_key", "")
    assert "<!-- mind the key -->" in masked
    assert '<label key="rack">b7</label>' in masked
    assert "<port>1516</port>" in masked
    assert "a & b < c" in masked
    assert masked.count("\n") == TEXT.count("\n")


def test_the_text_hides_what_the_json_form_hides() -> None:
    masked = convert_main(parse_xml(mask_text(TEXT), "x"))
    assert mask_secrets(masked) == mask_secrets(convert_main(parse_xml(TEXT, "x")))
    assert masked["cluster"] == {"name": "eu", "key": MASK}


def test_a_text_without_secrets_is_left_alone() -> None:
    assert mask_text(XML) == XML


def test_a_text_that_is_not_well_formed_is_not_shown() -> None:
    with pytest.raises(XmlError) as caught:
        mask_text("<ossec_config><cluster><key>secret</key>")
    assert caught.value.code == 1101
    assert "secret" not in str(caught.value)


NAMES = st.sampled_from(["cluster", "integration", "key", "password", "name", "nodes", "auth", "Api_Key", "label"])
WORDS = st.sampled_from(["x1", "a b", "& ", "< ", "]]>", "--", "é", "<!-- <key>n</key> -->", "<![CDATA[<key>]]>", "\n"])


@st.composite
def elements(draw: st.DrawFn, depth: int = 0) -> str:
    name = draw(NAMES)
    attribute = draw(st.sampled_from(["", ' a="1"', " key='v>w'", ' b="&"']))
    if draw(st.booleans()) and depth < 4:
        inner = "".join(draw(st.lists(elements(depth + 1), max_size=3)))
    else:
        inner = "".join(draw(st.lists(WORDS, max_size=3)))
    return f"<{name}{attribute}>{inner}</{name}>" if inner or draw(st.booleans()) else f"<{name}{attribute} />"


def visible_secrets(text: str) -> list[str]:
    """Texts of options with a secret's name, directly in a section that makes them one, that are not masked."""
    found = []
    for root in parse_xml(text, "x").children:
        for section in root.children:
            for option in section.children:
                content = option.inner_xml.strip()
                if is_secret(section.name, option.name) and content not in ("", MASK):
                    found.append(content)
    return found


@settings(max_examples=150)
@given(st.lists(elements(), max_size=4))
def test_any_well_formed_text_is_masked_and_stays_well_formed(sections: list[str]) -> None:
    text = "<ossec_config>" + "".join(sections) + "</ossec_config>"
    masked = mask_text(text)
    assert not visible_secrets(masked)
    assert mask_text(masked) == masked


@settings(max_examples=100)
@given(st.lists(elements(), max_size=4))
def test_what_was_masked_can_be_put_back_or_is_refused(sections: list[str]) -> None:
    text = "<ossec_config>" + "".join(sections) + "</ossec_config>"
    masked = mask_text(text)
    try:
        restored = restore_text(masked, text)
    except SecmonError as error:
        if error.code != 1125:
            raise
        return
    # Comments are not restored: nothing in them is in effect.
    assert as_json(restored) == as_json(text)


def test_masked_secrets_take_their_values_from_the_file() -> None:
    edited = mask_text(TEXT).replace("<name>eu</name>", "<name>us</name>").replace("b7", "b8")
    restored = restore_text(edited, TEXT)
    assert "<key>cluster-secret</key>" in restored
    assert "slack-secret" in restored
    assert "vt<!-- cut -->-secret" in restored
    assert "cdata-secret" in restored
    assert "<label" in restored
    assert "b8" in restored
    assert "attribute-secret" in restored


def test_repeated_sections_are_distinguished_by_name() -> None:
    swapped = """<ossec_config>
      <integration><name>virustotal</name><level>3</level><api_key>*****</api_key></integration>
      <integration><name>slack</name><level>3</level><hook_url> ***** </hook_url></integration>
    </ossec_config>"""
    restored = restore_text(swapped, TEXT)
    assert restored.index("vt<!-- cut -->-secret") < restored.index("slack-secret")


@pytest.mark.parametrize(
    ("upload", "saved", "problem"),
    [
        ("<integration><name>pager</name><api_key>*****</api_key></integration>", TEXT, "no value"),
        ("<cluster><key>*****</key></cluster>", "", "no value"),
        ("<cluster><key>*****</key></cluster>", "<broken", "no value"),
        ("<cluster><key>*****</key></cluster>", "<r><cluster><key>*****</key></cluster></r>", "no value"),
        (
            "<cluster><x/><key>*****</key></cluster>",
            "<r><cluster><key>a1</key></cluster><cluster><key>b2</key></cluster></r>",
            "several values",
        ),
    ],
)
def test_a_mask_without_one_value_is_refused(upload: str, saved: str, problem: str) -> None:
    with pytest.raises(SecmonError, match=problem) as caught:
        restore_text(f"<ossec_config>{upload}</ossec_config>", saved)
    assert caught.value.code == 1125
    assert "secret" not in str(caught.value)


def test_a_new_value_is_kept() -> None:
    new = TEXT.replace("cluster-secret", "fresh")
    assert restore_text(new, TEXT) == new


def test_many_secrets_in_one_section_cost_no_quadratic_time() -> None:
    options = "".join(f"<password>p{number}</password>" for number in range(5000))
    text = f"<ossec_config><integration>{options}</integration></ossec_config>"
    assert restore_text(mask_text(text), text) == text
