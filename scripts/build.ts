// Bundles src into dist/: one entry for the command line (the master is `dq start`), one for the workers, chunks shared between them, .sql and .lua as text.
// Why a bundle: a role started from loose modules spends 500 ms importing libraries, from a bundle 100 ms, and every
// reload pays that for each role. A finished build replaces dist/ by renames, so a daemon starting beside never sees half of one.
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const next = join(root, `dist.${process.pid}`);
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };

await build({
  absWorkingDir: root,
  entryPoints: { cli: 'src/cli/main.ts', worker: 'src/worker.ts' },
  outdir: next,
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  chunkNames: 'chunks/[name]-[hash]',
  sourcemap: 'linked',
  loader: { '.sql': 'text', '.lua': 'text' },
  // Native module: it finds its prebuilt binary beside its own files.
  external: ['@photostructure/sqlite'],
  define: { __DQ_VERSION__: JSON.stringify(version) },
  // CommonJS libraries inside an ES module bundle call require().
  banner: {
    js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);",
  },
  logLevel: 'warning',
});

mkdirSync(next, { recursive: true });
writeFileSync(join(next, 'version'), `${version}\n`);
const current = join(root, 'dist');
const old = join(root, `dist.old.${process.pid}`);
try {
  renameSync(current, old);
} catch (error) {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
}
renameSync(next, current);
rmSync(old, { recursive: true, force: true });
