"""The module of ``secmon-modulesd`` that requests the keys of refused agents, assembled for a node."""

import logging
from collections.abc import Mapping

from secmon.agentlink.key_request.add_agent import on_master, on_worker
from secmon.agentlink.key_request.requests import KeyRequests
from secmon.agentlink.key_request.sources import source_of
from secmon.agents.link.client import LinkClient
from secmon.cluster.node import Node
from secmon.common.background import Background
from secmon.config.auth import read_auth
from secmon.daemons.master_client import MasterClient

log = logging.getLogger("secmon.modulesd.keys")


def key_request_modules(node: Node, master: MasterClient, tasks: Background) -> Mapping[str, KeyRequests]:
    """The modules for key requests; none unless the configuration enables them."""
    auth = read_auth(node.main_config)
    settings = auth.key_request
    if auth.disabled or not settings.enabled:
        return {}
    option = f"auth.key_request in {node.paths.main_config}"
    try:
        source = source_of(settings, node.paths.root)
    except ValueError as error:
        log.error("Keys are not requested: exec_path of %s cannot be read: %s", option, error)
        return {}
    if source is None:
        log.warning("Keys are not requested: %s has neither exec_path nor socket", option)
        return {}
    if settings.exec_path and settings.socket:
        log.warning("%s has exec_path and socket: the socket is not used", option)
    module = KeyRequests(
        settings,
        source,
        LinkClient(node.paths.agent_link_socket),
        on_master(node.registrar) if node.role == "master" else on_worker(master.call),
        clock=node.clock,
        counters=node.counters,
        tasks=tasks,
    )
    log.info("Keys of refused agents are requested from %s", source)
    return {"key requests": module}
