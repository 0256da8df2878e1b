"""Internal options (manager.md 17)."""

from pathlib import Path

import pytest

from secmon.common.errors import ConfigError, SecmonError
from secmon.common.paths import Paths
from secmon.config.options import (
    LOCAL_TEMPLATE,
    OPTIONS,
    InternalOptions,
    internal_options_template,
    load_internal_options,
)


def load(folder: Path, local: str = "", shipped: str | None = None) -> InternalOptions:
    paths = Paths(folder)
    paths.etc.mkdir()
    paths.internal_options.write_text(internal_options_template() if shipped is None else shipped)
    paths.local_internal_options.write_text(LOCAL_TEMPLATE + local)
    return load_internal_options(paths)


def test_defaults_lie_in_their_ranges() -> None:
    assert {name for name, option in OPTIONS.items() if not option.accepts(option.default)} == set()


def test_the_template_reads_back(tmp_path: Path) -> None:
    options = load(tmp_path)
    assert {name: options.get(name) for name in OPTIONS} == {name: each.default for name, each in OPTIONS.items()}
    assert options.warnings == ()


def test_the_local_file_wins(tmp_path: Path) -> None:
    options = load(tmp_path, " clusterd.hold_ms = 50 # quick\r\n\nclusterd.peer_port=0", "clusterd.hold_ms=70\n")
    assert (options.get("clusterd.hold_ms"), options.get("clusterd.peer_port")) == (50, 0)
    assert options.get("daemons.stop_timeout") == 30


def test_options_of_other_versions_are_kept_with_one_warning(tmp_path: Path) -> None:
    options = load(tmp_path, "windows.debug=0\nagent.tolerance=1\n")
    assert options.get("agent.tolerance") == 1
    (warning,) = options.warnings
    assert "windows.debug, agent.tolerance" in warning


@pytest.mark.parametrize(
    ("local", "code"),
    [
        ("clusterd.heartbeat_ms=fast", 1109),
        ("clusterd.heartbeat_ms=", 1109),
        ("clusterd.heartbeat_ms=1.5", 1109),
        ("clusterd.heartbeat_ms", 1109),
        ("nonsense", 1109),
        ("clusterd.heartbeat_ms=49", 1110),
        ("clusterd.heartbeat_ms=60001", 1110),
        ("clusterd.peer_port=1024", 1110),
        ("clusterd.peer_port=-2", 1110),
        ("apid.debug=3", 1110),
    ],
)
def test_bad_lines_name_their_place(tmp_path: Path, local: str, code: int) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, f"# one more line\n{local}\n")
    assert raised.value.code == code
    assert raised.value.file == f"{tmp_path}/etc/local_internal_options.conf:3"


@pytest.mark.parametrize("value", [-1, 0, 1025, 65534])
def test_ports_with_a_special_meaning(value: int) -> None:
    assert InternalOptions.defaults().with_overrides({"clusterd.enrol_port": value}).get("clusterd.enrol_port") == value


def test_missing_files(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    with pytest.raises(ConfigError) as raised:
        load_internal_options(paths)
    assert raised.value.code == 1107
    paths.etc.mkdir()
    paths.internal_options.write_text("")
    assert load_internal_options(paths).get("clusterd.security_lease") == 30


def test_unknown_option() -> None:
    with pytest.raises(SecmonError) as raised:
        InternalOptions.defaults().get("no.such")
    assert raised.value.code == 1108


def test_overrides() -> None:
    defaults = InternalOptions.defaults()
    assert defaults.with_overrides({"clusterd.hold_ms": 0}).get("clusterd.hold_ms") == 0
    assert defaults.get("clusterd.hold_ms") == 3000
    with pytest.raises(ConfigError):
        defaults.with_overrides({"clusterd.hold_ms": -1})
    with pytest.raises(SecmonError) as raised:
        defaults.with_overrides({"no.such": 1})
    assert raised.value.code == 1108
