// `npm run check`, `npm test` and `npm run test:slow`: the checks and the build on all cores, then the tests.
// The simulated worlds run beside the tests, with a low priority: they get the time of the processor that
// the tests leave, which mostly wait for processes and sockets.
// Invariant: the exit code is 1 when a step or a test failed. The last line, "N passed, N failed, N skipped",
// counts both.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { failUsage, readFlags } from '../flags.ts';
import { makeDirectory, removeDirectory } from '../services/temporary-root.ts';
import { printCounts, reportVariable, runSteps, type Step, withFailed } from './steps.ts';

const usage = `usage: tsx scripts/tests/main.ts check|main|slow [option …] [test file …]

  check      style, types, imports, language
  main       the checks, the build, some worlds, the main tests
  slow       the build, more worlds, the slow tests

  --built    dist has these sources: build nothing`;

const build: Step = { name: 'build', command: 'tsx scripts/build.ts' };
const checks: readonly Step[] = [
  // Two checkers would do a third of their work twice.
  { name: 'types', command: 'tsc --checkers 1' },
  { name: 'style', command: 'biome check --error-on-warnings .' },
  { name: 'types of the console', command: 'tsc -p src/console/web' },
  { name: 'language', command: 'tsx scripts/check-words.ts' },
  { name: 'imports', command: 'tsx scripts/check-imports.ts' },
];
const worlds = (name: string, flags: string): Step => ({
  name: `worlds ${name}`,
  command: `nice -n 10 tsx scripts/worlds/main.ts ${flags} --from today`,
});
/** A world that differs in its second run asks for time or chance elsewhere: a few show that. */
const repeated = worlds('that are repeated', '--store redis --seeds 5 --twice');
const worldsOf = (flags: string): readonly Step[] => [
  worlds('on Redis', `--store redis ${flags}`),
  worlds('on the embedded store', flags),
];
const parts = {
  check: { first: checks, beside: [] },
  main: { first: [build, ...checks], beside: [...worldsOf('--kept --seeds 10'), repeated] },
  slow: { first: [build], beside: worldsOf('--seeds 100') },
} as const;

const options = { built: { type: 'boolean', default: false } } as const;
const { values: given, positionals } = readFlags(options, usage, true);
const [part = '', ...files] = positionals;
if (!(part in parts)) failUsage(`unknown part: ${part}`, usage);
const { first, beside } = parts[part as keyof typeof parts];

const print = (text: string) => process.stdout.write(text);
const failedFirst = await runSteps(
  first.filter((step) => step !== build || !given.built),
  availableParallelism(),
  print,
);
if (part === 'check') {
  print(failedFirst.map((line) => `${line}\n`).join(''));
  process.exitCode = failedFirst.length === 0 ? 0 : 1;
} else if (failedFirst.length > 0) end(1, printCounts({ passed: 0, failed: 0, skipped: 0 }), failedFirst);
else {
  const directory = makeDirectory('report');
  const path = join(directory, 'report');
  // The tests have the terminal: what the worlds print follows them.
  let besideText = '';
  const besides = runSteps(beside, 2, (text) => {
    besideText += text;
  });
  try {
    const child = spawn('vitest', ['run', '--mode', part, ...files], {
      stdio: 'inherit',
      env: { ...process.env, [reportVariable]: path },
    });
    const [code] = (await once(child, 'exit')) as [number | null];
    const failed = await besides;
    print(besideText);
    end(code ?? 1, existsSync(path) ? readFileSync(path, 'utf8') : '', failed);
  } finally {
    await removeDirectory(directory);
  }
}

function end(code: number, report: string, failed: readonly string[]): void {
  print(withFailed(report, failed));
  process.exitCode = code === 0 && failed.length === 0 ? 0 : 1;
}
