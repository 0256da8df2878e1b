"""All problems of an installation at once."""

from pathlib import Path

import pytest

from secmon.common.paths import Paths
from secmon.config.checks import invalid, validate_installation
from secmon.daemons.installation_files import create_installation_files


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(tmp_path / "secmon")
    create_installation_files(paths)
    return paths


def test_a_new_installation_is_valid(paths: Paths) -> None:
    assert validate_installation(paths) == []


def test_every_problem_of_every_file_is_named(paths: Paths) -> None:
    main = paths.main_config.read_text().replace("<port>1514</port>", "<port>0</port>")
    paths.main_config.write_text(main.replace("<logall>no</logall>", "<logall>maybe</logall>"))
    paths.api_config.write_text("port: 99999\nhttps: {enabled: perhaps, kee: x}\nhots: a\nlogs: 7\na.b: 1\n")
    paths.local_internal_options.write_text("apid.debug=9\nnonsense\nclusterd.hold_ms=x\nother.option=1\n")
    problems = validate_installation(paths)
    named = [(Path(one.file.partition(":")[0]).name, one.section, one.key, one.value) for one in problems]
    assert named == [
        ("ossec.conf", "global", "logall", "maybe"),
        ("ossec.conf", "remote", "port", "0"),
        ("api.yaml", "", "hots", "there is no such name"),
        ("api.yaml", "", "a.b", "there is no such name"),
        ("api.yaml", "", "port", "99999"),
        ("api.yaml", "", "https.kee", "there is no such name"),
        ("api.yaml", "", "https.enabled", "perhaps"),
        ("api.yaml", "", "logs", "7"),
        ("local_internal_options.conf", "", "apid.debug", "9"),
        ("local_internal_options.conf", "", "line", "nonsense"),
        ("local_internal_options.conf", "", "clusterd.hold_ms", "x"),
    ]
    assert all(one.allowed and one.allowed in str(one) and one.key in str(one) for one in problems)


def test_syntax_errors_do_not_hide_other_files(paths: Paths) -> None:
    paths.main_config.write_text("<ossec_config>")
    paths.api_config.write_text("port: [\n")
    paths.internal_options.unlink()
    files = [Path(one.file).name for one in validate_installation(paths)]
    assert files == ["ossec.conf", "api.yaml", "internal_options.conf"]


def test_a_key_given_twice_is_found_beside_wrong_values(paths: Paths) -> None:
    paths.api_config.write_text("port: 1\nport: 2\nhttps: {kee: x}\n")
    assert [one.key for one in validate_installation(paths)] == ["line 2", "https.kee"]


@pytest.mark.parametrize("content", ["- a\n- b\n", "just text", "\x00", "!!python/object:os.system x"])
def test_a_file_that_is_no_mapping_is_one_problem(paths: Paths, content: str) -> None:
    paths.api_config.write_text(content)
    assert len(validate_installation(paths)) == 1


def test_a_bomb_of_aliases_is_one_problem(paths: Paths) -> None:
    lists = [f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 9)}]" for n in range(1, 12)]
    paths.api_config.write_text("\n".join(["b0: &b0 [x]", *lists, "port: *b11", ""]))
    (problem,) = validate_installation(paths)
    assert "aliases (*name) are not allowed" in str(problem)


def test_the_error_names_each_problem_once(paths: Paths) -> None:
    paths.api_config.write_text("port: 0\nhost: 7\n")
    problems = validate_installation(paths)
    error = invalid([*problems, *problems])
    assert error.code == 1908
    assert error.message.count("api.yaml: port: ") == 1
    assert error.message.count("api.yaml: host: ") == 1
