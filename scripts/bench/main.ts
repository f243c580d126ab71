// Runs the benchmark; `npm run bench -- --help` lists the cases and options. Reports, never asserts: figures
// of a shared machine vary by a quarter between runs, so compare ratios of figures from one run.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { failUsage, readFlags } from '../flags.ts';
import { Bench, type Build, loopsDifferMax, othersMax, printTables, type Store, thisBuild } from './bench.ts';
import { batch } from './cases/batch.ts';
import { compat } from './cases/compat.ts';
import { consoles } from './cases/consoles.ts';
import { delivery } from './cases/delivery.ts';
import { footprint } from './cases/footprint.ts';
import { idle } from './cases/idle.ts';
import { intake } from './cases/intake.ts';
import { isolation } from './cases/isolation.ts';
import { journal } from './cases/journal.ts';
import { lateness } from './cases/lateness.ts';
import { memory } from './cases/memory.ts';
import { neighbours } from './cases/neighbours.ts';
import { pending } from './cases/pending.ts';
import { start } from './cases/start.ts';
import { storm } from './cases/storm.ts';
import { generatorText } from './generators.ts';
import { describeMachine, machineText, revisionOf } from './machine.ts';
import { type Results, tablesText, writePage } from './page.ts';
import { installPeers, type Peers } from './peers.ts';

interface Case {
  readonly text: string;
  /** resolves to a plot, or to nothing */
  run(bench: Bench, peers: Peers): Promise<unknown>;
  /** rounds in the set `page`, unless --runs is given; undefined: not in that set */
  readonly pageRuns?: number;
  /** in the set `page` without the build of --against, as it takes minutes */
  readonly isLong?: boolean;
}

const cases: Readonly<Record<string, Case>> = {
  intake: {
    text: 'pushes one by one, with and without a query, yardsticks and peers, 64 and 256 connections',
    run: intake,
    pageRuns: 5,
  },
  delivery: { text: 'due jobs to a local sink, yardstick and peer', run: delivery, pageRuns: 5 },
  batch: { text: 'pushes in batches of 100', run: batch, pageRuns: 3 },
  lateness: { text: 'lateness at 50 and at 2,000 jobs/s', run: lateness, pageRuns: 3 },
  isolation: { text: 'lateness beside 2,000 hanging jobs', run: isolation },
  idle: { text: 'CPU and memory of an idle daemon', run: idle, pageRuns: 1 },
  footprint: { text: 'memory of dq before, during and after a load', run: footprint, pageRuns: 1 },
  start: { text: 'dq start to every role ready', run: start, pageRuns: 10 },
  pending: {
    text: 'rates and lateness beside --sizes pending jobs',
    run: pending,
    pageRuns: 2,
    isLong: true,
  },
  storm: { text: '500,000 jobs due in a minute beside another topic', run: storm, pageRuns: 1, isLong: true },
  memory: { text: 'Redis memory of a pending job', run: memory },
  neighbours: { text: 'a healthy topic beside topics that hang', run: neighbours },
  consoles: { text: 'ten open consoles against none', run: consoles },
  compat: { text: 'pushes by clients of other queues', run: compat },
  journal: { text: 'what a journal costs, and how fast it heals', run: journal },
};

const options = {
  dq: { type: 'string', default: thisBuild.launcher },
  against: { type: 'string', default: '' },
  store: { type: 'string', default: 'embedded,redis' },
  set: { type: 'string', default: '' },
  out: { type: 'string', default: '' },
  runs: { type: 'string' },
  repeats: { type: 'string', default: '2' },
  seconds: { type: 'string', default: '2' },
  jobs: { type: 'string', default: '0' },
  sizes: { type: 'string', default: '10000,100000,1000000' },
  'lateness-seconds': { type: 'string', default: '8' },
  'idle-seconds': { type: 'string', default: '40' },
  ouqiang: { type: 'string', default: '' },
  'no-bullmq': { type: 'boolean', default: false },
  counts: { type: 'string', default: '0,12,30,400,2000' },
  timeout: { type: 'string', default: '60s' },
  names: { type: 'boolean', default: false },
  cold: { type: 'boolean', default: false },
} as const;

const usage = `usage: npm run bench -- [case …] [option …]
       npm run bench -- page FOLDER …   write results into src/manual/performance.md; a later folder wins

Without a case: those of the set page, each with --runs rounds.
${Object.entries(cases)
  .map(([name, { text }]) => `  ${name.padEnd(12)} ${text}`)
  .join('\n')}

  --dq PATH              bin/dq of the build to measure; default: this checkout
  --against PATH         bin/dq of another build, measured in turn with it
  --store embedded,redis
  --set page             the cases and rounds of the manual's page
  --out FOLDER           write results.json, tables.md and the plot
  --runs 3               rounds of each case
  --repeats 2            more rounds of a case for those with over ${100 * othersMax} % of other programs,
                         or whose fixed loops differ by over ${100 * loopsDifferMax} %
  --seconds 2            of each load at full speed
  --jobs N               of delivery (300000), storm (500000), memory (1000000)
  --sizes 10000,1000000  of pending; default: 10000, 100000, 1000000
  --lateness-seconds 8   pushes at 50 jobs/s; half of it at 2,000 jobs/s and in pending
  --idle-seconds 40
  --ouqiang FOLDER       source of github.com/ouqiang/delay-queue; needs Go
  --no-bullmq            without this peer, which npm installs into a temporary folder
  --counts 0,12,30,400,2000, --timeout 60s, --names, --cold   of neighbours`;

const fail = (text: string): never => failUsage(text, usage);
const { values, positionals } = readFlags(options, usage, true);
if (positionals[0] === 'page') {
  if (positionals.length === 1) fail('page: name the folders of the results');
  writePage(positionals.slice(1));
  process.exit(0);
}

const isPage = values.set === 'page';
if (values.set !== '' && !isPage) fail(`unknown set ${values.set}`);
const unknown = positionals.filter((name) => !(name in cases));
if (unknown.length > 0) fail(`unknown case ${unknown.join(', ')}`);
const whole = (name: keyof typeof values, least: number): number => {
  const value = Number(values[name]);
  return Number.isInteger(value) && value >= least
    ? value
    : fail(`--${name}: not a whole number from ${least}`);
};
const wholes = (name: 'sizes' | 'counts'): number[] => {
  const list = values[name].split(',').map(Number);
  return list.every((value) => Number.isInteger(value) && value >= 0) ? list : fail(`--${name}: not numbers`);
};
const stores = values.store.split(',').map((name): Store => {
  return name === 'embedded' || name === 'redis' ? name : fail(`unknown store ${name}`);
});
const sides = [
  ['dq', values.dq],
  ...(values.against === '' ? [] : [['dq before', values.against] as const]),
] as const;
for (const [, path] of sides) if (!existsSync(path)) fail(`${path} is missing`);
const nameOf = (side: string, store: Store) => `${side}, ${store === 'redis' ? 'Redis' : store}`;
const builds = stores.flatMap((store) =>
  sides.map(([name, path], side): Build => {
    const before = side === 0 && sides.length > 1 ? { before: nameOf(sides[1]?.[0] ?? '', store) } : {};
    return { name: nameOf(name, store), launcher: resolve(path), store, ...before };
  }),
);
const inPage = Object.keys(cases).filter((name) => cases[name]?.pageRuns !== undefined);
const chosen = positionals.length > 0 ? positionals : inPage;
const common = {
  ...{ repeats: whole('repeats', 0), seconds: whole('seconds', 1), jobs: whole('jobs', 0) },
  ...{ sizes: wholes('sizes').sort((a, b) => a - b), counts: wholes('counts') },
  ...{ latenessSeconds: whole('lateness-seconds', 2), idleSeconds: whole('idle-seconds', 1) },
  ...{ ouqiang: values.ouqiang, bullmq: !values['no-bullmq'] },
  ...{ timeout: values.timeout, names: values.names, cold: values.cold },
};
const runsOf = (name: string): number =>
  values.runs !== undefined ? whole('runs', 1) : isPage ? (cases[name]?.pageRuns ?? 3) : 3;

const machine = describeMachine();
const revisions = sides.map(([name, path]) => `${name}: ${revisionOf(resolve(path))}`);
console.log(machineText(machine));
console.log(`${revisions.join(', ')}; load by ${generatorText}`);
console.log(`settings: ${JSON.stringify({ ...common, stores })}`);
const needsPeers = chosen.includes('intake') || chosen.includes('delivery');
const peers = await installPeers(needsPeers ? common : { ...common, bullmq: false, ouqiang: '' });
const results: { -readonly [key in keyof Results]: Results[key] } = {
  ...{ date: new Date().toISOString(), machine, revisions, generator: generatorText },
  ...{ settings: { ...common, stores }, tables: [], disturbances: [], seconds: {}, plot: '' },
};
try {
  for (const name of chosen) {
    console.log(`\n${name}`);
    const from = performance.now();
    const its = cases[name] as Case;
    const isAlone = isPage && its.isLong === true;
    const compared = isAlone ? builds.filter(({ launcher }) => launcher === resolve(values.dq)) : builds;
    const bench = new Bench({ ...common, runs: runsOf(name) }, compared);
    const drawn = await its.run(bench, peers).catch((error: unknown) => {
      // The other cases keep their figures.
      console.error(`${name}: failed`, error);
      process.exitCode = 1;
    });
    printTables(bench.tables);
    const seconds = Math.round((performance.now() - from) / 1000);
    console.log(`${name}: took ${seconds} s`);
    results.tables = [...results.tables, ...bench.tables];
    results.disturbances = [...results.disturbances, ...bench.disturbances];
    results.seconds = { ...results.seconds, [name]: seconds };
    if (typeof drawn === 'string') results.plot = drawn;
    if (values.out !== '') writeResults(values.out, results);
  }
} finally {
  peers.remove();
}

/** After each case: an interrupted run keeps its figures. */
function writeResults(folder: string, all: Results): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'results.json'), `${JSON.stringify(all, null, 1)}\n`);
  writeFileSync(join(folder, 'tables.md'), tablesText(all));
  if (all.plot !== '') writeFileSync(join(folder, 'pending.svg'), all.plot);
}
