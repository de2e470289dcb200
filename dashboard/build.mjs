// Builds src/ into ../src/kubewright/dashboard/static. The output depends on the sources and the lock file only.
import * as esbuild from "esbuild";
import { readFileSync, writeFileSync, rmSync, mkdirSync, readdirSync, existsSync, copyFileSync, statSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const output = join(here, "..", "src", "kubewright", "dashboard", "static");

rmSync(output, { recursive: true, force: true });
mkdirSync(output, { recursive: true });

// xterm.js writes style attributes, which the Content-Security-Policy of the page forbids; the CSSOM is allowed.
const styleAttributes = {
  name: "style-attributes",
  setup(build) {
    build.onLoad({ filter: /@xterm[\\/]xterm[\\/]lib[\\/]xterm\.mjs$/ }, ({ path }) => {
      const source = readFileSync(path, "utf8");
      const contents = source.replace(/\.setAttribute\("style",/g, ".style.cssText=(");
      if (contents === source) throw new Error("xterm.js no longer sets style attributes in this form; check the terminal for CSP errors");
      return { contents, loader: "js" };
    });
  },
};

const result = await esbuild.build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx", styles: "src/styles/app.css", terminal: "src/styles/terminal.css" },
  outdir: output,
  bundle: true,
  splitting: true,
  format: "esm",
  target: ["es2022"],
  minify: true,
  charset: "utf8",
  jsx: "automatic",
  jsxImportSource: "preact",
  chunkNames: "chunks/[name]-[hash]",
  entryNames: "[name]",
  legalComments: "none",
  metafile: true,
  plugins: [styleAttributes],
  logLevel: "warning",
});
copyFileSync(join(here, "src", "index.html"), join(output, "index.html"));
copyFileSync(join(here, "src", "icon.svg"), join(output, "icon.svg"));

// Licences of every package of which at least one file is in the bundle.
const packages = new Set();
for (const input of Object.keys(result.metafile.inputs)) {
  const match = input.match(/node_modules\/((?:@[^/]+\/)?[^/]+)/);
  if (match) packages.add(match[1]);
}
const rule = "=".repeat(100);
const parts = ["Licences of the libraries that are part of the files in this directory.\n"];
for (const name of [...packages].sort()) {
  const folder = join(here, "node_modules", name);
  const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((each) => /^(licen[cs]e|copying)/i.test(each));
  const text = file ? readFileSync(join(folder, file), "utf8").trim() : `Licence: ${manifest.license}`;
  parts.push(`${rule}\n${name} ${manifest.version} (${manifest.license})\n${rule}\n${text}\n`);
}
writeFileSync(join(output, "THIRD-PARTY-LICENSES.txt"), parts.join("\n"));

// Sizes: the first load is what index.html refers to, with the chunks that app.js imports statically.
const sizes = new Map();
const size = (path) => gzipSync(readFileSync(path), { level: 9 }).length;
const outputs = result.metafile.outputs;
const byName = new Map(Object.entries(outputs).map(([path, value]) => [join(here, path), value]));
const first = new Set();
const visit = (path) => {
  if (first.has(path)) return;
  first.add(path);
  for (const each of byName.get(path).imports) if (each.kind === "import-statement") visit(join(here, each.path));
};
visit(join(output, "app.js"));
visit(join(output, "styles.css"));
for (const path of byName.keys()) if (existsSync(path)) sizes.set(path, size(path));
let total = size(join(output, "index.html"));
for (const path of first) total += sizes.get(path);
for (const [path, bytes] of [...sizes].sort()) {
  const raw = statSync(path).size;
  console.log(`${(bytes / 1000).toFixed(1).padStart(8)} KB gzip ${(raw / 1000).toFixed(1).padStart(8)} KB  ${first.has(path) ? "first load" : "on demand "}  ${path.slice(output.length + 1)}`);
}
console.log(`first load: ${(total / 1000).toFixed(1)} KB gzip`);
if (total > 300_000) {
  console.error("Error: the first load is larger than 300 KB gzip; load a part on demand");
  process.exit(1);
}
