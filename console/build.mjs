// Builds the console into secmon/api/static: compressed files, whose names hold a hash of their content.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const LARGEST = 150_000; // bytes of all files together, compressed
const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const target = here("../secmon/api/static");

const { outputFiles } = await build({
  entryPoints: { console: here("src/main.tsx"), style: here("src/style.css") },
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022", "chrome110", "firefox115", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  outdir: target,
  write: false,
  legalComments: "none",
});

const files = new Map();
let page = readFileSync(here("src/index.html"), "utf8");
const sources = outputFiles.map(({ path, contents }) => [path.slice(target.length + 1), Buffer.from(contents)]);
for (const [name, contents] of [...sources, ["icon.svg", readFileSync(here("src/icon.svg"))]]) {
  const hash = createHash("sha256").update(contents).digest("hex").slice(0, 12);
  const hashed = name.replace(".", `-${hash}.`);
  files.set(hashed, contents);
  page = page.replace(`"${name}"`, `"/console/${hashed}"`);
}
files.set("index.html", Buffer.from(page));

mkdirSync(target, { recursive: true });
for (const name of readdirSync(target)) if (name.endsWith(".gz")) rmSync(join(target, name));
let total = 0;
// The page comes last: it is the one that the Makefile looks at, and that makes the console complete.
for (const [name, contents] of files) {
  const compressed = gzipSync(contents, { level: 9 });
  total += compressed.length;
  writeFileSync(join(target, `${name}.gz`), compressed);
}
console.log(`The console is built: ${files.size} files, ${(total / 1000).toFixed(1)} kB compressed`);
if (total > LARGEST) throw new Error(`the console is larger than ${LARGEST / 1000} kB`);
