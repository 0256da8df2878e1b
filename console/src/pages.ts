// The pages, in the order of the menu. The first part of an address is the name of its page.
import type { ComponentType } from "preact";
import { Agents } from "./pages/agents";
import { Overview } from "./pages/overview";

export interface Shown {
  path: string[]; // the rest of the address
  filters: URLSearchParams;
}

export interface Page {
  name: string;
  title: string;
  needs?: string; // the action without which the page is of no use
  Show: ComponentType<Shown>;
}

export const pages: Page[] = [
  { name: "", title: "Overview", Show: Overview },
  { name: "agents", title: "Agents", needs: "agent:read", Show: Agents },
];
