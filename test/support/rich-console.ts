// Starts a daemon with its console and data of every kind: each state of a topic and of a job, dead letters
// of several causes, alerts, incidents, operations, audit rows, a token and sessions. The texts that people
// and endpoints choose are given, so that a test finds them again. Ends with the file.

import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { openPage } from './browser.ts';
import { drawn, type Site, startSite } from './console-site.ts';
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
  /** name of the token of scope admin */
  readonly token: string;
}

export interface RichConsole {
  readonly browser: Browser;
  readonly url: string;
  /** what the API answers to a token of scope admin */
  read(path: string): Promise<unknown>;
  /** paths of every screen in each of its states */
  readonly screens: readonly string[];
  /** A page with a session of scope admin, at the overview. */
  open(options?: BrowserContextOptions): Promise<Page>;
}

/** Nothing listens there. Another port than the mail server's, which topics may not call. */
const nowhere = '127.0.0.1:9';

/** `vip.recall` dies with a 502, `coupon.expire` by its rule, `user.purge` by a 410. `addMore` adds data
 *  while no call needs a token, and returns the paths of their screens. */
export async function startRichConsole(
  texts: OutsideTexts,
  addMore: (site: Site) => Promise<readonly string[]> = async () => [],
): Promise<RichConsole> {
  const directory = mkdtempSync(join(tmpdir(), 'dq-rich-'));
  writeIncidents(join(directory, 'data/alerts'), texts.incident);
  const site = await startSite(
    {
      directory,
      config: {
        console: { label: texts.label, color: 'amber' },
        smtp: { url: 'smtp://127.0.0.1:10', from: 'dq@example.org' },
        brokers: ['main=amqp091+amqp://127.0.0.1:2'],
      },
    },
    { reply: texts.reply, header: texts.replyHeader },
  );
  const { url, endpoint, browser, daemon } = site;
  const post = (path: string, body?: unknown, method = 'POST') => site.change(method, path, body);
  const { id, contentType } = texts;
  const body = JSON.stringify({ text: texts.body, order: 4711 });
  const push = (topic: string, name: string, delay: string, type = 'application/json') =>
    site.push(topic, id + name, { body, delay, contentType: type });
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
    'export.pull': { delivery: 'pull', concurrency: undefined },
  };
  for (const [topic, settings] of Object.entries(topics))
    await post('/v1/topics', { topic, ...people, ...settings });
  await post('/v1/topics', {
    topic: 'order.publish',
    ...people,
    maxAttempts: 1,
    delivery: 'mq',
    target: { broker: 'main', to: 'orders', key: null },
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
  for (const [topic, name, state] of [
    ['order.close', 'done-3', 'done'],
    ['vip.recall', 'dead-3', 'dead'],
    ['coupon.expire', 'ruled', 'dead'],
    ['user.purge', 'gone', 'dead'],
    ['report.make', 'runs', 'reserved'],
  ] as const)
    await site.jobIs(topic, id + name, state);
  // A delayed job whose attempt has failed.
  for (const [topic, name] of [
    ['bill.send', 'again'],
    ['stock.sync', 'nowhere'],
  ] as const)
    await until(
      `${name} has failed`,
      async () => (await site.jobIs(topic, id + name, 'delayed')).attempt > 0,
    );
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
      const { lastAt, problem } = await site.read(`/v1/schedules/${name}`);
      return lastAt !== null || problem !== null;
    });
    await post(`/v1/schedules/${name}`, { every: '1d' }, 'PATCH');
  }
  const further = await addMore(site);
  const { token } = await post('/v1/tokens', { name: texts.token, scopes: ['admin'] });
  const storageState = await signIn(browser, url, token);
  const job = (topic: string, name: string) => `/jobs/${topic}/${encodeURIComponent(id + name)}`;
  const under = (path: string, ...rest: string[]) => rest.map((one) => path + one);
  const jobs = {
    'order.close': ['later-3', 'done-1', 'cancelled', 'absent'],
    'vip.recall': ['dead-1'],
    'coupon.expire': ['ruled'],
    'bill.send': ['again'],
    'stock.sync': ['nowhere'],
    'report.make': ['runs', 'waits'],
    'pay.check': ['held-1'],
    'sms.send': ['off-1'],
  };
  const screens = [
    ...['/', '/topics', '/push', '/dead', '/jobs', '/operations', '/schedules', '/store', '/processes'],
    ...['/access', '/configuration', '/audit', '/doctor', '/first', '/more', '/absent', '/alerts?all=1'],
    ...under('/topics', '?search=none', '/new?create', '/absent', '/order.close', '/vip.recall'),
    ...under('/topics/', 'pay.check', 'sms.send', 'stock.sync'),
    ...under('/topics/vip.recall/', 'jobs', 'attempts', 'settings', 'secret', 'changes'),
    ...['coupon.expire', 'order.publish', 'export.pull'].map((topic) => `/topics/${topic}/settings`),
    ...under('/jobs?', 'body=4711', 'state=reserved', 'topic=absent'),
    ...Object.entries(jobs).flatMap(([topic, names]) => names.map((name) => job(topic, name))),
    ...under('/dead?topic=', 'vip.recall', 'order.close'),
    ...under('/operations/', operation.id, 'absent'),
    ...under('/schedules/', 'daily-report', 'daily-report/edit', 'cleanup', 'made', 'absent', 'new?create'),
    ...['/push?topic=order.close', ...further],
  ];
  return {
    browser,
    url,
    screens,
    async read(path) {
      const reply = await fetch(daemon.url + path, { headers: { authorization: `Bearer ${token}` } });
      return await reply.json();
    },
    async open(options) {
      const { page } = await openPage(browser, url, { storageState, ...options });
      await screenIsThere(page);
      return page;
    },
  };
}

/** Also opens the doctor, which runs its checks. */
async function signIn(browser: Browser, url: string, token: string) {
  const context = await browser.newContext({ locale: 'en-GB' });
  const page = await context.newPage();
  await page.goto(`${url}/doctor`);
  await page.getByLabel('Access token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText(/last run .* · /).waitFor();
  const state = await context.storageState();
  await context.close();
  return state;
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

/** Goes to another screen as a link does, without a load of the page. */
export async function goTo(page: Page, path: string): Promise<void> {
  await page.evaluate(`history.pushState(null, '', ${JSON.stringify(path)});
    dispatchEvent(new PopStateEvent('popstate'))`);
  await drawn(page);
  await screenIsThere(page);
}
