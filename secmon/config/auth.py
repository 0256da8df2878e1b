"""The ``auth`` section of the main configuration: enrolment of agents (agent-link.md 1.1)."""

import sys
from typing import Any

from msgspec import Struct

from secmon.config.main import MainConfig

CIPHERS = "HIGH:!ADH:!EXP:!MD5:!RC4:!3DES:!CAMELLIA:@STRENGTH"
_HOUR = 3600


class Force(Struct, frozen=True, kw_only=True):
    """The settings of ``auth.force``; times in seconds, ``None`` when a check is off."""

    enabled: bool = True
    key_mismatch: bool = True
    disconnected_time: int | None = 3600
    after_registration_time: int | None = 3600


class KeyRequest(Struct, frozen=True, kw_only=True):
    """Keys of unknown agents from an outside program; times in seconds."""

    enabled: bool = False
    exec_path: str = ""
    socket: str = ""
    timeout: int = 60
    threads: int = 1
    queue_size: int = 1024


class AuthSettings(Struct, frozen=True, kw_only=True):
    """How agents enrol. File names are relative to the installation folder, or absolute."""

    disabled: bool = True
    port: int = 1515
    ipv6: bool = False
    use_source_ip: bool = False
    purge: bool = False
    use_password: bool = False
    remote_enrollment: bool = True
    ciphers: str = CIPHERS
    ssl_agent_ca: str = ""
    ssl_verify_host: bool = False
    ssl_manager_cert: str = "etc/sslmanager.cert"
    ssl_manager_key: str = "etc/sslmanager.key"
    ssl_auto_negotiate: bool = False
    force: Force = Force()
    allow_higher_versions: bool = False
    key_request: KeyRequest = KeyRequest()

    def active_configuration(self) -> dict[str, Any]:
        """As the active configuration shows it (manager.md 7, auth / auth)."""
        force = self.force
        key_request = {
            name: value
            for name in KeyRequest.__struct_fields__
            if (value := getattr(self.key_request, name)) != ""  # options that are not set are left out
        }
        plain = {
            name: getattr(self, name)
            for name in self.__struct_fields__
            if name not in ("force", "key_request", "allow_higher_versions") and getattr(self, name) != ""
        }
        shown = plain | {
            "key_request": key_request,
            "force": {
                "enabled": force.enabled,
                "key_mismatch": force.key_mismatch,
                "disconnected_time": {
                    "enabled": force.disconnected_time is not None,
                    "value": force.disconnected_time or 0,
                },
                "after_registration_time": force.after_registration_time or 0,
            },
            "agents": {"allow_higher_versions": self.allow_higher_versions},
        }
        return _words(shown)


def _words(shown: dict[str, Any]) -> dict[str, Any]:
    """Booleans as the words that the file has for them."""
    words = {True: "yes", False: "no"}
    return {
        name: _words(value) if isinstance(value, dict) else words[value] if isinstance(value, bool) else value
        for name, value in shown.items()
    }


def read_auth(config: MainConfig) -> AuthSettings:
    """The section's values; what is not set, or not valid, has its default. Without the section enrolment is off."""
    section = config.sections.get("auth")
    if section is None:
        return AuthSettings()
    base = AuthSettings(disabled=False)

    def flag(*path: str, default: bool) -> bool:
        return config.flag("auth", *path, default=default)

    def text(name: str, default: str) -> str:
        return config.text("auth", name, default=default)

    return AuthSettings(
        disabled=flag("disabled", default=False),
        port=config.integer("auth", "port", default=base.port),
        **{
            name: flag(name, default=getattr(base, name))
            for name in ("ipv6", "use_source_ip", "purge", "use_password", "remote_enrollment", "ssl_verify_host")
        },
        ssl_auto_negotiate=flag("ssl_auto_negotiate", default=False),
        ciphers=text("ciphers", base.ciphers),
        ssl_agent_ca=text("ssl_agent_ca", ""),
        ssl_manager_cert=text("ssl_manager_cert", base.ssl_manager_cert),
        ssl_manager_key=text("ssl_manager_key", base.ssl_manager_key),
        force=_force(config),
        allow_higher_versions=flag("agents", "allow_higher_versions", default=False),
        key_request=_key_request(config),
    )


def _force(config: MainConfig) -> Force:
    """Options of old versions count where the new ones are absent."""
    enabled = config.flag("auth", "force", "enabled", default=config.flag("auth", "force_insert", default=True))
    old = config.text("auth", "force_time")
    limit = int(old) if old.isascii() and old.isdecimal() else _HOUR
    checked = config.flag("auth", "force", "disconnected_time", "enabled", default=limit > 0)
    return Force(
        enabled=enabled,
        key_mismatch=config.flag("auth", "force", "key_mismatch", default=True),
        disconnected_time=config.seconds("auth", "force", "disconnected_time", default=limit) if checked else None,
        after_registration_time=config.seconds("auth", "force", "after_registration_time", default=_HOUR),
    )


def _key_request(config: MainConfig) -> KeyRequest:
    present = config.sections["auth"].get("key_request") is not None
    base = KeyRequest()

    def number(name: str, least: int, most: int) -> int:
        default: int = getattr(base, name)
        value = config.integer("auth", "key_request", name, default=default)
        return value if least <= value <= most else default

    return KeyRequest(
        enabled=present and config.flag("auth", "key_request", "enabled", default=True),
        exec_path=config.text("auth", "key_request", "exec_path"),
        socket=config.text("auth", "key_request", "socket"),
        timeout=number("timeout", 1, sys.maxsize),
        threads=number("threads", 1, 32),
        queue_size=number("queue_size", 1, 220_000),
    )
