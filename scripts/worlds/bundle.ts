// Bundles the simulated worlds (test/sim) into one file. A mutant replaces a text of one source file in
// memory, so that no copy of the tree is needed.

import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { build, type Plugin } from 'esbuild';
import type { Edit } from '../mutants/mutants.ts';

export const root = resolve(import.meta.dirname, '../..');

/** Worlds are short: V8 spends a fifth of them on optimized code, unless that has to be worth more. */
export const nodeFlags: readonly string[] = [
  '--always-sparkplug',
  '--concurrent-sparkplug',
  '--interrupt-budget=600000',
];

export interface BundleOptions {
  readonly outfile: string;
  readonly edit?: Edit | undefined;
  /** writes outfile.map, too */
  readonly sourcemap?: boolean;
}

export async function bundleWorlds({ outfile, edit, sourcemap = false }: BundleOptions): Promise<void> {
  await build({
    absWorkingDir: root,
    entryPoints: ['test/sim/main.ts'],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'cjs',
    target: 'node20.19',
    define: { 'import.meta.url': '__filename' },
    loader: { '.sql': 'text', '.lua': 'text', '.proto': 'text' },
    external: ['@photostructure/sqlite'],
    sourcemap,
    plugins: edit === undefined ? [] : [withMistake(edit)],
    logLevel: 'warning',
  });
}

function withMistake({ file, text, by }: Edit): Plugin {
  const path = join(root, file);
  return {
    name: 'mistake',
    setup: ({ onLoad }) => {
      onLoad({ filter: /\.(ts|lua)$/ }, (loaded) =>
        loaded.path === path
          ? {
              contents: readFileSync(path, 'utf8').replace(text, () => by),
              loader: path.endsWith('.lua') ? 'text' : 'ts',
            }
          : undefined,
      );
    },
  };
}
