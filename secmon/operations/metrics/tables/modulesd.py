"""Counters of ``secmon-modulesd``."""

from secmon.operations.metrics.metric import counter, gauge

METRICS = (
    counter("key_requests.*", "key_requests", "Requests for keys of refused agents, by result; asked: all.",
            result="*"),
    gauge("groups.present", "groups", "Groups of agents."),
    gauge("groups.combinations", "group_combinations", "Combinations of groups that some agent has."),
    counter("groups.merged_files_written", "merged_files_written", "Merged files of groups that were written."),
    counter("groups.failures", "merged_files_failed", "Merged files that could not be written."),
    counter("downloads.succeeded", "group_downloads", "Downloads of files for groups, by result.", result="succeeded"),
    counter("downloads.failed", "group_downloads", result="failed"),
    counter("*.rejected", "settings_files_rejected", "Versions of a file of settings that are not valid.", file="*"),
    counter("lists.renewed", "list_renewals", "Looks at the feeds of lists, by result.", result="renewed"),
    counter("lists.unchanged", "list_renewals", result="unchanged"),
    counter("lists.failed", "list_renewals", result="failed"),
    counter("lists.left_out", "list_entries_left_out", "Entries of feeds that are not valid."),
    gauge("lists.feeds", "list_feeds", "Lists that have a feed."),
    counter("updates.asked", "update_checks", "Checks for newer versions."),
    counter("updates.failed", "update_checks_failed", "Checks for newer versions without an answer."),
    gauge("upgrades.under_way", "upgrades_in_flight", "Upgrades of agents that this node works on."),
    counter("upgrades.*", "upgrades", "Upgrades of agents, by step; done and failed: as the agent reports.", step="*"),
    counter("agents.lost", "agents_lost", "Agents that became silent."),
    counter("agents.removed_as_old", "agents_removed", "Agents removed because they were silent for too long."),
    counter("keys.taken_over", "keys_taken_over", "Changes made in the key file by hand that were taken over."),
)  # fmt: skip
