"""Makes access-control databases as 4.x managers have them."""

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from secmon.security.rbac.defaults import load_defaults

SCHEMA = """
CREATE TABLE users (id INTEGER PRIMARY KEY, username VARCHAR(32), password VARCHAR(256), allow_run_as BOOLEAN,
  created_at DATETIME, CONSTRAINT username_restriction UNIQUE (username));
CREATE TABLE roles (id INTEGER PRIMARY KEY, name VARCHAR(20), created_at DATETIME, UNIQUE (name));
CREATE TABLE rules (id INTEGER PRIMARY KEY, name VARCHAR(20), rule TEXT, created_at DATETIME,
  UNIQUE (name), UNIQUE (rule));
CREATE TABLE policies (id INTEGER PRIMARY KEY, name VARCHAR(20), policy TEXT, created_at DATETIME,
  UNIQUE (name), UNIQUE (policy));
CREATE TABLE user_roles (id INTEGER PRIMARY KEY, user_id INTEGER, role_id INTEGER, level INTEGER, created_at DATETIME);
CREATE TABLE roles_policies (id INTEGER PRIMARY KEY, role_id INTEGER, policy_id INTEGER, level INTEGER,
  created_at DATETIME);
CREATE TABLE roles_rules (id INTEGER PRIMARY KEY, role_id INTEGER, rule_id INTEGER, created_at DATETIME);
CREATE TABLE users_token_blacklist (user_id INTEGER PRIMARY KEY, nbf_invalid_until INTEGER, is_valid_until INTEGER);
CREATE TABLE roles_token_blacklist (role_id INTEGER PRIMARY KEY, nbf_invalid_until INTEGER, is_valid_until INTEGER);
CREATE TABLE runas_token_blacklist (nbf_invalid_until INTEGER PRIMARY KEY, is_valid_until INTEGER);
PRAGMA user_version = 1;
"""

CREATED = "2023-05-06 07:08:09.123456"
CREATED_SECONDS = 1683356889

# Password Quarry-7!lamp
HASH = "pbkdf2:sha256:260000$k3Vt0pZqLm9RsXaY$c891267ca498cb968db0d293a46fe8c590098bc4e87408cc1674709c3cfce0f2"


DEFAULTS = load_defaults()


class OldStore:
    """A database under construction; it starts with the defaults of 4.x."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filling: sqlite3.Connection | None = None
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.executescript(SCHEMA)
            self._filling = connection
            self._fill()
        self._filling = None

    def _fill(self) -> None:
        for number, name in ((1, "superuser"), (2, "superuser-ui")):
            self.user(number, name, flag=True)
            self.link("user_roles", number, 1)
        for policy in DEFAULTS.policies:
            if policy.id <= 35:
                self.policy(policy.id, policy.name, {
                    "actions": list(policy.policy.actions), "resources": list(policy.policy.resources),
                    "effect": policy.policy.effect,
                })  # fmt: skip
        for rule in DEFAULTS.rules:
            self.rule(rule.id, rule.name, rule.rule)
        for role in DEFAULTS.roles:
            self.role(role.id, role.name)
            for level, number in enumerate(number for number in role.policies if number <= 35):
                self.link("roles_policies", role.id, number, level)
            for number in role.rules:
                self.link("roles_rules", role.id, number)

    def run(self, statement: str, values: Iterable[Any] = ()) -> None:
        if self._filling is not None:
            self._filling.execute(statement, tuple(values))
            return
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute(statement, tuple(values))

    def run_many(self, statement: str, rows: Iterable[Iterable[Any]]) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.executemany(statement, [tuple(row) for row in rows])

    def user(self, number: Any, name: Any, password: Any = HASH, *, flag: Any = False, created: Any = CREATED) -> None:
        self.run("INSERT INTO users VALUES (?, ?, ?, ?, ?)", (number, name, password, flag, created))

    def role(self, number: Any, name: Any, created: Any = CREATED) -> None:
        self.run("INSERT INTO roles VALUES (?, ?, ?)", (number, name, created))

    def policy(self, number: Any, name: Any, body: Any, created: Any = CREATED) -> None:
        text = json.dumps(body) if isinstance(body, dict | list) else body
        self.run("INSERT INTO policies VALUES (?, ?, ?, ?)", (number, name, text, created))

    def rule(self, number: Any, name: Any, body: Any, created: Any = CREATED) -> None:
        text = json.dumps(body) if isinstance(body, dict | list) else body
        self.run("INSERT INTO rules VALUES (?, ?, ?, ?)", (number, name, text, created))

    def link(self, table: str, owner: Any, member: Any, level: Any = 0) -> None:
        statements = {
            "user_roles": "INSERT INTO user_roles (user_id, role_id, level) VALUES (?, ?, ?)",
            "roles_policies": "INSERT INTO roles_policies (role_id, policy_id, level) VALUES (?, ?, ?)",
            "roles_rules": "INSERT INTO roles_rules (role_id, rule_id) VALUES (?, ?)",
        }
        values = (owner, member, level)
        self.run(statements[table], values[: statements[table].count("?")])


def policy_body(number: int) -> dict[str, Any]:
    """A body of its own for each number."""
    return {"actions": ["agent:read"], "resources": [f"agent:id:{number:03}"], "effect": "allow"}


def rule_body(number: int) -> dict[str, Any]:
    return {"FIND": {"team": [f"team{number}"]}}
