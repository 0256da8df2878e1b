// Scores of a host's assessments over time, read off the alerts that each assessment raises when its result has changed.
import { get, type Item } from "./api";

export const SINCE = "now-30d";
const MOST = 500; // the newest

export interface Scores {
  times: number[]; // seconds since 1970
  policies: { name: string; values: (number | null)[] }[]; // null: of another policy's time
}

export async function scores(agent: string, signal: AbortSignal): Promise<Scores> {
  const { data } = await get("/alerts", {
    agents_list: agent, q: "data.sca.type=summary", since: SINCE, limit: MOST, select: "timestamp,data.sca.policy,data.sca.score",
  }, signal);
  return ofAlerts(data.affected_items);
}

export function ofAlerts(alerts: Item[]): Scores {
  const found = alerts
    .map(({ timestamp, data }) => ({ at: Date.parse(timestamp) / 1000, policy: String(data?.sca?.policy), score: Number(data?.sca?.score) }))
    .filter(({ at, score }) => Number.isFinite(at) && Number.isFinite(score))
    .sort((one, other) => one.at - other.at);
  const names = [...new Set(found.map(({ policy }) => policy))].sort();
  return {
    times: found.map(({ at }) => at),
    policies: names.map((name) => ({ name, values: found.map(({ policy, score }) => (policy === name ? score : null)) })),
  };
}
