import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { whyNotInstalled } from '../../scripts/services/binaries.ts';
import { startRedis } from '../../scripts/services/redis.ts';
import { openPage, startBrowser } from '../support/browser.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { lacks } from '../support/services.ts';
import { until } from '../support/until.ts';

const count = Number(process.env['DQ_OPERATION_JOBS'] ?? 2_000);
const deadlineMs = 60_000 + count * 5;
const pushedAtOnce = 1_000;

const why = await whyNotInstalled('browser');
if (why !== null) throw new Error(why);
const browser = await startBrowser();
afterAll(() => browser.close());

/** Rejects every job for good, and counts its calls. */
async function startEndpoint(): Promise<{ readonly url: string; readonly calls: Uint8Array }> {
  const calls = new Uint8Array(count);
  const server = createServer((request, reply) => {
    let text = '';
    request.on('data', (chunk: Buffer) => {
      text += chunk;
    });
    request.on('end', () => {
      const { n } = JSON.parse(text) as { n: number };
      calls[n] = (calls[n] ?? 0) + 1;
      reply.writeHead(410).end();
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  afterAll(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, calls };
}

async function makeDeadLetters(daemon: Daemon, url: string): Promise<void> {
  // This process answers up to 400 callbacks at once.
  const limits = { maxAttempts: 1, concurrency: 200, timeout: '60s' };
  const topic = { topic: 'coupon.expire', callbackUrl: url, ...limits };
  expect((await daemon.api('POST', '/v1/topics', topic)).status).toBe(201);
  for (let from = 0; from < count; from += pushedAtOnce) {
    const jobs = Array.from({ length: Math.min(pushedAtOnce, count - from) }, (_, at) => ({
      ...{ topic: 'coupon.expire', id: `coupon-${from + at}`, body: { n: from + at }, delay: 0 },
    }));
    expect((await daemon.api('POST', '/v1/jobs', jobs)).status).toBe(200);
  }
  await until('all are dead', async () => (await dead(daemon)) === count, deadlineMs, 200);
}

async function dead(daemon: Daemon): Promise<number> {
  const { body } = await daemon.api('GET', '/v1/topics/coupon.expire/stats');
  return body.states.dead;
}

const shows = (page: Page, text: string | RegExp) => page.getByText(text).first().waitFor();

const redis = (await lacks('redis')) ? null : await startRedis({ config: ['appendonly yes'] });
afterAll(() => redis?.stop());
const stores = [
  ['the embedded store', {}],
  ...(redis === null ? [] : [['Redis', { redis: redis.url }] as const]),
] as const;

// Not in beforeAll, where nothing that starts can register its end.
const settings: [string, Daemon, Awaited<ReturnType<typeof startEndpoint>>][] = [];
for (const [name, config] of stores)
  settings.push([name, await startDaemon({ console: true, config, scope: 'file' }), await startEndpoint()]);

describe.each(settings)('all dead letters of a topic, on %s', (name, daemon, { url, calls }) => {
  beforeAll(() => makeDeadLetters(daemon, url), deadlineMs);

  it('are requeued once, with the browser closed and dq-upkeep killed', {
    timeout: 3 * deadlineMs,
  }, async () => {
    const { page } = await openPage(browser, `${await daemon.consoleUrl()}/dead?topic=coupon.expire`);
    await page.getByRole('button', { name: 'Requeue all…' }).click();
    await page.getByLabel('Immediately').check();
    await page.getByRole('dialog').getByRole('button', { name: 'Requeue', exact: true }).click();
    await page
      .getByRole('status')
      .getByText(/of [\d,]+ ·/)
      .waitFor();
    const { body } = await daemon.api('GET', '/v1/operations');
    const id: string = body.items[0].id;
    const read = async () => (await daemon.api('GET', `/v1/operations/${id}`)).body;
    await page.context().close();

    const began = performance.now();
    const killed: number[] = [];
    for (const part of [0.2, 0.6]) {
      const pid = await until(
        `${part} of it to be done`,
        async () => ((await read()).done >= part * count ? daemon.pidOf('dq-upkeep') : null),
        deadlineMs,
        10,
      );
      process.kill(pid, 'SIGKILL');
      killed.push((await read()).done);
      await until(
        'the next dq-upkeep',
        () => daemon.workers().some((one) => one.title === 'dq-upkeep' && one.pid !== pid),
        deadlineMs,
      );
    }
    const end = await until(
      'the end',
      async () => {
        const op = await read();
        return op.endedAt === null ? null : op;
      },
      deadlineMs,
      50,
    );
    const ms = performance.now() - began;
    expect(end).toMatchObject({ state: 'finished', matched: count, done: count, skipped: 0, failed: 0 });
    await until('all are dead again', async () => (await dead(daemon)) === count, deadlineMs, 200);
    const wrong = [...calls.entries()].filter(([, n]) => n !== 2);
    expect(wrong).toEqual([]);
    if (process.env['DQ_OPERATION_JOBS'] !== undefined)
      process.stdout.write(
        `${count} on ${name}: requeued in ${Math.round(ms)} ms, killed at ${killed.join(' and ')} of ${count}, each called twice\n`,
      );
  });

  it('are spread over a time, and a stop keeps the rest', async () => {
    const { page } = await openPage(browser, `${await daemon.consoleUrl()}/dead`);
    await page.getByRole('button', { name: 'Requeue all…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Requeue', exact: true }).click();
    await page.locator('.toasts').getByRole('link', { name: 'View' }).click();
    await shows(page, /spread over 10 min/);
    await page.getByRole('button', { name: 'Stop…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Stop', exact: true }).click();
    await page.locator('.title .pill', { hasText: 'Stopped' }).waitFor();
    const { body } = await daemon.api('GET', '/v1/operations');
    expect(body.items[0]).toMatchObject({ state: 'stopped', spread: 600_000 });
    expect(body.items[0].done).toBeLessThan(count / 10);
  });

  it('are purged after their number is typed', async () => {
    await until('all are dead', async () => (await dead(daemon)) === count, deadlineMs, 200);
    const { page } = await openPage(browser, `${await daemon.consoleUrl()}/dead`);
    await shows(page, `${count.toLocaleString('en-GB')} matches`);
    await page.getByRole('button', { name: 'Purge…' }).click();
    const dialog = page.getByRole('dialog');
    const action = dialog.getByRole('button', { name: 'Purge', exact: true });
    expect(await action.isDisabled()).toBe(true);
    await dialog.getByRole('textbox').fill(count.toLocaleString('en-GB'));
    await action.click();
    await until('they are gone', async () => (await dead(daemon)) === 0, deadlineMs, 50);
    await shows(page, 'No dead letters.');
  });
});

describe('all that match', () => {
  it('are the jobs that the address names: other dead letters stay', async () => {
    const server = createServer((request, reply) => {
      request.resume();
      reply.writeHead(request.url === '/gone' ? 410 : 500).end();
    });
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    afterAll(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const daemon = await startDaemon({ console: true });
    const deadIn = async (topic: string) =>
      (await daemon.api('GET', `/v1/topics/${topic}/stats`)).body.states.dead;
    for (const topic of ['gone', 'tired']) {
      const callbackUrl = `http://127.0.0.1:${port}/${topic}`;
      const given = { topic, callbackUrl, maxAttempts: 1 };
      expect((await daemon.api('POST', '/v1/topics', given)).status).toBe(201);
      await daemon.push(topic, '{}', { id: `${topic}-1`, delay: '0s' });
      await until(`${topic} has a dead letter`, async () => (await deadIn(topic)) === 1);
    }
    const url = await daemon.consoleUrl();
    const { page } = await openPage(browser, `${url}/dead?reason=gone`);
    await shows(page, 'gone-1');
    expect(await page.getByText('tired-1').count()).toBe(0);
    await page.getByRole('button', { name: 'Purge…' }).click();
    // It died after the question was asked.
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox').waitFor();
    await daemon.push('gone', '{}', { id: 'gone-2', delay: '0s' });
    await until('a second one is dead', async () => (await deadIn('gone')) === 2);
    await dialog.getByRole('textbox').fill('Purge');
    await dialog.getByRole('button', { name: 'Purge', exact: true }).click();
    const purged = await until('the end of the operation', async () => {
      const { body } = await daemon.api('GET', '/v1/operations');
      return body.items[0]?.endedAt == null ? null : body.items[0];
    });
    expect(purged).toMatchObject({ done: 1, filter: { reason: 'gone' } });
    expect([await deadIn('gone'), await deadIn('tired')]).toEqual([1, 1]);

    await page.goto(`${url}/dead?lastReason=status&idPrefix=tired`);
    await shows(page, 'Dead letters cannot be filtered by id:tired*');
    expect(await page.getByRole('button', { name: 'Purge…' }).count()).toBe(0);
    await page.goto(`${url}/jobs?state=dead&due=..1h`);
    await page.getByLabel('Select tired-1', { exact: true }).first().check();
    await shows(page, '1 selected');
    expect(await page.getByRole('button', { name: 'Select all that match' }).count()).toBe(0);
  });
});

describe('jobs', () => {
  it('that match are cancelled; an unknown operation is said to be unknown', async () => {
    const daemon = await startDaemon({ console: true });
    const url = await daemon.consoleUrl();
    await daemon.api('POST', '/v1/topics', { topic: 'vip.recall', callbackUrl: 'http://127.0.0.1:9/' });
    for (let n = 0; n < 60; n += 1) await daemon.push('vip.recall', '{}', { id: `vip-${n}`, delay: '1h' });
    const list = `${url}/jobs?topic=vip.recall&state=delayed`;
    const { page } = await openPage(browser, `${url}/assets/none`);
    // A session that may operate, but not push, cannot cancel.
    await page.route('**/v1/me', async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), scopes: ['read', 'operate'] } });
    });
    await page.goto(list);
    await page.getByLabel('Select vip-0', { exact: true }).first().check();
    await page.getByRole('button', { name: 'Reschedule…' }).waitFor();
    expect(await page.getByRole('button', { name: 'Cancel…' }).count()).toBe(0);
    await page.unroute('**/v1/me');
    await page.goto(list);
    await page.getByLabel('Select vip-0', { exact: true }).first().check();
    await page.getByLabel('Select vip-1', { exact: true }).first().check();
    await page.getByRole('button', { name: 'Reschedule…' }).click();
    await page.getByRole('dialog').getByRole('textbox').fill('3h');
    await page.getByRole('dialog').getByRole('button', { name: 'Reschedule', exact: true }).click();
    await until('two are rescheduled', async () => {
      const { body } = await daemon.api('GET', '/v1/operations');
      return body.items[0]?.state === 'finished' && body.items[0].done === 2;
    });
    // New versions, due after those that the page shows: with the next poll both leave it and the selection.
    await page.getByLabel('Select vip-0', { exact: true }).first().waitFor({ state: 'detached' });
    await page.getByLabel('Select vip-2', { exact: true }).first().check();
    await page.getByRole('button', { name: 'Select all that match' }).click();
    await page.getByRole('button', { name: 'Cancel…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox').fill('Cancel');
    await dialog.getByRole('button', { name: 'Cancel jobs' }).click();
    await until('all are cancelled', async () => {
      const { body } = await daemon.api('GET', '/v1/operations');
      return body.items[0]?.kind === 'cancel' && body.items[0].done === 60;
    });
    await page.goto(`${url}/operations/0123456789ab`);
    await shows(page, 'Operation not found');
  });
});
