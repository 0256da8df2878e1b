import { link } from "../address";
import { get } from "../api";
import { useLoad } from "../load";
import type { Shown } from "../pages";
import { Collection, type Column } from "../parts/collection";
import { Tabs } from "../parts/tabs";
import { State, Time, number } from "../parts/values";
import { Agent } from "./agent";

const COLUMNS: Column[] = [
  { name: "id", title: "Id", show: ({ id }) => <a href={link(["agents", id])}>{id}</a> },
  { name: "name", title: "Name", tight: true, show: ({ id, name }) => <a href={link(["agents", id])}>{name}</a> },
  { name: "status", title: "State", show: ({ status }) => <State of={status} /> },
  { name: "os.name", title: "System", wide: true },
  { name: "version", title: "Version", wide: true },
  { name: "ip", title: "Address", wide: true },
  { name: "group", title: "Groups", sort: false, wide: true },
  { name: "node_name", title: "Node", wide: true },
  { name: "lastKeepAlive", title: "Last seen", wide: true, show: ({ lastKeepAlive }) => <Time at={lastKeepAlive} /> },
];
const FIELDS = [
  "status", "name", "group", "os.platform", "os.name", "os.version", "version", "node_name", "ip", "id", "group_config_status",
  "lastKeepAlive", "dateAdd",
];
export const AGENT_FIELDS = COLUMNS.map(({ name }) => name).join(",");

const SILENT = "silent";
const SILENT_PATH = "/agents/silent-sources";
const SILENT_COLUMNS: Column[] = [
  { name: "agent.name", title: "Agent", sort: false, show: ({ agent }) => <a href={link(["agents", agent.id])}>{agent.name}</a> },
  { name: "location", title: "Source", show: ({ location }) => location || "the whole agent" },
  { name: "last_event", title: "Last event", show: ({ last_event }) => <Time at={last_event} /> },
  { name: "expected_seconds", title: "Expected within", wide: true, show: ({ expected_seconds }) => `${number(expected_seconds)} s` },
  { name: "since", title: "Found silent", show: ({ since }) => <Time at={since} /> },
];

export function Agents({ path }: Shown) {
  const [id, view = "", part] = path;
  return id && id !== SILENT ? <Agent {...{ id, view, part }} /> : <Lists view={id ?? ""} />;
}

function Lists({ view }: { view: string }) {
  const silent = useLoad((signal) => get(SILENT_PATH, { limit: 1 }, signal), [], 60).value; // none: the master is of an older release
  return (
    <>
      <h1>Agents</h1>
      {silent && <Tabs path={["agents"]} tabs={[["", "All"], [SILENT, `Silent sources (${number(silent.data.total_affected_items)})`]]} current={view} />}
      {view ? <Silent /> : <All />}
    </>
  );
}

const All = () => (
  <Collection path="/agents" caption="Agents" columns={COLUMNS} fields={FIELDS} every={30} sort="id"
    query={{ select: AGENT_FIELDS }} empty="No agent has enrolled yet. See docs/enrol-agents.md for how they do." />
);

const Silent = () => (
  <Collection path={SILENT_PATH} caption="Silent sources" columns={SILENT_COLUMNS} every={30} sort="-since"
    empty="Every source that brings events regularly has done so in time." />
);

export { COLUMNS as AGENT_COLUMNS, FIELDS as AGENT_QUERY_FIELDS };
