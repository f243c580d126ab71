// Real daemon whose log directory is on its own full disk: dq drops and counts lines, and everything else
// works.
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { fillUp, freeBytesIn, mountTmpfs, unmountable } from '../support/mounted.ts';
import { addTopic } from '../support/producing.ts';
import { startSink } from '../support/sink.ts';
import { until } from '../support/until.ts';

/** From /metrics. */
async function dropped(daemon: Daemon): Promise<number> {
  const text = await (await fetch(`${daemon.url}/metrics`)).text();
  return Number(/^dq_log_lines_dropped_total (\d+)$/m.exec(text)?.[1]);
}

/** Whole lines. A line that the disk has cut counts as dropped. */
function linesOf(logDir: string, kind: string): Record<string, unknown>[] {
  return readdirSync(logDir)
    .filter((name) => name.startsWith(`${kind}-`))
    .flatMap((name) => readFileSync(join(logDir, name), 'utf8').split('\n'))
    .flatMap((line) => {
      try {
        return [JSON.parse(line) as Record<string, unknown>];
      } catch {
        return [];
      }
    });
}

const push = async (daemon: Daemon, from: number, to: number) => {
  for (let id = from; id < to; id += 1) expect((await daemon.push('t', '1', { id })).status).toBe(201);
};

describe.skipIf(unmountable !== null)(
  `full log disk${unmountable === null ? '' : `: ${unmountable}`}`,
  () => {
    it('drops lines, counts each, and stops no push and no delivery', async () => {
      const sink = await startSink();
      const logDir = mountTmpfs(512 * 1024);
      const daemon = await startDaemon({ logDir });
      await addTopic(daemon, 't', sink.url);
      await push(daemon, 0, 10);
      await until('they arrive', () => sink.arrivals.length === 10);
      expect(await dropped(daemon)).toBe(0);

      fillUp(logDir);
      expect(freeBytesIn(logDir)).toBe(0);
      await push(daemon, 10, 110);
      await until('all arrive', () => sink.arrivals.length === 110);
      // Each file may still write a few lines into its last page of the disk.
      await until('the loss is counted', async () => (await dropped(daemon)) > 100);

      rmSync(join(logDir, 'filler'));
      await push(daemon, 110, 120);
      await until('all arrive', () => sink.arrivals.length === 120);
      const present = () => linesOf(logDir, 'request').length + linesOf(logDir, 'notify').length;
      await until('the count equals the missing lines', async () => {
        expect(present() + (await dropped(daemon))).toBe(240);
        return true;
      });
      expect(await daemon.stop()).toBe(0);
      const notices = linesOf(logDir, 'notice').filter(({ message }) => message === 'log: lines were lost');
      for (const kind of ['request', 'notify']) {
        const lines = notices.filter((one) => one['kind'] === kind).map((one) => Number(one['lines']));
        const lost = lines.reduce((sum, n) => sum + n, 0);
        expect(linesOf(logDir, kind).length + lost, kind).toBe(120);
      }
    });
  },
);
