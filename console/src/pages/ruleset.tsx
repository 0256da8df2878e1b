// What the analysis knows: rules, decoders and lists, as their files have them; own files are edited here.
import { useRef, useState } from "preact/hooks";
import { go, link } from "../address";
import { act, at, text } from "../api";
import { useLoad } from "../load";
import type { Shown } from "../pages";
import { Action } from "../parts/action";
import { Empty, Loaded, Notice } from "../parts/answer";
import { Collection, type Column } from "../parts/collection";
import { Dialog } from "../parts/dialog";
import { Editor } from "../parts/editor";
import { LogTest } from "../parts/logtest";
import { Tabs } from "../parts/tabs";
import { Level, State } from "../parts/values";
import { may } from "../session";
import { Techniques } from "./techniques";

interface Kind {
  name: string;
  title: string;
  columns: Column[];
  path: string;
  fields?: string[];
  sort?: string;
  start: string; // of a new file
}

const file = (kind: string): Column => ({
  name: "filename", title: "File",
  show: ({ filename, relative_dirname }) => <a href={link(["ruleset", kind, filename], { folder: relative_dirname })}>{filename}</a>,
});

const RULE_START = `<group name="local,">

  <rule id="100100" level="5">
    <if_sid>1</if_sid>
    <match>the text to look for</match>
    <description>What has happened.</description>
  </rule>

</group>
`;

const KINDS: Kind[] = [
  {
    name: "rules", title: "Rules", path: "/rules", sort: "id", start: RULE_START,
    fields: ["id", "level", "description", "groups", "filename", "status", "mitre", "relative_dirname"],
    columns: [
      { name: "id", title: "Id" }, { name: "level", title: "Level", show: ({ level }) => <Level of={level} /> },
      { name: "description", title: "Description" }, { name: "groups", title: "Groups", sort: false, wide: true },
      { name: "mitre", title: "ATT&CK", sort: false, wide: true }, file("rules"),
    ],
  },
  {
    name: "decoders", title: "Decoders", path: "/decoders", sort: "name", start: '<decoder name="local">\n  <program_name>^program$</program_name>\n</decoder>\n',
    fields: ["name", "filename", "position", "status", "relative_dirname"],
    columns: [
      { name: "name", title: "Name" }, { name: "details.parent", title: "Parent", sort: false },
      { name: "details.program_name.pattern", title: "Program", sort: false, wide: true },
      { name: "status", title: "State", wide: true, show: ({ status }) => <State of={status} /> }, file("decoders"),
    ],
  },
  {
    name: "lists", title: "Lists", path: "/lists/files", sort: "filename", start: "key:value\n",
    columns: [file("lists"), { name: "relative_dirname", title: "Folder" }],
  },
];

const OWN = /^etc\//;
const TABS: [string, string][] = [...KINDS.map(({ name, title }): [string, string] => [name, title]), ["techniques", "ATT&CK"], ["logtest", "Log test"]];

export function Ruleset({ path, filters }: Shown) {
  const [chosen = "rules", name] = path;
  const kind = KINDS.find((one) => one.name === chosen);
  return (
    <>
      <h1>{name ?? "Ruleset"}</h1>
      <Tabs path={["ruleset"]} tabs={TABS} current={chosen} />
      {chosen === "logtest" ? <LogTest /> : chosen === "techniques" ? <Techniques /> : !kind ? <Empty>There is no such view.</Empty> : name ? (
        <File key={name} kind={kind} name={name} folder={filters.get("folder") ?? `etc/${kind.name}`} isNew={filters.has("new")} />
      ) : (
        <Collection key={kind.name} path={kind.path} caption={kind.title} columns={kind.columns} fields={kind.fields} sort={kind.sort}>
          {may(`${kind.name}:update`) && <NewFile kind={kind} />}
        </Collection>
      )}
    </>
  );
}

function NewFile({ kind }: { kind: Kind }) {
  const [open, setOpen] = useState(false);
  const suffix = kind.name === "lists" ? "" : `_${kind.name}.xml`;
  const create = async (form: FormData) => go(["ruleset", kind.name, String(form.get("name"))], { folder: `etc/${kind.name}`, new: 1 });
  return (
    <>
      <button onClick={() => setOpen(true)}>New file …</button>
      {open && (
        <Dialog title={`A new file of ${kind.name}`} action="Write it" onDo={create} onClose={() => setOpen(false)}>
          <label><span>File name</span><input name="name" required pattern="[\w\-.]+" defaultValue={`local${suffix}`} /></label>
        </Dialog>
      )}
    </>
  );
}

function File({ kind, name, folder, isNew }: { kind: Kind; name: string; folder: string; isNew: boolean }) {
  const path = at`/${kind.name}/files/${name}`;
  const query = kind.name === "lists" ? {} : { relative_dirname: folder };
  const load = useLoad((signal) => (isNew ? Promise.resolve(kind.start) : text(path, { raw: true, ...query }, signal)), [path, folder, isNew]);
  const exists = useRef(!isNew);
  const own = OWN.test(folder) && may(`${kind.name}:update`);
  const save = async (body: string) => {
    await act("PUT", path, { query: { overwrite: exists.current, ...query }, body, type: "application/octet-stream" });
    exists.current = true;
    return "Stored, and sent to all nodes. Bring it into force to have the analysis use it.";
  };
  return (
    <div class={own ? "split" : ""}>
      <section class="card" aria-label={name}>
        {!own && <Notice>{OWN.test(folder) ? "You may read this file, not change it." : "This file comes with secmon. Own rules go to a file of their own."}</Notice>}
        <Loaded load={load}>
          {(value) => (
            <Editor label={`${folder}/${name}`} value={value} isNew={isNew} save={own ? save : undefined}>
              <Action label="Delete" title={`Delete ${name}?`} danger needs={`${kind.name}:delete`} run={() => act("DELETE", path, { query })}
                then={() => go(["ruleset", kind.name])} />
              <Action label="Bring into force" title="Load the stored rules, decoders and lists on all nodes?" needs="cluster:restart"
                run={() => act("PUT", "/cluster/analysisd/reload")} />
            </Editor>
          )}
        </Loaded>
      </section>
      {own && <LogTest />}
    </div>
  );
}
