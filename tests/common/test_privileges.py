"""The service user's account, and privileges that are dropped permanently."""

import json
import os
import subprocess
import sys

import pytest

from secmon.common.privileges import Account, find_account

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can change users")
USER = "nobody"


def test_unknown_account() -> None:
    assert find_account("no-such-user-here") is None


def test_account_knows_its_own_group() -> None:
    account = find_account("root")
    assert account is not None
    assert (account.uid, account.gid) == (0, 0)
    assert 0 in account.groups


@pytest.fixture
def nobody() -> Account:
    account = find_account(USER)
    if account is None:
        pytest.skip(f"this host has no user {USER}")
    return account


@pytest.mark.root
@needs_root
def test_no_way_back(nobody: Account) -> None:
    script = """
import json, os, sys
from secmon.common.privileges import drop_to, find_account
drop_to(find_account(sys.argv[1]))
tries = []
for attempt in (lambda: os.setuid(0), lambda: os.seteuid(0), lambda: os.setgid(0), lambda: os.setgroups([0]),
                lambda: os.setresuid(-1, 0, 0), lambda: open("/etc/shadow")):
    try:
        attempt()
        tries.append("worked")
    except PermissionError:
        tries.append("refused")
print(json.dumps([os.getresuid(), os.getresgid(), os.getgroups(), os.environ["USER"], tries]))
"""
    done = subprocess.run([sys.executable, "-c", script, USER], capture_output=True, check=True, text=True, cwd="/")
    uids, gids, groups, user, tries = json.loads(done.stdout)
    assert uids == [nobody.uid] * 3
    assert gids == [nobody.gid] * 3
    assert groups == list(nobody.groups)
    assert user == USER
    assert set(tries) == {"refused"}
