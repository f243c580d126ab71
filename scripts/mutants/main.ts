// `npm run mutants -- [name …]`: makes each mistake of mutants.ts in a copy of the tree, and runs its test;
// each mistake of simulated.ts, and runs simulated worlds until one breaks a rule. `simulated` is a name for
// all of these. Prints `red` when the test fails only with the mistake, else `green` and the reason. Exit
// code 1: one is green. Needs the servers that the tests need.

import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type Edit, type Mutant, mutants, type SimulatedMutant } from './mutants.ts';
import { simulatedMutants } from './simulated.ts';

const root = resolve(import.meta.dirname, '../..');
const copied = ['src', 'test', 'scripts', 'bin', 'sql', 'README.md', 'package.json'];
const configured = ['tsconfig.json', 'vitest.config.ts'];
/** Worlds that a mistake of simulated.ts may survive, less one. */
const seedsMax = 150;
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
  const after = withMistake(tree, edit, () => run(tree, test.file, [test.title]).get(test.title));
  return after === 'failed' ? null : `its test is ${after}`;
}

function withMistake<T>(tree: string, { file, text, by }: Edit, act: () => T): T {
  const path = join(tree, file);
  const right = readFileSync(path, 'utf8');
  writeFileSync(
    path,
    right.replace(text, () => by),
  );
  try {
    return act();
  } finally {
    writeFileSync(path, right);
  }
}

/** The first broken rule, with its seed; null: no world broke one. */
function simulate(tree: string, { edit, faults }: SimulatedMutant): string | null {
  const flags = [
    '--first',
    '--seeds',
    String(seedsMax),
    ...(faults === undefined ? [] : ['--faults', faults]),
  ];
  const { stdout } = withMistake(tree, edit, () =>
    spawnSync('npm', ['run', '-s', 'sim', '--', ...flags], { cwd: tree, encoding: 'utf8', timeout: runMs }),
  );
  return /^seed .*/m.exec(stdout)?.[0] ?? null;
}

const names = process.argv.slice(2);
const known = [...mutants, ...simulatedMutants, { name: 'simulated' }];
const unknown = names.filter((name) => known.every((each) => each.name !== name));
if (unknown.length > 0) {
  process.stderr.write(`unknown: ${unknown.join(', ')}; scripts/mutants has the names\n`);
  process.exit(2);
}
const chosen = mutants.filter(({ name }) => names.length === 0 || names.includes(name));
const isAll = names.length === 0 || names.includes('simulated');
const simulated = simulatedMutants.filter(({ name }) => isAll || names.includes(name));
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
  for (const mutant of simulated) {
    const found = simulate(tree, mutant);
    if (found !== null) red += 1;
    const how = found ?? `no rule is broken in ${seedsMax} worlds`;
    process.stdout.write(`${found === null ? 'green' : 'red  '} ${mutant.name}: ${how}\n`);
  }
  const green = chosen.length + simulated.length - red;
  process.stdout.write(`${red} red, ${green} green\n`);
  process.exitCode = green === 0 ? 0 : 1;
} finally {
  rmSync(tree, { recursive: true, force: true });
}
