// A table of items. Sorting is the server's work: a heading only says what it was asked for.
import type { ComponentChildren } from "preact";
import type { Item } from "../api";
import { pick, plain } from "./values";

export interface Column {
  name: string; // dotted name of the field
  title: string;
  show?: (item: Item) => ComponentChildren;
  sort?: boolean;
  wide?: boolean; // hidden on narrow screens
  tight?: boolean; // on one line
}

interface Props {
  caption: string;
  columns: Column[];
  items: Item[];
  sort?: string;
  onSort?: (sort: string) => void;
}

export function Table({ caption, columns, items, sort = "", onSort }: Props) {
  return (
    <div class="scroll" role="region" aria-label={caption} tabIndex={0}>
      <table>
        <caption class="unseen">{caption}</caption>
        <thead>
          <tr>{columns.map((column) => <Heading key={column.name} {...{ column, sort, onSort }} />)}</tr>
        </thead>
        <tbody>
          {items.map((item, row) => (
            <tr key={item.id ?? row}>
              {columns.map((column) => (
                <td key={column.name} class={`${column.wide ? "wide" : ""} ${column.tight ? "tight" : ""}`}>
                  {column.show ? column.show(item) : plain(pick(item, column.name))}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Heading({ column, sort, onSort }: { column: Column; sort: string; onSort?: (sort: string) => void }) {
  const { name, title } = column;
  const [up, down] = [sort === name || sort === `+${name}`, sort === `-${name}`];
  const order = up ? "ascending" : down ? "descending" : undefined;
  return (
    <th scope="col" class={column.wide ? "wide" : ""} aria-sort={order}>
      {onSort && column.sort !== false ? (
        <button class="heading" onClick={() => onSort(up ? `-${name}` : name)}>
          {title}
          <span aria-hidden="true">{up ? " ▲" : down ? " ▼" : ""}</span>
        </button>
      ) : title}
    </th>
  );
}
