// Finds what the configuration leaves behind, in dq-store: jobs of jobs.db while `redis` is set, the content
// of registry.db while `mysql.url` is set, and the ways back. Creates no file. A health check asks each
// second, so a file is read again only when it has changed.

import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../config/options.ts';
import {
  jobsOfFile,
  jobsOfRedis,
  type LeftBehind,
  registryOfFile,
  registryOfMysql,
} from '../core/left-behind.ts';
import { limits } from '../core/limits.ts';
import { redisAddress } from '../core/url/redis-url.ts';
import type { Store, StoreAdmin } from '../ports/job-store.ts';
import type { Registry } from '../ports/registry.ts';
import { StoreError } from '../ports/store-error.ts';
import { placeInHead } from '../registry/sql/registry-snapshot.ts';
import { countContent } from '../registry/sql/sqlite/registry-file.ts';
import { readHeader } from '../runtime/database.ts';
import { orAfter } from '../runtime/timeout.ts';

export class LeftBehindFacts {
  readonly #config: Config;
  readonly #ofRegistry: () => LeftBehind | null;
  #ofRedis: readonly LeftBehind[] = [];

  constructor(config: Config) {
    const { dataDir } = config;
    this.#config = config;
    this.#ofRegistry =
      config['mysql.url'] === ''
        ? whenChanged(join(dataDir, 'registry-copy.json'), (path) =>
            registryOfMysql(placeInHead(readHeader(path, 4_096).toString())),
          )
        : whenChanged(join(dataDir, 'registry.db'), (path) => {
            const found = countContent(path);
            return found.topics + found.tokens + found.schedules === 0 ? null : registryOfFile(found);
          });
  }

  /** Reads the shard list, which names each Redis that may hold jobs. */
  async start(registry: Registry): Promise<void> {
    if (this.#config.redis.length > 0) return;
    try {
      const { list } = await registry.shards(-1);
      const names = list?.shards.map(({ url }) => redisAddress(url).shown) ?? [];
      this.#ofRedis = names.length === 0 ? [] : [jobsOfRedis(names.join(', '))];
    } catch (error) {
      // The registry reports its own failure.
      if (!(error instanceof StoreError)) throw error;
    }
  }

  /** `jobs`: in jobs.db */
  now(jobs: number): readonly LeftBehind[] {
    const ofJobs = this.#config.redis.length > 0 && jobs > 0 ? [jobsOfFile(jobs)] : [];
    return [...ofJobs, ...this.#ofRedis, ...[this.#ofRegistry()].filter((one) => one !== null)];
  }
}

/** The job store on Redis, whose health also names what dq-store has found. */
export function withLeftBehind(store: Store, embedded: StoreAdmin): Store {
  let found: readonly LeftBehind[] = [];
  let asking: Promise<void> | null = null;
  const ask = async (): Promise<void> => {
    try {
      found = (await embedded.health()).leftBehind ?? [];
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
    } finally {
      asking = null;
    }
  };
  return {
    ...store,
    admin: {
      ...store.admin,
      async health() {
        asking ??= ask();
        // While dq-store is being replaced the last answer counts: the jobs on Redis do not depend on it.
        const asked = orAfter(limits.tickMs, asking, undefined);
        const [health] = await Promise.all([store.admin.health(), asked]);
        const warnings = [...health.warnings, ...found.map(({ text }) => text)];
        return { ...health, warnings, leftBehind: found };
      },
    },
  };
}

/** null: the file is missing or unreadable, or `read` found nothing. */
function whenChanged<T>(path: string, read: (path: string) => T | null): () => T | null {
  let known = '';
  let found: T | null = null;
  return () => {
    const seen = [path, `${path}-wal`].map((name) => {
      const { ino, size, mtimeMs } = statSync(name, { throwIfNoEntry: false }) ?? {};
      return [ino, size, mtimeMs].join(' ');
    });
    if (seen.join() === known) return found;
    known = seen.join();
    try {
      found = read(path);
    } catch {
      // Absent, damaged or of another version: a start that uses it says so.
      found = null;
    }
    return found;
  };
}
