// The pages, in the order of the menu. The first part of an address is the name of its page.
import type { ComponentType } from "preact";
import { Agents } from "./pages/agents";
import { Alerts } from "./pages/alerts";
import { Api } from "./pages/api";
import { Cluster } from "./pages/cluster";
import { Groups } from "./pages/groups";
import { Overview } from "./pages/overview";
import { Ruleset } from "./pages/ruleset";
import { Security } from "./pages/security";

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
  { name: "alerts", title: "Alerts", needs: "alerts:read", Show: Alerts },
  { name: "agents", title: "Agents", needs: "agent:read", Show: Agents },
  { name: "groups", title: "Groups", needs: "group:read", Show: Groups },
  { name: "ruleset", title: "Ruleset", needs: "rules:read", Show: Ruleset },
  { name: "cluster", title: "Cluster", needs: "cluster:read", Show: Cluster },
  { name: "security", title: "Security", Show: Security },
  { name: "api", title: "API", Show: Api },
];
