// Bundles the simulated worlds (test/sim) into one file. A mutant replaces a text of one source file in
// memory, so that no copy of the tree is needed.

import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { build, type Plugin } from 'esbuild';
import { lineMark } from '../../test/sim/redis/line-notes.ts';
import type { Edit } from '../mutants/mistake.ts';

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
  /** writes outfile.map, too, and gives each line of Lua a note */
  readonly isCounted?: boolean;
}

/** By file below the root: the lines of Lua that have a note. */
export type LuaLines = ReadonlyMap<string, readonly number[]>;

export async function bundleWorlds({ outfile, edit, isCounted = false }: BundleOptions): Promise<LuaLines> {
  const lines = new Map<string, readonly number[]>();
  const { outputFiles } = await build({
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
    sourcemap: isCounted,
    plugins: [...(edit === undefined ? [] : [withMistake(edit)]), ...(isCounted ? [noting(lines)] : [])],
    logLevel: 'warning',
    write: false,
  });
  mkdirSync(dirname(outfile), { recursive: true });
  for (const { path, contents } of outputFiles) {
    // By a rename: another run of the worlds may load the file at this moment.
    const whole = `${path}.${process.pid}`;
    writeFileSync(whole, contents);
    renameSync(whole, path);
  }
  return lines;
}

function noting(lines: Map<string, readonly number[]>): Plugin {
  return {
    name: 'lines of Lua',
    setup: ({ onLoad }) => {
      onLoad({ filter: /\.lua$/ }, ({ path }) => {
        const file = relative(root, path);
        const noted = withNotes(file, readFileSync(path, 'utf8'));
        lines.set(file, noted.lines);
        return { contents: noted.text, loader: 'text' };
      });
    },
  };
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

interface CountedText {
  readonly text: string;
  /** that have a note */
  readonly lines: readonly number[];
}

/** Words that continue or end a statement. */
const continues = /^(and|or|not|then|do|else|elseif|end|until|in)\b|^[)}\]({.,+*/%=<>~-]/;
const isOpen = /(\b(and|or|not|in|return|local|function)|[,=(+*/%<>~{.-])$/;

/** Gives each statement of Lua a note of its line in the table `hits`, which the script of the worlds
 *  declares (test/sim/redis/line-notes.ts). A line gets a note only where a statement begins, so each script
 *  does what it did. `file`: below src */
function withNotes(file: string, text: string): CountedText {
  const lines: number[] = [];
  let depth = 0;
  let isContinued = false;
  const noted = text.split('\n').map((line, i) => {
    const code = codeOf(line);
    if (code === '') return line;
    const begins = depth === 0 && !isContinued && !continues.test(code);
    depth += count(code, /[({]/g) - count(code, /[)}]/g);
    isContinued = isOpen.test(code) && code !== 'return';
    if (!begins) return line;
    lines.push(i + 1);
    return `${lineMark}${file}:${i + 1}'] = 1 ${line}`;
  });
  return { text: noted.join('\n'), lines };
}

/** Without texts and comments. */
function codeOf(line: string): string {
  if (line.startsWith('#!')) return '';
  return line
    .replace(/'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"/g, '0')
    .replace(/--.*$/, '')
    .trim();
}

const count = (code: string, pattern: RegExp): number => code.match(pattern)?.length ?? 0;
