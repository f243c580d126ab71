// Tests the W3C trace context of a push over real HTTP, from the request to each callback and what dq records
// of it, and its bytes in the record of each store.
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { startRedis } from '../../scripts/services/redis.ts';
import { openDatabase } from '../../src/runtime/database.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { addTopic } from '../support/producing.ts';
import { lacks, owned } from '../support/services.ts';
import { startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const parent = `00-${traceId}-b7ad6b7169203331-01`;
const state = 'congo=t61rcWkgMzE,rojo=00f067aa0ba902b7';

const pushWith = async (daemon: Daemon, path: string, headers: Record<string, string>) => {
  const url = `${daemon.url}/v1/topics/${path}`;
  const all = { 'content-type': 'application/json', ...headers };
  expect((await fetch(url, { method: 'POST', headers: all, body: '{"n":1}' })).status).toBe(201);
};

/** What each waiting job is stored as, by id: its record in Redis, its options in the embedded store. */
type Stored = Readonly<Record<string, Buffer>>;

const stores = [
  {
    name: 'embedded',
    /** of a block, beside its bytes */
    lengthBytes: 0,
    isMissing: false,
    async start() {
      const daemon = await startDaemon();
      const stored = async (): Promise<Stored> => {
        await daemon.stop();
        const db = openDatabase(join(daemon.dataDir, 'jobs.db'), { readOnly: true });
        const rows = db.prepare('SELECT id, extension FROM job WHERE state = 0').all() as {
          id: Buffer;
          extension: Buffer | null;
        }[];
        db.close();
        return Object.fromEntries(
          rows.map(({ id, extension }) => [Buffer.from(id).toString(), Buffer.from(extension ?? '')]),
        );
      };
      return { daemon, stored };
    },
  },
  {
    name: 'Redis',
    lengthBytes: 2,
    isMissing: await lacks('redis'),
    async start() {
      const redis = await owned('test', startRedis());
      const daemon = await startDaemon({ args: ['--redis', redis.url] });
      const stored = async (): Promise<Stored> => {
        const client = new Redis(redis.url);
        const records: [string, Buffer][] = [];
        for (const key of await client.keys('{dq:*}:j'))
          for (const [field, record] of Object.entries(await client.hgetallBuffer(key)))
            records.push([field.slice(-8), record]);
        client.disconnect();
        return Object.fromEntries(records);
      };
      return { daemon, stored };
    },
  },
] as const;

describe.each(stores)('traces, jobs in the $name store', ({ isMissing, lengthBytes, start }) => {
  it.skipIf(isMissing)(
    'each attempt is a recorded child of the push; a job without a trace costs no byte',
    async () => {
      const { daemon, stored } = await start();
      const replies = [500, 503, 200];
      const sink = await startSink((arrival, response) => status(replies.shift() ?? 200)(arrival, response));
      await addTopic(daemon, 't', sink.url, { backoff: ['10ms'] });
      await pushWith(daemon, 't/jobs?id=traced', { traceparent: parent, tracestate: state });
      const get = async () => (await daemon.api('GET', '/v1/topics/t/jobs/traced')).body;
      await until('its delivery', async () => (await get()).state === 'done');

      const sent = sink.arrivals.map(({ headers }) => String(headers['traceparent']));
      expect(sent).toHaveLength(3);
      for (const one of sent) expect(one).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`));
      expect(new Set([...sent, parent]).size).toBe(4);
      expect(sink.arrivals.map(({ headers }) => headers['tracestate'])).toEqual([state, state, state]);
      const job = await get();
      expect(job.attempts.map(({ traceparent }: { traceparent: string }) => traceparent)).toEqual(sent);
      const lines = await until('its lines', () => {
        const found = daemon.log('notify');
        return found.length === 3 ? found : null;
      });
      // Of several processes, each with its file.
      const inOrder = lines.toSorted((a, b) => Number(a['attempt']) - Number(b['attempt']));
      expect(inOrder.map(({ traceparent }) => traceparent)).toEqual(sent);

      for (const [id, headers] of Object.entries({
        waits__1: {},
        waits__2: { traceparent: `00-${'0'.repeat(32)}-b7ad6b7169203331-01`, tracestate: state },
        waits__3: { traceparent: parent },
        waits__4: { traceparent: parent, tracestate: state },
      }))
        await pushWith(daemon, `t/jobs?id=${id}&delay=1h`, headers);
      const records = await stored();
      const bytes = ['waits__1', 'waits__2', 'waits__3', 'waits__4'].map((id) => records[id]?.length ?? -1);
      const [plain = -1] = bytes;
      // Of each option its type, its length and its bytes: 16 + 8 + 1 of the parent, and the state.
      const parentBytes = lengthBytes + 2 + 25;
      expect(bytes).toEqual([plain, plain, plain + parentBytes, plain + parentBytes + 2 + state.length]);
      expect(records['waits__1']?.includes(Buffer.from(traceId, 'hex'))).toBe(false);
      expect(records['waits__4']?.includes(Buffer.from(traceId, 'hex'))).toBe(true);
    },
  );
});
