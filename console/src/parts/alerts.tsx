// Alerts in tables, and what was said of them.
import { link } from "../address";
import type { Item } from "../api";
import { Table, type Column } from "./table";
import { Level, Time } from "./values";

const COLUMNS: Column[] = [
  { name: "timestamp", title: "Time", show: ({ id, timestamp }) => <a href={link(["alerts", id])}><Time at={timestamp} /></a> },
  { name: "rule.level", title: "Level", show: ({ rule }) => <Level of={rule.level} /> },
  {
    name: "rule.description", title: "What has happened",
    show: ({ id, rule, acknowledged }) => (
      <>
        <a href={link(["alerts", id])}>{rule.description}</a>
        {acknowledged && <div class="quiet">Acknowledged by {acknowledged.user}{acknowledged.comment && `: ${acknowledged.comment}`}</div>}
      </>
    ),
  },
  { name: "agent.name", title: "Agent", tight: true, show: ({ agent }) => <a href={link(["agents", agent.id])}>{agent.name}</a> },
  { name: "rule.id", title: "Rule", wide: true, show: ({ rule }) => <RuleLink id={rule.id} /> },
  { name: "rule.mitre.id", title: "ATT&CK", wide: true },
];

export const AlertTable = ({ caption, items }: { caption: string; items: Item[] }) => <Table caption={caption} columns={COLUMNS} items={items} />;

export const RuleLink = ({ id }: { id: string }) => <a href={link(["ruleset"], { q: `id=${id}` })}>{id}</a>;
