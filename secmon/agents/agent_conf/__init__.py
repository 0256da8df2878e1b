"""Verification of ``agent.conf``, and what agents understand in it."""

from secmon.agents.agent_conf.verify import verify_agent_conf, verify_document

__all__ = ["verify_agent_conf", "verify_document"]
