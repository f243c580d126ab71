// Tests the W3C trace context of a push over real HTTP, from the request to each callback and what dq records
// of it. Its bytes: unit/extension.test.ts.
import { expect, it } from 'vitest';
import { addTopic } from '../support/producing.ts';
import { sharedDaemon } from '../support/shared-daemon.ts';
import { startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const parent = `00-${traceId}-b7ad6b7169203331-01`;
const state = 'congo=t61rcWkgMzE,rojo=00f067aa0ba902b7';

it('traces: each attempt is a recorded child of the push', async () => {
  const daemon = await sharedDaemon();
  const replies = [500, 503, 200];
  const sink = await startSink((arrival, response) => status(replies.shift() ?? 200)(arrival, response));
  await addTopic(daemon, 'trace', sink.url, { backoff: ['10ms'] });
  const headers = { 'content-type': 'application/json', traceparent: parent, tracestate: state };
  const url = `${daemon.url}/v1/topics/trace/jobs?id=traced`;
  expect((await fetch(url, { method: 'POST', headers, body: '{"n":1}' })).status).toBe(201);
  const job = await until('its delivery', async () => {
    const { body } = await daemon.api('GET', '/v1/topics/trace/jobs/traced');
    return body.state === 'done' && body;
  });

  const sent = sink.arrivals.map(({ headers }) => String(headers['traceparent']));
  expect(sent).toHaveLength(3);
  for (const one of sent) expect(one).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`));
  expect(new Set([...sent, parent]).size).toBe(4);
  expect(sink.arrivals.map(({ headers }) => headers['tracestate'])).toEqual([state, state, state]);
  expect(job.attempts.map(({ traceparent }: { traceparent: string }) => traceparent)).toEqual(sent);
  const lines = await until('its lines', () => {
    const found = daemon.log('notify').filter(({ topic }) => topic === 'trace');
    return found.length === 3 ? found : null;
  });
  // Of several processes, each with its file.
  const inOrder = lines.toSorted((a, b) => Number(a['attempt']) - Number(b['attempt']));
  expect(inOrder.map(({ traceparent }) => traceparent)).toEqual(sent);
});
