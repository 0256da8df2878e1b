"""Decoder files that cannot be used, and those that can with a warning (ruleset.md 5.1, 5.2)."""

import pytest

from secmon.engine.decoders.decoder import Decoders
from secmon.engine.decoders.decoder_loader import LOCAL_FILE, load_decoders
from secmon.engine.ruleset.diagnostics import Diagnostics, RulesetError

ROOT = '<decoder name="r"><prematch>^R </prematch></decoder>\n'
REGEX = "<regex>(a)</regex><order>x</order>"


def load(xml: str, diagnostics: Diagnostics | None = None) -> Decoders:
    return load_decoders([("d.xml", xml.encode())], diagnostics or Diagnostics())


@pytest.mark.parametrize(
    ("xml", "number"),
    [
        ('<rule id="1"/>', 1230),
        ("<decoder><prematch>a</prematch></decoder>", 2110),
        ('<decoder name="a" other="1"><prematch>a</prematch></decoder>', 2110),
        ('<decoder name="a"></decoder>', 1231),
        ('<decoder name="a"><prematch>a</prematch><json_prefix></json_prefix></decoder>', 1231),
        ('<decoder name="a"><colour>b</colour></decoder>', 1230),
        ('<decoder name="a"><order>x</order></decoder>', 2108),
        ('<decoder name="a"><parent>nobody</parent><prematch>b</prematch></decoder>', 2101),
        ('<decoder name="a"><prematch>a</prematch><order>x</order></decoder>', 2107),
        ('<decoder name="a"><prematch>a</prematch><regex>(b)</regex></decoder>', 2107),
        ('<decoder name="a"><prematch>a</prematch><fts>name</fts></decoder>', 2107),
        (f'<decoder name="a"><prematch>a</prematch>{REGEX}<fts>nobody</fts></decoder>', 2110),
        ('<decoder name="a"><prematch>a</prematch><regex>(b)</regex><order>x,,y</order></decoder>', 1231),
        ('<decoder name="a"><prematch>(a</prematch></decoder>', 1452),
        ('<decoder name="a"><prematch type="pcre2">(a</prematch></decoder>', 1452),
        ('<decoder name="a"><prematch>a</prematch><plugin_decoder>Nothing</plugin_decoder></decoder>', 2110),
        (f'<decoder name="a"><prematch>a</prematch><plugin_decoder>JSON_Decoder</plugin_decoder>{REGEX}</decoder>', 2111),
        ('<decoder name="a"><prematch>a</prematch><plugin_decoder offset="later">JSON_Decoder</plugin_decoder></decoder>', 2120),
        ('<decoder name="a"><prematch offset="after_parent">a</prematch></decoder>', 2120),
        ('<decoder name="a"><prematch>a</prematch><regex offset="after_parent">(b)</regex><order>x</order></decoder>', 2120),
        (f'{ROOT}<decoder name="a"><parent>r</parent><regex offset="after_prematch">(b)</regex><order>x</order></decoder>', 2120),
        (f'{ROOT}<decoder name="a"><parent>r</parent><regex offset="after_regex">(b)</regex><order>x</order></decoder>', 2120),
        ('<decoder name="a"><prematch>a</prematch><regex>(b)</regex><regex offset="after_prematch">c</regex></decoder>', 2109),
        ('<decoder name="a"><prematch>a</prematch><type>colour</type></decoder>', 2110),
        (f'{ROOT}<decoder name="a"><parent>r</parent>{REGEX}</decoder><decoder name="a"><parent>r</parent><prematch>b</prematch>{REGEX}</decoder>', 2102),
        (f'{ROOT}<decoder name="a"><parent>r</parent>{REGEX}</decoder><decoder name="a"><parent>r</parent>{REGEX}<fts>x</fts></decoder>', 2103),
        (f'{ROOT}<decoder name="a"><parent>r</parent><prematch>b</prematch></decoder><decoder name="a"><parent>r</parent>{REGEX}</decoder>', 2104),
        (f'{ROOT}<decoder name="a"><parent>r</parent>{REGEX}</decoder><decoder name="b"><parent>a</parent>{REGEX}</decoder>', 2101),
        ("<decoder", 1226),
        ("<!-- nothing -->", 1226),
        ("<var name='a'>b</var><decoder name='a'><prematch>$other</prematch></decoder>", 1227),
    ],
)  # fmt: skip
def test_what_cannot_be_used(xml: str, number: int) -> None:
    with pytest.raises(RulesetError) as caught:
        load(xml)
    assert caught.value.message.number == number
    assert caught.value.message.file == "d.xml"


@pytest.mark.parametrize(
    ("element", "number"),
    [
        ('<prematch type="colour">a</prematch>', 7601),
        ('<prematch offset="later">a</prematch>', 7601),
        ("<prematch>a</prematch><json_null_field>never</json_null_field>", 7602),
        ("<prematch>a</prematch><json_null_field>empty</json_null_field>", 7603),
        ("<prematch>a</prematch><json_array_structure>rows</json_array_structure>", 7602),
        (f"<prematch>a</prematch><ftscomment>{'x' * 1024}</ftscomment>", 1104),
    ],
)
def test_what_is_used_with_a_warning(element: str, number: int) -> None:
    diagnostics = Diagnostics()
    load(f'\n<decoder name="a">{element}</decoder>', diagnostics)
    assert [(one.number, one.line, one.file) for one in diagnostics.messages] == [(number, 2, "d.xml")]


def test_the_local_file_may_be_empty() -> None:
    assert load_decoders([(LOCAL_FILE, b"")], Diagnostics()).with_program == []


def test_repeated_texts_are_joined() -> None:
    decoders = load('<decoder name="a"><prematch>^a</prematch><prematch>b$</prematch></decoder>')
    (root,) = decoders.without_program
    assert root.prematch is not None
    assert (root.prematch.search(b"ab"), root.prematch.search(b"abc")) == (1, None)


def test_names_have_ids_that_rules_compare() -> None:
    decoders = load(
        f'{ROOT}<decoder name="c"><parent>r</parent>{REGEX}</decoder>'
        f'<decoder name="o"><parent>r</parent><use_own_name>true</use_own_name>{REGEX}</decoder>'
    )
    (root,) = decoders.without_program
    plain, own = root.children
    assert plain.id == root.id == decoders.ids["r"] != decoders.ids["c"]
    assert own.id == decoders.ids["o"]
    assert {"sca", "rootcheck", "windows_eventchannel"} <= set(decoders.ids)
