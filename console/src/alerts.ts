// What pages ask about alerts: stretches of time, and counts by level.
import { get, type Collection } from "./api";
import type { Query } from "./http";
import { may } from "./session";
import type { Series } from "./parts/plot";

export const RANGES: Record<string, string> = {
  "now-1h": "last hour", "now-24h": "last 24 hours", "now-7d": "last 7 days", "now-30d": "last 30 days",
};
export const DEFAULT_RANGE = "now-24h";

export const LEVELS: { label: string; kind: string; level: string }[] = [
  { label: "low (0 to 6)", kind: "info", level: "0-6" },
  { label: "medium (7 to 11)", kind: "warning", level: "7-11" },
  { label: "high (12 to 16)", kind: "bad", level: "12-16" },
];

const STEPS: [number, string][] = [[1, "1s"], [5, "5s"], [30, "30s"], [60, "1m"], [300, "5m"], [1800, "30m"], [3600, "1h"], [14400, "4h"], [86400, "1d"]];
const WANTED_STEPS = 60;

// The step that divides the time into about as many parts as there is room for.
export function step(since: string, until: string): string {
  const seconds = (momentOf(until, Date.now()) - momentOf(since, Date.now())) / 1000;
  return (STEPS.find(([length]) => seconds / length <= WANTED_STEPS) ?? STEPS[STEPS.length - 1]!)[1];
}

const UNITS: Record<string, number> = { h: 3_600_000, d: 86_400_000 };

function momentOf(text: string, now: number): number {
  const ago = /^now-(\d+)([hd])$/.exec(text);
  if (ago) return now - Number(ago[1]) * UNITS[ago[2]!]!;
  const moment = Date.parse(text);
  return Number.isNaN(moment) ? now : moment;
}

export interface Counts {
  times: number[];
  series: Series[];
}

export async function countsByLevel(query: Query, signal: AbortSignal): Promise<Counts> {
  const interval = step(String(query.since ?? DEFAULT_RANGE), String(query.until ?? ""));
  const wanted = LEVELS.filter(({ level }) => !query.level || query.level === level);
  const answers = await Promise.all(
    wanted.map(({ level }) => get<Collection<{ time: string; count: number }>>("/alerts/histogram", { ...query, level, interval }, signal)),
  );
  const lists = answers.map(({ data }) => data.affected_items);
  return {
    times: (lists[0] ?? []).map(({ time }) => Date.parse(time) / 1000),
    series: wanted.map(({ label, kind }, index) => ({ label, kind, counts: lists[index]!.map(({ count }) => count) })),
  };
}

// Descriptions by the ids of rules, for those who may read them; they have no values of an alert.
export async function ruleNames(ids: string[], signal: AbortSignal): Promise<Record<string, string>> {
  if (!ids.length || !may("rules:read")) return {};
  const { data } = await get("/rules", { rule_ids: ids.join(","), select: "id,description", limit: 100 }, signal);
  return Object.fromEntries(data.affected_items.map(({ id, description }) => [`${id}`, description.replaceAll(/\$\([^)]*\)/g, "…")]));
}

export async function top(field: string, query: Query, signal: AbortSignal): Promise<Record<string, number>> {
  const { data } = await get<Collection<{ value: string; count: number }>>("/alerts/top", { ...query, field, limit: 8 }, signal);
  return Object.fromEntries(data.affected_items.map(({ value, count }) => [value, count]));
}
