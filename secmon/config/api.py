"""api.yaml, the configuration of the HTTP API of one node (conventions.md 9, 11)."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec

from secmon.common.errors import UNKNOWN, ConfigError, Fault
from secmon.common.file_io import read_regular
from secmon.common.paths import Paths
from secmon.config import settings
from secmon.config.settings import STARTUP_ERROR, Setting
from secmon.config.yaml import read_yaml

MEGABYTE = 1 << 20
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KkMm])", re.ASCII)


def _size_setting(about: str) -> Setting:
    def parse(value: object) -> str:
        match = _SIZE.fullmatch(value) if isinstance(value, str) else None
        if not match or float(match[1]) <= 0:
            raise ValueError
        return match[0]

    return Setting(parse, "a number above 0 with unit K or M, such as 10M", about)


def _file_name(about: str) -> Setting:
    def parse(value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_.-]+", value) or value in (".", ".."):
            raise ValueError
        return value

    return Setting(parse, "a file name of letters, digits, '_', '-' and '.', without folders", about)


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A section of api.yaml."""


class Intervals(Section, frozen=True):
    """Time limits."""

    request_timeout: Annotated[int, settings.whole("Seconds that a request may take.", 1)] = 10


class Https(Section, frozen=True):
    """Encryption. The files lie in api/configuration/ssl and are generated when missing."""

    enabled: Annotated[bool, settings.flag("Serve HTTPS; no means plain HTTP.")] = True
    key: Annotated[str, _file_name("File of the private key.")] = "server.key"
    cert: Annotated[str, _file_name("File of the certificate.")] = "server.crt"
    use_ca: Annotated[bool, settings.flag("Require client certificates that the authority in 'ca' has signed.")] = False
    ca: Annotated[str, _file_name("File of the certificate authority.")] = "ca.crt"
    ssl_protocol: Annotated[
        str,
        settings.word(
            "TLS version; auto is the best that both sides know.", "TLS", "TLSv1", "TLSv1.1", "TLSv1.2", "auto"
        ),
    ] = "auto"
    ssl_ciphers: Annotated[
        str, settings.text("OpenSSL cipher string; empty means the library's choice.", none_is_empty=True, upper=True)
    ] = ""


class MaxSize(Section, frozen=True):
    """Rotation by size, in place of rotation by day."""

    enabled: Annotated[bool, settings.flag("Rotate when the file has reached the size.")] = False
    size: Annotated[str, _size_setting("Size that starts a rotation; less than 1M counts as 1M.")] = "1M"

    @property
    def size_bytes(self) -> int:
        """Bytes; never below 1 MiB (conventions.md 11)."""
        match = _SIZE.fullmatch(self.size)
        if match is None:  # only for a struct that was not read from a file
            raise ValueError(self.size)
        unit = MEGABYTE if match[2] in "Mm" else 1024
        return max(MEGABYTE, int(float(match[1]) * unit))


class Logs(Section, frozen=True):
    """The API's own log."""

    level: Annotated[
        str,
        settings.word(
            "Least important entries written; each level includes the ones before it.",
            "disabled", "info", "warning", "error", "debug", "debug2",
        ),
    ] = "info"  # fmt: skip
    path: Annotated[
        str,
        settings.text("Log file.").retired("deprecated and ignored: the log is always logs/api.log or logs/api.json"),
    ] = "logs/api.log"
    format: Annotated[
        str,
        settings.word(
            "Written as text to api.log, as JSON to api.json, or both.", "plain", "json", "plain,json", "json,plain"
        ),
    ] = "plain"
    max_size: MaxSize = MaxSize()

    @property
    def formats(self) -> frozenset[str]:
        """``plain``, ``json`` or both."""
        return frozenset(self.format.split(","))


class Cors(Section, frozen=True):
    """Cross-origin requests of browsers."""

    enabled: Annotated[bool, settings.flag("Answer cross-origin requests.")] = False
    source_route: Annotated[str, settings.text("Origin that is allowed; * means all.")] = "*"
    expose_headers: Annotated[
        str | tuple[str, ...], settings.text_or_texts("Response headers that scripts may read; * means all.")
    ] = "*"
    allow_headers: Annotated[
        str | tuple[str, ...], settings.text_or_texts("Request headers that scripts may send; * means all.")
    ] = "*"
    allow_credentials: Annotated[bool, settings.flag("Let browsers read responses to requests with credentials")] = (
        False
    )


class Cache(Section, frozen=True):
    """Cache of the rules endpoints (deprecated)."""

    enabled: Annotated[bool, settings.flag("Keep responses for a short time.")] = True
    time: Annotated[float, settings.positive_number("Seconds that a response is kept.")] = 0.75


class Access(Section, frozen=True):
    """Protection against too many requests."""

    max_login_attempts: Annotated[
        int, settings.whole("Failed logins of one address, on all nodes, within block_time.", 1)
    ] = 50
    block_time: Annotated[int, settings.whole("Seconds over which failed logins count, and block.", 1)] = 300
    max_request_per_minute: Annotated[
        int,
        settings.whole(
            "Requests of all clients per minute, logins aside; 0: no limit, nor one of those with events.", 0
        ),
    ] = 300


class Metrics(Section, frozen=True):
    """GET /metrics, for Prometheus."""

    scrapers: Annotated[
        tuple[str, ...], settings.networks("Addresses from which metrics are read without a token.")
    ] = ()


class Allow(Section, frozen=True):
    """Whether uploads may hold it."""

    allow: Annotated[bool, settings.flag("Accept such uploads.")] = True


class Eps(Allow, frozen=True):
    """Limits of events per second."""


class HigherVersions(Allow, frozen=True):
    """Settings that accept agents newer than the manager."""


class Indexer(Allow, frozen=True):
    """The indexer section."""


class RemoteCommand(Section, frozen=True):
    """Commands that agents or managers would run."""

    allow: Annotated[bool, settings.flag("Accept uploads that hold such commands.")] = True
    exceptions: Annotated[tuple[str, ...], settings.texts("Exact commands that are accepted in any case.")] = ()


class RemoteCommands(Section, frozen=True):
    """Commands in uploaded configurations."""

    localfile: RemoteCommand = RemoteCommand()
    wodle_command: RemoteCommand = RemoteCommand()


class UploadLimits(Section, frozen=True):
    """Limits of the analysis engine."""

    eps: Eps = Eps()


class UploadAgents(Section, frozen=True):
    """Acceptance of agents."""

    allow_higher_versions: HigherVersions = HigherVersions()


class PublicKey(Section, frozen=True):
    """Keys of the free plan."""

    allow: Annotated[bool, settings.flag("Accept uploads with a public key.")] = True
    minimum_quota: Annotated[int, settings.whole("Hourly requests that mark a key as public.", 1)] = 240


class Virustotal(Section, frozen=True):
    """The threat-intelligence integration."""

    public_key: PublicKey = PublicKey()


class UploadIntegrations(Section, frozen=True):
    """Integrations."""

    virustotal: Virustotal = Virustotal()


class UploadConfiguration(Section, frozen=True):
    """What a configuration that is uploaded through the API may change."""

    remote_commands: RemoteCommands = RemoteCommands()
    limits: UploadLimits = UploadLimits()
    agents: UploadAgents = UploadAgents()
    indexer: Indexer = Indexer()
    integrations: UploadIntegrations = UploadIntegrations()


class ApiConfig(Section, frozen=True):
    """The whole file; ``warnings`` are for the log at start."""

    host: Annotated[str, settings.host("Address to listen on.")] = "0.0.0.0"
    port: Annotated[int, settings.whole("TCP port to listen on.", 1, 65535)] = 55000
    use_only_authd: Annotated[
        bool, settings.flag("Agents are registered by the enrolment daemon only.").retired("deprecated and ignored")
    ] = False
    drop_privileges: Annotated[bool, settings.flag("Run as the product's own user instead of root.")] = True
    experimental_features: Annotated[bool, settings.flag("Offer features under development.")] = False
    max_upload_size: Annotated[int, settings.whole("Bytes that a request body may have; 0 means no limit.", 0)] = (
        10485760
    )
    intervals: Intervals = Intervals()
    https: Https = Https()
    logs: Logs = Logs()
    cors: Cors = Cors()
    cache: Cache = Cache()
    access: Access = Access()
    metrics: Metrics = Metrics()
    upload_configuration: UploadConfiguration = UploadConfiguration()
    warnings: tuple[str, ...] = ()

    def as_dict(self, paths: Paths) -> dict[str, Any]:
        """The effective configuration as the API shows it: plain values, TLS files absolute (manager.md 13.3)."""
        shown: dict[str, Any] = settings.dump(self)
        for name in ("key", "cert", "ca"):
            shown["https"][name] = str(paths.ssl / shown["https"][name])
        return shown


def load_api_config(paths: Paths) -> ApiConfig:
    """Read api.yaml; absent, empty or all commented means the defaults.

    Raises ConfigError 2000 for anything that conventions.md 11 does not allow, so that every typo is reported.
    """
    try:
        data = read_regular(paths.api_config, follow=True)
    except FileNotFoundError:
        return ApiConfig()
    except OSError as error:
        raise ConfigError(str(paths.api_config), "file", Fault(error.strerror), "a readable file", code=2004) from error
    return parse_api_config(data, str(paths.api_config))


def parse_api_config(data: bytes | str, file: str = "api.yaml") -> ApiConfig:
    """The configuration that ``data`` holds; ``file`` names it in errors (ConfigError 2000)."""
    raw = read_yaml(data, file, code=STARTUP_ERROR)
    if raw is None:
        return ApiConfig()
    if not isinstance(raw, Mapping):
        raise ConfigError(file, "top level", raw, "keys with values, such as 'port: 55000'", code=STARTUP_ERROR)
    warnings: list[str] = []
    config = settings.bind(ApiConfig, raw, file, warnings)
    if "cache" in raw:
        warnings.append(f"{file}: cache: deprecated since 4.8.0")
    if config.https.ssl_protocol in ("TLSv1", "TLSv1.1"):
        warnings.append(f"{file}: https.ssl_protocol: {config.https.ssl_protocol} is obsolete; use auto or TLSv1.2")
    return msgspec.structs.replace(config, warnings=tuple(warnings))


_HEAD = """\
## Configuration of the HTTP API of this node. It is not copied to other nodes.
## Every setting is listed with its default. To change one, delete the # before it and before the sections around it,
## edit the value, and restart: secmon restart
"""


def api_template(overrides: Mapping[str, object] | None = None) -> str:
    """Text of an api.yaml where everything is commented but ``overrides``: dotted keys (``https.enabled``) or nested.

    Raises ConfigError 2000 when an override is not allowed.
    """
    wanted = dict(_flatten(overrides or {}))
    for key in wanted.keys() - set(settings.keys(ApiConfig)):
        raise ConfigError("api.yaml", key, UNKNOWN, "a documented key", code=STARTUP_ERROR)
    content = "\n".join([_HEAD, *settings.render(ApiConfig(), wanted)])
    parse_api_config(content)  # an override of the wrong type must not get into a file
    return content


def _flatten(overrides: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in overrides.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
