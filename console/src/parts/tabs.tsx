// Views of one thing. Each is a page with an address of its own, so they are links.
import { link } from "../address";

export function Tabs({ path, tabs, current }: { path: string[]; tabs: [string, string][]; current: string }) {
  return (
    <nav class="tabs" aria-label="Views">
      {tabs.map(([name, title]) => (
        <a key={name} href={link(name ? [...path, name] : path)} aria-current={name === current ? "page" : undefined}>{title}</a>
      ))}
    </nav>
  );
}
