// A Redis store beside the model: random operations on one stepped clock, which the scripts read instead of
// the server's; also with lost calls and replies.
// DQ_SEED=… repeats a run, DQ_STORE_OPERATIONS=20000 makes it longer.

import type { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import type { Store } from '../../src/ports/job-store.ts';
import { proxying } from '../support/listening.ts';
import { type OpenedRedis, openEmpty } from '../support/redis-store.ts';
import { lacks, owned } from '../support/services.ts';
import { SteppedClock } from '../support/stepped-clock.ts';
import { until } from '../support/until.ts';
import { Model } from './model.ts';
import { openModelStore } from './model-store.ts';
import { SideBySide } from './random-operations.ts';
import { examined } from './trial.ts';

const seed = Number(process.env['DQ_SEED'] ?? Date.now() % 1_000_000_007);
const operations = Number(process.env['DQ_STORE_OPERATIONS'] ?? 1_500);

const quiet = { hints: false, plainPolls: false };

const isWhole = async ({ store }: OpenedRedis) => expect((await examined(store)).problems).toEqual([]);

/** The same store with its calls in turn: with a copy of the rings a reserve may take two scripts, and other
 *  calls of the same moment would run between them, while the model runs each call as a whole. */
function inTurn(store: Store): Store {
  let last: Promise<unknown> = Promise.resolve();
  const queued = <P extends object>(part: P): P =>
    new Proxy(part, {
      get(target, name) {
        const method: unknown = Reflect.get(target, name);
        if (typeof method !== 'function' || name === 'partitions' || name === 'onHint') return method;
        return (...args: unknown[]) => {
          const answer = last.then(() => method.apply(target, args));
          last = answer.catch(() => {});
          return answer;
        };
      },
    });
  const { jobs, dead, alerts, history, admin } = store;
  return {
    ...store,
    ...{ jobs: queued(jobs), dead: queued(dead), alerts: queued(alerts), history: queued(history) },
    admin: queued(admin),
  };
}

describe.skipIf(await lacks('redis'))(`a Redis store (seed ${seed})`, { timeout: 900_000 }, () => {
  it.each([
    ['from its rings', undefined],
    ['by a copy of its rings', -1],
  ])('equals the model, %s', async (_, capacitiesMax) => {
    const server = await owned('test', startRedis());
    const clock = new SteppedClock();
    const more = capacitiesMax === undefined ? {} : { capacitiesMax };
    const tested = await openEmpty(server, { clock, ...quiet, ...more });
    const both = new SideBySide(seed, clock, await openModelStore(new Model(clock)));
    const store = capacitiesMax === undefined ? tested.store : inTurn(tested.store);
    await both.run(operations, { ...tested, store });
    await isWhole(tested);
    await tested.close();
  });

  it('equals the model with lost calls and replies, which are unknown', async () => {
    const server = await owned('test', startRedis());
    /** Of the next bytes of a client, or of the server, which are lost with the connection. */
    let loses: 'call' | 'answer' | null = null;
    const port = await proxying(
      () => server.port,
      (client, upstream) => {
        const pass = (from: Socket, to: Socket, lost: 'call' | 'answer') =>
          from.on('data', (bytes) => {
            if (loses !== lost) return void to.write(bytes);
            loses = null;
            from.destroy();
          });
        pass(client, upstream, 'call');
        pass(upstream, client, 'answer');
      },
    );
    const clock = new SteppedClock();
    const tested = await openEmpty(server, { clock, ...quiet, url: `redis://127.0.0.1:${port}` });
    const both = new SideBySide(seed, clock, await openModelStore(new Model(clock)), {
      share: 0.04,
      lose: (what) => {
        loses = what;
      },
      async mended() {
        if (loses !== null) {
          loses = null;
          return false;
        }
        await until('the connection to be made again', () => tested.shard.isReady, { everyMs: 2 });
        return true;
      },
    });
    await both.run(operations, tested);
    await isWhole(tested);
    await tested.close();
    expect(Math.min(both.seen['call lost'] ?? 0, both.seen['answer lost'] ?? 0)).toBeGreaterThan(
      operations / 500,
    );
  });
});
