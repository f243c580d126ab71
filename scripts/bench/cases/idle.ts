// Measures what an idle daemon costs: CPU and memory of all processes, and commands of Redis. For the CPU all
// builds idle at the same time: they hardly disturb each other. For the memory each is alone: processes of
// another daemon would share its pages.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Bench } from '../bench.ts';
import { type BenchDaemon, startDaemon } from '../dq.ts';
import { pssBytes } from '../processes.ts';

const settleMs = 5_000;

export async function idle(bench: Bench): Promise<void> {
  const { idleSeconds } = bench.options;
  const table = bench.table('idle', `Idle for ${idleSeconds} s, all processes`, [
    { key: 'percent', title: 'CPU of dq, % of a core' },
    { key: 'redis', title: 'CPU of Redis, % of a core' },
    { key: 'commands', title: 'commands of Redis, 1/s' },
    { key: 'pss', title: 'memory of dq (PSS), MiB' },
    { key: 'processes', title: 'processes' },
  ]);
  const daemons = await Promise.all(bench.builds.map((build) => startDaemon(build)));
  await Promise.all(daemons.map((dq) => dq.consoleUrl()));
  await sleep(settleMs);
  await bench.rounds('idle', async (round) => {
    const measured = await Promise.all(daemons.map((dq) => dq.measured()));
    const before = await Promise.all(daemons.map(commandCalls));
    const meters = measured.map((processes) => round.meter(processes));
    await sleep(idleSeconds * 1000);
    const readings = meters.map((meter) => meter());
    const after = await Promise.all(daemons.map(commandCalls));
    for (const [n, { name, store }] of bench.builds.entries()) {
      const { cpu, seconds } = readings[n] as (typeof readings)[number];
      const its = (measured[n] ?? []).filter(({ role }) => role !== 'redis-server');
      const all = [...cpu.values()].reduce((sum, each) => sum + each, 0);
      const ofRedis = cpu.get('redis-server') ?? 0;
      round.add(table, name, {
        percent: (100 * (all - ofRedis)) / seconds,
        ...(store === 'redis' ? { redis: (100 * ofRedis) / seconds } : {}),
        ...(store === 'redis' ? { commands: ((after[n] ?? 0) - (before[n] ?? 0)) / seconds } : {}),
        processes: its.length,
      });
    }
  });
  await Promise.all(daemons.map((dq) => dq.stop()));
  for (const build of bench.builds) {
    const dq = await startDaemon(build);
    await dq.consoleUrl();
    await sleep(settleMs);
    const sizes = (await dq.processes()).map(({ title, pid }) => ({ title, mib: pssBytes(pid) / 2 ** 20 }));
    await dq.stop();
    table.add(build.name, { pss: sizes.reduce((sum, { mib }) => sum + mib, 0) });
    const each = sizes.map(({ title, mib }) => `${title} ${mib.toFixed(1)}`);
    console.log(`    ${build.name}, MiB PSS: ${each.join(', ')}`);
  }
}

/** All commands that Redis has run, also those inside scripts. */
export async function commandCalls({ redis }: Pick<BenchDaemon, 'redis'>): Promise<number> {
  if (redis === null) return 0;
  const text = await redis.ask('INFO', 'commandstats');
  return [...text.matchAll(/^cmdstat_[^:]+:calls=(\d+)/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
}
