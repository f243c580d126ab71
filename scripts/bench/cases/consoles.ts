// Measures pushes and deliveries with ten open consoles and without, in turn; the start and an idle daemon
// with dq-console and without. On the first build only.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Bench, Build } from '../bench.ts';
import { startDaemon } from '../dq.ts';
import { pushLoad } from '../generators.ts';
import { openConsoles } from '../open-consoles.ts';
import { pssBytes } from '../processes.ts';
import { startSink } from '../servers.ts';
import { addTopics, deliverDue } from './delivery.ts';

const consoleCount = 10;
const dueJobs = 24_000;
const settleMs = 3_000;
const startsMin = 10;

export async function consoles(bench: Bench): Promise<void> {
  await load(bench, bench.build);
  await costs(bench, bench.build);
}

async function load(bench: Bench, build: Build): Promise<void> {
  const table = bench.table('consoles', `${build.name}: ${consoleCount} open consoles`, [
    { key: 'push', title: 'pushes/s' },
    { key: 'rate', title: 'deliveries/s' },
    { key: 'ofPush', title: 'pushes ÷ without' },
    { key: 'ofRate', title: 'deliveries ÷ without' },
  ]);
  const sink = await startSink();
  const dq = await startDaemon(build);
  await dq.api('POST', '/v1/topics', { topic: 'push', callbackUrl: sink.url, delay: '1h' });
  await addTopics(dq, sink);
  const job = 'seen';
  await dq.api('POST', `/v1/topics/push/jobs?id=${job}&delay=1h`, {});
  const url = `${dq.url}/v1/topics/push/jobs`;
  const replies: Record<string, number> = {};
  await pushLoad({ url, connections: 64, seconds: 1 });
  await bench.rounds('consoles', async (round) => {
    for (const kind of round.order(['without', 'open'])) {
      const opened = kind === 'open' ? await openConsoles(dq, consoleCount, 'push', job) : null;
      const meter = round.meter([]);
      const { perSecond: push } = await pushLoad({ url, connections: 64, seconds: bench.options.seconds });
      meter();
      const { rate = Number.NaN } = await deliverDue(round, dq, sink, dueJobs);
      round.add(table, kind, { push, rate });
      for (const [status, count] of Object.entries((await opened?.close()) ?? {}))
        replies[status] = (replies[status] ?? 0) + count;
    }
    round.addRatios(table, 'push', 'without', 'ofPush');
    round.addRatios(table, 'rate', 'without', 'ofRate');
  });
  console.log(`    replies to the consoles by status: ${JSON.stringify(replies)}`);
  await dq.stop();
  await sink.stop();
}

async function costs(bench: Bench, build: Build): Promise<void> {
  const kinds = [
    ['with dq-console', []],
    ['without', ['--no-console']],
  ] as const;
  const table = bench.table('console-costs', `${build.name}: dq-console`, [
    { key: 'ms', title: 'start, ms' },
    { key: 'percent', title: 'idle CPU, % of a core' },
    { key: 'console', title: 'of it dq-console' },
    { key: 'pss', title: 'PSS, MiB' },
    { key: 'consolePss', title: 'of it dq-console' },
  ]);
  const starts = Math.max(bench.options.runs, startsMin);
  await bench.rounds(
    'console-starts',
    async (round) => {
      for (const [name, args] of round.order(kinds)) {
        const dq = await startDaemon(build, ...args);
        round.add(table, name, { ms: dq.startMs });
        await dq.stop();
      }
    },
    starts,
  );
  const daemons = await Promise.all(kinds.map(([, args]) => startDaemon(build, ...args)));
  await daemons[0]?.consoleUrl();
  await sleep(settleMs);
  const measured = await Promise.all(daemons.map((dq) => dq.measured()));
  await bench.rounds('console-idle', async (round) => {
    const meters = measured.map((processes) => round.meter(processes));
    await sleep(bench.options.idleSeconds * 1000);
    for (const [n, meter] of meters.entries()) {
      const { cpu, seconds } = meter();
      const bytes = (role?: string) =>
        (measured[n] ?? [])
          .filter((one) => one.role !== 'redis-server' && (role === undefined || one.role === role))
          .reduce((sum, { pid }) => sum + pssBytes(pid), 0) /
        2 ** 20;
      const all = [...cpu].reduce((sum, [role, each]) => sum + (role === 'redis-server' ? 0 : each), 0);
      const own = cpu.get('console');
      round.add(table, kinds[n]?.[0] ?? '', {
        ...{ percent: (100 * all) / seconds, pss: bytes() },
        ...(own === undefined ? {} : { console: (100 * own) / seconds, consolePss: bytes('console') }),
      });
    }
  });
  for (const dq of daemons) await dq.stop();
}
