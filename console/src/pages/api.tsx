// Any operation of the API, from its own description: its parameters, its answer, and the line for curl.
import { useState } from "preact/hooks";
import { address, filter, link } from "../address";
import { request, send, type Item } from "../api";
import { url, type Query } from "../http";
import { useAction, useLoad, type Load } from "../load";
import type { Shown } from "../pages";
import { Empty, Loaded, ProblemNotice } from "../parts/answer";
import { TextFilter } from "../parts/collection";
import { useStore } from "../store";

interface Operation extends Item {
  method: string;
  path: string;
}

const LONGEST = 200_000; // characters of an answer that are shown

async function operations(signal: AbortSignal): Promise<{ all: Operation[]; components: Item }> {
  const answer = (await request<never>("GET", "/openapi.json", { signal })) as unknown as Item;
  const all = Object.entries<Item>(answer.paths).flatMap(([path, methods]) =>
    Object.entries<Item>(methods).map(([method, operation]) => ({ ...operation, method: method.toUpperCase(), path })),
  );
  return { all, components: answer.components };
}

export function Api({ path }: Shown) {
  const load = useLoad(operations, []);
  const [method, ...rest] = path;
  const chosen = `/${rest.join("/")}`;
  return (
    <>
      <h1>API</h1>
      {method ? <One load={load} method={method} path={chosen} /> : <All load={load} />}
    </>
  );
}

const linkTo = ({ method, path }: Operation) => link(["api", method, ...path.split("/").filter(Boolean)]);

function All({ load }: { load: Load<{ all: Operation[] }> }) {
  const search = useStore(address).filters.get("search") ?? "";
  const meets = ({ method, path, summary }: Operation) => `${method} ${path} ${summary}`.toLowerCase().includes(search.toLowerCase());
  return (
    <>
      <div class="filters" role="search" aria-label="Filter operations">
        <TextFilter name="search" label="Search" value={search} onChange={(search) => filter({ search })} />
      </div>
      <Loaded load={load}>
        {({ all }) => {
          const found = all.filter(meets);
          return found.length ? (
            <ul class="operations card">
              {found.map((one) => (
                <li key={one.method + one.path}>
                  <span class={`method ${one.method}`}>{one.method}</span> <a href={linkTo(one)}>{one.path}</a> <span class="quiet">{one.summary}</span>
                </li>
              ))}
            </ul>
          ) : <Empty>No operation matches.</Empty>;
        }}
      </Loaded>
    </>
  );
}

function One({ load, method, path }: { load: Load<{ all: Operation[]; components: Item }>; method: string; path: string }) {
  return (
    <Loaded load={load}>
      {({ all, components }) => {
        const operation = all.find((one) => one.method === method && one.path === path);
        return operation ? <Try key={method + path} {...{ operation, components }} /> : <Empty>There is no such operation.</Empty>;
      }}
    </Loaded>
  );
}

interface Filled {
  path: string;
  query: Query;
  body?: string;
  type?: string;
}

function filled(operation: Operation, form: FormData): Filled {
  let path = operation.path;
  const query: Query = {};
  for (const { name, in: place } of parametersOf(operation)) {
    const value = String(form.get(name) ?? "");
    if (place === "path") path = path.replace(`{${name}}`, encodeURIComponent(value));
    else if (value) query[name] = value;
  }
  const body = form.get("body");
  return { path, query, ...(body ? { body: String(body), type: Object.keys(operation.requestBody?.content ?? {})[0] } : {}) };
}

const parametersOf = (operation: Operation): Item[] => operation.parameters ?? [];
const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

function curl(method: string, { path, query, body, type }: Filled): string {
  const lines = ["curl -k", ...(method === "GET" ? [] : [`-X ${method}`]), '-H "Authorization: Bearer $TOKEN"'];
  if (body !== undefined) lines.push(`-H ${quoted(`Content-Type: ${type}`)}`, `--data-binary ${quoted(body)}`);
  return [...lines, quoted(location.origin + url(path, query))].join(" ");
}

function Try({ operation, components }: { operation: Operation; components: Item }) {
  const { method } = operation;
  const [asked, setAsked] = useState<Filled>({ path: operation.path, query: {} });
  const [answer, setAnswer] = useState<{ status: number; text: string }>();
  const { busy, problem, run } = useAction();
  const basic = operation.security?.some((one: Item) => "basic" in one);
  const change = (event: Event) => setAsked(filled(operation, new FormData(event.currentTarget as HTMLFormElement)));
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    run(async () => {
      const { path, ...options } = filled(operation, new FormData(event.currentTarget as HTMLFormElement));
      setAnswer(undefined);
      const response = await send(method, path, options);
      setAnswer({ status: response.status, text: pretty(await response.text()) });
    });
  };
  return (
    <>
      <p class="crumbs"><a href={link(["api"])}>All operations</a></p>
      <h2><span class={`method ${method}`}>{method}</span> {operation.path}</h2>
      <p>{operation.summary} {operation.deprecated && <span class="state warning">deprecated</span>}</p>
      {operation.description && <p class="quiet">{operation.description}</p>}
      <form class="card stack" onInput={change} onSubmit={submit}>
        <div class="parameters">
          {parametersOf(operation).map((one) => <Parameter key={one.name} of={one} components={components} />)}
        </div>
        {operation.requestBody && (
          <label><span>Body ({Object.keys(operation.requestBody.content).join(", ")})</span><textarea class="short" name="body" spellcheck={false} /></label>
        )}
        <pre tabIndex={0} aria-label="The request as a line for curl">{curl(method, asked)}</pre>
        {basic ? <p class="quiet">This operation takes name and password, which the console does not keep.</p> : (
          <div class="actions"><button class={method === "GET" ? "primary" : "danger"} disabled={busy}>Send</button></div>
        )}
      </form>
      <ProblemNotice problem={problem} />
      {answer && (
        <section class="section" aria-label="Answer" aria-live="polite">
          <h2>Status {answer.status}</h2>
          <pre tabIndex={0}>{answer.text.slice(0, LONGEST)}{answer.text.length > LONGEST && "\n… (cut)"}</pre>
        </section>
      )}
    </>
  );
}

function Parameter({ of, components }: { of: Item; components: Item }) {
  const schema = resolved(of.schema ?? {}, components);
  const choices: string[] | undefined = schema.type === "boolean" ? ["true", "false"] : schema.enum;
  return (
    <label title={of.description}>
      <span>{of.name}{of.required && " (required)"}</span>
      {choices ? (
        <select name={of.name}>{!of.required && <option value="" />}{choices.map((one) => <option key={one}>{one}</option>)}</select>
      ) : <input name={of.name} required={of.required} autocomplete="off" spellcheck={false} />}
    </label>
  );
}

function resolved(schema: Item, components: Item): Item {
  const name = /^#\/components\/schemas\/(.+)$/.exec(schema.$ref ?? "")?.[1];
  const found = name ? components.schemas[name] : schema;
  return found.anyOf?.find((one: Item) => one.type !== "null") ?? found;
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
