// Tests batches: each item has its own result, in order, and dq delivers its exact characters.
import { beforeEach, describe, expect, it } from 'vitest';
import { startIntake, type TestIntake, tokenFor, withJobs } from '../support/intake.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import { problem } from '../support/problem.ts';
import { texts, words } from '../support/words.ts';

const callbackUrl = 'http://127.0.0.1:9000/';
let dq: TestIntake;
beforeEach(async () => {
  dq = await startIntake({ config: { 'limits.bodyBytes': 1_000, 'limits.batchBytes': 100_000 } });
  await dq.api('POST', '/v1/topics', { topic: 't', callbackUrl, delay: '1h' });
});

type Result = Record<string, unknown> & { errors?: { field: string; message: string; position?: number }[] };

/** Sends exactly these characters. */
async function send(text: string | Buffer, type: string | null = 'application/json', on = dq) {
  const reply = await on.call('POST', '/v1/jobs', {
    body: Buffer.from(text),
    headers: type === null ? {} : { 'content-type': type },
  });
  return { ...reply, results: (reply.body.results ?? []) as Result[] };
}
const ndjson = (text: string | Buffer) => send(text, 'application/x-ndjson');
const statuses = (results: readonly Result[]) => results.map(({ status }) => status);
const bodyOf = async (id: string) => (await dq.api('GET', `/v1/topics/t/jobs/${id}`)).body;

describe('a batch', () => {
  it('answers each item like a single push', async () => {
    await dq.push('t', '1', '?id=old');
    const { status, body, results } = await send(
      '[{"topic":"t","id":"a","body":{}},{"topic":"t","id":"old","delay":"2h","body":1},' +
        '{"topic":"t","id":"old","mode":"keep","body":1},{"topic":"t","id":"old","mode":"reject","body":1},' +
        '{"topic":"none","body":1}]',
    );
    expect(status).toBe(200);
    expect(body).toMatchObject({ accepted: 3, failed: 2 });
    const stored = { topic: 't', version: expect.stringMatching(/^\d+$/), state: 'delayed', inFlight: false };
    expect(results).toEqual([
      { ...stored, status: 201, id: 'a', dueAt: expect.any(String), replaced: false, duplicate: false },
      { ...stored, status: 200, id: 'old', dueAt: expect.any(String), replaced: true, duplicate: false },
      { ...stored, status: 200, id: 'old', dueAt: results[1]?.['dueAt'], replaced: false, duplicate: true },
      expect.objectContaining({ status: 409, code: 'job_exists', errors: [] }),
      expect.objectContaining({ status: 404, code: 'topic_not_found', errors: [] }),
    ]);
    expect(results[2]?.['version']).toBe(results[1]?.['version']);
  });

  it('an imported job keeps the time of its acceptance and its failures', async () => {
    const past = '"acceptedAt":"2024-05-06T07:08:09Z","failures":3';
    const { results } = await send(
      `[{"topic":"t","id":"old","body":1,${past}},{"topic":"t","id":"new","body":1,"acceptedAt":${Date.now() + 60_000}},` +
        '{"topic":"t","body":1,"failures":65536},{"topic":"t","body":1,"acceptedAt":"yesterday"},' +
        '{"topic":"t","body":1,"acceptedAt":"1960-01-01T00:00:00Z"},{"topic":"t","body":1,"acceptedAt":300000000000000}]',
    );
    expect(statuses(results)).toEqual([201, 201, 400, 400, 400, 400]);
    expect(results.map(({ errors }) => errors?.[0]?.field)).toEqual([
      ...[undefined, undefined, 'items[2].failures', 'items[3].acceptedAt'],
      ...['items[4].acceptedAt', 'items[5].acceptedAt'],
    ]);
    expect(await bodyOf('old')).toMatchObject({ createdAt: '2024-05-06T07:08:09.000Z', attempt: 3 });
    const { createdAt } = await bodyOf('new');
    expect(Date.parse(createdAt)).toBeLessThanOrEqual(Date.now());
  });

  it('acceptedAt and failures: need the scope admin', async () => {
    const { headers } = await tokenFor(dq, ['*'], ['push']);
    const items = [{}, { failures: 0 }, { acceptedAt: 0 }].map((past) => ({ topic: 't', body: 1, ...past }));
    const reply = await dq.api('POST', '/v1/jobs', items, headers);
    expect(statuses(reply.body.results)).toEqual([201, 403, 403]);
  });

  it('equal ids go in order: the last one stays', async () => {
    const items = Array.from({ length: 500 }, (_, n) => `{"topic":"t","id":"same","body":${n}}`);
    const { results } = await send(`[${items.join(',')}]`);
    expect(statuses(results)).toEqual([201, ...Array<number>(499).fill(200)]);
    expect((await bodyOf('same')).body).toBe('499');
  });

  it('may be empty, as a list and as lines', async () => {
    for (const [text, type] of [
      ['[]', 'application/json'],
      [' [ ]\n', 'application/json; charset=utf-8'],
      ['', 'application/x-ndjson'],
      ['\n \r\n', 'Application/X-NDJSON'],
    ] as const)
      expect((await send(text, type)).body).toEqual({ accepted: 0, failed: 0, results: [] });
  });

  it('counts and logs each item', async () => {
    await send('[{"topic":"t","id":"a","body":12},{"topic":"t","id":"b","at":1,"body":1},5]');
    expect(dq.counted).toEqual(new Map([['t pushed', 1]]));
    const line = { method: 'POST', topic: 't', code: null, version: null, dueAt: null };
    expect(dq.requests.map((one) => ({ ...one }))).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          ...line,
          ...{ id: 'a', status: 201, bytes: 2, version: expect.any(String), dueAt: expect.any(String) },
        }),
        { ...line, id: 'b', status: 400, code: 'invalid', bytes: 1, ms: null },
        { ...line, topic: null, id: null, status: 400, code: 'invalid', bytes: 0, ms: null },
      ]),
    );
    expect(dq.requests).toHaveLength(3);
  });

  it('accepts a topic that another process has just registered', async () => {
    const known = await dq.registry.get('t');
    if (known === null) throw new Error('the topic is not there');
    const { revision: _, createdAt: __, updatedAt: ___, ...draft } = known;
    for (let n = 0; n < 20; n++) {
      await dq.registry.create({ ...draft, topic: `young${n}` });
      expect(statuses((await send(`[{"topic":"young${n}","body":1}]`)).results)).toEqual([201]);
    }
  });

  it('travels to the store in calls of at most 100 pushes, in order', async () => {
    const calls: string[][] = [];
    const own = await startIntake({
      store: withJobs(({ push }) => ({
        push: (jobs) => {
          calls.push(jobs.map(({ id }) => id));
          return push(jobs);
        },
      })),
    });
    await own.api('POST', '/v1/topics', { topic: 't', callbackUrl });
    const ids = Array.from({ length: 1_000 }, (_, n) => `i${n}`);
    const reply = await send(`[${ids.map((id) => `{"topic":"t","id":"${id}","body":1}`)}]`, undefined, own);
    expect(reply.body.accepted).toBe(1_000);
    expect(calls.map(({ length }) => length)).toEqual(Array(10).fill(100));
    expect(calls.flat()).toEqual(ids);
  });
});

describe('bodies of a batch', () => {
  it('are the characters of the request: big numbers, repeats, spacing, escapes', async () => {
    const bodies = [
      '12345678901234567890.10',
      '{"b" : 1,\n "a":1e0 , "b":2}',
      '"\\u00e9\\/"',
      ...texts`"é订👩 " | [ ] | null | false | -0`,
      `${'['.repeat(400)}${']'.repeat(400)}`,
    ];
    const list = `[ ${bodies.map((body, n) => `{"body": ${body} ,"id":"l${n}","topic":"t"}`).join(' ,\n')} ]`;
    expect((await send(list)).body.accepted).toBe(bodies.length);
    for (const [n, body] of bodies.entries())
      expect(await bodyOf(`l${n}`)).toMatchObject({ body, contentType: 'application/json' });
    const inLines = bodies.map((body) => body.replaceAll('\n', ' '));
    const lines = inLines.map((body, n) => `{"topic":"t","id":"n${n}","body":${body}}`).join('\r\n');
    expect((await ndjson(lines)).body.accepted).toBe(bodies.length);
    for (const [n, body] of inLines.entries()) expect((await bodyOf(`n${n}`)).body).toBe(body);
  });

  it('with another content type, dq delivers the text of the string', async () => {
    const { results } = await send(
      '[{"topic":"t","id":"a","contentType":"text/plain","body":"a\\n\\u00e9\\ud83d\\udc69\\u0000"},' +
        '{"topic":"t","id":"b","contentType":"application/problem+json","body":"{}"},' +
        '{"topic":"t","id":"c","contentType":"Application/JSON; charset=utf-8","body":"x"},' +
        '{"topic":"t","id":"d","contentType":"text/plain","body":""}]',
    );
    expect(statuses(results)).toEqual([201, 201, 201, 201]);
    expect(await bodyOf('a')).toMatchObject({ body: 'a\né👩\0', contentType: 'text/plain' });
    expect(await bodyOf('b')).toMatchObject({ body: '{}', contentType: 'application/problem+json' });
    expect(await bodyOf('c')).toMatchObject({ body: '"x"', contentType: 'Application/JSON; charset=utf-8' });
    expect(await bodyOf('d')).toMatchObject({ body: '' });
  });

  it('a body over limits.bodyBytes is 413 for its item only; at the limit it is accepted', async () => {
    const text = (length: number) => `{"topic":"t","body":"${'x'.repeat(length - 2)}"}`;
    const { results } = await send(`[${text(1_000)},${text(1_001)}]`);
    expect(statuses(results)).toEqual([201, 413]);
    expect(results[1]).toMatchObject({
      code: 'body_too_large',
      errors: [{ field: 'items[1].body', message: 'larger than 1000 bytes (limits.bodyBytes)' }],
    });
  });
});

describe('rejected items', () => {
  const good = '"topic":"t","body":1';
  const cases: readonly (readonly [item: string, field: string, code?: string])[] = [
    ...['5', 'null', '"t"', '[]', 'true'].map((item) => [item, ''] as const),
    ['{}', '.topic'],
    ['{"topic":"t"}', '.body'],
    ['{"body":1}', '.topic'],
    ...['5', 'null', '{}'].map((value) => [`{"topic":${value},"body":1}`, '.topic'] as const),
    [`{${good},"nope":1}`, '.nope'],
    [`{${good},"__proto__":{}}`, '.__proto__'],
    [`{${good},"constructor":1}`, '.constructor'],
    [`{${good},"Id":"a"}`, '.Id'],
    [`{${good},"id":"a","id":"a"}`, '.id'],
    [`{${good},"i\\u0064":"a","id":"a"}`, '.id'],
    [`{${good},"body":1}`, '.body'],
    ...['5', 'null', '""', '"."', '".."', '"\\u0000"', '"\\ud800"', `"${'x'.repeat(257)}"`].map(
      (id) => [`{${good},"id":${id}}`, '.id'] as const,
    ),
    ...words`
      -1 1.5 1e3 1.0 true "" 30 "30" "+5s" "P1M" "3651d" 99999999999999999 {}
    `.map((delay) => [`{${good},"delay":${delay}}`, '.delay'] as const),
    ...[...words`1760000000 -5 1e12 "soon" "2030-02-30T00:00:00Z"`, '"2030-01-01T00:00:00 08:00"', '[]'].map(
      (at) => [`{${good},"at":${at}}`, '.at'] as const,
    ),
    [`{${good},"delay":"1s","at":"2030-01-01T00:00:00Z"}`, '.at'],
    ...['"skip"', '1', '""', 'null'].map((mode) => [`{${good},"mode":${mode}}`, '.mode'] as const),
    ...['5', 'null', '""', '"a\\nb"', '"é"'].map(
      (type) => [`{"topic":"t","body":"x","contentType":${type}}`, '.contentType'] as const,
    ),
    ...['5', '{}', 'null', '"\\ud800"', '"\\udc00x"'].map(
      (body) => [`{"topic":"t","contentType":"text/plain","body":${body}}`, '.body'] as const,
    ),
  ];

  it('name place and field; the other items are stored', async () => {
    for (const [item, field] of cases)
      for (const reply of [
        await send(`[{${good},"id":"n"},${item},{${good},"id":"m"}]`),
        await ndjson(`{${good},"id":"n"}\n${item}\n{${good},"id":"m"}`),
      ]) {
        expect(reply.status, item).toBe(200);
        expect(reply.body, item).toMatchObject({ accepted: 2, failed: 1 });
        const problem = reply.results[1];
        expect(problem, item).toMatchObject({ status: 400, code: 'invalid' });
        expect(problem?.errors?.[0]?.field, item).toBe(`items[1]${field}`);
        expect(problem?.['detail'], item).toContain(`items[1]${field}: `);
      }
    const { topics } = await dq.store.admin.counts();
    expect(topics['t']?.delayed).toBe(2);
  });

  it('names every mistake of one item', async () => {
    const { results } = await send('[{"id":5,"delay":true,"nope":1}]');
    expect(results[0]?.errors?.map(({ field }) => field)).toEqual([
      ...['items[0].nope', 'items[0].topic', 'items[0].id', 'items[0].delay', 'items[0].body'],
    ]);
  });

  it('an item with too many members is rejected without reading them all', async () => {
    const many = Array.from({ length: 5_000 }, (_, n) => `"k${n}":1`).join(',');
    const { results } = await send(`[{${many}}]`);
    expect(statuses(results)).toEqual([400]);
    expect(results[0]?.errors?.length).toBeLessThan(20);
  });

  it('an unparsable line is the error of its item, with the position', async () => {
    const { body, results } = await ndjson(
      Buffer.concat([
        Buffer.from(`{${good},"id":"a"}\n\n  \n{"topic":"订",!}\n`),
        Buffer.from([0x22, 0xff, 0x22, 0x0a]),
        Buffer.from(`{${good}} {${good}}\n{"topic":"t"\n{${good},"id":"b"}`),
      ]),
    );
    expect(body).toMatchObject({ accepted: 2, failed: 4 });
    expect(statuses(results)).toEqual([201, 400, 400, 400, 400, 201]);
    const codes = results.slice(1, 5).map(({ code }) => code);
    expect(codes).toEqual(Array(4).fill('malformed_json'));
    expect(results[1]?.errors).toEqual([{ field: 'items[1]', message: expect.any(String), position: 13 }]);
    expect(results[3]?.errors?.[0]).toMatchObject({ field: 'items[3]', position: 23 });
    expect(results[4]?.errors?.[0]).toMatchObject({ field: 'items[4]', position: 12 });
  });

  it('a byte order mark at the beginning is skipped, in a list and in lines', async () => {
    const items = [`{${good},"id":"m1"}`, `{${good},"id":"m2"}`];
    for (const { body, results } of [
      await send(`\ufeff[${items.join()}]`),
      await ndjson(Buffer.from(`\ufeff${items.join('\n')}`)),
    ]) {
      expect(body).toMatchObject({ accepted: 2, failed: 0 });
      expect(results.map(({ id }) => id)).toEqual(['m1', 'm2']);
    }
  });

  it('an item of an offline topic is 409; the others are stored', async () => {
    await dq.api('POST', '/v1/topics', { topic: 'off', callbackUrl, state: 'offline' });
    const { results } = await send('[{"topic":"off","body":1},{"topic":"t","body":1}]');
    expect(results.map(({ status, code }) => [status, code])).toEqual([
      [409, 'topic_offline'],
      [201, undefined],
    ]);
  });
});

describe('a batch rejected as a whole stores nothing', () => {
  const item = '{"topic":"t","body":1}';
  it('text that is not JSON: 400 with the position', async () => {
    for (const [text, position] of [
      ['', 0],
      ['[', 1],
      [`[${item},]`, 24],
      [`[${item}`, 23],
      [`[${item}]]`, 24],
      [`[${item} ${item}]`, 24],
      [`["订单",!]`, 6],
      [`${item}\n${item}`, 23],
    ] as const)
      expect(await send(text), text).toMatchObject({
        status: 400,
        body: { code: 'malformed_json', errors: [{ field: 'body', position }] },
      });
    for (const bytes of [
      [0xff],
      [0x5b, 0x22, 0xc0, 0x80, 0x22, 0x5d],
      [0x5b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x5d],
    ])
      expect(await send(Buffer.from(bytes))).toMatchObject(problem(400, 'malformed_json'));
    expect((await dq.store.admin.counts()).topics).toEqual({});
    expect(dq.requests.at(-1)).toMatchObject({ topic: null, id: null, status: 400, code: 'malformed_json' });
  });

  it('JSON that is not a list, or has more than 1000 items: 400', async () => {
    for (const text of [item, '5', '"[]"', 'null', '{}'])
      expect(await send(text)).toMatchObject(problem(400, 'invalid', 'body'));
    const many = Array<string>(1_001).fill(item);
    for (const reply of [await send(`[${many}]`), await ndjson(many.join('\n'))])
      expect(reply).toMatchObject(problem(400, 'invalid', 'items'));
    expect((await dq.store.admin.counts()).topics).toEqual({});
    expect((await send(`[${many.slice(1)}]`)).body.accepted).toBe(1_000);
  });

  it('more than limits.batchBytes is 413, another media type or an encoding 415', async () => {
    expect(await send(`[${' '.repeat(100_000)}]`)).toMatchObject({
      status: 413,
      body: {
        code: 'body_too_large',
        detail: 'body: larger than 100000 bytes (limits.batchBytes)',
      },
    });
    for (const type of words`text/plain application/jsonl application/json-seq application/problem+json`)
      expect(await send('[]', type), type).toMatchObject(problem(415, 'unsupported_media_type'));
    const encoded = {
      body: '[]',
      headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    };
    expect(await dq.call('POST', '/v1/jobs', encoded)).toMatchObject({ status: 415 });
    const identity = { ...encoded, headers: { ...encoded.headers, 'content-encoding': 'identity' } };
    expect(await dq.call('POST', '/v1/jobs', identity)).toMatchObject({ status: 200 });
    expect((await send('[]', null)).status).toBe(200);
  });
});

describe('a failing store', () => {
  const failing = withJobs(() => ({
    push: async (jobs) =>
      jobs.map(({ body }) =>
        String(body) === '1' ? { kind: 'not_stored', code: 'full' } : { kind: 'unknown', code: 'no_answer' },
      ),
  }));

  it('is reported per item, with the id of an unknown push', async () => {
    const own = await startIntake({ store: failing });
    await own.api('POST', '/v1/topics', { topic: 't', callbackUrl });
    const { body, results } = await send(
      '[{"topic":"t","body":1},{"topic":"t","body":2},{"topic":"t","id":"mine","body":2}]',
      undefined,
      own,
    );
    expect(body).toMatchObject({ accepted: 0, failed: 3 });
    expect(results).toEqual([
      expect.objectContaining({ status: 503, code: 'not_stored' }),
      expect.objectContaining({ status: 503, code: 'unknown', id: expect.stringMatching(/^[0-9a-f-]{36}$/) }),
      expect.objectContaining({ status: 503, code: 'unknown', id: 'mine' }),
    ]);
    expect(own.counted.size).toBe(0);
  });

  it('an unavailable registry rejects only the items of unknown topics', async () => {
    const time = useJumpingTime();
    const known = await startIntake();
    await known.api('POST', '/v1/topics', { topic: 't', callbackUrl });
    await known.sqlite.owner.drain(0);
    const items = '[{"topic":"other","body":1},{"topic":"-","body":1},{"topic":"t","body":1}]';
    const { results } = await time.outlast(send(items, 'application/json', known));
    expect(results.map(({ status, code }) => [status, code])).toEqual([
      [503, 'not_stored'],
      [404, 'topic_not_found'],
      [503, 'not_stored'],
    ]);
  });
});
