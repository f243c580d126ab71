// Checks which layer imports which (src/README.md, "Folders"): type imports count, and cycles are errors. And
// that the library of another server loads only where a configuration needs it.
// Reads text: Biome formats every import on lines that the pattern finds, and TypeScript 7 has no compiler
// API.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

const src = resolve(import.meta.dirname, '../src');

const timePort = 'runtime/time.ts';

const inEachRole = ['core', 'runtime', 'ports', 'config', 'telemetry', 'process'] as const;

/** Layer (a folder or file of src) → the layers that it may import; `*` = all. The longest matching path
 *  counts. */
const allowed: Readonly<Record<string, readonly string[]>> = {
  // Time and chance of the machine: every layer may import it, because it knows none.
  [timePort]: [],
  core: [],
  runtime: ['core'],
  ports: ['core'],
  config: ['core', 'runtime'],
  telemetry: ['core', 'runtime', 'config'],
  mail: ['core', 'runtime', 'ports', 'telemetry'],
  broker: ['core', 'runtime'],
  registry: ['core', 'runtime', 'ports', 'telemetry'],
  process: ['core', 'runtime', 'ports', 'config', 'telemetry', 'registry'],
  'use-cases': ['core', 'runtime', 'ports', 'config', 'registry'],
  // Adapters
  store: ['core', 'runtime', 'ports', 'telemetry', 'registry'],
  'registry/sql': ['core', 'runtime', 'ports', 'registry'],
  // The limits of all its parts
  journal: ['core'],
  'journal/record': ['core', 'runtime', 'ports', 'telemetry', 'journal'],
  'journal/ship': ['core', 'runtime', 'ports', 'telemetry', 'registry/sql', 'journal', 'journal/record'],
  'journal/heal': ['core', 'runtime', 'ports', 'telemetry', 'journal', 'journal/ship'],
  sink: ['core'],
  // Programs of others
  clients: [],
  // Checks by dq doctor and the console, which look at servers and files themselves
  doctor: ['broker', 'core', 'mail', 'runtime', 'config', 'process', 'registry/sql', 'store', 'master'],
  // The contract of the HTTP API
  contract: ['core'],
  // Roles, which never import each other
  api: [...inEachRole, 'contract', 'mail', 'registry', 'use-cases'],
  'intake/pull': [...inEachRole, 'contract', 'use-cases', 'api'],
  compat: [...inEachRole, 'contract', 'registry', 'use-cases', 'api', 'intake/pull'],
  intake: ['core', 'runtime', 'ports', 'config', 'registry', 'process', 'api', 'intake/pull', 'compat'],
  console: [...inEachRole, 'contract', 'registry', 'use-cases', 'api', 'sink', 'doctor'],
  timer: inEachRole,
  notifier: [...inEachRole, 'broker', 'registry', 'use-cases'],
  upkeep: [...inEachRole, 'mail', 'registry', 'use-cases', 'journal', 'journal/ship', 'journal/heal'],
  // Programs
  compose: ['*'],
  'worker.ts': ['core', 'runtime', 'config', 'telemetry', 'process', 'compose'],
  master: ['core', 'runtime', 'ports', 'config', 'telemetry', 'registry', 'process'],
  cli: ['*'],
};

/** Files that begin what every daemon or command loads → libraries that load only where a configuration needs
 *  them. */
const begins = [
  ...['cli/main.ts', 'cli/commands/start.ts', 'compose/compose.ts', 'compose/store-role.ts'],
  ...['compose/adapters.ts', 'intake/intake.ts', 'timer/timer.ts', 'notifier/notifier.ts'],
  ...['upkeep/upkeep.ts', 'console/console.ts'],
];
const onDemand = ['mysql2', 'ioredis', 'nodemailer', '@grpc/grpc-js', 'protobufjs'];

function filesUnder(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name) && !entry.name.endsWith('.d.ts'))
    .map((entry) => join(entry.parentPath, entry.name));
}

function layerOf(path: string): string {
  const name = relative(src, path);
  const layers = Object.keys(allowed).filter((layer) => name === layer || name.startsWith(`${layer}/`));
  return layers.sort((a, b) => b.length - a.length)[0] ?? name;
}

const imports = new Map<string, string[]>();
/** What each file loads when it is loaded: files and libraries. */
const loads = new Map<string, string[]>();
const complaints: string[] = [];
for (const file of filesUnder(src)) {
  const text = readFileSync(file, 'utf8').replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
  const found = [...text.matchAll(/(?:from|import\(|^import)\s*\(?'(\.{1,2}\/[^']+)'/gm)].map((match) =>
    resolve(dirname(file), match[1] ?? ''),
  );
  imports.set(file, found);
  const atOnce = [...text.matchAll(/^(?:import|export) (?!type )(?:[\w{}\s,*]*? from )?'([^']+)'/gm)];
  loads.set(
    file,
    atOnce.map(({ 1: name = '' }) => (name.startsWith('.') ? resolve(dirname(file), name) : name)),
  );
  const layer = layerOf(file);
  const may = allowed[layer];
  if (may === undefined) {
    complaints.push(`${relative(src, file)}: no layer is declared for it in scripts/check-imports.ts`);
    continue;
  }
  if (
    layer === 'console' &&
    /^import (?!type )[^;]*?from '[^']*\/contract\/api\/(?!limits)/m.test(text) &&
    file.includes('/web/')
  )
    complaints.push(
      `${relative(src, file)}: the page takes only types and limits from contract, or TypeBox enters its bundle`,
    );
  for (const target of found) {
    // A definition of messages is data of the layer that serves it.
    if (!target.startsWith(src) || target.endsWith('.proto')) continue;
    const to = layerOf(target);
    if (to !== layer && to !== timePort && !may.includes('*') && !may.includes(to))
      complaints.push(
        `${relative(src, file)} imports ${relative(src, target)}: ${layer} must not know ${to}`,
      );
  }
}

const done = new Set<string>();
function findCycle(file: string, path: readonly string[]): void {
  if (path.includes(file)) {
    complaints.push(
      `cycle: ${[...path.slice(path.indexOf(file)), file].map((name) => relative(src, name)).join(' → ')}`,
    );
    return;
  }
  if (done.has(file)) return;
  for (const target of imports.get(file) ?? []) if (imports.has(target)) findCycle(target, [...path, file]);
  done.add(file);
}
for (const file of imports.keys()) findCycle(file, []);

for (const begin of begins) {
  const first = resolve(src, begin);
  if (!loads.has(first)) complaints.push(`${begin}: scripts/check-imports.ts names it, and it is not there`);
  const cameFrom = new Map<string, string | null>([[first, null]]);
  for (const at of cameFrom.keys()) {
    for (const to of loads.get(at) ?? []) if (!cameFrom.has(to)) cameFrom.set(to, at);
    if (!onDemand.some((library) => at === library || at.startsWith(`${library}/`))) continue;
    const way = [at];
    for (let by = cameFrom.get(at); by != null; by = cameFrom.get(by)) way.unshift(relative(src, by));
    complaints.push(`${way.join(' → ')}: load it with import() where it is used`);
  }
}

for (const complaint of complaints) console.error(complaint);
if (complaints.length > 0) process.exit(1);
console.log(`imports: ${imports.size} files keep the rules`);
