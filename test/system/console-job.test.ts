// The page of a job, the form that pushes one, and why a job waits, on a real daemon with each store.
import { execFile } from 'node:child_process';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { whyNotInstalled } from '../../scripts/services/binaries.ts';
import { startRedis } from '../../scripts/services/redis.ts';
import { openPage, scrollsSideways, seriousFaults, startBrowser } from '../support/browser.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { runDq } from '../support/run-dq.ts';
import { lacks, owned } from '../support/services.ts';
import { until } from '../support/until.ts';

const missing = await whyNotInstalled('browser');
if (missing !== null) throw new Error(missing);
const isWithoutRedis = await lacks('redis');
const hanging: ServerResponse[] = [];
/** to /ok */
const requests: { headers: IncomingHttpHeaders; body: string }[] = [];
const server = createServer((request, reply) => {
  const { headers } = request;
  if (request.url === '/ok') void text(request).then((body) => requests.push({ headers, body }));
  else request.resume();
  if (request.url === '/ok') reply.end('{"code":200}');
  else if (request.url === '/rule') reply.setHeader('server', 'nginx').end('{"code":500,"msg":"busy"}');
  else if (request.url === '/gone') reply.writeHead(410).end();
  else if (request.url === '/later') reply.writeHead(503, { 'retry-after': '3600' }).end('<b>later</b>');
  else hanging.push(reply);
});
await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const daemon = await startDaemon({ console: true, scope: 'file' });
const browser = await startBrowser();
afterAll(() => browser.close());
const url = await daemon.consoleUrl();

async function addTopics(to: Daemon): Promise<void> {
  const topics: Record<string, object> = {
    ok: { callbackUrl: `${endpoint}/ok` },
    rule: { callbackUrl: `${endpoint}/rule`, retryIf: '{res.code}!=200', delay: '1s' },
    gone: { callbackUrl: `${endpoint}/gone` },
    later: { callbackUrl: `${endpoint}/later` },
    held: { callbackUrl: `${endpoint}/ok` },
    one: { callbackUrl: `${endpoint}/hang`, timeout: '60s', concurrency: 1 },
    slow: { callbackUrl: `${endpoint}/ok`, rate: 1 },
    ailing: { callbackUrl: `${endpoint}/hang`, timeout: '1s', backoff: ['1h'] },
  };
  for (const [topic, settings] of Object.entries(topics)) {
    const reply = await to.api('POST', '/v1/topics', { topic, ...settings });
    expect(reply.status, JSON.stringify(reply.body)).toBe(201);
  }
}

beforeAll(() => addTopics(daemon));

const jobOf = async (of: Daemon, topic: string, id: string) =>
  (await of.api('GET', `/v1/topics/${topic}/jobs/${id}`)).body;

/** Each code that a healthy daemon can produce. */
async function explains(of: Daemon): Promise<void> {
  const becomes = (topic: string, id: string, code: string) =>
    until(`${topic}/${id}: ${code}`, async () => {
      const job = await jobOf(of, topic, id);
      return job.why?.code === code && job;
    });
  const soon = { delay: 0 };
  await of.push('ok', '{}', { id: 'waits', delay: '1h' });
  expect((await jobOf(of, 'ok', 'waits')).why.code).toBe('waits_until_due');
  await of.push('ok', '{}', { id: 'ends', ...soon });
  await of.push('rule', '{}', { id: 'fails' });
  await of.push('later', '{}', { id: 'fails', ...soon });
  await of.push('gone', '{}', { id: 'dies', ...soon });
  // Ten in a row at each of two notifiers.
  for (let n = 0; n < 24; n += 1) await of.push('ailing', '{}', { id: `a${n}`, ...soon });
  for (let n = 0; n < 20; n += 1) await of.push('slow', '{}', { id: `s${n}`, ...soon });
  await of.push('one', '{}', { id: 'runs', ...soon });
  const running = await becomes('one', 'runs', 'running');
  expect(running.why.notifier ?? '').toMatch(/^dq-notifier-\d$|^$/);
  await until('the notifier is named', async () =>
    (await jobOf(of, 'one', 'runs')).why.notifier?.startsWith('dq-notifier-'),
  );
  await of.push('one', '{}', { id: 'next', ...soon });
  const full = await becomes('one', 'next', 'at_concurrency');
  expect(full.why.reasons.map(({ code }: { code: string }) => code)).toContain('concurrency_reached');
  expect((await becomes('slow', 's19', 'at_rate')).why.ahead).toBeGreaterThan(0);
  await until('ten attempts have timed out', async () => (await jobOf(of, 'ailing', 'a23')).attempt > 0);
  // More and more jobs: the few calls at once do not keep up.
  let pushed = 0;
  await until('the topic is probed', async () => {
    for (let n = 0; n < 5; n += 1) await of.push('ailing', '{}', { id: `b${++pushed}`, ...soon });
    return (await jobOf(of, 'ailing', `b${pushed}`)).why.code === 'probing';
  });
  const ended = await becomes('ok', 'ends', 'ended');
  expect(ended.attempts[0].latenessMs).toBeGreaterThanOrEqual(0);
  const failed = await becomes('rule', 'fails', 'waits_to_retry');
  expect(failed.attempts[0]).toMatchObject({
    ruleValues: { '{res.code}': '500' },
    replyHeaders: expect.arrayContaining(['server: nginx']),
    nextDelayMs: 60_000,
    nextBy: 'backoff',
  });
  const later = await becomes('later', 'fails', 'waits_to_retry');
  expect(later.attempts[0]).toMatchObject({ nextDelayMs: 3_600_000, nextBy: 'retry_after' });
  expect(await becomes('gone', 'dies', 'dead')).toMatchObject({ buryReason: 'gone', nextAttempts: [] });
  for (const [verb, code] of [
    ['pause', 'topic_paused'],
    ['offline', 'topic_offline'],
  ] as const) {
    if (verb === 'pause') {
      await of.api('POST', '/v1/topics/held/pause');
      // Until then a notifier may call a job of the topic.
      await until('every notifier knows of the pause', async () => {
        const { notifiers } = (await of.api('GET', '/v1/topics/held/capacity')).body;
        return notifiers.every(({ reasons }: { reasons: { code: string }[] | null }) =>
          reasons?.some(({ code }) => code === 'paused'),
        );
      });
    }
    await of.push('held', '{}', { id: 'h', ...soon });
    await of.api('POST', `/v1/topics/held/${verb}`);
    await becomes('held', 'h', code);
  }
}

describe('why a job waits', () => {
  it('embedded store: each code', () => explains(daemon));

  it.skipIf(isWithoutRedis)('Redis: each code, and the shard', async () => {
    const redis = await owned('test', startRedis());
    const other = await startDaemon({ args: ['--redis', redis.url] });
    await addTopics(other);
    await explains(other);
    expect((await jobOf(other, 'ok', 'waits')).shard).toMatch(/^[0-9a-f]{16}$/);
  });
});

it('dq explain says the same of a job and of a topic', async () => {
  await daemon.push('gone', '{}', { id: 'cli', delay: 0 });
  await until('it is dead', async () => (await jobOf(daemon, 'gone', 'cli')).state === 'dead');
  await daemon.push('ok', '{}', { id: 'cli', delay: '1h' });
  const dq = (...args: string[]) => runDq(['explain', ...args, '--data-dir', daemon.dataDir]);
  expect((await dq('ok', 'cli')).stdout).toMatch(/^why +attempt 1 of 10 is due at \S+Z, in (1h|59m\d+s)$/m);
  const dead = (await dq('gone', 'cli')).stdout;
  expect(dead).toMatch(/^why +dead letter since \S+Z: gone$/m);
  expect(dead).toMatch(/^last attempt +1: failed status 410, at /m);
  expect(JSON.parse((await dq('ok', 'cli', '--json')).stdout)).toMatchObject({
    why: { code: 'waits_until_due' },
    nextAttempts: { length: 10 },
  });
  expect((await dq('ok')).stdout).toMatch(/^delivery +no job of the topic is ready/m);
  expect((await dq('ok', 'none')).code).toBe(4);
});

const shows = (page: Page, text: string | RegExp) => page.getByText(text).first().waitFor();
const at = (topic: string, id: string) => `${url}/jobs/${topic}/${encodeURIComponent(id)}`;

describe('the page of a job', () => {
  it('says how long a dead or ended job is kept', async () => {
    const dead = await jobOf(daemon, 'gone', 'dies');
    const day = 86_400_000;
    expect(Date.parse(dead.keptUntil) - Date.parse(dead.deadAt)).toBe(30 * day);
    const ended = await jobOf(daemon, 'ok', 'ends');
    expect(Date.parse(ended.keptUntil) - Date.parse(ended.endedAt)).toBe(day);
    expect((await jobOf(daemon, 'ok', 'waits')).keptUntil).toBeUndefined();
    const { page } = await openPage(browser, `${url}/jobs/gone/dies`);
    await page.locator('dt', { hasText: 'Kept for' }).waitFor();
    await page.getByRole('cell', { name: 'Dead letter: 410' }).waitFor();
  });

  it('plans no attempt while its topic holds it', async () => {
    const { page } = await openPage(browser, `${url}/jobs/held/h`);
    await shows(page, 'Its topic is offline, so dq holds it.');
    await page.locator('main').getByText('Timeline', { exact: true }).waitFor();
    expect(await page.locator('main').getByText('Attempt 1').count()).toBe(0);
    await page.goto(`${url}/jobs/ok/waits`);
    await page.locator('main').getByText('Attempt 1').first().waitFor({ state: 'attached' });
  });

  it('says where it is, why an attempt failed, and what follows', async () => {
    await daemon.push('rule', '{"n":9007199254740993}', { id: 'page/1', delay: '1s' });
    const { page } = await openPage(browser, at('rule', 'page/1'));
    await shows(page, /The first attempt starts in|Attempt 2 of 10 starts in/);
    await shows(page, /Attempt 2 of 10 starts in/);
    await shows(page, 'The retry rule matched');
    await shows(page, '{res.code} = 500');
    await shows(page, /Next wait: 1 min/);
    await shows(page, '9007199254740993');
    await page.getByRole('button', { name: 'Raw' }).click();
    await page.getByRole('button', { name: 'Hex' }).click();
    await shows(page, '7b 22 6e 22 3a 39 30 30');
    expect(await page.getByRole('img', { name: /^Attempt 2 of 10/ }).textContent()).toMatch(/Dead letter/);
  });

  it('reschedules with both times shown, runs now, and cancels after a question', async () => {
    await daemon.push('ok', '{}', { id: 'moves', delay: '1h' });
    const { page } = await openPage(browser, at('ok', 'moves'));
    await page.getByRole('button', { name: 'Reschedule…' }).click();
    const field = page.getByRole('dialog').getByRole('textbox');
    await field.fill('soon');
    await shows(page, /10m, 2h30m, or/);
    await field.fill('2h');
    await shows(page, /Due .*\(in 1 h 59 min\)|Due .*\(in 2 h\)/);
    await page.getByRole('dialog').getByRole('button', { name: 'Reschedule' }).click();
    await shows(page, /starts in 1 h 59 min/);
    await until('the move is recorded', async () => {
      const { body } = await daemon.api('GET', '/v1/audit?topic=ok&id=moves');
      return body.items.length > 0;
    });
    await page.reload();
    await page.locator('svg.chart text', { hasText: 'Reschedule' }).waitFor();
    await page.locator('svg.chart text', { hasText: 'this machine' }).waitFor();
    await page.getByRole('button', { name: 'Cancel job…' }).click();
    await shows(page, 'Cancel this job?');
    await page.getByRole('button', { name: 'Keep job' }).click();
    await page.getByRole('button', { name: 'Run now' }).click();
    await shows(page, /Delivered with attempt 1/);
    expect(await page.getByRole('button', { name: 'Cancel job…' }).count()).toBe(0);
  });

  it('copies the signed callback as curl, which sends it from a shell', async () => {
    await daemon.push('ok', `{"it's":"@file"}`, { id: 'curl', delay: '1h' });
    const { page } = await openPage(browser, at('ok', 'curl'), {
      permissions: ['clipboard-read', 'clipboard-write'],
    });
    await page.getByRole('button', { name: 'Copy as curl' }).click();
    await shows(page, 'Copied');
    const curl = (await page.evaluate('navigator.clipboard.readText()')) as string;
    expect(curl).toContain(`curl -X POST '${endpoint}/ok'`);
    expect(curl).toMatch(/-H 'webhook-signature: v1,/);
    expect(curl).toContain(`--data-raw '{"it'\\''s":"@file"}'`);
    const { stdout } = await promisify(execFile)('sh', ['-c', curl]);
    expect(stdout).toContain('{"code":200}');
    // Other jobs call the same endpoint.
    const sent = await until('the request arrives', () =>
      requests.find(({ headers }) => headers['dq-job-id'] === 'curl'),
    );
    expect(sent.body).toBe(`{"it's":"@file"}`);
    expect(sent.headers['webhook-id']).toBe((await jobOf(daemon, 'ok', 'curl')).webhookId);
    expect(sent.headers['webhook-signature']).toMatch(/^v1,/);
  });

  it('of an unknown job says what to do', async () => {
    const { page } = await openPage(browser, at('ok', 'never'));
    await shows(page, /never accepted\. Search the request-\* logs/);
    await page.goto(at('nowhere', 'never'));
    await shows(page, /Search the request-\* logs/);
  });

  it.each([
    ['light', {}],
    ['dark, in Chinese', { colorScheme: 'dark', locale: 'zh-CN' }],
    ['on a phone', { viewport: { width: 390, height: 844 } }],
  ] as const)('has no serious fault and does not scroll sideways: %s', async (_name, options) => {
    await daemon.push('gone', JSON.stringify({ text: 'x'.repeat(300) }), { id: 'y'.repeat(120), delay: 0 });
    await until('it is dead', async () => (await jobOf(daemon, 'gone', 'y'.repeat(120))).state === 'dead');
    await daemon.push('ok', '{}', { id: 'far', delay: '30d' });
    const { page } = await openPage(browser, at('gone', 'y'.repeat(120)), options);
    for (const path of ['', at('ok', 'far'), at('ok', 'never'), `${url}/push?topic=ok`]) {
      if (path !== '') await page.goto(path);
      await page.locator('main h1').first().waitFor();
      await page.locator('.waiting').first().waitFor({ state: 'detached' });
      expect([path, await seriousFaults(page)]).toEqual([path, []]);
      expect([path, await scrollsSideways(page)]).toEqual([path, false]);
    }
  });
});

describe('push', () => {
  it('shows each mistake at its field, then the result, and pushes another', async () => {
    await daemon.push('ok', '{}', { id: 'taken', delay: '1h' });
    const { page } = await openPage(browser, `${url}/push?topic=ok`);
    const body = page.getByLabel(/^Body/);
    await body.fill('{"a": "ü", b}');
    await shows(page, 'Invalid JSON at character 12');
    await body.fill('{"a": "ü"}');
    await shows(page, 'valid JSON');
    await page.getByLabel(/^Job ID/).fill('taken');
    await page.getByLabel(/^Mode/).selectOption('reject');
    await page.getByRole('textbox', { name: 'in', exact: true }).fill('90m');
    await shows(page, /Due .*\(in 1 h (29|30) min\)/);
    await page.getByRole('button', { name: 'Push', exact: true }).click();
    await shows(page, 'A live job already has this ID.');
    await page.getByLabel(/^Job ID/).fill('free');
    await page.getByRole('button', { name: 'Push', exact: true }).click();
    await shows(page, /Created\. Due/);
    await page.getByRole('button', { name: 'Push another' }).click();
    expect(await page.getByLabel(/^Job ID/).inputValue()).toBe('');
    await daemon.api('POST', '/v1/topics/held/offline');
    await page.getByRole('combobox', { name: /^Topic/ }).selectOption('held');
    await page.getByRole('button', { name: 'Push', exact: true }).click();
    await shows(page, 'held is offline. Resume it first.');
  });
});
