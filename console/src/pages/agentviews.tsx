// What a host has reported, view by view: packages, ports, files, assessments, vulnerabilities.
import { link } from "../address";
import { at } from "../api";
import { Empty } from "../parts/answer";
import { Collection, type Column } from "../parts/collection";
import { State, Time } from "../parts/values";
import { may } from "../session";
import { ScoresOverTime } from "./scores";

interface View {
  name: string;
  title: string;
  needs: string;
  path: (id: string) => string;
  columns: Column[];
  sort?: string;
  empty: string;
}

export const NOTHING_YET = "The agent has not reported any yet.";

export const VIEWS: View[] = [
  {
    name: "packages", title: "Packages", needs: "syscollector:read", path: (id) => at`/syscollector/${id}/packages`, sort: "name", empty: NOTHING_YET,
    columns: [
      { name: "name", title: "Name" }, { name: "version", title: "Version" }, { name: "architecture", title: "Architecture", wide: true },
      { name: "format", title: "Format", wide: true }, { name: "vendor", title: "Vendor", wide: true },
    ],
  },
  {
    name: "ports", title: "Ports", needs: "syscollector:read", path: (id) => at`/syscollector/${id}/ports`, sort: "local.port", empty: NOTHING_YET,
    columns: [
      { name: "local.port", title: "Port" }, { name: "protocol", title: "Protocol" }, { name: "local.ip", title: "Address" },
      { name: "state", title: "State" }, { name: "process", title: "Process", wide: true }, { name: "pid", title: "Process id", wide: true },
    ],
  },
  {
    name: "processes", title: "Processes", needs: "syscollector:read", path: (id) => at`/syscollector/${id}/processes`, sort: "pid", empty: NOTHING_YET,
    columns: [
      { name: "pid", title: "Id" }, { name: "name", title: "Name" }, { name: "euser", title: "User" },
      { name: "cmd", title: "Command", wide: true }, { name: "state", title: "State", wide: true },
    ],
  },
  {
    name: "integrity", title: "Integrity", needs: "syscheck:read", path: (id) => at`/syscheck/${id}`, sort: "-mtime",
    empty: "The agent has not reported any file that it watches.",
    columns: [
      { name: "file", title: "File" }, { name: "type", title: "Type", wide: true }, { name: "changes", title: "Changes" },
      { name: "mtime", title: "Modified", show: ({ mtime }) => <Time at={mtime} /> },
      { name: "uname", title: "Owner", wide: true }, { name: "size", title: "Bytes", wide: true },
      { name: "sha256", title: "SHA-256", wide: true, show: ({ sha256 }) => <code title={sha256}>{sha256?.slice(0, 12)}</code> },
    ],
  },
  {
    name: "assessment", title: "Assessment", needs: "sca:read", path: (id) => at`/sca/${id}`,
    empty: "No policy has been assessed on this host yet.",
    columns: [
      { name: "name", title: "Policy", show: ({ name, policy_id }) => <a href={`${location.hash.split("?")[0]}/${encodeURIComponent(policy_id)}`}>{name}</a> },
      { name: "score", title: "Score", show: ({ score }) => <meter min={0} max={100} low={50} high={80} optimum={100} value={score} title={`${score} %`}>{score} %</meter> },
      { name: "pass", title: "Passed" }, { name: "fail", title: "Failed" }, { name: "invalid", title: "Not applicable", wide: true },
      { name: "end_scan", title: "Assessed", wide: true, show: ({ end_scan }) => <Time at={end_scan} /> },
    ],
  },
  {
    name: "vulnerabilities", title: "Vulnerabilities", needs: "vulnerability:read", path: (id) => at`/vulnerability/${id}`, sort: "-cvss3_score",
    empty: "No known vulnerability was found on this host.",
    columns: [
      { name: "cve", title: "CVE" }, { name: "severity", title: "Severity", show: ({ severity }) => <State of={severity} /> },
      { name: "cvss3_score", title: "CVSS 3" }, { name: "name", title: "Package" }, { name: "version", title: "Version", wide: true },
      { name: "condition", title: "Condition", wide: true },
      { name: "detection_time", title: "Found", wide: true, show: ({ detection_time }) => <Time at={detection_time} /> },
    ],
  },
];

const CHECKS: Column[] = [
  { name: "id", title: "Id" }, { name: "title", title: "Check" }, { name: "result", title: "Result", show: ({ result }) => <State of={result} /> },
  { name: "remediation", title: "What to do", sort: false, wide: true },
];

export function Reported({ id, view, part }: { id: string; view: string; part?: string }) {
  const shown = VIEWS.find(({ name }) => name === view);
  if (!shown) return <Empty>There is no such view.</Empty>;
  if (view === "assessment" && part) {
    return <Collection key={part} path={at`/sca/${id}/checks/${part}`} caption={`Checks of ${part}`} columns={CHECKS} sort="id" />;
  }
  const { name, title, path, ...rest } = shown;
  return (
    <>
      {view === "assessment" && may("alerts:read") && <ScoresOverTime agent={id} />}
      {view === "integrity" && may("alerts:read") && (
        <p><a href={link(["alerts"], { q: `agent.id=${id};rule.groups=syscheck`, since: "now-30d" })}>Changes of the last 30 days, with what has changed</a></p>
      )}
      <Collection key={name} path={path(id)} caption={`${title} of agent ${id}`} {...rest} />
    </>
  );
}
