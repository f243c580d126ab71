// Measures the time from `dq start` to every role ready, and the CPU time of the processes until then.
import type { Bench } from '../bench.ts';
import { startDaemon } from '../dq.ts';
import { cpuSeconds } from '../processes.ts';

const startsMin = 10;

export async function start(bench: Bench): Promise<void> {
  const table = bench.table('start', 'dq start to every role ready', [
    { key: 'ms', title: 'ms' },
    { key: 'cpu', title: 'CPU of its processes, ms' },
  ]);
  const turn = async (round: Parameters<Parameters<Bench['rounds']>[1]>[0]) => {
    for (const build of round.order(bench.builds)) {
      const meter = round.meter([]);
      const dq = await startDaemon(build);
      meter();
      const cpu = (await dq.processes()).reduce((sum, { pid }) => sum + cpuSeconds(pid), 0);
      await dq.stop();
      round.add(table, build.name, { ms: dq.startMs, cpu: cpu * 1000 });
    }
  };
  await bench.rounds('start', turn, Math.max(bench.options.runs, startsMin));
}
