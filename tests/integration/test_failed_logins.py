"""Failed logins of one address count over all nodes."""

from tests.integration.kit import RealCluster, cluster
from tests.waiting import wait_until

LOGIN = "/security/user/authenticate"


def _three_attempts(made: RealCluster) -> None:
    for node in made.nodes:
        text = node.paths.api_config.read_text()
        assert "#  max_login_attempts: 50" in text
        node.paths.api_config.write_text(text.replace("#  max_login_attempts: 50", "  max_login_attempts: 3"))


def test_an_address_that_is_blocked_on_one_node_has_one_attempt_on_another() -> None:
    with cluster(workers=1, single_process=True, before_start=_three_attempts) as running:
        first, second = running.nodes
        answers = [first.request("POST", LOGIN, auth=("admin", "wrong")).status_code for _ in range(4)]
        assert answers == [401, 401, 401, 403]
        assert second.request("POST", LOGIN, auth=("admin", "wrong")).status_code == 401
        wait_until(
            lambda: second.request("POST", LOGIN, auth=("admin", running.password)).status_code == 403,
            what="blocked on the other node too",
        )
