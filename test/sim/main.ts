// Runs simulated worlds: one for each seed. The last line is equal for equal seeds. Exit code 1: a rule was
// broken.

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { failUsage, readFlags } from '../../scripts/flags.ts';
import { whyNotInstalled } from '../../scripts/services/binaries.ts';
import { type FaultKind, kindsOf, storeNames } from './faults.ts';
import { keptSeeds } from './kept-seeds.ts';
import { seconds } from './ledger.ts';
import { isBesideRedis, RealRedis, runBesideRedis } from './redis/real-redis.ts';
import { groundOn, type RedisGround } from './redis/redis-side.ts';
import { loadRoles } from './roles.ts';
import { addNumbers, printSums, readShare, runPrograms, seedsOfTwoJobs, shareText } from './shares.ts';
import { shrink } from './shrink.ts';
import { type WorkKind, workKinds } from './works.ts';
import { type Plan, type Result, World } from './world.ts';

const usage = `usage: npm run sim -- [option …]

  --seeds 100            worlds, one for each seed
  --from 1               the first seed; today: a number of this day, which is printed
  --store sqlite         or redis: where the jobs are
  --shards N             the jobs are in N shards of Redis; default: the seed decides
  --kept                 the worlds of test/sim/seeds first
  --twice                run each world again, in another process and the last one first: the hashes of
                         everything that happened must be equal
  --shrink               make each world that breaks a rule smaller, and print its story and its plan
  --faults a,b           enable these kinds of faults, in place of those that each seed draws
  --works a,b            what operators do in these worlds, in place of what each seed draws; none: nothing
  --first                end with the first violation
  --story                print all that happened in each world, in sentences
  --numbers              print what happened, in numbers
  --coverage             print the code under test that no world reached
  --jobs N               processes; default: one for each core from ${seedsOfTwoJobs} seeds on`;

const { values: given } = readFlags(
  {
    store: { type: 'string', default: 'sqlite' },
    seeds: { type: 'string', default: '100' },
    from: { type: 'string', default: '1' },
    kept: { type: 'boolean', default: false },
    twice: { type: 'boolean', default: false },
    shrink: { type: 'boolean', default: false },
    faults: { type: 'string' },
    shards: { type: 'string' },
    works: { type: 'string' },
    first: { type: 'boolean', default: false },
    numbers: { type: 'boolean', default: false },
    story: { type: 'boolean', default: false },
    jobs: { type: 'string' },
    share: { type: 'string', default: '0/1' },
    hashes: { type: 'string' },
    again: { type: 'boolean', default: false },
  },
  usage,
);

const store = storeNames.find((name) => name === given.store);
if (store === undefined)
  failUsage(`--store: unknown store ${given.store}; known: ${storeNames.join(', ')}`, usage);
const share = readShare(given.share);
let ground: RedisGround | null = null;

/** Seeds of one day: more than a day's runs use. */
const seedsOfDay = 10_000;
const dayMs = 86_400_000;
/** Sentences that a violation prints. */
const kept = given.story ? 100_000 : 80;

function firstSeed(): number {
  if (given.from !== 'today') return wholeNumber('from', given.from);
  const first = Math.floor(Date.now() / dayMs) * seedsOfDay;
  if (share.index === 0 && !given.again) console.log(`sim: the seeds of today begin at ${first}`);
  return first;
}

function wholeNumber(name: string, text: string): number {
  const n = Number(text);
  if (!Number.isSafeInteger(n) || n < 0) failUsage(`--${name}: invalid number ${text}`, usage);
  return n;
}

function faultsOf(text: string | undefined): readonly FaultKind[] | undefined {
  const kinds = kindsOf(store ?? 'sqlite');
  return text?.split(',').map((name) => {
    const kind = kinds.find((known) => known === name);
    if (kind === undefined) failUsage(`--faults: unknown kind ${name}; known: ${kinds.join(', ')}`, usage);
    return kind;
  });
}

function worksOf(text: string | undefined): readonly WorkKind[] | undefined {
  if (text === 'none') return [];
  return text?.split(',').map((name) => {
    const kind = workKinds.find((known) => known === name);
    if (kind === undefined) throw new Error(`--works: unknown kind ${name}; known: ${workKinds.join(', ')}`);
    return kind;
  });
}

/** Those of this share. */
function* plans(): Generator<Plan> {
  let n = 0;
  for (const plan of allPlans()) {
    if (n % share.of === share.index) yield plan;
    n += 1;
  }
}

function* allPlans(): Generator<Plan> {
  if (given.kept)
    for (const plan of keptSeeds(resolve('test/sim/seeds')))
      if ((plan.store ?? 'sqlite') === store) yield { ...plan, kept };
  const faults = faultsOf(given.faults);
  const works = worksOf(given.works);
  const first = firstSeed();
  const end = first + wholeNumber('seeds', given.seeds);
  const shards = given.shards === undefined ? undefined : wholeNumber('shards', given.shards);
  for (let seed = first; seed < end; seed += 1) yield { seed, faults, works, kept, shards };
}

let [seeds, events, violations] = [0, 0, 0];
const totals: Record<string, number> = {};
type Hashed = readonly [seed: number, hash: string];
/** one for each world of this process */
const hashes: Hashed[] = [];

const resultOf = (plan: Plan): Result => new World(plan, ground).run();

function runPlan(plan: Plan): void {
  const result = resultOf(plan);
  hashes.push([plan.seed, result.hash]);
  // The other run reports and counts the world.
  if (given.again) return;
  if (given.story) for (const sentence of result.story) console.log(sentence);
  seeds += 1;
  events += result.events;
  addNumbers(totals, result.numbers);
  if (result.violation === null) return;
  violations += 1;
  if (given.shrink) reportSmaller(plan, result);
  else report(plan, result);
}

function report({ seed }: Plan, { violation, faults, works, story }: Result): void {
  if (violation === null) return;
  const { rule, detail, at } = violation;
  console.log(`seed ${seed} breaks the rule "${rule}" after ${seconds(at)}: ${detail}`);
  const kinds = `faults: ${faults.join(', ') || 'none'}; works: ${works.join(', ') || 'none'}`;
  console.log(`${kinds}; the last sentences of its story:`);
  for (const sentence of story) console.log(sentence);
}

function reportSmaller(plan: Plan, broken: Result): void {
  const { plan: smaller, result, runs } = shrink(plan, broken, resultOf);
  const parts = result.parts.join(', ') || 'nothing';
  console.log(`seed ${plan.seed}: of ${broken.parts.length} parts ${parts} is left after ${runs} runs`);
  report(smaller, result);
  const { seed, faults, works, without } = smaller;
  console.log(
    `to keep it as a file in test/sim/seeds: ${JSON.stringify({ defect: '', store: given.store, seed, faults, works, without })}`,
  );
}

/** Beside the counts of V8. */
function writeLines(): void {
  const directory = process.env['NODE_V8_COVERAGE'];
  if (directory === undefined || ground === null) return;
  writeFileSync(join(directory, `lua-${process.pid}.json`), JSON.stringify([...ground.scripts.lines]));
}

function end(): never {
  writeLines();
  if (given.hashes !== undefined) writeFileSync(given.hashes, JSON.stringify(hashes));
  if (given.numbers) console.log(`sim: ${JSON.stringify(totals)}`);
  printSums({ seeds, events, violations });
  process.exit(violations > 0 ? 1 : 0);
}

/** Each world has its own turn of the real event loop: an ended one is freed. */
function next(left: Iterator<Plan>): void {
  const { value: plan } = left.next();
  if (plan === undefined || (given.first && violations > 0)) end();
  runPlan(plan);
  setImmediate(() => next(left));
}

/** The first violation ends all worlds only where one process runs them. */
function jobsOf(): number {
  if (share.of > 1 || given.first) return 1;
  if (given.jobs !== undefined) return wholeNumber('jobs', given.jobs);
  return wholeNumber('seeds', given.seeds) < seedsOfTwoJobs ? 1 : availableParallelism();
}

function runShares(jobs: number, flags: readonly string[]): Promise<number> {
  const shares = Array.from({ length: jobs }, (_, index) => shareText({ index, of: jobs }));
  return runPrograms(shares.map((its) => [...flags, '--share', its]));
}

/** What survives a world, or differs in each process or server, shows in the run that has the last world
 *  first: its worlds have others before them. */
async function runTwice(flags: readonly string[]): Promise<number> {
  const directory = mkdtempSync(join(tmpdir(), 'dq-sim-'));
  const [once, again] = [join(directory, 'once'), join(directory, 'again')];
  const hashesIn = (file: string) => JSON.parse(readFileSync(file, 'utf8')) as readonly Hashed[];
  try {
    const code = await runPrograms([
      [...flags, '--hashes', once],
      [...flags, '--hashes', again, '--again'],
    ]);
    // One has printed why it ended early.
    if (!existsSync(once) || !existsSync(again)) return code === 0 ? 1 : code;
    const others = hashesIn(again);
    let differing = 0;
    for (const [n, [seed, hash]] of hashesIn(once).entries()) {
      const [, other] = others.at(-1 - n) ?? [];
      if (hash === other) continue;
      differing += 1;
      console.log(`seed ${seed}: two runs differ: ${hash} and ${other}`);
    }
    return differing > 0 ? 1 : code;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function begin(): Promise<void> {
  if (!isBesideRedis()) {
    const missing = store === 'redis' ? await whyNotInstalled('redis') : null;
    if (missing !== null) {
      console.log(`sim: SKIPPED: ${missing}`);
      process.exit(process.env['DQ_TEST_REQUIRE'] === 'services' ? 1 : 0);
    }
    const jobs = jobsOf();
    const flags = process.argv.slice(2);
    if (jobs > 1) process.exit(await runShares(jobs, flags));
    if (given.twice && given.hashes === undefined) process.exit(await runTwice(flags));
    if (store === 'redis') process.exit(await runBesideRedis());
  }
  if (store === 'redis') ground = groundOn(new RealRedis());
  await loadRoles();
  setImmediate(() => next(given.again ? [...plans()].reverse().values() : plans()));
}
void begin();
