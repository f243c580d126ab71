// Starts a daemon with its console and data of every kind: each state of a topic and of a job, dead letters
// of several causes, alerts, incidents, operations, audit rows, a token and sessions. The texts that people
// and endpoints choose are given, so that a test finds them again. Ends with the file.

import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, expect } from 'vitest';
import { startDaemon } from './daemon.ts';
import { until } from './until.ts';

/** Texts from outside. */
export interface OutsideTexts {
  readonly title: string;
  readonly owner: string;
  /** begins each job id */
  readonly id: string;
  /** a member of the JSON body */
  readonly body: string;
  readonly contentType: string;
  /** a member of the JSON reply, which the retry rule compares with `rule` */
  readonly reply: string;
  readonly replyHeader: string;
  readonly rule: string;
  /** path and query of the callback URL */
  readonly url: string;
  readonly address: string;
  readonly incident: string;
  /** badge of the console */
  readonly label: string;
}

export interface RichConsole {
  readonly url: string;
  /** of scope admin */
  readonly token: string;
  /** what the API answers to a call with that token */
  read(path: string): Promise<unknown>;
  /** paths of every screen in each of its states */
  readonly screens: readonly string[];
  /** a session for pages: `openPage(browser, url, { storageState })` */
  readonly storageState: Awaited<ReturnType<BrowserContext['storageState']>>;
}

/** Nothing listens there. Another port than the mail server's, which topics may not call. */
const nowhere = '127.0.0.1:9';

/** `vip.recall` dies with a 502, `coupon.expire` by its rule, `user.purge` by a 410. */
export async function startRichConsole(browser: Browser, texts: OutsideTexts): Promise<RichConsole> {
  const endpoint = await startEndpoint(texts);
  const directory = mkdtempSync(join(tmpdir(), 'dq-rich-'));
  writeIncidents(join(directory, 'data/alerts'), texts.incident);
  const daemon = await startDaemon({
    console: true,
    scope: 'file',
    directory,
    config: {
      console: { label: texts.label, color: 'amber' },
      smtp: { url: 'smtp://127.0.0.1:10', from: 'dq@example.org' },
      retry: { unit: '1h' },
      brokers: ['main=amqp091+amqp://127.0.0.1:2'],
    },
  });
  const url = await daemon.consoleUrl();
  const post = async (path: string, body?: unknown, method = 'POST') => {
    const reply = await daemon.api(method, path, body);
    expect([path, reply]).toEqual([path, expect.objectContaining({ status: expect.toSatisfy(isSuccess) })]);
    return reply.body;
  };
  const { id, contentType } = texts;
  const body = JSON.stringify({ text: texts.body, order: 4711 });
  const push = async (topic: string, name: string, delay: string, type = 'application/json') => {
    const reply = await daemon.push(topic, body, { id: id + name, delay }, type);
    expect([topic, name, reply.status, reply.body]).toEqual([topic, name, 201, expect.anything()]);
  };
  const people = { title: texts.title, owner: texts.owner, concurrency: 8 };
  const topics: Readonly<Record<string, object>> = {
    'order.close': { callbackUrl: `${endpoint}/ok`, delay: '30m' },
    'vip.recall': {
      callbackUrl: `${endpoint}/502${texts.url}`,
      maxAttempts: 1,
      alertEmails: [texts.address],
      headers: { 'x-shop': '1' },
    },
    'coupon.expire': {
      callbackUrl: `${endpoint}/rule`,
      maxAttempts: 1,
      retryIf: `{res.msg}=="${texts.rule}" || {res.code}!=0`,
    },
    'user.purge': { callbackUrl: `${endpoint}/410` },
    'bill.send': { callbackUrl: `${endpoint}/503` },
    'pay.check': { callbackUrl: `${endpoint}/ok` },
    'sms.send': { callbackUrl: `${endpoint}/ok` },
    'stock.sync': { callbackUrl: `http://${nowhere}/`, timeout: '1s' },
    'report.make': { callbackUrl: `${endpoint}/hang`, timeout: '60s', concurrency: 1 },
  };
  for (const [topic, settings] of Object.entries(topics))
    await post('/v1/topics', { topic, ...people, ...settings });
  await post('/v1/topics', {
    ...{ topic: 'order.publish', ...people, maxAttempts: 1 },
    ...{ delivery: 'mq', target: { broker: 'main', to: 'orders', key: null } },
  });
  await post('/v1/topics/pay.check/pause');
  for (const n of [1, 2, 3]) {
    await push('order.close', `done-${n}`, '0s');
    await push('order.close', `later-${n}`, `${n * 3}h`);
    await push('vip.recall', `dead-${n}`, '0s', contentType);
    await push('pay.check', `held-${n}`, '0s');
    await push('sms.send', `off-${n}`, '0s');
  }
  await push('order.close', 'cancelled', '1d');
  await push('coupon.expire', 'ruled', '0s');
  await push('user.purge', 'gone', '0s');
  await push('bill.send', 'again', '0s');
  await push('stock.sync', 'nowhere', '0s');
  await push('report.make', 'runs', '0s');
  await push('report.make', 'waits', '0s');
  const at = (topic: string, name: string) => `/v1/topics/${topic}/jobs/${encodeURIComponent(id + name)}`;
  await post(at('order.close', 'cancelled'), undefined, 'DELETE');
  await post('/v1/topics/sms.send/offline');
  const jobIs = (topic: string, name: string, state: string) =>
    until(`${name} is ${state}`, async () => {
      const { body: job } = await daemon.api('GET', at(topic, name));
      return job.state === state && (state !== 'delayed' || job.attempt > 0);
    });
  for (const [topic, name, state] of [
    ['order.close', 'done-3', 'done'],
    ['vip.recall', 'dead-3', 'dead'],
    ['coupon.expire', 'ruled', 'dead'],
    ['user.purge', 'gone', 'dead'],
    ['bill.send', 'again', 'delayed'],
    ['stock.sync', 'nowhere', 'delayed'],
    ['report.make', 'runs', 'reserved'],
  ] as const)
    await jobIs(topic, name, state);
  const operation = await post('/v1/operations', {
    kind: 'requeue',
    filter: { topic: 'user.purge', idPrefix: id },
  });
  await post('/v1/operations', { kind: 'run', filter: { topic: 'order.close' }, rate: 1 });
  await post('/v1/operations', { kind: 'purge', filter: { topic: 'vip.recall' }, dryRun: true });
  await post(`/v1/topics/order.close`, { title: texts.title, timeout: '4s' }, 'PATCH');
  const schedule = { cron: '0 9 * * 1-5', timezone: 'Asia/Shanghai', body: { text: texts.body } };
  await post('/v1/schedules', { name: 'daily-report', topic: 'order.close', ...schedule });
  await post('/v1/schedules', { name: 'cleanup', topic: 'pay.check', every: '10m', missed: 'last' });
  await post('/v1/schedules/cleanup/pause');
  for (const [name, topic] of [
    ['broken', 'sms.send'],
    ['made', 'pay.check'],
  ] as const) {
    await post('/v1/schedules', { name, topic, every: '1s' });
    await until(`the schedule ${name} had its time`, async () => {
      const { lastAt, problem } = (await daemon.api('GET', `/v1/schedules/${name}`)).body;
      return lastAt !== null || problem !== null;
    });
    await post(`/v1/schedules/${name}`, { every: '1d' }, 'PATCH');
  }
  const { token } = await post('/v1/tokens', { name: 'ops', scopes: ['admin'] });
  const job = (topic: string, name: string) => `/jobs/${topic}/${encodeURIComponent(id + name)}`;
  const screens = [
    ...['/', '/topics', '/topics?search=none', '/topics/new?create', '/topics/absent'],
    ...[
      '/topics/order.close',
      '/topics/vip.recall',
      '/topics/pay.check',
      '/topics/sms.send',
      '/topics/stock.sync',
    ],
    ...['jobs', 'attempts', 'settings', 'secret', 'changes'].map((tab) => `/topics/vip.recall/${tab}`),
    ...[
      '/topics/coupon.expire/settings',
      '/topics/order.publish/settings',
      '/jobs',
      `/jobs?body=4711`,
      '/jobs?state=reserved',
      '/jobs?topic=absent',
    ],
    ...[job('order.close', 'later-3'), job('order.close', 'done-1'), job('order.close', 'cancelled')],
    ...[job('vip.recall', 'dead-1'), job('coupon.expire', 'ruled'), job('bill.send', 'again')],
    ...[job('stock.sync', 'nowhere'), job('report.make', 'runs'), job('report.make', 'waits')],
    ...[job('pay.check', 'held-1'), job('sms.send', 'off-1'), job('order.close', 'absent')],
    ...['/dead', '/dead?topic=vip.recall', '/dead?topic=order.close', '/push', '/push?topic=order.close'],
    ...[
      '/operations',
      `/operations/${operation.id}`,
      '/operations/absent',
      '/store',
      '/processes',
      '/alerts?all=1',
    ],
    ...['', '/daily-report', '/daily-report/edit', '/cleanup', '/made', '/absent', '/new?create'].map(
      (path) => `/schedules${path}`,
    ),
    ...['/access', '/configuration', '/audit', '/doctor', '/first', '/more', '/absent'],
  ];
  return {
    url,
    token,
    screens,
    async read(path) {
      const reply = await fetch(daemon.url + path, { headers: { authorization: `Bearer ${token}` } });
      return await reply.json();
    },
    storageState: await signIn(browser, url, token),
  };
}

/** Also runs the checks of the doctor, which only a session can. */
async function signIn(browser: Browser, url: string, token: string): Promise<RichConsole['storageState']> {
  const context = await browser.newContext({ locale: 'en-GB' });
  const page = await context.newPage();
  await page.goto(`${url}/doctor`);
  await page.getByLabel('Access token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('button', { name: 'Run checks' }).click();
  await page.getByText(/last run .* · /).waitFor();
  const state = await context.storageState();
  await context.close();
  return state;
}

const isSuccess = (status: number): boolean => status >= 200 && status < 300;

async function startEndpoint({ reply, replyHeader }: OutsideTexts): Promise<string> {
  const server = createServer((request, response) => {
    request.resume();
    const path = request.url ?? '';
    const text = JSON.stringify({ code: 1, msg: reply });
    if (path.startsWith('/hang')) return;
    if (path.startsWith('/ok')) response.end('{"code":0}');
    else if (path.startsWith('/rule')) response.setHeader('x-note', replyHeader).end(text);
    else response.writeHead(Number(path.slice(1, 4)), { 'x-note': replyHeader }).end(reply);
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** As dq-upkeep writes them: one that lasts, and one that is over. */
function writeIncidents(directory: string, detail: string): void {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const write = (id: number, about: string, state: string) =>
    writeFileSync(
      join(directory, `${String(id).padStart(16, '0')}.json`),
      JSON.stringify({
        id,
        kind: 'redis',
        about,
        state,
        at: id / 1_000,
        detail,
        alert: 'nobody',
        sentAt: null,
      }),
    );
  const at = Date.now() * 1_000;
  write(at - 9_000_000_000, 'redis-a:6379', 'begun');
  write(at - 6_000_000_000, 'redis-a:6379', 'over');
  write(at - 3_000_000_000, 'redis-b:6379', 'begun');
}

/** Waits until a screen has its heading and its data. */
export async function screenIsThere(page: Page): Promise<void> {
  await page.locator('main h1').first().waitFor();
  const isWaiting = async () => (await page.locator('.waiting').count()) > 0;
  await until(`${page.url()} has its data`, async () => !(await isWaiting()));
}
