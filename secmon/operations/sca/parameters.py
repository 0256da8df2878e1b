"""What the operations on assessments share (agent-data.md 5.7)."""

from typing import Annotated

from secmon.cluster.parameters import text_format
from secmon.common.outcome import Messages
from secmon.security.rbac.authorization import Require

READ_ASSESSMENT = Require("sca:read", "agent:id", param="agent_id")
READ = Messages(all="The assessment was read", none="No assessment was read")
Symbols = Annotated[str, text_format("alphanumeric_symbols", r"[\w,*<>!\-.+\s:/()\[\]'\"|=~#]+")]
