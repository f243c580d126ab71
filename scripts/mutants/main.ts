// `npm run mutants -- [name …]`: makes each mistake of mutants.ts in a copy of the tree, and runs its test;
// bundles the simulated worlds with each mistake of simulated.ts, and runs them until one breaks a rule that
// it keeps without the mistake. `simulated` is a name for all of these. Prints `red` when the test fails, or
// the rule is broken, only with the mistake, else `green` and the reason. Exit code 1: one is green. Needs
// the servers that the tests need.

import { spawn, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundleWorlds, nodeFlags, root } from '../worlds/bundle.ts';
import type { Edit, Mutant, Named, SimulatedMutant } from './mistake.ts';
import { mutants } from './mutants.ts';
import { type RunWorlds, type Shown, shownBy } from './simulate.ts';
import { simulatedMutants } from './simulated.ts';

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
function reasonOfGreen(tree: string, mutant: Mutant, before: string): string | null {
  const { test } = mutant;
  if (before !== 'passed') return `without the mistake its test is ${before}`;
  const after = withMistake(tree, mutant, () => run(tree, test.file, [test.title]).get(test.title));
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

async function simulate(mutant: Named<SimulatedMutant>, right: string): Promise<Shown> {
  const { name, faults, shards, works, store = 'sqlite' } = mutant;
  const mistaken = join(root, 'dist.sim', `${name}.cjs`);
  await bundleWorlds({ outfile: mistaken, edit: mutant });
  const aimed = faults === undefined ? [] : ['--faults', faults];
  const sharded = shards === undefined ? [] : ['--shards', String(shards)];
  const working = works === undefined ? [] : ['--works', works];
  const flags = ['--first', '--store', store, ...aimed, ...sharded, ...working];
  const running =
    (bundle: string): RunWorlds =>
    ({ from, seeds }) =>
      outputOf([...nodeFlags, bundle, ...flags, '--from', String(from), '--seeds', String(seeds)]);
  try {
    return await shownBy(running(mistaken), running(right), { from: 1, seeds: seedsMax });
  } finally {
    rmSync(mistaken, { force: true });
  }
}

function outputOf(given: readonly string[]): Promise<string> {
  return new Promise((done) => {
    const child = spawn(process.execPath, given, { cwd: root, timeout: runMs });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
    child.on('close', () => done(output));
  });
}

function sentenceOf(shown: Shown): string {
  if (shown.kind === 'late') return `its worlds have no result within ${runMs / 1_000} s`;
  return shown.rule ?? `it alone breaks no rule in ${seedsMax} worlds`;
}

/** Prints a line for each mutant; returns how many are red. */
async function simulateAll(all: readonly Named<SimulatedMutant>[]): Promise<number> {
  if (all.length === 0) return 0;
  const left = [...all];
  let red = 0;
  const rightBundle = join(root, 'dist.sim', 'without-mistake.cjs');
  await bundleWorlds({ outfile: rightBundle });
  const work = async () => {
    for (let mutant = left.shift(); mutant !== undefined; mutant = left.shift()) {
      const shown = await simulate(mutant, rightBundle);
      const isRed = shown.kind === 'ended' && shown.rule !== null;
      if (isRed) red += 1;
      process.stdout.write(`${isRed ? 'red  ' : 'green'} ${mutant.name}: ${sentenceOf(shown)}\n`);
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  rmSync(rightBundle, { force: true });
  return red;
}

/** Returns how many are red. */
function runTests(all: readonly Named<Mutant>[]): number {
  if (all.length === 0) return 0;
  const tree = mkdtempSync(join(tmpdir(), 'dq-mutants-'));
  let red = 0;
  try {
    for (const name of [...copied, ...configured])
      cpSync(join(root, name), join(tree, name), { recursive: true });
    for (const name of linked) symlinkSync(join(root, name), join(tree, name));
    const before = new Map<string, string>();
    for (const file of new Set(all.map(({ test }) => test.file))) {
      const titles = new Set(all.flatMap(({ test }) => (test.file === file ? test.title : [])));
      for (const [title, state] of run(tree, file, [...titles])) before.set(`${file} ${title}`, state);
    }
    for (const mutant of all) {
      const { file, title } = mutant.test;
      const reason = reasonOfGreen(tree, mutant, before.get(`${file} ${title}`) ?? 'missing');
      if (reason === null) red += 1;
      const word = reason === null ? 'red  ' : 'green';
      process.stdout.write(
        `${word} ${mutant.name}: ${file}: ${title}${reason === null ? '' : ` (${reason})`}\n`,
      );
    }
    return red;
  } finally {
    rmSync(tree, { recursive: true, force: true });
  }
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

const red = runTests(chosen) + (await simulateAll(simulated));
const green = chosen.length + simulated.length - red;
process.stdout.write(`${red} red, ${green} green\n`);
process.exitCode = green === 0 ? 0 : 1;
