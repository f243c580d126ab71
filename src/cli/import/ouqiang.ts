// Reads ouqiang/delay-queue: buckets and ready queues hold ids, a key of each id holds the job as a msgpack
// map. A popped job that is not finished is in a bucket again.

import { decode } from '@msgpack/msgpack';
import { limits } from '../../core/limits.ts';
import { bodyOfText, type Found, jobFound, type Source, textOf, unreadable } from './source.ts';
import { SourceRedis } from './source-servers.ts';

export function openOuqiang(redis: string, prefix: string): Source {
  // Its default database.
  const server = new SourceRedis(redis, 1);
  return {
    places: server.place,
    async *jobs() {
      for (const bucket of await server.keysOf(`${prefix}bucket_`, 'zset'))
        for await (const page of server.sortedSet(bucket)) {
          const ids = page.filter((_, n) => n % 2 === 0);
          const scores = page.filter((_, n) => n % 2 === 1);
          yield await read(server, ids, (n) => Math.ceil(Number(scores[n]) * 1_000));
        }
      for (const queue of await server.keysOf(`${prefix}queue_`, 'list'))
        for await (const page of server.list(queue)) yield await read(server, page, () => null);
    },
    close: async () => server.close(),
  };
}

async function read(
  server: SourceRedis,
  ids: readonly Buffer[],
  dueAtOf: (n: number) => number | null,
): Promise<readonly Found[]> {
  const values = await server.askAll(ids.map((id) => ['GET', id]));
  return ids.map((id, n) => {
    const value = values[n];
    return Buffer.isBuffer(value) ? foundOf(id, value, dueAtOf(n)) : { kind: 'deleted' };
  });
}

function foundOf(key: Buffer, value: Buffer, dueAt: number | null): Found {
  const id = textOf(key);
  const job = membersOf(value);
  if (id === null || job === null) return unreadable(key, 'the value is not a job in msgpack');
  const topic = textOf(job.topic);
  if (topic === null || textOf(job.body) === null) return unreadable(key, 'the topic or body is not UTF-8');
  return jobFound({
    topic,
    id,
    dueAt,
    place: dueAt === null ? 'due' : 'delayed',
    leaseMs: leaseOf(job.ttr),
    body: bodyOfText(job.body),
    record: value,
  });
}

/** "1" topic, "2" id, "3" due, "4" ttr, "5" body; older versions write the names of the Go struct. */
function membersOf(
  value: Buffer,
): { readonly topic: Buffer; readonly ttr: unknown; readonly body: Buffer } | null {
  let map: Readonly<Record<string, unknown>>;
  try {
    // A body may be any bytes.
    const mapKeyConverter = (key: unknown) => Buffer.from(key as Uint8Array).toString();
    map = decode(value, { rawStrings: true, mapKeyConverter }) as typeof map;
  } catch {
    return null;
  }
  const [topic, body] = [map['1'] ?? map['Topic'], map['5'] ?? map['Body']];
  if (!(topic instanceof Uint8Array) || !(body instanceof Uint8Array)) return null;
  return { topic: Buffer.from(topic), ttr: map['4'] ?? map['TTR'], body: Buffer.from(body) };
}

/** `ttr`: in seconds; ouqiang accepts what dq accepts as a lease */
function leaseOf(ttr: unknown): number | null {
  const ms = Number(ttr) * 1_000;
  return Number.isInteger(ms) && ms >= limits.pullLeaseMsMin && ms <= limits.pullLeaseMsMax ? ms : null;
}
