// What a silence covers, in the words of its form: the filters of alerts without their times.
import type { Item } from "./api";

export const FILTERS: Record<string, string> = {
  rule_ids: "Rules (ids)", agents_list: "Agents (ids)", level: "Levels (such as 3-7)", q: "Query", search: "Search",
  rule_groups: "Groups of rules", mitre: "Techniques", group: "Group of agents",
};

export function filtersOf(filters: URLSearchParams): Record<string, string> {
  return Object.fromEntries(Object.keys(FILTERS).flatMap((name) => (filters.get(name) ? [[name, filters.get(name)!]] : [])));
}

// The filters of a stored silence in words: "Rules (ids) 5710; Levels 3-7".
export function described(filters: Item): string {
  const parts = Object.entries(filters).map(([name, value]) => `${(FILTERS[name] ?? name).replace(/ \(.*/, "")} ${[value].flat().join(", ")}`);
  return parts.join("; ");
}

export function scope({ ids, excluded }: { ids: string[]; excluded: boolean }): string {
  if (excluded) return ids.length ? `all agents but ${ids.join(", ")}` : "all agents";
  return ids.length === 1 ? `agent ${ids[0]}` : `agents ${ids.join(", ")}`;
}

export const LENGTHS: Record<string, string> = {
  "now+1h": "1 hour", "now+8h": "8 hours", "now+1d": "1 day", "now+7d": "7 days", "now+30d": "30 days", "": "until …",
};

// The end as the API takes it: one of the lengths, or a local time as a form gives it.
export function end(length: string, local: string): string {
  return length || `${new Date(local).toISOString().slice(0, 19)}Z`;
}
