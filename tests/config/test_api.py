"""api.yaml: every key of conventions.md 11, good and bad."""

import itertools
from functools import reduce
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.common.errors import ConfigError
from secmon.common.paths import Paths
from secmon.config import settings as declarations
from secmon.config.api import ApiConfig, api_template, load_api_config, parse_api_config
from tests.offenders import Offenders

DEFAULTS = {
    "host": "0.0.0.0",
    "port": 55000,
    "use_only_authd": False,
    "drop_privileges": True,
    "experimental_features": False,
    "max_upload_size": 10485760,
    "intervals.request_timeout": 10,
    "https.enabled": True,
    "https.key": "server.key",
    "https.cert": "server.crt",
    "https.use_ca": False,
    "https.ca": "ca.crt",
    "https.ssl_protocol": "auto",
    "https.ssl_ciphers": "",
    "logs.level": "info",
    "logs.path": "logs/api.log",
    "logs.format": "plain",
    "logs.max_size.enabled": False,
    "logs.max_size.size": "1M",
    "cors.enabled": False,
    "cors.source_route": "*",
    "cors.expose_headers": "*",
    "cors.allow_headers": "*",
    "cors.allow_credentials": False,
    "cache.enabled": True,
    "cache.time": 0.75,
    "access.max_login_attempts": 50,
    "access.block_time": 300,
    "access.max_request_per_minute": 300,
    "metrics.scrapers": (),
    "upload_configuration.remote_commands.localfile.allow": True,
    "upload_configuration.remote_commands.localfile.exceptions": (),
    "upload_configuration.remote_commands.wodle_command.allow": True,
    "upload_configuration.remote_commands.wodle_command.exceptions": (),
    "upload_configuration.limits.eps.allow": True,
    "upload_configuration.agents.allow_higher_versions.allow": True,
    "upload_configuration.indexer.allow": True,
    "upload_configuration.integrations.virustotal.public_key.allow": True,
    "upload_configuration.integrations.virustotal.public_key.minimum_quota": 240,
}


def value_of(config: ApiConfig, key: str) -> object:
    found: object = reduce(getattr, key.split("."), config)
    return found


def document(key: str, text: str) -> str:
    """YAML with one dotted key."""
    *sections, name = key.split(".")
    lines = [f"{'  ' * depth}{section}:" for depth, section in enumerate(sections)]
    return "\n".join([*lines, f"{'  ' * len(sections)}{name}: {text}"])


def test_the_keys_and_defaults_are_those_of_the_reference() -> None:
    assert {key: value_of(ApiConfig(), key) for key in declarations.keys(ApiConfig)} == DEFAULTS


POSITIVE_GOOD = [("1", 1), ("70000", 70000)]
POSITIVE_BAD = ["0", "-1", "2.5", '"5"', "yes", "[1]", "{a: 1}", ""]
BOOLEAN_GOOD = [
    *((text, True) for text in ("yes", "true", "YES", "True", '"yes"', "'TRUE'", "Yes", "yEs")),
    *((text, False) for text in ("no", "false", "NO", "False", '"no"', "'faLse'")),
]
BOOLEAN_BAD = ["1", "0", "maybe", '""', "[yes]", ""]
FILE_GOOD = [("a.pem", "a.pem"), ("A_b-1.CRT", "A_b-1.CRT")]
FILE_BAD = ["a/b.pem", "../a", "..", '""', "'a b'", "é.pem", "5", "[a]", ""]
TEXT_BAD = ["5", "[a]", "{a: b}", ""]
LIST_GOOD = [("[]", ()), ("[a, 'b c']", ("a", "b c"))]
LIST_BAD = ["a", "[1]", "{a: b}", "", "[[a]]"]
HEADERS_GOOD = [("'*'", "*"), ("X-A", "X-A"), ("[X-A, X-B]", ("X-A", "X-B"))]

BOOLEANS = [key for key, default in DEFAULTS.items() if isinstance(default, bool)]
POSITIVES = [
    "intervals.request_timeout",
    "access.max_login_attempts",
    "access.block_time",
    "upload_configuration.integrations.virustotal.public_key.minimum_quota",
]
EXCEPTIONS = [key for key in DEFAULTS if key.endswith(".exceptions")]
NETWORKS_GOOD = [
    ("[]", ()),
    ("[10.0.0.5]", ("10.0.0.5/32",)),
    ("[10.1.0.0/24, 'fd00::/8']", ("10.1.0.0/24", "fd00::/8")),
]
NETWORKS_BAD = ("10.0.0.5", "[10.0.0.5/24]", "[prometheus]", "[5]", "", "{a: b}")
PROTOCOLS = [
    *((spelling, spelling) for spelling in ("auto", "TLS", "TLSv1", "TLSv1.1", "TLSv1.2")),
    *(("AUTO", "auto"), ("tlsv1", "TLSv1"), ("tLSV1.2", "TLSv1.2")),
]

GOOD: list[tuple[str, str, object]] = [
    *((key, text, value) for key in BOOLEANS for text, value in BOOLEAN_GOOD),
    *((key, text, value) for key in POSITIVES for text, value in POSITIVE_GOOD),
    *((key, text, value) for key in ("https.key", "https.cert", "https.ca") for text, value in FILE_GOOD),
    *((key, text, value) for key in EXCEPTIONS for text, value in LIST_GOOD),
    *((key, text, value) for key in ("cors.expose_headers", "cors.allow_headers") for text, value in HEADERS_GOOD),
    *(("metrics.scrapers", text, value) for text, value in NETWORKS_GOOD),
    *(("https.ssl_protocol", text, value) for text, value in PROTOCOLS),
    *(("logs.level", text, text) for text in ("disabled", "info", "warning", "error", "debug", "debug2")),
    *(("logs.format", text, text.lower()) for text in ("plain", "json", "JSON")),
    ("logs.format", '"plain,json"', "plain,json"),
    ("logs.format", "json,plain", "json,plain"),
    ("logs.level", "DEBUG", "debug"),
    ("logs.path", "x.log", "x.log"),
    *(("logs.max_size.size", text, text) for text in ("1M", "500k", "10m", "2048K", "1.5M")),
    ("host", "127.0.0.1", "127.0.0.1"),
    ("host", '"::"', "::"),
    ("host", "2001:db8::1", "2001:db8::1"),
    ("host", "API-1.example.net", "API-1.example.net"),
    ("port", "1", 1),
    ("port", "65535", 65535),
    *(("access.max_request_per_minute", text, value) for text, value in [("0", 0), *POSITIVE_GOOD]),
    ("max_upload_size", "0", 0),
    ("max_upload_size", "5000000000", 5000000000),
    ("https.ssl_ciphers", "ecdhe+aesgcm", "ECDHE+AESGCM"),
    ("https.ssl_ciphers", "", ""),
    ("cors.source_route", "https://a.example", "https://a.example"),
    ("cache.time", "2", 2.0),
    ("cache.time", "0.1", 0.1),
]

BAD: list[tuple[str, str]] = [
    *((key, text) for key in BOOLEANS for text in BOOLEAN_BAD),
    *((key, text) for key in POSITIVES for text in POSITIVE_BAD),
    *(("access.max_request_per_minute", text) for text in POSITIVE_BAD if text != "0"),
    *((key, text) for key in ("https.key", "https.cert", "https.ca") for text in FILE_BAD),
    *((key, text) for key in EXCEPTIONS for text in LIST_BAD),
    *(("metrics.scrapers", text) for text in NETWORKS_BAD),
    *(
        (key, text)
        for key in ("cors.source_route", "logs.path", "logs.level", "https.ssl_protocol")
        for text in TEXT_BAD
    ),
    *((key, text) for key in ("cors.expose_headers", "cors.allow_headers") for text in ("5", "[1]", "", "{a: b}")),
    *(("host", text) for text in ("5", '""', "'a b'", "256.1.1.1", "10.0.0", "a:80", "-a", "http://a", "", "[a]")),
    *(("port", text) for text in ("0", "65536", "-1", '"55000"', "yes", "80.5", "")),
    *(("max_upload_size", text) for text in ("-1", "1.5", "10M", "true", "")),
    *(("https.ssl_protocol", text) for text in ("SSLv3", "TLSv1.3", "'TLS '")),
    *(("https.ssl_ciphers", text) for text in ("5", "[a]")),
    *(("logs.level", text) for text in ("verbose", "critical", "warn")),
    *(("logs.format", text) for text in ("xml", "'plain, json'", "plain,plain", "[plain]", "")),
    *(("logs.max_size.size", text) for text in ("1", "1G", "M", "-1M", "0M", "0.0k", "'1 M'", "1MB", "")),
    *(("cache.time", text) for text in ("0", "-1", ".inf", ".nan", "'1'", "true", "")),
]


def test_good_values() -> None:
    with Offenders() as offenders:
        for key, text, expected in GOOD:
            with offenders.row(key, text):
                value = value_of(parse_api_config(document(key, text)), key)
                assert value == expected
                assert type(value) is type(expected)


def test_bad_values_name_file_key_and_what_is_allowed() -> None:
    with Offenders() as offenders:
        for key, text in BAD:
            with offenders.row(key, text):
                with pytest.raises(ConfigError) as raised:
                    parse_api_config(document(key, text), "/x/api.yaml")
                error = raised.value
                assert (error.code, error.file, error.key) == (2000, "/x/api.yaml", key)
                assert repr(error.value) == repr(yaml.safe_load(text))  # nan is not equal to itself
                assert error.allowed
                assert "/x/api.yaml" in str(error)
                assert key in str(error)


def test_every_key_has_good_and_bad_values() -> None:
    assert {key for key, *_ in GOOD} == DEFAULTS.keys() == {key for key, _ in BAD}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("prot: 1", "prot"),
        ("https: {enable: no}", "https.enable"),
        ("upload_configuration: {limits: {eps: {maximum: 5}}}", "upload_configuration.limits.eps.maximum"),
        ("warnings: []", "warnings"),
        ("5: 6", "5"),
        ("access:", "access"),
        ("logs: {max_size: }", "logs.max_size"),
        ("https: yes", "https"),
        ("https: []", "https"),
        ("- host: a", "top level"),
        ("just text", "top level"),
        ("host: [", "line 1"),
        ("port: 1\nhost: a: b", "line 2"),
        ("port: 1\nport: 2", "line 2"),
        ("https:\n  enabled: no\n  enabled: yes", "line 3"),
        ("host: !!python/name:os.system", "line 1"),
        ("port: 2024-99-99", "file"),
        ("{" * 5000, "file"),
    ],
)
def test_wrong_structure(text: str, key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_api_config(text)
    assert (raised.value.code, raised.value.key) == (2000, key)


@pytest.mark.parametrize("text", ["", "\n", "# host: a\n#port: 5\n", "---\n", "{}", "null"])
def test_nothing_set_means_defaults(text: str) -> None:
    assert parse_api_config(text) == ApiConfig()


def test_the_file(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    assert load_api_config(paths) == ApiConfig()
    paths.api_config.parent.mkdir(parents=True)
    paths.api_config.write_text("port: 1234")
    assert load_api_config(paths).port == 1234
    paths.api_config.write_bytes(b"host: \xff\xfe")
    with pytest.raises(ConfigError, match=str(paths.api_config)):
        load_api_config(paths)
    paths.api_config.unlink()
    paths.api_config.mkdir()
    with pytest.raises(ConfigError) as raised:
        load_api_config(paths)
    assert raised.value.code == 2004


@pytest.mark.parametrize(
    ("size", "size_bytes"),
    [("1M", 1 << 20), ("1K", 1 << 20), ("0.5m", 1 << 20), ("2048k", 2 << 20), ("1.5M", 3 << 19), ("10M", 10 << 20)],
)
def test_sizes_below_a_megabyte_count_as_one(size: str, size_bytes: int) -> None:
    assert parse_api_config(f"logs: {{max_size: {{size: {size}}}}}").logs.max_size.size_bytes == size_bytes


def test_log_formats() -> None:
    assert parse_api_config("logs: {format: 'JSON,plain'}").logs.formats == {"plain", "json"}
    assert ApiConfig().logs.formats == {"plain"}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("use_only_authd: no", "use_only_authd"),
        ("logs: {path: x}", "logs.path"),
        ("cache: {time: 1}", "cache"),
        ("https: {ssl_protocol: tlsv1.1}", "https.ssl_protocol"),
    ],
)
def test_deprecated_settings_warn(text: str, key: str) -> None:
    (warning,) = parse_api_config(text, "/x/api.yaml").warnings
    assert warning.startswith(f"/x/api.yaml: {key}: ")


def test_as_dict_shows_the_effective_configuration(tmp_path: Path) -> None:
    shown = parse_api_config("port: 1\nhttps: {key: k.pem}\ncors: {allow_headers: [a]}").as_dict(Paths(tmp_path))
    flat = {
        key: reduce(lambda value, name: value[name], key.split("."), shown)
        for key in DEFAULTS
        if key not in ("use_only_authd", "logs.path")
    }
    expected = DEFAULTS | {
        "port": 1,
        "cors.allow_headers": ["a"],
        "https.key": str(tmp_path / "api/configuration/ssl/k.pem"),
        "https.cert": str(tmp_path / "api/configuration/ssl/server.crt"),
        "https.ca": str(tmp_path / "api/configuration/ssl/ca.crt"),
    }
    assert flat == {key: [] if expected[key] == () else expected[key] for key in flat}
    assert "use_only_authd" not in shown
    assert "path" not in shown["logs"]
    assert "warnings" not in shown


def test_the_template_holds_every_default_in_comments() -> None:
    assert yaml.safe_load(api_template()) is None
    uncommented = "\n".join(line.removeprefix("#") for line in api_template().split("\n"))
    config = parse_api_config(uncommented)
    assert {key: value_of(config, key) for key in DEFAULTS} == DEFAULTS
    assert all(
        f"{key.rsplit('.', 1)[-1]}:" in api_template() for key in DEFAULTS if key not in ("use_only_authd", "logs.path")
    )


def test_overrides_stand_uncommented() -> None:
    text = api_template({"port": 55001, "logs.max_size.size": "3M", "cors": {"allow_headers": ("a", "b")}})
    assert yaml.safe_load(text) == {
        "port": 55001,
        "logs": {"max_size": {"size": "3M"}},
        "cors": {"allow_headers": ["a", "b"]},
    }


@pytest.mark.parametrize("overrides", [{"prot": 1}, {"https": 1}, {"logs": {"a": 1}}, {"port": "1"}, {"host": "a b"}])
def test_bad_overrides(overrides: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        api_template(overrides)


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text(), max_size=2)


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(sorted(DEFAULTS)), VALUES, max_size=4))
def test_overrides_read_back_or_are_refused(overrides: dict[str, object]) -> None:
    try:
        config = parse_api_config(api_template(overrides))
    except ConfigError:
        return
    shown = {key: value_of(config, key) for key in DEFAULTS.keys() - overrides.keys()}
    assert shown == {key: DEFAULTS[key] for key in shown}


@settings(max_examples=150)
@given(st.text() | st.binary())
def test_any_content_is_read_or_refused(data: str | bytes) -> None:
    try:
        parse_api_config(data)
    except ConfigError:
        return


def _grown(first: str, form: str) -> str:
    """Nine levels, each of which holds the one before ten times."""
    names = "abcdefghij"
    levels = [f"{name}: &{name} {form % ', '.join([f'*{before}'] * 10)}" for before, name in itertools.pairwise(names)]
    return "\n".join([f"a: &a {first}", *levels, "port: *j", ""])


@pytest.mark.parametrize(
    "text",
    [
        _grown("[x]", "[%s]"),
        _grown("{k: 1}", "{<<: [%s]}"),
        "port: &a [*a]\n",
        "a: &a 1\nport: *a\n",
    ],
)
def test_aliases_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"aliases \(\*name\) are not allowed"):
        parse_api_config(text)


@pytest.mark.parametrize(
    "number", ["9" * 101, "0x" + "f" * 5000, ":".join(["1"] * 3000), ":".join(["1"] * 3000) + ".5"]
)
def test_numbers_that_no_message_could_show_are_refused(number: str) -> None:
    with pytest.raises(ConfigError, match="line 1: a number of more than 100 characters"):
        parse_api_config(f"port: {number}\n")
