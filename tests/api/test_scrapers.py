"""Scrapers of metrics: by their address, or with a token; and the times of requests."""

from typing import Any

import pytest
from prometheus_client.samples import Sample

from secmon.cluster.node import Node
from secmon.config.api import Access, Metrics
from tests.api.conftest import Serve, Toy, expect_problem
from tests.api.toys import api_config

pytestmark = pytest.mark.anyio

PATH = "/toy-metrics"


def scraped_by(*networks: str, **changes: Any) -> Any:
    return api_config(metrics=Metrics(scrapers=networks), **changes)


def counts(node: Node) -> dict[tuple[str, str], float]:
    """Requests by operation and status."""
    samples: list[Sample] = [each for family in node.call_times.collect() for each in family.samples]
    return {
        (each.labels["operation"], each.labels["status"]): each.value
        for each in samples
        if each.name.endswith("_count")
    }


async def test_nobody_without_a_token_by_default(toy: Toy) -> None:
    expect_problem(await toy.client.get(PATH), 403, "Permission Denied", error=4000)
    del toy.client.headers["Authorization"]
    expect_problem(await toy.client.get(PATH), 401, "Unauthorized")


@pytest.mark.parametrize("networks", [("127.0.0.1/32",), ("::1/128", "127.0.0.0/8")])
async def test_a_scraper_at_its_address(serve: Serve, networks: tuple[str, ...]) -> None:
    async with serve(scraped_by(*networks)) as toy:
        answer = await toy.client.get(PATH)
        assert (answer.status_code, answer.text) == (200, "scraper")
        assert "scraper 127.0.0.1" in toy.log()
        expect_problem(await toy.client.get("/items"), 401, "Unauthorized")
        expect_problem(await toy.client.get("/forbidden"), 401, "Unauthorized")


async def test_a_token_is_judged_even_at_the_address_of_a_scraper(serve: Serve) -> None:
    async with serve(scraped_by("127.0.0.1/32")) as toy:
        expect_problem(await toy.client.get(PATH, headers={"Authorization": "Bearer x"}), 401, "Unauthorized")
        await toy.log_in()
        expect_problem(await toy.client.get(PATH), 403, "Permission Denied", error=4000)


async def test_other_addresses_are_refused(serve: Serve) -> None:
    async with serve(scraped_by("127.0.0.2/32", "10.0.0.0/8")) as toy:
        expect_problem(await toy.client.get(PATH, headers={"X-Forwarded-For": "127.0.0.2"}), 401, "Unauthorized")


async def test_the_limit_of_requests_does_not_blind_a_scraper(serve: Serve) -> None:
    async with serve(scraped_by("127.0.0.1/32", access=Access(max_request_per_minute=1))) as toy:
        assert [(await toy.client.get("/nothing")).status_code for _ in range(2)] == [404, 429]
        assert [(await toy.client.get(PATH)).status_code for _ in range(3)] == [200] * 3


async def test_requests_are_timed_by_operation_and_status(toy: Toy) -> None:
    for path in ("/items/one", "/items/two", "/fail?code=1000", "/nothing/1", "/nothing/2"):
        await toy.client.get(path)
    found = counts(toy.node)
    assert found["get_items_name", "200"] == 2
    assert found["get_fail", "500"] == 1
    assert found["none", "404"] == 2
    assert not any("/" in operation for operation, _ in found)
