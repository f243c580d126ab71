// Measures adds of php-delayqueue's TCP clients beside pushes through dq's own HTTP API, with as many
// connections. To add a protocol: one entry of `loads`, and its port option in the arguments of startDaemon.

import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import type { Bench } from '../bench.ts';
import { type BenchDaemon, startDaemon } from '../dq.ts';
import { print } from '../figures.ts';
import { bodyOf, pushLoad } from '../generators.ts';

interface Load {
  readonly name: string;
  /** pushes a second; throws if one failed */
  run(dq: BenchDaemon, connections: number, seconds: number): Promise<number>;
}

const loads: readonly Load[] = [
  { name: 'php-delayqueue', run: phpLoad },
  { name: "dq's own HTTP", run: ownLoad },
];

export async function compat({ build, options: { runs, seconds } }: Bench): Promise<void> {
  const dq = await startDaemon(build, '--tcp-port', '0');
  await dq.api('POST', '/v1/topics', { topic: 'bench', callbackUrl: 'http://127.0.0.1:9/', delay: '1h' });
  for (const { run } of loads) await run(dq, 64, 1);
  for (const connections of [1, 64]) {
    const rates = loads.map(() => [] as number[]);
    for (let n = 0; n < runs; n += 1)
      for (const [at, { run }] of loads.entries()) rates[at]?.push(await run(dq, connections, seconds));
    for (const [at, { name }] of loads.entries())
      print(`${name}, ${connections} connection${connections === 1 ? '' : 's'}`, rates[at] ?? [], 'pushes/s');
  }
  await dq.stop();
}

async function ownLoad({ url }: BenchDaemon, connections: number, seconds: number): Promise<number> {
  return (await pushLoad({ url: `${url}/v1/topics/bench/jobs`, seconds, connections })).perSecond;
}

async function phpLoad({ runFile }: BenchDaemon, connections: number, seconds: number): Promise<number> {
  const { compat } = JSON.parse(readFileSync(runFile, 'utf8')) as { compat: { php: string } };
  const port = Number(new URL(compat.php).port);
  const end = performance.now() + seconds * 1_000;
  const added = await Promise.all(
    Array.from({ length: connections }, (_, n) => addUntil(end, port, `${performance.now()}-${n}`)),
  );
  return added.reduce((sum, one) => sum + one, 0) / seconds;
}

/** One client: the next add leaves when the last one is answered. */
function addUntil(end: number, port: number, client: string): Promise<number> {
  const jobBody = bodyOf(0);
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    let added = 0;
    const add = () => {
      const json = `{"id":"${client}-${added}","body":${jobBody},"cmd":"add","topic":"bench"}`;
      socket.write(String(json.length).padStart(4, '0') + json);
    };
    socket.on('connect', add);
    // dq sends a reply in one write.
    socket.on('data', (reply: Buffer) => {
      if (!reply.includes('succ')) reject(new Error(`php-delayqueue: ${reply}`));
      added += 1;
      if (performance.now() < end) add();
      else {
        socket.end();
        resolve(added);
      }
    });
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('php-delayqueue: dq closed the connection')));
  });
}
