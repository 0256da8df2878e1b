"""The sections and options of ``agent.conf``, and its verification."""

from secmon.agents.agent_conf.verify import verify_agent_conf, verify_document

__all__ = ["verify_agent_conf", "verify_document"]
