// Runs the commands of a test with the TypeScript client. node runner.ts CLIENT, where CLIENT is its module.
// Each line of input is a command, each line of output an answer or an event (client-process.ts).
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type * as Client from '../../src/clients/typescript/index.ts';
import type { Command, WorkOrder } from './client-process.ts';

const { Dq, DqError, Nack, verify }: typeof Client = await import(process.argv[2] as string);
const say = (json: object) => process.stdout.write(`${JSON.stringify(json)}\n`);

async function work(job: Client.Job): Promise<void> {
  const order: WorkOrder = job.contentType === 'application/json' ? (job.json() as WorkOrder) : {};
  say({ event: 'job', id: job.id, attempt: job.attempt, body: Buffer.from(job.body).toString('base64') });
  while (order.waitFor !== undefined && !existsSync(order.waitFor)) await sleep(10);
  if (order.signal) {
    const signal = once(process, 'SIGTERM');
    process.kill(process.pid, 'SIGTERM');
    await signal;
  }
  job.result = order.odd === 'result' ? 1n : order.result;
  if (order.odd === 'reason') throw new Error('\ud800 odd');
  if (order.fail !== undefined) throw new Error(order.fail);
  if (order.nack !== undefined) throw new Nack('cannot', order.nack);
}

async function run(dq: Client.Dq, command: Command): Promise<unknown> {
  switch (command.do) {
    case 'push': {
      const { topic, options, base64 } = command;
      return dq.push(topic, base64 === undefined ? command.body : Buffer.from(base64, 'base64'), options);
    }
    case 'pushMany': {
      const left = Array.from({ length: command.count }, (_, n) => n);
      const ids: string[] = [];
      const pushing = async () => {
        for (let n = left.pop(); n !== undefined; n = left.pop())
          ids.push((await dq.push(command.topic, { n }, command.options)).id);
      };
      await Promise.all(Array.from({ length: 10 }, pushing));
      return ids;
    }
    case 'cancel':
      return dq.cancel(command.topic, command.id);
    case 'verify':
      return verify(command.headers, Buffer.from(command.base64, 'base64'), command.secret);
    case 'pull': {
      const stop = new AbortController();
      process.once('SIGTERM', () => {
        stop.abort();
        say({ event: 'signal' });
      });
      return dq.pull(command.topic, work, {
        signal: stop.signal,
        concurrency: command.concurrency ?? 1,
        onError: (error, job) => say({ event: 'error', message: (error as Error).message, id: job?.id }),
      });
    }
  }
}

for await (const line of createInterface(process.stdin)) {
  const command = JSON.parse(line) as Command;
  try {
    say({ result: (await run(new Dq(command), command)) ?? null });
  } catch (error) {
    say({
      code: error instanceof DqError ? error.code : String(error),
      status: (error as Client.DqError).status,
    });
  }
}
