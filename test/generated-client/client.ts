// A program of a user: pushes and reads jobs through a client generated from /openapi.json. Its one
// argument is the daemon's URL; it prints what it received as JSON. generated-client.test.ts generates
// schema.ts, checks the types and runs it.

import createClient from 'openapi-fetch';
import type { components, paths } from './schema.ts';

const dq = createClient<paths>({ baseUrl: process.argv[2] ?? '' });
const topic = 'generated.close';

const index = await dq.GET('/');
const created = await dq.PUT('/v1/topics/{topic}', {
  params: { path: { topic } },
  body: { callbackUrl: 'http://127.0.0.1:9/', delay: '1h', backoff: ['15s', '3m'], priority: 'high' },
});
const pushed = await dq.POST('/v1/topics/{topic}/jobs', {
  params: { path: { topic }, query: { id: '4711', delay: '30m' } },
  body: { order: 4711, note: '订单' },
});
const bytes = await dq.POST('/v1/topics/{topic}/jobs', {
  params: { path: { topic }, query: { id: 'bytes' } },
  headers: { 'content-type': 'application/octet-stream' },
  body: new Uint8Array([0, 255]),
  bodySerializer: (body) => body as Uint8Array,
});
const batch = await dq.POST('/v1/jobs', {
  body: [
    { topic, id: 'a', body: [1] },
    { topic: 'unknown', body: {} },
  ],
});
const read = await dq.GET('/v1/topics/{topic}', { params: { path: { topic } } });
const job = await dq.GET('/v1/topics/{topic}/jobs/{id}', { params: { path: { topic, id: '4711' } } });
const raw = await dq.GET('/v1/topics/{topic}/jobs/{id}', { params: { path: { topic, id: 'bytes' } } });
const missing = await dq.GET('/v1/topics/{topic}', { params: { path: { topic: 'generated.clse' } } });

// The types of the generated client: each line fails to compile when a named schema is lost.
const result: components['schemas']['PushResult'] | undefined = pushed.data;
const problem: components['schemas']['Problem'] | undefined = missing.error;
const code: components['schemas']['Problem']['code'] | undefined = problem?.code;
const seen: components['schemas']['Topic'] | undefined = read.data;
const attempts: number | undefined = seen?.maxAttempts;

console.log(
  JSON.stringify({
    name: index.data?.name,
    created: created.response.status,
    pushed: { status: pushed.response.status, id: result?.id, state: result?.state },
    bytes: bytes.response.status,
    batch: [batch.data?.accepted, batch.data?.failed],
    job: { body: job.data?.body, contentType: job.data?.contentType },
    raw: { bodyBase64: raw.data?.bodyBase64, contentType: raw.data?.contentType },
    topic: { delay: seen?.delay, attempts, priority: seen?.priority },
    missing: { status: missing.response.status, code },
  }),
);
