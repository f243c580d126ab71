// Reads the layout that php-delayqueue and redis-delay-queue share: a hash with the jobs by `topic:id`,
// sorted sets with the due times, lists with the due jobs.
// Invariant: a job counts as lost only when a second look, after all others, finds it in the hash alone:
// a running system moves jobs between two commands.

import {
  type Found,
  jobFound,
  jsonBody,
  type Source,
  type SourceJob,
  splitKey,
  textOf,
  unreadable,
} from './source.ts';
import { type Reply, SourceRedis } from './source-servers.ts';

export interface HashLayout {
  readonly table: string;
  /** prefixes of the keys */
  readonly buckets: string;
  readonly lists: readonly string[];
  /** ms of a score */
  readonly scoreMs: number;
  /** the spellings of a field as a member of sets and lists */
  readonly membersOf: (field: Buffer) => readonly Buffer[];
  readonly fieldOf: (member: Buffer) => Buffer;
}

/** `dueAt`: of a delayed job */
export interface HashJob extends Pick<SourceJob, 'place' | 'dueAt'> {
  readonly field: Buffer;
  readonly value: Buffer;
}

interface Keys {
  readonly buckets: readonly string[];
  readonly lists: readonly string[];
}

export class HashJobs {
  readonly #redis: SourceRedis;
  readonly #layout: HashLayout;

  constructor(redis: SourceRedis, layout: HashLayout) {
    this.#redis = redis;
    this.#layout = layout;
  }

  /** `read`: the job of a value. Entries of sets and lists whose job is gone are deleted jobs. */
  async *pages(
    read: (job: HashJob, name: Pick<SourceJob, 'topic' | 'id'>) => Found,
  ): AsyncGenerator<readonly Found[]> {
    const found = (job: HashJob): Found => {
      const key = textOf(this.#layout.fieldOf(job.field));
      const name = key === null ? null : splitKey(key);
      return name === null ? unreadable(job.field, 'the name is not topic:id in UTF-8') : read(job, name);
    };
    const keys = await this.#keys();
    const alone: Buffer[] = [];
    let due = await this.#dueMembers(keys);
    for await (const page of this.#redis.hash(this.#layout.table)) {
      const placed = await this.#placed(pairsOf(page), keys, due);
      alone.push(...placed.filter(({ place }) => place === 'lost').map(({ field }) => field));
      yield placed.filter(({ place }) => place !== 'lost').map(found);
    }
    due = await this.#dueMembers(keys);
    for (let from = 0; from < alone.length; from += 1_000) {
      const fields = alone.slice(from, from + 1_000);
      const values = await this.#redis.askAll(fields.map((field) => ['HGET', this.#layout.table, field]));
      const pairs = fields.flatMap((field, n) => {
        const value = values[n];
        return Buffer.isBuffer(value) ? [{ field, value }] : [];
      });
      yield (await this.#placed(pairs, keys, due)).map(found);
    }
    yield Array.from({ length: await this.#deleted(keys) }, () => ({ kind: 'deleted' }) as const);
  }

  /** Removes the jobs whose value is still this one; returns their positions. */
  async remove(
    jobs: readonly { readonly field: Buffer; readonly value: Buffer }[],
  ): Promise<readonly number[]> {
    const { buckets, lists } = await this.#keys();
    const keys = [this.#layout.table, ...buckets, ...lists];
    const replies = await this.#redis.askAll(
      jobs.map(({ field, value }) =>
        ['EVAL', removal, keys.length, ...keys, field, value, buckets.length].concat(
          this.#layout.membersOf(field),
        ),
      ),
    );
    return replies.flatMap((reply, n) => (reply === 1 ? [n] : []));
  }

  async #keys(): Promise<Keys> {
    const { buckets, lists } = this.#layout;
    const found = await Promise.all(lists.map((prefix) => this.#redis.keysOf(prefix, 'list')));
    return { buckets: await this.#redis.keysOf(buckets, 'zset'), lists: [...new Set(found.flat())] };
  }

  /** as latin1 text */
  async #dueMembers({ lists }: Keys): Promise<ReadonlySet<string>> {
    const members = new Set<string>();
    for (const key of lists)
      for await (const page of this.#redis.list(key))
        for (const member of page) members.add(member.toString('latin1'));
    return members;
  }

  async #placed(
    pairs: readonly { field: Buffer; value: Buffer }[],
    { buckets }: Keys,
    due: ReadonlySet<string>,
  ): Promise<readonly HashJob[]> {
    const spellings = pairs.map(({ field }) => this.#layout.membersOf(field));
    const scores = await this.#redis.askAll(
      spellings.flatMap((members) =>
        members.flatMap((member) => buckets.map((bucket) => ['ZSCORE', bucket, member])),
      ),
    );
    // Each field has as many spellings as the others.
    const width = (spellings[0]?.length ?? 0) * buckets.length;
    return pairs.map((pair, n): HashJob => {
      const members = spellings[n] ?? [];
      const score = scores.slice(n * width, (n + 1) * width).find((reply) => reply !== null);
      if (score !== undefined) return { ...pair, place: 'delayed', dueAt: this.#instantOf(score) };
      const isDue = members.some((member) => due.has(member.toString('latin1')));
      return { ...pair, place: isDue ? 'due' : 'lost', dueAt: null };
    });
  }

  #instantOf(score: Reply): number {
    const value = Number(String(score)) * this.#layout.scoreMs;
    return Number.isFinite(value) ? Math.ceil(value) : 0;
  }

  async #deleted({ buckets, lists }: Keys): Promise<number> {
    let gone = 0;
    const count = async (members: readonly Buffer[]) => {
      const exist = await this.#redis.askAll(
        members.map((member) => ['HEXISTS', this.#layout.table, this.#layout.fieldOf(member)]),
      );
      gone += exist.filter((reply) => reply === 0).length;
    };
    for (const key of buckets)
      for await (const page of this.#redis.sortedSet(key))
        await count(pairsOf(page).map(({ field }) => field));
    for (const key of lists) for await (const page of this.#redis.list(key)) await count(page);
    return gone;
  }
}

function pairsOf(page: readonly Buffer[]): { field: Buffer; value: Buffer }[] {
  return page.flatMap((field, n) => (n % 2 === 0 ? [{ field, value: page[n + 1] ?? Buffer.alloc(0) }] : []));
}

/** KEYS: table, buckets, lists. ARGV: field, value, number of buckets, members. A job that moved from its
 *  bucket is in a list. */
const removal = `
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
local buckets = tonumber(ARGV[3])
local gone = 0
for n = 2, 1 + buckets do
  for m = 4, #ARGV do gone = gone + redis.call('ZREM', KEYS[n], ARGV[m]) end
end
if gone > 0 then return 1 end
for n = 2 + buckets, #KEYS do
  for m = 4, #ARGV do
    if redis.call('LREM', KEYS[n], 0, ARGV[m]) > 0 then return 1 end
  end
end
return 1
`;

/** The reader of redis-delay-queue. Its values are in the serialization of the application; the import takes
 *  those that are JSON. Its serializer may write a member as a JSON string. */
export function openRedisDelayQueue(redis: string, project: string): Source {
  const server = new SourceRedis(redis);
  const quote = Buffer.from('"');
  const jobs = new HashJobs(server, {
    table: `{${project}}:Redis_Delay_Table`,
    buckets: `{${project}}:RD_ZSET_BUCKET:`,
    lists: [`{${project}}:RD_LIST_TOPIC:`],
    scoreMs: 1,
    membersOf: (field) => [field, Buffer.concat([quote, field, quote])],
    fieldOf: bare,
  });
  return {
    places: `${server.place} ${project}`,
    jobs: () =>
      jobs.pages(({ field, value, place, dueAt }, name) => {
        const body = textOf(value) === null ? null : jsonBody(value);
        if (body === null) return unreadable(field, 'the value is not JSON');
        return jobFound({ ...name, place, dueAt, body, record: value });
      }),
    close: async () => server.close(),
  };
}

/** Without the quotes of a JSON string. */
function bare(text: Buffer): Buffer {
  return text.length > 1 && text[0] === 0x22 && text.at(-1) === 0x22 ? text.subarray(1, -1) : text;
}
