// Checks who imports whom (src/README.md, "Layers"), type imports counted, and that no cycle exists. Reads text: Biome
// formats every import on lines that this pattern finds, and the TypeScript 7 compiler offers no API to ask.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

const src = resolve(import.meta.dirname, '../src');

/** Layer → the layers it may import. A layer is a directory of src, or a file named on its own. */
const allowed: Readonly<Record<string, readonly string[]>> = {
  core: [],
  'durable-file.ts': [],
  config: ['core'],
  telemetry: ['core', 'config'],
  'store/job-store.ts': ['core'],
  'store/shard-servers.ts': ['core'],
  registry: ['core', 'telemetry', 'store/job-store.ts'],
  process: [
    'core',
    'durable-file.ts',
    'config',
    'telemetry',
    'registry',
    'store/job-store.ts',
    'store/shard-servers.ts',
  ],
  jobs: ['core', 'config', 'registry', 'store/job-store.ts', 'store/shard-servers.ts'],
  mail: ['core'],
  store: [
    ...['core', 'telemetry', 'registry', 'store/job-store.ts', 'store/shard-servers.ts', 'process'],
    'sql/database.ts',
  ],
  'sql/database.ts': [],
  sql: ['core', 'durable-file.ts', 'registry', 'store/job-store.ts', 'sql/database.ts'],
  intake: ['core', 'config', 'telemetry', 'registry', 'store/job-store.ts', 'jobs', 'mail', 'process'],
  timer: ['core', 'config', 'telemetry', 'store/job-store.ts', 'process'],
  notifier: ['core', 'config', 'telemetry', 'registry', 'store/job-store.ts', 'jobs', 'process'],
  upkeep: ['core', 'config', 'telemetry', 'registry', 'store/job-store.ts', 'jobs', 'mail', 'process'],
  'compose.ts': ['*'],
  'compose-shards.ts': ['*'],
  'worker.ts': ['core', 'config', 'telemetry', 'process', 'compose.ts'],
  master: ['core', 'config', 'telemetry', 'process', 'registry', 'sql/database.ts'],
  cli: ['*'],
};

function filesUnder(directory: string): string[] {
  return readdirSync(directory, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts') && !entry.name.endsWith('.d.ts'))
    .map((entry) => join(entry.parentPath, entry.name));
}

function layerOf(path: string): string {
  const name = relative(src, path);
  if (name in allowed) return name;
  return name.includes('/') ? name.slice(0, name.indexOf('/')) : name;
}

const imports = new Map<string, string[]>();
const complaints: string[] = [];
for (const file of filesUnder(src)) {
  const text = readFileSync(file, 'utf8').replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
  const found = [...text.matchAll(/(?:from|import\(|^import)\s*\(?'(\.{1,2}\/[^']+)'/gm)].map((match) =>
    resolve(dirname(file), match[1] ?? ''),
  );
  imports.set(file, found);
  const layer = layerOf(file);
  const may = allowed[layer];
  if (may === undefined) {
    complaints.push(`${relative(src, file)}: no layer is declared for it in scripts/check-imports.ts`);
    continue;
  }
  for (const target of found) {
    if (!target.startsWith(src)) continue;
    const to = layerOf(target);
    if (to !== layer && !may.includes('*') && !may.includes(to))
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

for (const complaint of complaints) console.error(complaint);
if (complaints.length > 0) process.exit(1);
console.log(`imports: ${imports.size} files keep the rules`);
