// Runs the tests in tests/ of what the pages are made from: each is bundled as the console is, and runs in Node.js.
import { build } from "esbuild";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { fileURLToPath } from "node:url";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "console-tests-"));
const BROWSER = 'globalThis.location ??= { hash: "", origin: "https://node" }; globalThis.addEventListener ??= () => {};';
await build({
  entryPoints: readdirSync(here("tests")).map((name) => join(here("tests"), name)),
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node20",
  jsx: "automatic",
  jsxImportSource: "preact",
  outdir: folder,
  outExtension: { ".js": ".mjs" },
  banner: { js: BROWSER },
});
const files = readdirSync(folder).map((name) => join(folder, name));
const events = run({ files, concurrency: false });
events.on("test:fail", () => { process.exitCode = 1; });
events.compose(spec).pipe(process.stdout);
events.on("end", () => rmSync(folder, { recursive: true }));
