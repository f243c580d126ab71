// `npm run mutants -- [name …]`: makes each mistake of mutants.ts in a copy of the tree, and runs its test.
// Prints `red` when the test fails only with the mistake, else `green` and the reason. Exit code 1: one is
// green. Needs the servers that the tests need.

import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type Mutant, mutants } from './mutants.ts';

const root = resolve(import.meta.dirname, '../..');
const copied = ['src', 'test', 'scripts', 'bin', 'sql', 'README.md', 'package.json'];
const configured = ['tsconfig.json', 'vitest.config.ts'];
const linked = ['node_modules', 'dist'];
const runMs = 300_000;

interface Results {
  readonly testResults: readonly {
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[];
  }[];
}

function patternOf(title: string): string {
  return title.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&').replaceAll('%s', '.*');
}

/** By title: `passed`; `failed`: at least one case did; `missing`: no case ran. */
function run(tree: string, file: string, titles: readonly string[]): ReadonlyMap<string, string> {
  const output = join(tree, 'results.json');
  rmSync(output, { force: true });
  const vitest = join(root, 'node_modules/vitest/vitest.mjs');
  const pattern = `(${titles.map(patternOf).join('|')})`;
  const given = ['run', file, '-t', pattern, '--reporter=json', `--outputFile=${output}`];
  const env = { ...process.env, DQ_TEST_REQUIRE: 'services' };
  spawnSync(process.execPath, [vitest, ...given], { cwd: tree, env, stdio: 'ignore', timeout: runMs });
  let results: Results = { testResults: [] };
  try {
    results = JSON.parse(readFileSync(output, 'utf8')) as Results;
  } catch {
    // The run did not end, or no file could be read.
  }
  const cases = results.testResults.flatMap(({ assertionResults }) => assertionResults);
  return new Map(
    titles.map((title) => {
      const its = cases.filter(({ fullName }) => new RegExp(patternOf(title)).test(fullName));
      const has = (status: string) => its.some((each) => each.status === status);
      return [title, has('failed') ? 'failed' : has('passed') ? 'passed' : 'missing'];
    }),
  );
}

/** null: red */
function reasonOfGreen(tree: string, { edit, test }: Mutant, before: string): string | null {
  if (before !== 'passed') return `without the mistake its test is ${before}`;
  if (edit === undefined) return null;
  const path = join(tree, edit.file);
  const text = readFileSync(path, 'utf8');
  writeFileSync(
    path,
    text.replace(edit.text, () => edit.by),
  );
  const after = run(tree, test.file, [test.title]).get(test.title);
  writeFileSync(path, text);
  return after === 'failed' ? null : `its test is ${after}`;
}

const names = process.argv.slice(2);
const unknown = names.filter((name) => mutants.every((each) => each.name !== name));
if (unknown.length > 0) {
  process.stderr.write(`unknown: ${unknown.join(', ')}; scripts/mutants/mutants.ts has the names\n`);
  process.exit(2);
}
const chosen = mutants.filter(({ name }) => names.length === 0 || names.includes(name));
const tree = mkdtempSync(join(tmpdir(), 'dq-mutants-'));
try {
  for (const name of [...copied, ...configured])
    cpSync(join(root, name), join(tree, name), { recursive: true });
  for (const name of linked) symlinkSync(join(root, name), join(tree, name));
  const before = new Map<string, string>();
  for (const file of new Set(chosen.map(({ test }) => test.file))) {
    const titles = new Set(chosen.flatMap(({ test }) => (test.file === file ? test.title : [])));
    for (const [title, state] of run(tree, file, [...titles])) before.set(`${file} ${title}`, state);
  }
  let red = 0;
  for (const mutant of chosen) {
    const { file, title } = mutant.test;
    const reason = reasonOfGreen(tree, mutant, before.get(`${file} ${title}`) ?? 'missing');
    if (reason === null) red += 1;
    const word = reason === null ? 'red  ' : 'green';
    process.stdout.write(
      `${word} ${mutant.name}: ${file}: ${title}${reason === null ? '' : ` (${reason})`}\n`,
    );
  }
  process.stdout.write(`${red} red, ${chosen.length - red} green\n`);
  process.exitCode = red === chosen.length ? 0 : 1;
} finally {
  rmSync(tree, { recursive: true, force: true });
}
