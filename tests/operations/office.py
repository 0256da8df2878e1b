"""A security state made through the API itself: users, roles, policies and rules with the ids they were given."""

from collections.abc import Sequence
from typing import Any

from secmon.common.errors import SecmonError
from secmon.security.authentication_error import AuthenticationError
from tests.operations.world import World

PASSWORD = "Quarry-7!lamp"
_UNIQUE = "office"


class Office:
    """Makes objects on the master of ``world`` as administrator."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.node = next(iter(world.nodes.values())).node
        self._made = 0

    async def ask(self, name: str, user: str = "admin", /, **params: Any) -> dict[str, Any]:
        """The envelope of an operation."""
        return await self.world.body(name, user, **params)

    async def one(self, name: str, user: str = "admin", /, **params: Any) -> dict[str, Any]:
        """The single affected item of an operation in which nothing failed."""
        body = await self.ask(name, user, **params)
        assert body["error"] == 0, body
        assert body["data"]["failed_items"] == []
        [item] = body["data"]["affected_items"]
        assert isinstance(item, dict)
        return item

    async def failed(self, name: str, user: str = "admin", /, **params: Any) -> list[tuple[int, list[Any]]]:
        """Code and ids of the failed items."""
        body = await self.ask(name, user, **params)
        return [(entry["error"]["code"], entry["id"]) for entry in body["data"]["failed_items"]]

    async def refused(self, name: str, user: str = "admin", /, **params: Any) -> SecmonError:
        """The error of a request that is refused as a whole."""
        try:
            result = await self.world.run(name, user, **params)
        except SecmonError as error:
            return error
        raise AssertionError(f"not refused: {result}")

    async def user(self, name: str, *roles: int) -> int:
        """A user with these roles."""
        made = await self.one("POST /security/users", body={"username": name, "password": PASSWORD})
        user = int(made["id"])
        if roles:
            await self.one("POST /security/users/{user_id}/roles", user_id=str(user), role_ids=texts(roles))
        return user

    async def role(self, name: str, *policies: int) -> int:
        """A role with these policies."""
        role = int((await self.one("POST /security/roles", body={"name": name}))["id"])
        if policies:
            path = "POST /security/roles/{role_id}/policies"
            await self.one(path, role_id=str(role), policy_ids=texts(policies))
        return role

    async def policy(self, actions: Sequence[str], resources: Sequence[str], effect: str = "allow") -> int:
        """A policy with a name and a body of its own."""
        self._made += 1
        # Letters only: actions hold no digits.
        own = f"{_UNIQUE}:p{''.join(chr(97 + int(digit)) for digit in str(self._made))}"
        body = {"actions": [*actions, own], "resources": list(resources), "effect": effect}
        made = await self.one("POST /security/policies", body={"name": f"p{self._made}", "policy": body})
        return int(made["id"])

    async def rule(self, name: str, *roles: int) -> int:
        """A security rule that gives these roles."""
        rule = int((await self.one("POST /security/rules", body={"name": name, "rule": {"FIND": {"t": name}}}))["id"])
        for role in roles:
            await self.one("POST /security/roles/{role_id}/rules", role_id=str(role), rule_ids=[str(rule)])
        return rule

    async def caller(self, name: str, *statements: tuple[str, str, str]) -> int:
        """A user whose only role holds one policy per (action, resource, effect), in this order."""
        policies = [await self.policy([action], [resource], effect) for action, resource, effect in statements]
        return await self.user(name, await self.role(f"role-of-{name}", *policies))

    def token(self, name: str, roles: tuple[int, ...] | None = None, *, context: str | None = None) -> str:
        """A token as a login hands it out now; with ``context`` as a run_as login does."""
        view = self.node.security.view()
        found = view.user(name)
        assert found is not None
        return self.node.tokens.issue(view, found, roles, context_hash=context)

    def lives(self, token: str) -> bool:
        """Whether the token is honoured now."""
        try:
            self.node.tokens.verify(self.node.security.view(), token)
        except AuthenticationError:
            return False
        return True


def texts(numbers: Sequence[int]) -> list[str]:
    return [str(number) for number in numbers]
