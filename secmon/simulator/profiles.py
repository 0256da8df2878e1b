"""Hosts that agents run on, and how a keepalive describes them (agent-link.md 6.3)."""

from dataclasses import dataclass
from random import Random
from typing import Literal

from secmon.simulator.dialect import Dialect

Family = Literal["linux", "windows", "macos"]
_TAIL = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,;:-_/?(){}[]@#!*+"


@dataclass(frozen=True)
class Profile:
    """One kind of host."""

    name: str
    family: Family
    uname: tuple[str, ...]
    """System, release, version, machine; empty for Windows."""
    release: str
    """The text in brackets after the uname; on Windows the whole text."""
    package: str = "deb"
    """Format of the packages in its inventory."""
    vendor: str = "Example Maintainers <pkg@example.org>"
    """Who has made them."""

    def system(self, host: str, dialect: Dialect) -> str:
        """The first part of a keepalive."""
        if not self.uname:
            return self.release
        system, *rest = self.uname
        return f"{(' |' if dialect.bars else ' ').join((system, host, *rest))} [{self.release}]"

    @property
    def arch(self) -> str:
        return self.uname[-1] if self.uname else "x86_64"


def _linux(
    name: str, kernel: str, built: str, release: str, arch: str = "x86_64", package: str = "deb",
    vendor: str = Profile.vendor,
) -> Profile:  # fmt: skip
    return Profile(name, "linux", ("Linux", kernel, built, arch), release, package, vendor)


_ALL = (
    _linux("ubuntu-22.04", "5.15.0-105-generic", "#115-Ubuntu SMP Mon Apr 15 09:52:04 UTC 2024",
           "Ubuntu|ubuntu: 22.04.4 LTS (Jammy Jellyfish)"),
    _linux("debian-12", "6.1.0-20-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.85-1 (2024-04-11)",
           "Debian GNU/Linux|debian: 12 (bookworm)"),
    _linux("rhel-9", "5.14.0-427.13.1.el9_4.x86_64", "#1 SMP PREEMPT_DYNAMIC Wed Apr 10 10:29:16 EDT 2024",
           "Red Hat Enterprise Linux|rhel: 9.4 (Plow)", package="rpm", vendor="Red Hat, Inc."),
    _linux("centos-7", "3.10.0-1160.118.1.el7.x86_64", "#1 SMP Wed Apr 24 16:01:50 UTC 2024",
           "CentOS Linux|centos: 7.9", package="rpm", vendor="CentOS"),
    _linux("amazon-2023", "6.1.84-99.169.amzn2023.aarch64", "#1 SMP Mon Apr  8 19:19:48 UTC 2024",
           "Amazon Linux|amzn: 2023", "aarch64", "rpm"),
    _linux("sles-15", "5.14.21-150500.55.59-default", "#1 SMP PREEMPT_DYNAMIC Thu Apr 18 12:59:33 UTC 2024",
           "SLES|sles: 15.5", package="rpm"),
    _linux("alpine-3.19", "6.6.14-0-lts", "#1-Alpine SMP PREEMPT_DYNAMIC Fri, 26 Jan 2024 11:08:07 +0000",
           "Alpine Linux|alpine: 3.19.1", package="apk"),
    _linux("arch", "6.8.9-arch1-1", "#1 SMP PREEMPT_DYNAMIC Thu, 02 May 2024 17:49:46 +0000",
           "Arch Linux|arch: ", package="pacman"),
    Profile("windows-2019", "windows", (), "Microsoft Windows Server 2019 Datacenter [Ver: 10.0.17763.5696]", "win"),
    Profile("windows-11", "windows", (), "Microsoft Windows 11 Pro [Ver: 10.0.22631.3593]", "win"),
    Profile("macos-14", "macos",
            ("Darwin", "23.4.0", "Darwin Kernel Version 23.4.0: Fri Mar 15 00:12:25 PDT 2024; "
             "root:xnu-10063.101.17~1/RELEASE_ARM64_T6020", "arm64"),
            "macOS|darwin: 14.4.1 (Sonoma)", "pkg"),
)  # fmt: skip

PROFILES = {profile.name: profile for profile in _ALL}
"""By name, in the order in which a fleet takes them in turn."""


def keepalive(
    system: str, dialect: Dialect, *, config_sum: str, labels: str, merged_sum: str, address: str, random: Random
) -> str:
    """The text of a keepalive, marker included; ``config_sum`` and ``address`` may be empty, labels end in newlines."""
    head = f"#!-{system} - Wazuh {dialect.version}" + (f" / {config_sum}" if config_sum else "")
    text = f"{head}\n{labels}{merged_sum or 'x'} merged.mg\n"
    if address and dialect.own_address:
        text += f'#"_agent_ip":{address}\n'
    if dialect.random_tail:
        text += "".join(random.choices(_TAIL, k=random.randrange(20, 700)))
    return text
