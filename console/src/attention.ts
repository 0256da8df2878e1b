// What needs attention now, by what the user may see: each entry says what is wrong, and which page answers it.
import { DEFAULT_RANGE, LEVELS, top } from "./alerts";
import { link, type Filters } from "./address";
import { NO_CLUSTER, get, type Answer, type Collection, type Item } from "./api";
import { Problem } from "./http";
import { may } from "./session";
import { plural } from "./parts/values";

export interface Attention {
  what: string;
  detail?: string;
  at?: string; // the time that it speaks of
  kind: "bad" | "warning";
  href: string;
}

interface Source {
  needs: string[]; // one of these permissions
  ask: (signal: AbortSignal) => Promise<Attention[]>;
}

const NOT_FOUND = 404;
const HIGH = LEVELS.at(-1)!.level;
const DAY_SECONDS = 86_400;
const NEWEST = 50; // alerts whose words are looked up
const NAMED = 3; // of many agents

const SOURCES: Source[] = [
  { needs: ["cluster:read", "manager:read"], ask: nodes },
  { needs: ["cluster:read"], ask: absent },
  { needs: ["alerts:read"], ask: alerts },
  { needs: ["agent:read"], ask: agents },
  { needs: ["agent:read"], ask: silent },
];

// All entries, the bad ones first. What cannot be asked is an entry too, so that silence means that all is well.
export async function attention(signal: AbortSignal): Promise<Attention[]> {
  const asked = SOURCES.filter(({ needs }) => needs.some(may)).map(({ ask }) => ask(signal).catch(unasked));
  const found = (await Promise.all(asked)).flat();
  return [...found.filter(({ kind }) => kind === "bad"), ...found.filter(({ kind }) => kind !== "bad")];
}

function unasked(problem: unknown): Attention[] {
  if (!(problem instanceof Problem)) throw problem; // the request was given up
  if (problem.status === 0) throw problem; // no source answers: the page says so once
  if (problem.denied || problem.code === NO_CLUSTER) return [];
  if (problem.status === NOT_FOUND) return []; // the master is of an older release
  return [{ what: "Something could not be examined", detail: problem.message, kind: "warning", href: link(["api"]) }];
}

async function nodes(signal: AbortSignal): Promise<Attention[]> {
  const own = () => get("/manager/warnings", {}, signal);
  const answer = await get("/cluster/warnings", {}, signal).catch((problem) => {
    if (problem.code === NO_CLUSTER) return own();
    throw problem;
  });
  return ofNodes(answer);
}

const VIEWS: Record<string, string> = { daemon: "logs", restart: "logs", output: "logs", alerts: "logs", record: "logs", journal: "counters", descriptors: "counters" };
const BAD = new Set(["daemon", "disk", "analysis", "record"]);

export function ofNodes({ data, dapi_errors = {} }: Answer<Collection>): Attention[] {
  const silent = Object.entries(dapi_errors).map(([name, { error }]): Attention => (
    { what: `The node ${name} does not answer`, detail: error, kind: "bad", href: link(["cluster"]) }
  ));
  const warned = data.affected_items.flatMap(({ name, warnings }) => warnings.map((one: Item): Attention => ({
    what: `${name}: ${one.message}`, detail: one.remediation, at: one.time ?? undefined,
    kind: BAD.has(one.kind) ? "bad" : "warning",
    href: one.kind === "ruleset" ? link(["cluster"]) : link(["cluster", name, ...(VIEWS[one.kind] ? [VIEWS[one.kind]!] : [])]),
  })));
  return [...silent, ...warned];
}

const BRING_BACK = 'Look whether its host runs and has a network; "secmon start" starts the node there, and "secmon doctor" finds what keeps it away. It joins by itself.';

// Workers that the master misses: they are no longer among the nodes that are asked.
async function absent(signal: AbortSignal): Promise<Attention[]> {
  const { data } = await get("/cluster/healthcheck", {}, signal);
  return data.affected_items.flatMap(ofHealth);
}

export function ofHealth({ lost = [], refused = [] }: Item): Attention[] {
  const href = link(["cluster"]);
  return [
    ...lost.map(({ name, last_seen }: Item): Attention => ({ what: `The node ${name} is away since`, at: last_seen, detail: BRING_BACK, kind: "bad", href })),
    ...refused.map(({ name, reason, time }: Item): Attention => ({ what: `The node ${name} was refused`, detail: reason, at: time, kind: "warning", href })),
  ];
}

async function alerts(signal: AbortSignal): Promise<Attention[]> {
  const query = { since: DEFAULT_RANGE, level: HIGH, acknowledged: "false" };
  const newest = { ...query, select: "rule.id,rule.description", limit: NEWEST };
  const [counts, { data }] = await Promise.all([top("rule.id", query, signal), get("/alerts", newest, signal)]);
  return ofAlerts(counts, data.affected_items, query);
}

// One entry for each rule, in the words of its newest alert.
export function ofAlerts(counts: Record<string, number>, newest: Item[], query: Filters): Attention[] {
  const described = (id: string) => newest.find(({ rule }) => rule.id === id)?.rule.description ?? `Rule ${id}`;
  const ranked = Object.entries(counts).sort(([, one], [, other]) => other - one);
  return ranked.map(([id, count]) => ({
    what: described(id), kind: "bad", href: link(["alerts"], { ...query, q: `rule.id=${id}` }),
    detail: `${plural(count, "alert")} of a high level in the last 24 hours, not acknowledged`,
  }));
}

async function agents(signal: AbortSignal): Promise<Attention[]> {
  const since = Math.floor(Date.now() / 1000) - DAY_SECONDS;
  const q = `status=disconnected;disconnection_time>${since}`;
  const { data } = await get("/agents", { q, select: "id,name", sort: "-disconnection_time", limit: NAMED }, signal);
  return ofAgents(data, q);
}

export function ofAgents({ affected_items: items, total_affected_items: total }: Collection, q: string): Attention[] {
  if (!total) return [];
  return [{
    what: `${plural(total, "agent")} lost in the last 24 hours`, detail: some(items.map(({ name }) => name), total),
    kind: "warning", href: link(["agents"], { q, sort: "-disconnection_time" }),
  }];
}

// Files and agents that bring no events although they used to.
async function silent(signal: AbortSignal): Promise<Attention[]> {
  return ofSources((await get("/agents/silent-sources", { limit: NAMED }, signal)).data);
}

export function ofSources({ affected_items: items, total_affected_items: total }: Collection): Attention[] {
  if (!total) return [];
  const names = items.map(({ agent, location }) => (location ? `${location} of ${agent.name}` : agent.name));
  return [{
    what: `${plural(total, "source")} of events fell silent`, detail: some(names, total),
    at: items[0]?.since, kind: "warning", href: link(["agents", "silent"]),
  }];
}

// The first of many names.
function some(names: string[], total: number): string {
  return names.join(", ") + (total > names.length ? ` and ${total - names.length} more` : "");
}
