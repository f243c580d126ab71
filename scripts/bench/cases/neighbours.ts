// Measures the lateness of a healthy topic beside topics whose endpoints accept and never answer, or whose
// names never resolve. Each neighbour has its own origin. The healthy topic was called before theirs are
// due, or is called for the first time with them (cold), as after a restart. Each count has its own daemon
// and takes at most a minute.
import { setTimeout as sleep } from 'node:timers/promises';
import { startSystemNameServer } from '../../services/name-server.ts';
import type { Bench } from '../bench.ts';
import { startDaemon, usePrefix } from '../dq.ts';
import { percentile } from '../figures.ts';
import { startBareServer, startSink } from '../servers.ts';

/** Above the number of topics that notifiers test one by one. */
const jobsEach = 3;
const perSecond = 10;
/** From the due time of the neighbours' jobs: the learning phase, and the whole run. */
const learningMs = 10_000;
const runMs = 30_000;
/** The healthy topic starts this long before. */
const leadMs = 3_000;
/** Jobs that have not arrived this long after the end are missing. */
const lastMs = 5_000;

export async function neighbours(bench: Bench): Promise<void> {
  const { options } = bench;
  const kind = options.names ? 'names that never resolve' : 'endpoints that never answer';
  const nameServer = options.names ? await startSystemNameServer(() => 'silence') : null;
  if (nameServer !== null) usePrefix(nameServer.prefix);
  console.log(
    `  lateness of a healthy topic, ${perSecond} jobs/s, beside ${kind}, timeout ${options.timeout}`,
  );
  console.log('  neighbours  phase       jobs  missing     p50 ms     p99 ms     max ms  dead');
  for (const count of options.counts) await besides(count, bench);
  await nameServer?.stop();
}

async function besides(count: number, { build, options: { timeout, names, cold } }: Bench): Promise<void> {
  const sink = await startSink();
  const hanging = await startBareServer('hang');
  const dq = await startDaemon(build, '--no-auth');
  const port = new URL(hanging.url).port;
  const urlOf = (n: number) =>
    names ? `http://name-${n}.test/` : `http://127.${1 + (n >> 8)}.${n & 255}.1:${port}/`;
  await dq.api('POST', '/v1/topics', {
    topic: 'healthy',
    callbackUrl: sink.url,
    maxAttempts: 3,
    backoff: ['1s'],
  });
  await each(count, 16, async (n) => {
    const topic = { topic: `bad-${n}`, callbackUrl: urlOf(n), timeout, maxAttempts: 100, backoff: ['1s'] };
    await dq.api('POST', '/v1/topics', topic);
  });
  // Late enough for all pushes to be done and every process to know the topics.
  const dueAt = Date.now() + 4_000 + leadMs + count;
  const at = new Date(dueAt).toISOString();
  await each(Math.ceil((count * jobsEach) / 500), 4, async (batch) => {
    const numbers = Array.from({ length: 500 }, (_, n) => batch * 500 + n).filter(
      (n) => n < count * jobsEach,
    );
    await dq.api(
      'POST',
      '/v1/jobs',
      numbers.map((n) => ({ topic: `bad-${n % count}`, at, body: n })),
    );
  });
  if (Date.now() > dueAt) throw new Error('neighbours: the pushes took too long');
  const firstAt = dueAt - (cold ? 0 : leadMs);
  await each(((dueAt + runMs - firstAt) / 1_000) * perSecond, 16, async (n) => {
    const its = new Date(firstAt + (n * 1_000) / perSecond).toISOString();
    await dq.api('POST', '/v1/jobs', [{ topic: 'healthy', at: its, body: n }]);
  });
  await sleep(dueAt + runMs + lastMs - Date.now());
  const arrivals = await sink.arrivals();
  const { states } = (await dq.api('GET', '/v1/topics/healthy/stats')) as { states: { dead: number } };
  for (const [phase, from, to] of [
    ['learning', 0, learningMs],
    ['steady', learningMs, runMs],
  ] as const) {
    const isOfPhase = (at = 0) => at >= dueAt + from && at < dueAt + to;
    const all = arrivals.lateness.filter((_, n) => isOfPhase(arrivals.dueAt[n]));
    const jobs = ((to - from) / 1_000) * perSecond;
    const figures = [percentile(all, 0.5), percentile(all, 0.99), Math.max(...all)];
    const line = [
      ...[String(count).padStart(10), phase.padEnd(8), String(jobs).padStart(6)],
      String(jobs - all.length).padStart(7),
      ...figures.map((ms) => (all.length === 0 ? '–' : Math.round(ms).toLocaleString('en')).padStart(9)),
      phase === 'steady' ? String(states.dead).padStart(4) : '    ',
    ];
    console.log(`  ${line.join('  ')}`);
  }
  await dq.stop();
  await sink.stop();
  await hanging.stop();
}

/** Runs work(0 … count-1), at most `width` at once. */
async function each(count: number, width: number, work: (n: number) => Promise<void>): Promise<void> {
  let next = 0;
  const one = async () => {
    for (let n = next++; n < count; n = next++) await work(n);
  };
  await Promise.all(Array.from({ length: width }, one));
}
