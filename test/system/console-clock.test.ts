// Times on the page: relative ones by the daemon's clock, whatever the browser's says; absolute ones in the
// browser's zone; the counters of today by the daemon's day.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { whyNotInstalled } from '../../scripts/services/binaries.ts';
import { openPage, startBrowser } from '../support/browser.ts';
import { startDaemon } from '../support/daemon.ts';
import { until } from '../support/until.ts';

const hour = 3_600_000;
const topic = 'order.close';
const why = await whyNotInstalled('browser');
if (why !== null) throw new Error(why);
const server = createServer((request, reply) => {
  request.resume();
  reply.end('{"code":200}');
});
await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
afterAll(() => void server.close());
const browser = await startBrowser();
afterAll(() => browser.close());
const daemon = await startDaemon({
  console: true,
  scope: 'file',
  env: { TZ: 'UTC' },
  config: { timezone: 'UTC' },
});
const url = await daemon.consoleUrl();

beforeAll(async () => {
  const callbackUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  expect((await daemon.api('POST', '/v1/topics', { topic, callbackUrl })).status).toBe(201);
  for (const id of ['later', 'moved-Shanghai', 'moved-New_York'])
    expect((await daemon.push(topic, '{}', { id, delay: '3h' })).status).toBe(201);
  await daemon.push(topic, '{}', { id: 'delivered', delay: 0 });
  await until(
    'the delivery is counted',
    async () => (await daemon.api('GET', `/v1/topics/${topic}/stats`)).body.today.delivered === 1,
  );
});

/** Shifts Date of the pages that follow by their `aheadMs`; timers stay correct. */
const shifted = (ms: number): string => `
  globalThis.aheadMs = ${ms};
  const Right = Date;
  Date = new Proxy(Right, {
    construct: (target, args, fresh) =>
      Reflect.construct(target, args.length === 0 ? [Right.now() + aheadMs] : args, fresh),
    get: (target, name) => name === 'now' ? () => Right.now() + aheadMs : Reflect.get(target, name),
  });`;

async function open(path: string, timezoneId: string, aheadMs: number): Promise<Page> {
  // A document of this origin without a script.
  const { page } = await openPage(browser, `${url}/assets/none`, { timezoneId });
  await page.addInitScript(shifted(aheadMs));
  await page.goto(url + path);
  return page;
}

/** "14:37" */
const timeIn = (timeZone: string, at: number): string =>
  new Intl.DateTimeFormat('en-GB', { timeZone, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }).format(
    at,
  );

async function dueOf(id: string): Promise<number> {
  return Date.parse((await daemon.api('GET', `/v1/topics/${topic}/jobs/${id}`)).body.dueAt);
}

describe.each([
  ['Asia/Shanghai', 2 * hour],
  ['America/New_York', -2 * hour],
])('a browser in %s whose clock is %i ms ahead', (zone, aheadMs) => {
  it('shows when a job is due: how long by the daemon, the time in its own zone', async () => {
    const page = await open(`/jobs/${topic}/later`, zone, aheadMs);
    const due = timeIn(zone, await dueOf('later'));
    expect(due).not.toBe(timeIn('UTC', await dueOf('later')));
    const headline = await page
      .getByText(/^The first attempt starts/)
      .first()
      .textContent();
    expect(headline).toMatch(/ in 2 h 5\d min, at /);
    expect(headline).toContain(due);
    await page.goto(`${url}/jobs?topic=${topic}`);
    const row = page.locator('main tbody tr').filter({ has: page.getByRole('link', { name: 'later' }) });
    const text = await row.textContent();
    expect(text).toMatch(/in 2 h 5\d min/);
    expect(text).toContain(due);
  });

  it('follows the clock of the browser when it is set right', async () => {
    const page = await open(`/jobs/${topic}/later`, zone, aheadMs);
    const headline = (due: RegExp) => page.locator('.where strong').filter({ hasText: due }).waitFor();
    await headline(/ in 2 h 5\d min/);
    await page.route('**/v1/summary', (route) => route.abort());
    await page.evaluate('aheadMs = 0');
    await page.keyboard.press('r');
    // Until the next reply the page is wrong by as much.
    await headline(aheadMs > 0 ? / in 4 h 5\d min/ : / in 5\d min/);
    await page.unroute('**/v1/summary');
    await page.keyboard.press('r');
    await headline(/ in 2 h 5\d min/);
  });

  it('finds jobs by their due time from the daemon’s now', async () => {
    const page = await open(`/jobs?topic=${topic}&due=${encodeURIComponent('+2h..+4h')}`, zone, aheadMs);
    await page.getByRole('link', { name: 'later', exact: true }).first().waitFor();
  });

  it('reschedules: the dialog and the toast say the same time', async () => {
    const id = `moved-${zone.split('/')[1]}`;
    const page = await open(`/jobs/${topic}/${id}`, zone, aheadMs);
    await page.getByRole('button', { name: 'Reschedule…' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText(/^Due .* \(in (10 min|9 min 5\d s)\)$/).waitFor();
    await dialog.getByRole('button', { name: 'Reschedule' }).click();
    // A busy machine answers late: minutes are enough to tell a clock that is 2 h wrong.
    await page
      .getByText(/^Due in (10|9|8) min/)
      .first()
      .waitFor();
  });

  it('shows the counters of the daemon’s day, and names its zone', async () => {
    const page = await open('/topics', zone, aheadMs);
    const row = page.locator('main tbody tr').filter({ has: page.getByRole('link', { name: topic }) });
    const { today } = (await daemon.api('GET', `/v1/topics/${topic}/stats`)).body;
    await row.getByText(new RegExp(`^${today.pushed}\\D+${today.delivered}\\D+0$`)).waitFor();
    await page.getByText(/Embedded store · UTC/).waitFor();
  });

  it('shows the changes of the last hour, and the time of a reply that was the last', async () => {
    const page = await open('/audit?range=1h', zone, aheadMs);
    const asked = await page.waitForRequest((request) => request.url().includes('/v1/audit?'));
    const since = Number(new URL(asked.url()).searchParams.get('since'));
    expect(Math.abs(Date.now() - hour - since)).toBeLessThan(5 * 60_000);
    await page.locator('main tbody tr').filter({ hasText: topic }).first().waitFor();
    await page.route('**/v1/summary', (route) => route.abort());
    await page.keyboard.press('r');
    const text = (await page.locator('header.bar .live.off').textContent()) ?? '';
    const [, hours, minutes] = /^Last updated (\d\d):(\d\d):\d\d$/.exec(text) ?? [];
    const [nowHours = 0, nowMinutes = 0] = timeIn(zone, Date.now()).split(':').map(Number);
    const apart = nowHours * 60 + nowMinutes - (Number(hours) * 60 + Number(minutes));
    expect((apart + 1_440) % 1_440, text).toBeLessThan(10);
  });
});

it('the audit log keeps its further pages while time goes on, until a refresh', async () => {
  for (let n = 0; n < 60; n += 1) await daemon.api('PATCH', `/v1/topics/${topic}`, { title: `title ${n}` });
  const isWritten = async () =>
    (await daemon.api('GET', '/v1/audit?limit=200&action=patchTopic')).body.items.length === 60;
  await until('the changes are written', isWritten);
  const page = await open('/audit?range=1h', 'UTC', 0);
  const rows = page.locator('main tbody .opener');
  const starts: number[] = [];
  page.on('request', (request) => {
    const since = new URL(request.url()).searchParams.get('since');
    if (since !== null) starts.push(Number(since));
  });
  await page.getByRole('button', { name: 'Show 50 more' }).click();
  await rows.nth(59).waitFor();
  const [start = 0] = starts;
  await page.route('**/v1/summary', (route) => route.abort());
  await page.evaluate('aheadMs = 120_000');
  await rows.first().click();
  await page.locator('main td dd').first().waitFor();
  await page.evaluate(
    'new Promise((end) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(end))))',
  );
  expect(await rows.count()).toBeGreaterThanOrEqual(60);
  await page.keyboard.press('r');
  await until('the list begins again', async () => (await rows.count()) === 50);
  expect(starts.at(-1)).toBeGreaterThanOrEqual(start + 120_000);
});

it('has UTC in the tooltip of its times', async () => {
  const page = await open(`/jobs?topic=${topic}&state=delayed`, 'America/New_York', 2 * hour);
  const utc = new Date(await dueOf('later')).toISOString().replace('T', ' ').replace('Z', ' UTC');
  // How long, and the time.
  await page.locator('main tbody').getByTitle(utc).nth(1).waitFor();
  for (const path of [`/jobs/${topic}/later`, `/topics/${topic}?tab=attempts`, '/audit', '/access']) {
    await page.goto(url + path);
    const time = page.locator('main time').first();
    await time.waitFor();
    expect(await time.getAttribute('title'), path).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC$/);
  }
});
