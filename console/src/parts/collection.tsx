// A collection of the API, page by page, as the server filters and sorts it. Its filters are kept in the address.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { address, filter, type Filters } from "../address";
import { get, type Item } from "../api";
import type { Query } from "../http";
import { useLoad } from "../load";
import { useStore } from "../store";
import { Empty, Failures, Loaded, MissingNodes } from "./answer";
import { Table, type Column } from "./table";
import { number } from "./values";

interface Props {
  path: string;
  caption: string;
  columns: Column[];
  query?: Query;
  sort?: string; // unless the address says another
  fields?: string[]; // of the query language, for completion; none: a search for text only
  empty?: ComponentChildren;
  every?: number; // seconds until it is asked again
  turn?: number; // another number: ask again
  children?: ComponentChildren; // more filters
}

const PAGE = 25;

export function Collection({ path, caption, columns, query = {}, sort = "", fields, empty, every, turn, children }: Props) {
  const { filters } = useStore(address);
  const chosen = { q: filters.get("q") ?? "", search: filters.get("search") ?? "", sort: filters.get("sort") ?? sort };
  const offset = Number(filters.get("offset")) || 0;
  const asked = { ...query, ...chosen, offset, limit: PAGE };
  const load = useLoad(async (signal) => ({ ...(await get(path, asked, signal)), from: offset }), [path, asked, turn], every, [path, query]);
  const change = (changes: Filters) => filter({ offset: undefined, ...changes });
  return (
    <>
      <div class="filters" role="search" aria-label={`Filter ${caption}`}>
        <TextFilter name="search" label="Search" value={chosen.search} onChange={(search) => change({ search })} />
        {fields && <QueryFilter value={chosen.q} fields={fields} onChange={(q) => change({ q })} />}
        {children}
      </div>
      <Loaded load={load}>
        {({ data, dapi_errors, from }) => (
          <div aria-busy={load.loading}>
            <MissingNodes errors={dapi_errors} />
            <Failures of={data.failed_items} />
            {data.affected_items.length ? (
              <Table caption={caption} columns={columns} items={data.affected_items} sort={chosen.sort} onSort={(sort) => change({ sort })} />
            ) : data.failed_items.length === 0 && (
              <Empty>{chosen.q || chosen.search ? "Nothing matches these filters." : (empty ?? "There is nothing here.")}</Empty>
            )}
            <Pages offset={from} total={data.total_affected_items} onChange={(next) => filter({ offset: next || undefined })} />
          </div>
        )}
      </Loaded>
    </>
  );
}

interface TextProps {
  name: string;
  label: string;
  value: string;
  onChange: (value: string) => void;
  hint?: string;
  list?: string;
  onInput?: (value: string) => void;
}

// A filter is applied with Enter, or when the field is left. The field follows a changed filter before anybody can type.
export function TextFilter({ name, label, value, onChange, hint, list, onInput }: TextProps) {
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    if (field.current) field.current.value = value;
  }, [value]);
  return (
    <form onSubmit={(event) => { event.preventDefault(); onChange(field.current?.value.trim() ?? ""); }}>
      <label>
        <span>{label}</span>
        <input ref={field} type="search" name={name} defaultValue={value} placeholder={hint} list={list} autocomplete="off"
          spellcheck={false} onInput={(event) => onInput?.(event.currentTarget.value)}
          onChange={(event) => onChange(event.currentTarget.value.trim())} />
      </label>
    </form>
  );
}

// The query language: field, operator, value; ";" is and, "," is or. The last condition is completed with fields.
export function QueryFilter({ value, fields, onChange }: { value: string; fields: string[]; onChange: (q: string) => void }) {
  const [text, setText] = useState(value);
  const before = text.slice(0, Math.max(text.lastIndexOf(";"), text.lastIndexOf(","), text.lastIndexOf("(")) + 1);
  const known = fields.some((field) => text.slice(before.length).startsWith(field) && /[=!<>~]/.test(text));
  return (
    <>
      <TextFilter name="q" label="Query" value={value} hint={`${fields[0]}=…`} list="query-fields" onChange={onChange} onInput={setText} />
      <datalist id="query-fields">
        {!known && fields.flatMap((field) => ["=", "!=", "~"].map((operator) => <option key={field + operator} value={before + field + operator} />))}
      </datalist>
    </>
  );
}

function Pages({ offset, total, onChange }: { offset: number; total: number; onChange: (offset: number) => void }) {
  const last = Math.min(offset + PAGE, total);
  return (
    <nav class="pages" aria-label="Pages">
      <span role="status">{total ? `${number(offset + 1)} to ${number(last)} of ${number(total)}` : "0 found"}</span>
      <button disabled={!offset} onClick={() => onChange(Math.max(0, offset - PAGE))}>Previous</button>
      <button disabled={last >= total} onClick={() => onChange(offset + PAGE)}>Next</button>
    </nav>
  );
}

export type { Column, Item };
