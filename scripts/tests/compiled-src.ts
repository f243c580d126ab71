// Compiles src for the workers of a whole run, which import the modules as Node does. In vitest's own way a
// worker asks the process of the run for each module, and each use of an import is a look-up.
// A run of named files (`npx vitest run FILE`) goes vitest's way: its stacks have the lines of src.
// Invariant: a worker has one copy of each module of src. console/web is left out: only tests import it.

import { readdirSync, symlinkSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { build } from 'esbuild';
import { makeDirectory } from '../services/temporary-root.ts';

const root = resolve(import.meta.dirname, '../..');
const isCompiled = (path: string) =>
  /\.ts$/.test(path) && !/\.d\.ts$/.test(path) && !/^(console\/web|manual|clients)\//.test(path);

export interface CompiledSrc {
  /** of the files that Node imports itself */
  readonly external: RegExp;
  readonly plugin: {
    readonly name: string;
    readonly enforce: 'pre';
    resolveId(source: string, importer: string | undefined): string | null;
  };
}

/** The directory goes with the process of the run. */
export async function compileSrc(): Promise<CompiledSrc> {
  const directory = makeDirectory('src');
  // Libraries are found from here, too.
  symlinkSync(join(root, 'node_modules'), join(directory, 'node_modules'));
  const files = readdirSync(join(root, 'src'), { encoding: 'utf8', recursive: true }).filter(isCompiled);
  await build({
    absWorkingDir: root,
    entryPoints: files.map((file) => join('src', file)),
    outdir: directory,
    outbase: 'src',
    outExtension: { '.js': '.mjs' },
    bundle: true,
    packages: 'external',
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    loader: { '.lua': 'text', '.proto': 'text' },
    plugins: [
      {
        name: 'one module a file',
        setup: ({ onResolve }) =>
          onResolve({ filter: /^\.{1,2}\/.*\.ts$/ }, ({ path, kind }) =>
            kind === 'entry-point' ? null : { path: path.replace(/\.ts$/, '.mjs'), external: true },
          ),
      },
    ],
    logLevel: 'warning',
  });
  const compiled = new Map(
    files.map((file) => [join(root, 'src', file), join(directory, file.replace(/\.ts$/, '.mjs'))]),
  );
  return {
    external: new RegExp(`^${directory}/`),
    plugin: {
      name: 'compiled-src',
      enforce: 'pre',
      resolveId(source, importer) {
        const path = source.startsWith('.') ? resolve(dirname(importer ?? root), source) : source;
        return compiled.get(path.startsWith('/src/') ? root + path : path) ?? null;
      },
    },
  };
}
