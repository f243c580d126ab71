// The job store on one Redis: the five duties of the port over one shard, and its hints. Several shards: sharded-store.ts.

import { limits } from '../../../core/limits.ts';
import type { Store } from '../../../ports/job-store.ts';
import { adminCalls } from '../calls/admin.ts';
import { jobCalls } from '../calls/jobs.ts';
import { alertCalls, deadCalls, historyCalls } from '../calls/outcomes.ts';
import { Hints } from '../client/hints.ts';
import { withPlainPolls } from './polling.ts';
import { Shard, type ShardOptions } from './shard.ts';

export interface RedisStoreOptions extends ShardOptions {
  /** whether anybody here listens to hints: they cost a connection */
  readonly hints: boolean;
  /** false: promote and reserve always ask their scripts; for a test that has set the scripts another clock */
  readonly plainPolls?: boolean;
  /** redisLimits.redisRoomsMax, unless a test has fewer topics */
  readonly roomsMax?: number;
}

export interface RedisStore {
  readonly store: Store;
  readonly shard: Shard;
  /** Resolves after the first attempt to connect, whatever came of it. */
  start(): Promise<void>;
  close(): Promise<void>;
}

/** Nothing happens before start(). */
export function openRedisStore(options: RedisStoreOptions): RedisStore {
  const shard = new Shard(options);
  const hints = options.hints ? new Hints(options.url, options.title, shard.partitions, options.log) : null;
  const onHint: Store['jobs']['onHint'] = (listener) => hints?.onHint(listener) ?? (() => {});
  const jobs = jobCalls(shard, { onHint }, options.roomsMax);
  const close = async () => {
    await Promise.all([hints?.close(limits.redisCloseMs), shard.close(limits.redisCloseMs)]);
  };
  return {
    store: {
      jobs: options.plainPolls === false ? jobs : withPlainPolls(jobs, shard, options.roomsMax),
      dead: deadCalls(shard),
      history: historyCalls(shard),
      alerts: alertCalls(shard),
      admin: adminCalls(shard, () => [shard]),
      close,
    },
    shard,
    async start() {
      await Promise.all([shard.start(), hints?.start()]);
    },
    close,
  };
}
