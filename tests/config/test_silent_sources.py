"""The section ``silent_sources``: what is allowed, and when a source counts as silent."""

import pytest

from secmon.config.main import parse_main_config, validate_main_config
from secmon.config.silent_sources import ExpectedSource, SilentSourceSettings
from secmon.config.template import main_config_template

DAY = 86_400
REGULAR = {"known": 4 * DAY, "hours": 60, "pause": 1200}


def written(inside: str) -> str:
    cluster = "<cluster><disabled>yes</disabled></cluster>"
    return f"<ossec_config>{cluster}<silent_sources>{inside}</silent_sources></ossec_config>"


def read(inside: str) -> SilentSourceSettings:
    assert validate_main_config(written(inside)) == []
    return SilentSourceSettings.of(parse_main_config(written(inside)))


def test_the_options_that_the_stock_file_shows_are_the_defaults() -> None:
    stock = main_config_template(None)
    shown = stock[stock.index("<silent_sources>") + len("<silent_sources>") : stock.index("</silent_sources>")]
    assert read(shown.replace("What is expected of the agents of a group:", "")) == SilentSourceSettings(
        expected=(ExpectedSource(group="web", location="/var/log/nginx/*", interval=1800),)
    )
    assert SilentSourceSettings.of(parse_main_config(stock)) == SilentSourceSettings()


@pytest.mark.parametrize(
    ("inside", "key"),
    [
        ("<source><interval>1h</interval></source>", "source.group"),
        ("<source><group>web</group></source>", "source.interval"),
        ("<source><group>web</group><interval>30</interval></source>", "source.interval"),
        ("<learning_time>1m</learning_time>", "learning_time"),
        ("<longest_silence>1y</longest_silence>", "longest_silence"),
        ("<enabled>maybe</enabled>", "enabled"),
    ],
)
def test_what_is_wrong_is_named(inside: str, key: str) -> None:
    assert [problem.key for problem in validate_main_config(written(inside))] == [key]


def test_a_learned_silence_is_twice_the_usual_pause_within_bounds() -> None:
    settings = SilentSourceSettings()
    assert settings.limit((), "/log", **REGULAR) == 2400
    assert settings.limit((), "/log", **REGULAR | {"pause": 10}) == 900
    assert settings.limit((), "/log", **REGULAR | {"pause": DAY // 2}) == DAY
    assert settings.limit((), "/log", **REGULAR | {"pause": DAY // 2 + 1}) is None, "irregular"
    assert settings.limit((), "/log", **REGULAR | {"hours": 23}) is None
    assert settings.limit((), "/log", **REGULAR | {"known": 3 * DAY - 1}) is None


def test_the_first_expectation_that_fits_counts() -> None:
    settings = read(
        "<source><group>lab</group><watched>no</watched></source>"
        "<source><group>web</group><location>/var/*.log</location><interval>5m</interval></source>"
        "<source><group>web</group><location>noise</location><watched>no</watched></source>"
        "<source><group>web</group><interval>1h</interval></source>"
    )
    new = {"known": 0, "hours": 1, "pause": 0}
    assert settings.limit(("default", "web"), "/var/log/a.log", **new) == 300
    assert settings.limit(("web",), "", **new) == 3600
    assert settings.limit(("web",), "/other", **new) is None
    assert settings.limit(("web",), "/other", **REGULAR) == 2400
    assert settings.limit(("web",), "noise", **REGULAR) is None
    assert settings.limit(("lab", "web"), "/var/log/a.log", **REGULAR) is None
    assert settings.limit(("lab", "web"), "", **REGULAR) is None
