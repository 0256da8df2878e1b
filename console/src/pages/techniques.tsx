// Which techniques of ATT&CK the rules see: a column for each tactic.
import { link } from "../address";
import { get, type Item } from "../api";
import { useLoad } from "../load";
import { Empty, Loaded } from "../parts/answer";
import { plural } from "../parts/values";

// In the order in which attacks proceed.
const ORDER = [
  "reconnaissance", "resource-development", "initial-access", "execution", "persistence", "privilege-escalation", "defense-evasion",
  "credential-access", "discovery", "lateral-movement", "collection", "command-and-control", "exfiltration", "impact",
];
const MOST = 100_000; // the largest page of the API

async function read(signal: AbortSignal) {
  const [tactics, techniques, rules] = await Promise.all([
    get("/mitre/tactics", { select: "id,name,short_name", limit: MOST }, signal),
    get("/mitre/techniques", { select: "name,external_id,tactics,subtechnique_of,deprecated", limit: MOST }, signal),
    get("/rules", { select: "mitre", limit: MOST }, signal),
  ]);
  const counts = new Map<string, number>();
  for (const { mitre } of rules.data.affected_items) {
    // A rule for a sub-technique (T1110.001) sees a part of its technique.
    for (const id of new Set<string>((mitre ?? []).map((one: string) => one.split(".")[0]))) counts.set(id, (counts.get(id) ?? 0) + 1);
  }
  const rank = ({ short_name }: Item) => (ORDER.indexOf(short_name) + ORDER.length) % ORDER.length;
  return {
    tactics: tactics.data.affected_items.sort((one, other) => rank(one) - rank(other)),
    techniques: techniques.data.affected_items.filter((one) => !one.subtechnique_of && !one.deprecated),
    counts,
  };
}

export function Techniques() {
  const load = useLoad(read, []);
  return (
    <Loaded load={load}>
      {({ tactics, techniques, counts }) => techniques.length ? (
        <>
          <p>{plural(techniques.filter((one) => counts.has(one.external_id)).length, "technique")} of {techniques.length} have rules.</p>
          <div class="matrix" role="region" aria-label="Techniques by tactic" tabIndex={0}>
            {tactics.map((tactic) => (
              <Tactic key={tactic.id} name={tactic.name} counts={counts} techniques={techniques.filter((one) => one.tactics.includes(tactic.id))} />
            ))}
          </div>
        </>
      ) : <Empty>No techniques are known. See docs/know-attack-techniques.md.</Empty>}
    </Loaded>
  );
}

function Tactic({ name, techniques, counts }: { name: string; techniques: Item[]; counts: Map<string, number> }) {
  const count = ({ external_id }: Item) => counts.get(external_id) ?? 0;
  const ranked = [...techniques].sort((one, other) => count(other) - count(one) || one.name.localeCompare(other.name));
  return (
    <section aria-label={name}>
      <h2>{name}</h2>
      <ul>
        {ranked.map((one) => (
          <li key={one.external_id} class={count(one) ? "seen" : ""}>
            {count(one) ? <a href={link(["ruleset"], { q: `mitre~${one.external_id}` })} title={`${one.external_id}: ${plural(count(one), "rule")}`}>{one.name}</a> : one.name}
          </li>
        ))}
      </ul>
    </section>
  );
}
