"""The one error type, and the catalogue of codes that clients match on.

Codes and kinds are those of the public counterpart; the texts are ours.
"""

import errno
import os
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """Class of an error: decides HTTP status and problem title (conventions.md 2)."""

    USER = (400, "Bad Request")
    PERMISSION = (403, "Permission Denied")
    NOT_FOUND = (404, "Resource Not Found")
    NOT_ACCEPTABLE = (406, "Not Acceptable")
    TOO_MANY_REQUESTS = (429, "Too Many Requests")
    UNAVAILABLE = (503, "Service Unavailable")
    INTERNAL = (500, "Secmon Internal Error")
    CLUSTER = (500, "Secmon Cluster Error")

    @property
    def status(self) -> int:
        return self.value[0]

    @property
    def title(self) -> str:
        return self.value[1]


class ErrorSpec(NamedTuple):
    """What the catalogue knows of a code."""

    kind: Kind
    message: str
    remediation: str | None = None


_U, _P, _N, _I, _C = Kind.USER, Kind.PERMISSION, Kind.NOT_FOUND, Kind.INTERNAL, Kind.CLUSTER

CATALOGUE: dict[int, ErrorSpec] = {
    902: ErrorSpec(_N, "This endpoint exists on the master node only", "Send the request to the master node"),
    1000: ErrorSpec(_I, "Unexpected internal error", "Read the logs of the node named in dapi_errors"),
    1005: ErrorSpec(_I, "A file could not be read or written", "Check ownership and permissions of the folders"),
    1006: ErrorSpec(_U, "File or folder absent or unreadable", "Check the path and its permissions"),
    1010: ErrorSpec(_I, "The analysis engine of this node cannot be reached", "Check that secmon-analysisd runs"),
    1012: ErrorSpec(_U, "The event is too large", "Send events of at most 65521 bytes"),
    1013: ErrorSpec(_I, "A local socket could not be reached", "Restart the manager so that its sockets exist again"),
    1014: ErrorSpec(_I, "A local socket did not answer", "Restart the manager so that its sockets exist again"),
    1015: ErrorSpec(_U, "The version of the agent is not known", "Let the agent connect once"),
    1016: ErrorSpec(_I, "The file could not be moved into its place", "Check owner and permissions of the folders"),
    1017: ErrorSpec(_U, "Some daemons are not ready", "Wait for the restart to finish, or start the daemons"),
    1018: ErrorSpec(_U, "The body is not valid JSON", "Send valid JSON"),
    1019: ErrorSpec(_U, "The safety copy of the file could not be made", "Check free space and permissions"),
    1020: ErrorSpec(_I, "There is no folder of logs", "Restore the logs folder and restart"),
    1021: ErrorSpec(
        _I,
        "No space is left on the disk of the node",
        "Free space on the file system of the path named, then try again: nothing was changed",
    ),
    1101: ErrorSpec(_U, "The configuration could not be read", "Run: secmon config check"),
    1102: ErrorSpec(_U, "Unknown configuration section", "Use a documented section name"),
    1103: ErrorSpec(_U, "The section has no such field", "Use a field that the section holds"),
    1104: ErrorSpec(_U, "Not a type of a group's file", "Use one of conf, rootkit_files, rootkit_trojans, rcl"),
    1106: ErrorSpec(_U, "The section is not in the configuration", "Add the section or ask for another"),
    1107: ErrorSpec(_I, "The internal options file is missing", "Restore etc/internal_options.conf"),
    1108: ErrorSpec(_I, "An internal option is not defined", "Restore the default options"),
    1109: ErrorSpec(_U, "An internal option is not a number", "Correct the value"),
    1110: ErrorSpec(_U, "An internal option is out of range", "Correct the value"),
    1112: ErrorSpec(_U, "The content is empty", "Send the whole file"),
    1113: ErrorSpec(_U, "The content is not well-formed XML", "Correct the XML"),
    1114: ErrorSpec(_U, "Agents would not understand the configuration; the old one stands", "Correct what is named"),
    1116: ErrorSpec(_U, "The component has no such configuration", "Ask for one that the component has"),
    1117: ErrorSpec(
        _U, "The component cannot be asked", "Check that the agent is connected and that the component runs there"
    ),
    1118: ErrorSpec(_I, "The answer of the component cannot be understood", "Try again; read the log of the component"),
    1121: ErrorSpec(_U, "The daemon does not run on this node", "Start it, or ask a node where it runs"),
    1122: ErrorSpec(_N, "Experimental features are off", "Set experimental_features to true and restart the API"),
    1124: ErrorSpec(
        _U,
        "The configuration holds a remote command that the API settings forbid",
        "Allow it in upload_configuration.remote_commands or add an exception",
    ),
    1125: ErrorSpec(
        _U, "The main configuration is empty or invalid; the previous file stands", "Send a valid configuration"
    ),
    1126: ErrorSpec(_U, "The main configuration could not be written", "Check the permissions of the file"),
    1127: ErrorSpec(
        _U, "The upload changes a protected section", "Leave the section as it was, or lift the protection"
    ),
    1128: ErrorSpec(_U, "The component does not have this configuration", "Use one of those named"),
    1129: ErrorSpec(
        _U,
        "The upload accepts higher agent versions, which the API settings forbid",
        "Allow it in upload_configuration.agents",
    ),
    1130: ErrorSpec(
        _U,
        "The upload holds a public threat-intelligence key, which the API settings forbid",
        "Use a premium key, or allow public keys",
    ),
    1131: ErrorSpec(_U, "The quota of the threat-intelligence key could not be read", "Check the key and try again"),
    1200: ErrorSpec(_U, "The main configuration has no ruleset section", "Add the section"),
    1201: ErrorSpec(_U, "A file of rules does not exist", "Correct the ruleset section, or try again"),
    1207: ErrorSpec(_U, "A file of rules cannot be read", "Correct the permissions of the file"),
    1208: ErrorSpec(_U, "No file that you may read has a rule with this id", "List the rules with GET /rules"),
    1209: ErrorSpec(
        _U, "The folder is not one that the configuration names for rules", "Name it as rule_dir, or use etc/rules"
    ),
    1210: ErrorSpec(_U, "The folder holds the default rules, which are not changed", "Use etc/rules"),
    1211: ErrorSpec(_U, "The folder is named in the configuration, but does not exist", "Create the folder"),
    1308: ErrorSpec(
        _U, "There are no such statistics, or not yet", "Ask for another date, or check that the daemon runs"
    ),
    1309: ErrorSpec(_I, "A file of statistics is damaged", "Remove the line named"),
    1310: ErrorSpec(_U, "Only agents have this, not the manager (agent 000)", "Choose another agent"),
    1400: ErrorSpec(_U, "offset must not be negative", "Use 0 or more"),
    1401: ErrorSpec(_U, "limit must not be negative", "Use 1 or more"),
    1403: ErrorSpec(_U, "Not a sortable field", "Use one of the fields named"),
    1405: ErrorSpec(_U, "limit is above the maximum", "Use 100000 or less"),
    1406: ErrorSpec(_U, "limit must not be 0", "Use 1 or more"),
    1407: ErrorSpec(_U, "q is not well formed", "Write clauses as field, operator, value; join with ; (and) or , (or)"),
    1408: ErrorSpec(_U, "q names an unknown field", "Use one of the fields named"),
    1409: ErrorSpec(_U, "q uses an operator that does not exist here", "Use =, !=, <, > or ~"),
    1411: ErrorSpec(_U, "A relative time has no valid unit", "Use a number with d, h, m or s"),
    1412: ErrorSpec(_U, "Not a date", "Use 7d, 1h, YYYY-MM-DD, YYYY-MM-DD HH:MM:SS or YYYY-MM-DDTHH:MM:SSZ"),
    1413: ErrorSpec(_U, "The file of rules is not well-formed XML", "Correct the line named"),
    1414: ErrorSpec(_U, "The file of rules cannot be read", "Correct the permissions of the file"),
    1415: ErrorSpec(_U, "The file of rules does not exist", "List the files with GET /rules/files"),
    1500: ErrorSpec(
        _I, "The main configuration has no ruleset section, so that decoders cannot be listed", "Add the section"
    ),
    1501: ErrorSpec(_U, "The file of decoders is not well-formed XML", "Correct the line named"),
    1502: ErrorSpec(_U, "The file of decoders cannot be read", "Correct its permissions, or the ruleset section"),
    1503: ErrorSpec(_U, "The file of decoders does not exist", "List the files with GET /decoders/files"),
    1504: ErrorSpec(
        _U, "No file that you may read has a decoder with this name", "List the decoders with GET /decoders"
    ),
    1505: ErrorSpec(
        _U,
        "The folder is not one that the configuration names for decoders",
        "Name it as decoder_dir, or use etc/decoders",
    ),
    1506: ErrorSpec(_U, "The folder holds the default decoders, which are not changed", "Use etc/decoders"),
    1507: ErrorSpec(_U, "The folder is named in the configuration, but does not exist", "Create the folder"),
    1652: ErrorSpec(
        _U,
        "No active response has this name",
        "Use a name of the manager's ar.conf, or ! and the name of a program on the agents",
    ),
    1603: ErrorSpec(_U, "The status is not one of all, outstanding and solved", "Use one of these"),
    1701: ErrorSpec(_N, "The agent does not exist", "List the agents with GET /agents?select=id,name"),
    1703: ErrorSpec(_U, "Agent 000 is the manager: the action cannot be applied to it", "Choose another agent"),
    1705: ErrorSpec(_U, "An agent with this name exists already", "Choose another name"),
    1706: ErrorSpec(_U, "The agent's address is not valid, or another agent has it already", "Choose another address"),
    1707: ErrorSpec(
        _U, "The request cannot be sent: the agent is not active", "Check the agent's connection and try again"
    ),
    1708: ErrorSpec(_U, "An agent with this id exists already", "Choose another id"),
    1709: ErrorSpec(_U, "The agent's key is too short", "Use at least 64 characters"),
    1710: ErrorSpec(_N, "The group does not exist", "List the groups with GET /groups"),
    1711: ErrorSpec(_U, "The group exists already", "Choose another name"),
    1712: ErrorSpec(_U, "The group default cannot be removed"),
    1713: ErrorSpec(_U, "The name is that of a file in the shared folder", "Choose another name"),
    1722: ErrorSpec(
        _U, "The name of the group is not valid", "Use up to 255 letters, digits, dots, hyphens, underscores"
    ),
    1723: ErrorSpec(_U, "The hash algorithm is not available", "Use one of those named"),
    1724: ErrorSpec(_U, "Not a selectable field", "Use one of the fields named"),
    1725: ErrorSpec(_I, "The agent could not be added", "Check the values, and read the manager's log"),
    1726: ErrorSpec(_U, "The enrolment daemon does not run", "Start secmon-authd: secmon start"),
    1727: ErrorSpec(_I, "The files of the group cannot be listed", "Check the permissions of the shared folder"),
    1728: ErrorSpec(_U, "Not a node type", "Use master or worker"),
    1730: ErrorSpec(_N, "The node does not exist or is not connected", "List the nodes with GET /cluster/nodes"),
    1731: ErrorSpec(_U, "The agent does not meet the conditions of the request", "Loosen the conditions"),
    1734: ErrorSpec(_U, "The agent does not belong to the group"),
    1735: ErrorSpec(_I, "The agent's version is too old for this", "Upgrade the agent"),
    1737: ErrorSpec(_U, "An agent can belong to 128 groups at most", "Take it out of another group first"),
    1738: ErrorSpec(_U, "The agent's name is too long", "Use at most 128 characters"),
    1740: ErrorSpec(_U, "Only an active agent can show its configuration", "Check the agent's connection"),
    1743: ErrorSpec(_I, "The agents' configuration could not be verified", "Read the manager's log"),
    1745: ErrorSpec(_U, "The agent belongs to the group default only", "Assign another group first"),
    1750: ErrorSpec(_U, "Active response is disabled on the agent", "Enable it in the agent's configuration"),
    1751: ErrorSpec(_U, "The agent belongs to the group already"),
    1752: ErrorSpec(
        _U, "The agent belongs to groups that you may not change", "Ask an administrator for the permission"
    ),
    1757: ErrorSpec(_I, "The agent could not be removed", "Read the manager's log"),
    1760: ErrorSpec(_U, "Only agents older than 3.12.0 have this"),
    1770: ErrorSpec(_N, "The alert is not stored", "Find alerts with GET /alerts; older ones are in the alert files"),
    1771: ErrorSpec(_U, "The histogram would have too many steps", "Ask for a shorter time, or for longer steps"),
    1772: ErrorSpec(Kind.TOO_MANY_REQUESTS, "Too many clients follow the alerts", "End other streams, then try again"),
    1773: ErrorSpec(_U, "The silence would cover everything, or nothing", "Name alerts with filters such as rule_ids"),
    1774: ErrorSpec(_N, "The silence does not exist", "List the silences with GET /alerts/silences"),
    1775: ErrorSpec(_U, "There are too many silences", "End some of them first"),
    1776: ErrorSpec(
        _U, "The times of the silence are not allowed", "Name an end in the future, at most 365 days ahead"
    ),
    1777: ErrorSpec(_N, "The alert is not acknowledged", "List these with GET /alerts/acknowledgements"),
    1800: ErrorSpec(_U, "The list is not well formed", "Write one key:value in each line"),
    1802: ErrorSpec(_U, "The list does not exist", "List the lists with GET /lists/files"),
    1803: ErrorSpec(_U, "The list cannot be read", "Correct the permissions of the file"),
    1804: ErrorSpec(_U, "The path is that of a folder", "Name a list"),
    1805: ErrorSpec(_U, "A folder below etc/lists has a list with this name", "Choose another name"),
    1813: ErrorSpec(_U, "No upgrade was requested for the agent", "Request one with PUT /agents/upgrade"),
    1816: ErrorSpec(
        _I, "Too little is known of the agent to upgrade it", "Let the agent connect, and try again after its keepalive"
    ),
    1819: ErrorSpec(_U, "There are no packages for the agent's platform", "Upgrade the agent on its host"),
    1820: ErrorSpec(_U, "An upgrade of the agent is under way", "Wait for it: GET /agents/upgrade_result"),
    1821: ErrorSpec(_U, "The agent's version is too old for upgrades from here", "Upgrade the agent on its host"),
    1822: ErrorSpec(_U, "The agent has this version, or a newer one", "Use force=true to install it nevertheless"),
    1823: ErrorSpec(_U, "The version asked for is newer than the manager's", "Use force=true, or upgrade the manager"),
    1901: ErrorSpec(
        _I, "The control socket of the node's supervisor does not exist", "Restart the manager on that host"
    ),
    1902: ErrorSpec(
        _I, "The control socket of the node's supervisor refused the connection", "Restart the manager on that host"
    ),
    1904: ErrorSpec(_I, "The validation could not be completed", "Run: secmon config check"),
    1905: ErrorSpec(_U, "The file exists already", "Use overwrite=true to replace it"),
    1906: ErrorSpec(_U, "The file does not exist", "Check name and folder"),
    1907: ErrorSpec(_U, "The file could not be deleted", "Check the permissions of its folder"),
    1908: ErrorSpec(_U, "The configuration is not valid", "Correct the files named"),
    1911: ErrorSpec(_U, "The uploaded file is not UTF-8 text", "Send UTF-8"),
    1912: ErrorSpec(_U, "The upload has no body", "Send a body"),
    1913: ErrorSpec(_I, "The process table cannot be read", "Mount /proc and grant access"),
    1914: ErrorSpec(
        _U, "The ruleset on disk cannot be used", "Correct the file named; the previous ruleset is in force"
    ),
    2000: ErrorSpec(_I, "The API configuration is not valid", "Correct api.yaml and restart"),
    2003: ErrorSpec(_U, "The database cannot answer the query", "Check the query"),
    2004: ErrorSpec(_I, "The API configuration cannot be read", "Check the permissions of api.yaml"),
    2007: ErrorSpec(_U, "There is no data of the agent", "Check that the agent has connected once"),
    2010: ErrorSpec(
        _I, "An address cannot be listened on", "Choose another host or port in the file named, or free the port"
    ),
    2012: ErrorSpec(
        _I,
        "The database cannot be used",
        "Give an undamaged copy of a known version, and correct or delete the rows named",
    ),
    2013: ErrorSpec(
        _I,
        "A store of the node is damaged",
        "On the node run: secmon config check (it names the ways out)",
    ),
    2100: ErrorSpec(
        _I, "The update service did not answer as it should", "Check update_check_url in the global section"
    ),
    3004: ErrorSpec(_U, "The cluster section of the configuration is not valid", "Correct the cluster section"),
    3006: ErrorSpec(_U, "The cluster section cannot be read", "Correct the configuration"),
    3009: ErrorSpec(_I, "The distributed request failed", "Read the cluster log of the node named in dapi_errors"),
    3012: ErrorSpec(_I, "The cluster daemon of this node is not running", "Start secmon-clusterd: secmon start"),
    3013: ErrorSpec(_U, "The cluster is disabled or not running", "Enable it in the cluster section, then restart"),
    3018: ErrorSpec(_C, "The request could not be sent to the node", "Check the network between the nodes"),
    3020: ErrorSpec(_C, "The node did not answer in time", "Try again; read the cluster log of the node"),
    3021: ErrorSpec(
        _I,
        "The request did not finish in time",
        "Use wait_for_complete=true, ask for less, or raise intervals.request_timeout",
    ),
    3022: ErrorSpec(_C, "The node is not connected", "Check the node and its cluster log"),
    3023: ErrorSpec(_C, "This worker has no connection to the master", "Check the master and this node's cluster log"),
    3025: ErrorSpec(_C, "The proof of the cluster key is wrong", "Use the same cluster key on all nodes"),
    3028: ErrorSpec(_C, "Another node with this name is connected", "Give each node a name of its own"),
    3029: ErrorSpec(_C, "A worker uses the master's name", "Give each node a name of its own"),
    3030: ErrorSpec(_C, "The cluster names differ", "Use one cluster name on all nodes"),
    3031: ErrorSpec(_C, "The versions of the nodes are not compatible", "Upgrade the older node"),
    3032: ErrorSpec(_C, "The requester is no longer connected"),
    3036: ErrorSpec(_I, "The answer of a node could not be decoded", "Read the cluster logs of both nodes"),
    3041: ErrorSpec(_C, "The clocks of the nodes differ too much", "Synchronise the clocks of all nodes (NTP)"),
    3042: ErrorSpec(_C, "The certificate of the node is not valid", "Let the node enrol again, or check its clock"),
    3043: ErrorSpec(
        Kind.UNAVAILABLE,
        "This node has not heard from the master for longer than the security lease",
        "Ask the master or another node; this node recovers by itself when the master is reachable",
    ),
    3044: ErrorSpec(
        _C,
        "The node is behind the security state that the request was judged at",
        "Try again; read the cluster log of the node",
    ),
    3045: ErrorSpec(_C, "The received file set was refused", "Read the cluster log of the node"),
    3050: ErrorSpec(
        Kind.UNAVAILABLE,
        "The store of record cannot be used, so nothing was changed",
        "Check the database that the option store of the cluster section names; reads and agents are not affected",
    ),
    3051: ErrorSpec(
        Kind.UNAVAILABLE,
        "This node is no longer the master, so nothing was changed",
        "Try again: the cluster has a new master, or is about to have one",
    ),
    3052: ErrorSpec(
        Kind.UNAVAILABLE,
        "Whether the change was made is not known",
        "Read what should have changed before you try again",
    ),
    3053: ErrorSpec(
        Kind.UNAVAILABLE,
        "This node was behind the store of record and has caught up, so nothing was changed",
        "Try again",
    ),
    3054: ErrorSpec(
        _C,
        "The master is of a term that is over",
        "Wait: the nodes find the current master by themselves; else read the cluster logs of both nodes",
    ),
    3055: ErrorSpec(
        _C,
        "The role of master cannot be handed over to this node now",
        "Name a node that runs and reaches the store of record; secmon cluster health lists them",
    ),
    4000: ErrorSpec(_P, "Permission denied", "Ask an administrator for the permission"),
    4001: ErrorSpec(_U, "The body names nothing to change", "Send at least one member"),
    4002: ErrorSpec(_N, "The role does not exist", "List the roles with GET /security/roles"),
    4003: ErrorSpec(_U, "The security rule is not valid", "Send a JSON object that is not nested too deeply"),
    4005: ErrorSpec(_U, "A role with this name, or a security rule with this name or body, exists already"),
    4006: ErrorSpec(
        _U,
        "The policy is not valid",
        "Send exactly actions (as area:verb), resources (as kind:attribute:value) and effect (allow or deny)",
    ),
    4007: ErrorSpec(_U, "The policy does not exist", "List the policies with GET /security/policies"),
    4008: ErrorSpec(_U, "The object is one that the product needs (ids up to 99): it cannot be changed or removed"),
    4009: ErrorSpec(_U, "A policy with this name or body exists already"),
    4010: ErrorSpec(_U, "The role does not hold the policy", "Read the role with GET /security/roles"),
    4011: ErrorSpec(_U, "The role holds the policy already"),
    4013: ErrorSpec(_U, "Another policy has this name or body"),
    4016: ErrorSpec(_U, "The user does not have the role", "Read the user with GET /security/users"),
    4017: ErrorSpec(_U, "The user has the role already"),
    4020: ErrorSpec(_U, "There is no such endpoint", "Use one of the endpoints named, as METHOD /path"),
    4021: ErrorSpec(_U, "The new security configuration is empty"),
    4022: ErrorSpec(_U, "The security rule does not exist", "List the security rules with GET /security/rules"),
    4023: ErrorSpec(_U, "The role holds the security rule already"),
    4024: ErrorSpec(_U, "The role does not hold the security rule", "Read the role with GET /security/roles"),
    4026: ErrorSpec(
        _U, "The authorization context is not a JSON object", 'Give one such as {"department": "operations"}'
    ),
    4500: ErrorSpec(_U, "A stored policy has a malformed resource", "Correct the policy"),
    5000: ErrorSpec(_U, "A user with this name exists already", "Choose another name"),
    5001: ErrorSpec(_N, "The user does not exist", "List the users with GET /security/users"),
    5004: ErrorSpec(_U, "Users that the product needs (ids up to 99) cannot be removed", "Remove another user"),
    5007: ErrorSpec(
        _U,
        "The password is too weak",
        "Use at least one lower-case letter, one upper-case letter, one digit and one symbol",
    ),
    5008: ErrorSpec(_U, "Users cannot remove themselves", "Log in as another user"),
    5009: ErrorSpec(_U, "The password has a length that is not allowed", "Use 8 to 64 characters"),
    5011: ErrorSpec(
        _U,
        "Users that the product needs (ids up to 99) can be changed by one another only",
        "Log in as one of them",
    ),
    6000: ErrorSpec(_P, "Too many failed logins from this address: requests are refused for a while"),
    6001: ErrorSpec(
        Kind.TOO_MANY_REQUESTS,
        "The limit of requests per minute is reached",
        "Slow down, or raise access.max_request_per_minute",
    ),
    6002: ErrorSpec(Kind.NOT_ACCEPTABLE, "The Content-Type is not the one this endpoint takes"),
    6003: ErrorSpec(_I, "The token signing keys cannot be read or created", "Check the security folder's permissions"),
    6004: ErrorSpec(_P, "This user may not log in with an authorization context", "Turn the user's run_as flag on"),
    6005: ErrorSpec(Kind.TOO_MANY_REQUESTS, "The limit of 30 requests with events per minute is reached"),
    7000: ErrorSpec(_U, "The engine refused the request"),
    8010: ErrorSpec(_U, "A scan has been requested already", "Wait until it has ended: see last_scan of an agent"),
    8011: ErrorSpec(
        _U,
        "The detection of vulnerabilities is switched off",
        "Set enabled to yes in the vulnerability-detection section and restart",
    ),
}


class SecmonError(Exception):
    """An error for a client or an operator.

    ``code`` is in :data:`CATALOGUE`. ``extra`` is appended to the base text. ``ids`` are the items concerned: an
    error with ids becomes failed items where other items succeeded. ``nodes`` maps the nodes that failed to their
    texts (``dapi_errors``).
    """

    def __init__(
        self,
        code: int,
        extra: str | None = None,
        *,
        ids: tuple[str | int, ...] = (),
        nodes: Mapping[str, str] | None = None,
    ) -> None:
        self.code = code
        self.extra = extra
        self.ids = ids
        self.nodes = dict(nodes or {})
        super().__init__(f"{code}: {self.message}")

    @property
    def spec(self) -> ErrorSpec:
        """The catalogue entry; a code this version does not know (a newer peer's) reads as 1000."""
        return CATALOGUE.get(self.code, CATALOGUE[1000])

    @property
    def kind(self) -> Kind:
        return self.spec.kind

    @property
    def message(self) -> str:
        return f"{self.spec.message}: {self.extra}" if self.extra else self.spec.message

    @property
    def remediation(self) -> str | None:
        return self.spec.remediation


class TlsError(SecmonError):
    """TLS cannot be set up: 2003 as a process code (conventions.md 11), which means something else in answers."""

    def __init__(self, what: str) -> None:
        super().__init__(2003, what)

    @property
    def spec(self) -> ErrorSpec:
        return _TLS


_TLS = ErrorSpec(_I, "TLS cannot be set up", "Correct the settings, or the files that they name")


class Fault(str):
    """What is wrong, where that is no value which could be quoted: ``missing``, say, or what a parser says."""

    __slots__ = ()


MISSING = Fault("missing")
UNKNOWN = Fault("there is no such name")


def judged(value: object, allowed: str) -> str:
    """The sentence about a wrong value, or a :class:`Fault`, of a configuration."""
    return f"{value if isinstance(value, Fault) else f'{value!r} is not allowed'}; allowed: {allowed}"


def os_text(error: OSError) -> str:
    """``PATH: reason``; in our messages paths have no quotes, and error numbers are left out."""
    reason = error.strerror or str(error)
    return f"{os.fsdecode(error.filename)}: {reason}" if isinstance(error.filename, str | bytes) else reason


def is_full(error: OSError) -> bool:
    """Whether a write failed because the disk, or a quota on it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def write_error(code: int, error: OSError, text: str, *, ids: tuple[str, ...] = ()) -> SecmonError:
    """The error of a write that failed: ``code``, or 1021 if the disk is full. ``text`` precedes the reason."""
    return SecmonError(1021 if is_full(error) else code, f"{text}: {error.strerror}", ids=ids)


class ConfigError(SecmonError):
    """A configuration file that stops a start: names file, key, value and what is allowed."""

    def __init__(self, file: str, key: str, value: object, allowed: str, *, code: int = 1908) -> None:
        self.file, self.key, self.value, self.allowed = file, key, value, allowed
        super().__init__(code, f"{file}: {key}: {judged(value, allowed)}")
