// The console's screens about the system in a real browser: store, alerts, configuration, doctor, processes,
// access.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { whyNotInstalled } from '../../scripts/services/binaries.ts';
import { startRedisServers } from '../../scripts/services/redis.ts';

import { openPage, startBrowser } from '../support/browser.ts';
import { startDaemon } from '../support/daemon.ts';
import { owned } from '../support/services.ts';
import { until } from '../support/until.ts';

const why = await whyNotInstalled('browser');
if (why !== null) throw new Error(why);
const browser = await startBrowser();
afterAll(() => browser.close());
const config = { 'notifier.slots': 64, 'alerts.emails': ['ops@example.org'] };
const nested = (options: Record<string, unknown>): Record<string, unknown> => {
  const all: Record<string, Record<string, unknown>> = {};
  for (const [name, value] of Object.entries(options)) {
    const [group = '', key = ''] = name.split('.');
    all[group] = { ...all[group], [key]: value };
  }
  return all;
};
const daemon = await startDaemon({ console: true, scope: 'file', config: nested(config) });
const url = await daemon.consoleUrl();
const writeConfig = (options: Record<string, unknown>): void =>
  writeFileSync(join(daemon.directory, 'dq.yaml'), stringify(nested(options)));

const shows = (page: Page, text: string | RegExp) => page.getByText(text).first().waitFor();

describe('configuration and processes', () => {
  it('a changed file is shown, reloaded on the page, and in force; a wrong one changes nothing', async () => {
    const { page } = await openPage(browser, `${url}/configuration`);
    await page.getByPlaceholder('Name, value or description').fill('slots');
    const row = page.getByRole('row', { name: /notifier\.slots/ });
    await expect.poll(() => row.textContent()).toMatch(/64.*dq\.yaml:/s);
    writeConfig({ ...config, 'notifier.slots': 65 });
    await page.keyboard.press('Escape');
    await page.keyboard.press('r');
    await shows(page, 'then 65');
    await page.goto(`${url}/processes`);
    await page.getByRole('button', { name: 'Reload…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Reload' }).click();
    await shows(page, /generation 2 · reloaded/);
    writeConfig({ ...config, nonsense: 1 });
    await page.getByRole('button', { name: 'Reload…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Reload' }).click();
    await shows(page, /was rejected\. Nothing has changed/);
    await shows(page, /nonsense/);
    writeConfig(config);
  });
});

describe('doctor', () => {
  it('runs the checks, and lists the worst first', async () => {
    const { page } = await openPage(browser, `${url}/doctor`);
    await page.getByRole('button', { name: 'Run checks' }).click();
    await shows(page, /last run .* · /);
    const order = ['Failed', 'Warning', 'Unknown', 'OK'];
    const results = await page.locator('table.findings tbody tr td:first-child').allInnerTexts();
    expect(results.length).toBeGreaterThan(5);
    expect(results).toEqual([...results].sort((a, b) => order.indexOf(a) - order.indexOf(b)));
  });
});

describe('alerts', () => {
  it('name the recipients, and what is missing for mails', async () => {
    const { page } = await openPage(browser, `${url}/alerts`);
    await shows(page, 'No mail server. Set smtp.url.');
    await shows(page, 'ops@example.org');
    await shows(page, 'No open incidents');
  });

  it('above the outbox, whose chips say that there are more than they count', async () => {
    const smtp = { url: 'smtp://127.0.0.1:10', from: 'dq@example.org' };
    const dq = await startDaemon({ console: true, config: { smtp } });
    const topic = { topic: 'gone', callbackUrl: 'http://127.0.0.1:9/', maxAttempts: 1 };
    expect((await dq.api('POST', '/v1/topics', topic)).status).toBe(201);
    const jobs = Array.from({ length: 101 }, (_, n) => ({
      topic: 'gone',
      id: `g${n}`,
      body: {},
      delay: '0',
    }));
    expect((await dq.api('POST', '/v1/jobs', jobs)).body).toMatchObject({ accepted: 101 });
    await until('all are dead', async () => (await dq.api('GET', '/v1/summary')).body.states.dead === 101);
    const { page } = await openPage(browser, `${await dq.consoleUrl()}/alerts`);
    // Those of the first mail window have no recipient already, the others are pending.
    const chips = page.getByRole('button', { name: /^(Pending|Sending|No recipient) \d+/ });
    const counts = async (end: RegExp) => {
      const texts = await chips.allInnerTexts();
      return texts.every((text) => end.test(text)) ? texts.map((text) => Number(/\d+/.exec(text))) : [];
    };
    const sum = (all: readonly number[]) => all.reduce((total, n) => total + n, 0);
    await until('100 are counted, and more exist', async () => sum(await counts(/\d\+$/)) === 100);
    expect(await page.locator('main h2').allInnerTexts()).toEqual([
      ...['Open incidents', 'Recipients', 'Outbox'],
    ]);
    await page.getByRole('button', { name: 'Show 50 more' }).click();
    await until('all are counted', async () => sum(await counts(/\d$/)) === 101);
  });
});

it('the overview has the begins and ends of incidents, newest first', async () => {
  const directory = join(daemon.directory, 'data/alerts');
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const write = (minutesAgo: number, state: string): void => {
    const at = Date.now() - minutesAgo * 60_000;
    const name = `${String(at * 1_000).padStart(16, '0')}.json`;
    const rest = { kind: 'redis', about: 'redis-a:6379', detail: 'no answer', alert: 'sent', sentAt: at };
    writeFileSync(join(directory, name), JSON.stringify({ id: at * 1_000, at, state, ...rest }));
  };
  write(50, 'begun');
  write(40, 'over');
  write(30, 'begun');
  await daemon.api('PUT', '/v1/topics/some', { callbackUrl: 'http://127.0.0.1:9/' });
  const { page } = await openPage(browser, url);
  const card = page.locator('section.card', { has: page.getByRole('heading', { name: 'Recent events' }) });
  await card.locator('li').nth(2).waitFor();
  expect(await card.locator('li .pill').allInnerTexts()).toEqual(['Open', 'Over', 'Began']);
});

it('a cause without an attempt leads to its poisoned jobs', async () => {
  await daemon.api('PUT', '/v1/topics/some', { callbackUrl: 'http://127.0.0.1:9/' });
  const { page } = await openPage(browser, url);
  await page.getByText('Overview').first().waitFor();
  // A poisoned job needs five dead notifiers, so this reply is written by hand.
  const at = new Date().toISOString();
  const group = {
    topic: 'some',
    lastReason: null,
    status: null,
    count: 2,
    firstAt: at,
    lastAt: at,
    hours: [],
  };
  await page.route('**/v1/dead/groups', (route) =>
    route.fulfill({ json: { groups: [group], examined: 2, complete: true } }),
  );
  await page.goto(`${url}/dead`);
  await page.getByRole('link', { name: 'View', exact: true }).click();
  await page.waitForURL('**/dead?topic=some&reason=poison&status=none');
  await page.getByText('No dead letter matches').first().waitFor();
});

it.each(['topics', 'access', 'store', 'jobs', 'processes'])(
  'an error of %s has no bars beside it, and is in the language of the page',
  async (path) => {
    const { page } = await openPage(browser, url, { locale: 'zh-CN' });
    await page.getByText('概览').first().waitFor();
    const json = { code: 'unavailable', detail: 'registry: does not answer; try again' };
    await page.route(/\/v1\/(topics|tokens|sessions|store|jobs|processes)/, (route) =>
      route.fulfill({ status: 503, contentType: 'application/problem+json', json }),
    );
    await page.goto(`${url}/${path}`);
    await page.locator('main .strip.warn').getByText('暂时不可用，请稍后再试').first().waitFor();
    // A screen of two lists has two replies.
    await until('no bars', async () => (await page.locator('main .waiting').count()) === 0);
  },
);

describe('store', () => {
  it('of Redis: a card for each shard; a stopped one is red and keeps its last values', async () => {
    const servers = await startRedisServers(2, { config: ['appendonly yes'] });
    for (const server of servers) await owned('test', Promise.resolve(server));
    const dq = await startDaemon({ console: true, config: { redis: servers.map((one) => one.url) } });
    const { page } = await openPage(browser, `${await dq.consoleUrl()}/store`);
    await shows(page, /2 active shards/);
    const losses = page.getByText('A power cut may lose up to 2 s');
    await until('both shards are shown', async () => (await losses.count()) === 2);
    await servers[1]?.process.freeze();
    try {
      await page.locator('.pill').getByText('Does not answer').waitFor();
      await shows(page, /Values of the last answer/);
      const { body } = await dq.api('GET', '/v1/store');
      expect(body).toMatchObject({ kind: 'redis', ok: true, shards: [{ info: {} }, {}] });
    } finally {
      servers[1]?.process.thaw();
    }
    await page.getByRole('button', { name: 'Add shard…' }).click();
    await page.getByLabel('Host').fill('127.0.0.1');
    await page.getByLabel('Port').fill('1');
    await page.getByRole('dialog').getByRole('button', { name: 'Add shard' }).click();
    await shows(page, /Cannot reach 127\.0\.0\.1:1/);
  });
});

describe('access', () => {
  // Last: from then on this machine needs a sign-in.
  it('a token with an end is created, shown once, and listed with its end', async () => {
    const { page } = await openPage(browser, `${url}/access`);
    await page.getByRole('button', { name: 'Create token…' }).click();
    await page.getByLabel('Name').fill('li.wei');
    await page.getByLabel('Valid for').selectOption('7d');
    await page.getByRole('button', { name: 'Create token', exact: true }).click();
    await shows(page, 'Copy it now');
    await shows(page, /in 6 d 23 h/);
    await shows(page, /ago/);
  });
});
