import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { whyNotInstalled } from '../../scripts/services/binaries.ts';
import { openPage, scrollsSideways, seriousFaults, startBrowser } from '../support/browser.ts';
import { startDaemon } from '../support/daemon.ts';
import { until } from '../support/until.ts';

const why = await whyNotInstalled('browser');
if (why !== null) throw new Error(why);
const server = createServer((request, reply) => {
  request.resume();
  reply.writeHead(request.url === '/bad' ? 502 : 200).end('{}');
});
await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
afterAll(() => void server.close());
const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const daemon = await startDaemon({ console: true, scope: 'file' });
const browser = await startBrowser();
afterAll(() => browser.close());
const url = await daemon.consoleUrl();

const upkeep = () => daemon.workers().find(({ title }) => title === 'dq-upkeep')?.pid;
const seriesOf = async (query: string) => (await daemon.api('GET', `/v1/series${query}`)).body;

/** Ends dq-upkeep; the master starts the next one. */
async function endUpkeep(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  const pid = upkeep();
  process.kill(pid as number, signal);
  await until('the next one works', () => ![pid, undefined].includes(upkeep()));
}

let delivered = 0;

/** Pushes jobs that are delivered, and waits until dq-upkeep has their counters. */
async function deliver(count: number): Promise<void> {
  for (let n = 0; n < count; n += 1) await daemon.push('good', '{}', { id: `g${delivered + n}`, delay: 0 });
  delivered += count;
  await until('they are counted', async () => {
    const { today } = (await daemon.api('GET', '/v1/summary')).body;
    return today.delivered === delivered && today.pushed === delivered + 25 && today.retried === 25;
  });
}

/** Ends dq-upkeep, which writes the open minute. What notifiers observed of earlier jobs has reached it when
 *  the counter of a later job has: both are sent once a second. */
async function written(): Promise<void> {
  await deliver(1);
  await endUpkeep('SIGTERM');
}

beforeAll(async () => {
  const topics = { good: { title: '订单', owner: 'li.wei' }, bad: { backoff: ['1h'] } };
  for (const [topic, settings] of Object.entries(topics))
    await daemon.api('POST', '/v1/topics', { topic, callbackUrl: `${endpoint}/${topic}`, ...settings });
  for (let n = 0; n < 25; n += 1) await daemon.push('bad', '{}', { id: `b${n}`, delay: 0 });
  await deliver(30);
  await written();
});

describe('series', () => {
  it('of a dq-upkeep that ends are written, and those of the next one are added', async () => {
    const all = await seriesOf('?from=2h&step=10m');
    expect(all.totals).toMatchObject({ pushed: 56, delivered: 31, failed: 25, retried: 25 });
    expect(all.reasons).toMatchObject([{ reason: 'status', status: 502, total: 25 }]);
    expect((await seriesOf('?from=10m&topic=bad')).totals).toMatchObject({ failed: 25, delivered: 0 });
    await endUpkeep('SIGKILL');
    await deliver(5);
    await written();
    const later = await seriesOf('?from=2h&step=10m');
    expect(later.totals).toMatchObject({ pushed: 62, delivered: 37, failed: 25, retried: 25 });
  });
});

const canvas = (page: Page, title: string) =>
  page.locator('section.card', { has: page.getByRole('heading', { name: title }) });

describe('the page', () => {
  it('the overview draws what happened, and shows it as a table', async () => {
    const { page } = await openPage(browser, url);
    const throughput = canvas(page, 'Throughput');
    await throughput.locator('canvas').waitFor();
    await throughput.getByRole('button', { name: 'Table' }).click();
    await throughput.getByRole('columnheader', { name: 'Delivered' }).waitFor();
    expect(await throughput.locator('tbody tr').count()).toBeGreaterThan(50);
    // Earlier minutes are not recorded, which is not 0.
    expect(await throughput.locator('tbody tr').last().textContent()).toContain('–');
    await throughput.getByRole('button', { name: 'Chart' }).click();
    await throughput.locator('canvas').waitFor();
    await canvas(page, 'Failed attempts').getByText('status 502').waitFor();
    await page.getByRole('link', { name: '7 d' }).click();
    await page.waitForURL(/range=7d/);
    await throughput.getByText('per 2 h').waitFor();
    expect(await seriousFaults(page)).toEqual([]);
  });

  it('a topic shows its health, its traffic and its reasons of failure', async () => {
    const { page } = await openPage(browser, `${url}/topics/bad`);
    await page.getByText('Failing', { exact: true }).or(page.getByText('Probing')).first().waitFor();
    await canvas(page, 'Traffic').locator('canvas').waitFor();
    await canvas(page, 'Failed attempts').getByText('status 502').waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    await page.goto(`${url}/topics/good?range=7d`);
    await canvas(page, 'Lateness').locator('canvas').waitFor();
  });

  it('the list of topics filters by state and owner, and its menu works by keys', async () => {
    const { page } = await openPage(browser, `${url}/topics?owner=li.wei`);
    await page.getByRole('link', { name: 'good' }).first().waitFor();
    await until('one topic is left', async () => (await page.locator('main tbody tr').count()) === 1);
    const menu = page.getByRole('button', { name: 'Actions for good' }).first();
    await menu.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Pause…' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Pause…' }).waitFor({ state: 'hidden' });
    await page.goto(`${url}/topics?state=offline`);
    await page.getByText('No topic matches').waitFor();
    await page.getByRole('button', { name: 'Clear filters' }).first().click();
    const bad = page.locator('main tbody tr', { hasText: 'bad' });
    await bad.getByText('Failing', { exact: true }).waitFor();
    await bad.locator('td.nowrap', { hasText: /^\d+(\.\d+)? (ms|s)$/ }).waitFor();
  });

  it.each(['/', '/topics', '/topics/bad'])('%s fits a phone, in Chinese and dark', async (path) => {
    const { page } = await openPage(browser, `${url}${path}`, {
      ...{ locale: 'zh-CN', colorScheme: 'dark', viewport: { width: 390, height: 844 } },
    });
    const shown = path === '/topics' ? page.locator('ul.cards li') : page.locator('canvas');
    await shown.first().waitFor();
    expect(await scrollsSideways(page)).toBe(false);
    expect(await seriousFaults(page)).toEqual([]);
  });
});
