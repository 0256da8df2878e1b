"""Keys of versions compare as the versions do: with published vectors, and with the programs of the ecosystems."""

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.version import Version

from secmon.knowledge.vulnerabilities.versions import FIRST, ORDERS, is_version, just_after, version_key
from tests.offenders import Offenders

# docs/reference/agent-data.md 9.6; rpm's own: https://rpm-software-management.github.io/rpm/man/rpm-version.7
VECTORS: dict[str, list[str]] = {
    "deb": [
        "1.0~rc1 < 1.0", "1.0 = 1.0-0", "1.0-1 < 1.0-1ubuntu1", "1:0.9 > 2.0", "1.10 > 1.9", "1.0+dfsg > 1.0",
        "1.0a < 1.0+", "2.34-6ubuntu1.3 < 2.34-6ubuntu1.10", "1.01 = 1.1", "2.4.1 < 2.4.1-4",
        "2.4.1-4~deb12u1 < 2.4.1-4", "1-2-3 < 1-2-4", "0:1 = 1", "1.0~~ < 1.0~", "1a < 1.1", "1.0 < 1.0.0",
    ],
    "rpm": [
        "1.0~rc1-1 < 1.0-1", "1.0^git1-1 > 1.0-1", "1.0^git1-1 < 1.0.1-1", "1:1.0-1 > 2.0-1", "1.0a-1 < 1.0.1-1",
        "5.1.8-6.el9 < 5.1.8-6.el9_1", "1.0.010-1 = 1.0.10-1", "1.0-1.el8 < 1.0-1.el9", "a-1 < 1-1",
        "2.0.1 > 2.0", "2.0.1a > 2.0.1", "5.5p1 < 5.5p10", "10xyz < 10.1xyz", "xyz10 < xyz10.1", "xyz.4 < 8",
        "5.5p2 < 5.6p1", "6.0.rc1 > 6.0", "10b2 > 10a1", "1.0aa > 1.0a", "10.0001 = 10.1", "4.999.9 < 5.0",
        "20101122 > 20101121", "2_0 = 2.0", "a+ = a_", "1.0~rc1~git123 < 1.0~rc1", "1.0^20160101 < 1.0.1",
        "1.0^20160101^git1 > 1.0^20160101", "1.0^ > 1.0", "1.0~rc1^git1 > 1.0~rc1",
    ],
    "apk": [
        "1.2.3-r0 < 1.2.3-r1", "1.2.3_rc1-r0 < 1.2.3-r0", "1.2.3_p1-r0 > 1.2.3-r0", "1.2.3_alpha < 1.2.3_beta",
        "1.2.10 > 1.2.9", "1.2a > 1.2", "1.2a < 1.2.1", "1.0_git20200101 > 1.0", "1.2_rc2 < 1.2_rc10", "1.01 < 1.1",
    ],
    "pacman": [
        "1.0a-1 < 1.0b-1", "1.0b-1 < 1.0beta-1", "1.0beta-1 < 1.0p-1", "1.0p-1 < 1.0pre-1", "1.0pre-1 < 1.0rc-1",
        "1.0rc-1 < 1.0-1", "1.0-1 < 1.0.a-1", "1.0.a-1 < 1.0.1-1", "1:1.0-1 > 2.0-1", "1.0-1 < 1.0-2",
    ],
    "npm": [
        "1.0.0-alpha < 1.0.0-alpha.1", "1.0.0-alpha.1 < 1.0.0-alpha.beta", "1.0.0-alpha.beta < 1.0.0-beta",
        "1.0.0-beta.2 < 1.0.0-beta.11", "1.0.0-rc.1 < 1.0.0", "1.0.0+a = 1.0.0+b", "v1.2 = 1.2.0", "2.0.0 > 1.99.99",
    ],
    "pypi": ["1.0.dev1 < 1.0a1", "1.0 = 1.0.0", "1!0.1 > 2.0", "1.0+local > 1.0", "1.0.post1 > 1.0"],
    "windows": ["10.0.17763.1 < 10.0.17763.20", "10.0.17763.5 = 17763.5", "17763.5329 > 17763.999", "17763 = 17763.0"],
}  # fmt: skip


def compared(order: str, left: str, right: str) -> str:
    first, second = version_key(order, left), version_key(order, right)
    return "=" if first == second else "<" if first < second else ">"


def test_published_vectors() -> None:
    with Offenders() as offenders:
        for order, vectors in VECTORS.items():
            for vector in vectors:
                with offenders.row((order, vector)):
                    left, sign, right = vector.split()
                    assert compared(order, left, right) == sign
                    assert FIRST < version_key(order, left) < just_after(version_key(order, left))


def test_texts_that_are_no_versions_come_last() -> None:
    for order in ORDERS:
        for text in ("", "?", "9" * 2000, "\ud800"):
            assert not is_version(order, text), (order, text)
            assert version_key(order, text) > version_key(order, "9999999")


def test_a_last_version_without_release_has_all_its_releases() -> None:
    assert version_key("rpm", "1.0-5") < just_after(version_key("rpm", "1.0")) < version_key("rpm", "1.0.1-1")


deb_parts = st.text("019a~+.Z", min_size=1, max_size=6)
deb_versions = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(("", "0:", "1:")),
    st.sampled_from("0129"),
    deb_parts,
    st.just("") | deb_parts.map("-{}".format),
)


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="dpkg is not on this host")
@settings(max_examples=60, deadline=None)
@given(deb_versions, deb_versions)
def test_dpkg_agrees(left: str, right: str) -> None:
    relation = {"<": "lt", "=": "eq", ">": "gt"}[compared("deb", left, right)]
    done = subprocess.run(["dpkg", "--compare-versions", left, relation, right], capture_output=True, check=False)
    assert done.returncode == 0, (left, relation, right, done.stderr)


numbers = st.lists(st.integers(0, 12).map(str), min_size=1, max_size=3).map(".".join)
pypi_versions = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(("", "1!")),
    numbers,
    st.sampled_from(("", "a0", "b10", "rc2")),
    st.sampled_from(("", ".post0", ".dev0", ".post1.dev3")),
    st.sampled_from(("", "+a", "+1", "+a.1")),
)


@settings(max_examples=300, deadline=None)
@given(pypi_versions, pypi_versions)
def test_packaging_agrees(left: str, right: str) -> None:
    first, second = Version(left), Version(right)
    assert compared("pypi", left, right) == ("=" if first == second else "<" if first < second else ">")


@settings(deadline=None)
@given(deb_versions, deb_versions)
def test_what_follows_a_version_is_after_it(left: str, right: str) -> None:
    """A range that ends with a version holds no later one: no key begins with another."""
    first, second = version_key("deb", left), version_key("deb", right)
    assert (second < just_after(first)) == (second <= first)
