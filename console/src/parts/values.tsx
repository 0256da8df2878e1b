// How values look: times, states, levels, sizes, whole objects.
import type { Item } from "../api";

const MOMENT = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false } as const;
const thisYear = new Intl.DateTimeFormat(undefined, MOMENT);
const otherYear = new Intl.DateTimeFormat(undefined, { ...MOMENT, year: "numeric" });
const NEVER_ENDS = "9999";

export function Time({ at }: { at?: string }) {
  if (!at || at === "n/a" || at.startsWith(NEVER_ENDS)) return <span class="quiet">–</span>;
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return <>{at}</>;
  const format = date.getFullYear() === new Date().getFullYear() ? thisYear : otherYear;
  return <time dateTime={at} title={at}>{format.format(date)}</time>;
}

const KINDS: Record<string, string> = {
  in_force: "info", active: "good", running: "good", OK: "good", synced: "good", enabled: "good", passed: "good", Low: "info", info: "info",
  pending: "warning", disconnected: "bad", failed: "bad", KO: "bad", error: "bad", critical: "bad", Critical: "bad", High: "bad",
  warning: "warning", Medium: "warning", "not synced": "warning", "not applicable": "quiet", stopped: "quiet",
};

export function State({ of }: { of?: string }) {
  if (!of) return <span class="quiet">–</span>;
  return <span class={`state ${KINDS[of] ?? "quiet"}`}>{of.replaceAll("_", " ")}</span>;
}

// Levels of rules: 0 to 16.
export function levelKind(level: number): string {
  if (level >= 12) return "bad";
  return level >= 7 ? "warning" : level >= 4 ? "info" : "quiet";
}

export function Level({ of }: { of: number }) {
  return <span class={`level ${levelKind(of)}`}>{of}</span>;
}

const numbers = new Intl.NumberFormat();
export const number = (value: number) => numbers.format(value);

export function plural(count: number, word: string): string {
  return `${number(count)} ${word}${count === 1 ? "" : "s"}`;
}

// The value at a dotted name: "os.name".
export function pick(item: Item, name: string): any {
  return name.split(".").reduce<any>((value, part) => value?.[part], item);
}

export function plain(value: unknown): string {
  if (value === null || value === undefined || value === "" || value === " ") return "–";
  if (Array.isArray(value)) return value.length ? value.map(plain).join(", ") : "–";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

// Everything that an object says, as a list of names and values.
export function Facts({ of, hide = [] }: { of: Item; hide?: string[] }) {
  const facts = flat(of).filter(([name]) => !hide.some((one) => name === one || name.startsWith(`${one}.`)));
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}><dt>{name.replaceAll("_", " ").replaceAll(".", ".\u200b")}</dt><dd>{value}</dd></div>
      ))}
    </dl>
  );
}

function flat(item: Item, before = ""): [string, string][] {
  return Object.entries(item).flatMap(([name, value]): [string, string][] =>
    value && typeof value === "object" && !Array.isArray(value) ? flat(value, `${before}${name}.`) : [[before + name, plain(value)]],
  );
}
