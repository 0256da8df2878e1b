// The address of what is shown: a page, what it shows, and its filters, all behind the "#", which browsers send to no server.
import { Store } from "./store";

export interface Address {
  path: string[];
  filters: URLSearchParams;
}

export type Filters = Record<string, string | number | undefined>;

function read(): Address {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { path: path.split("/").filter(Boolean).map(decode), filters: new URLSearchParams(query) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const address = new Store(read());
addEventListener("hashchange", () => address.set(read()));

// The link to a page: link(["agents", "001"], { tab: "ports" }).
export function link(path: string[], filters: Filters = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filters)) if (value !== undefined && value !== "") query.set(name, `${value}`);
  const text = query.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text && `?${text}`}`;
}

export function go(path: string[], filters: Filters = {}): void {
  location.hash = link(path, filters);
}

// Change some filters of the page that is shown; an empty one is removed.
export function filter(changes: Filters): void {
  const { path, filters } = read();
  const next = link(path, { ...Object.fromEntries(filters), ...changes });
  history.replaceState(null, "", next);
  address.set(read());
}
