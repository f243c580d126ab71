// Recent attempts, the endpoint card and test calls of the console, in a real browser on a real daemon.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { afterAll, describe, expect, it } from 'vitest';
import { whyNotInstalled } from '../../scripts/services/binaries.ts';
import { openPage, scrollsSideways, seriousFaults, startBrowser } from '../support/browser.ts';
import { startDaemon } from '../support/daemon.ts';
import { until } from '../support/until.ts';

/** A reply and its header must appear as text. */
const hostile = `<img src=x onerror=alert(1)><script>alert(2)</script>"'\u202e`;

const why = await whyNotInstalled('browser');
if (why !== null) throw new Error(why);
const tests: string[] = [];
const server = createServer((request, reply) => {
  request.resume();
  if (request.headers['dq-test'] === 'true') tests.push(request.url ?? '');
  if (request.url === '/ok') reply.end('{"code":200}');
  else reply.writeHead(502, { 'x-hostile': '<b>' }).end(hostile);
});
await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
afterAll(() => void server.close());
const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const browser = await startBrowser();
afterAll(() => browser.close());
const daemon = await startDaemon({ console: true, scope: 'file' });
const url = await daemon.consoleUrl();
const shows = (page: Page, text: string | RegExp) => page.getByText(text).first().waitFor();

async function addTopic(topic: string, settings: object): Promise<void> {
  const { status } = await daemon.api('POST', '/v1/topics', { topic, ...settings });
  expect(status).toBe(201);
}

describe('attempts and endpoint', () => {
  it('an empty sample says that it began with the start of dq', async () => {
    await addTopic('quiet', { callbackUrl: `${endpoint}/ok` });
    const { page } = await openPage(browser, `${url}/topics/quiet/attempts`);
    await shows(page, /No attempts yet. The sample begins with the start of dq/);
    await shows(page, /^sample from .* since \d\d:\d\d:\d\d/);
    await page.goto(`${url}/topics/quiet`);
    await shows(page, 'No calls since the start of the notifiers');
  });

  it('appear by outcome, with replies as text, and the endpoint is failing', async () => {
    await addTopic('order.close', { callbackUrl: `${endpoint}/ok` });
    await addTopic('vip.recall', { callbackUrl: `${endpoint}/502`, maxAttempts: 1 });
    await daemon.push('order.close', '{}', { id: 'good' });
    for (const id of ['bad-1', 'bad-2', 'bad-3']) await daemon.push('vip.recall', '{}', { id });
    const { page } = await openPage(browser, `${url}/topics/vip.recall/attempts`);
    await page.getByRole('link', { name: 'bad-3' }).first().waitFor();
    await shows(page, '502');
    await shows(page, '1/1');
    await shows(page, hostile.slice(0, 28));
    await page.getByRole('button', { name: 'Delivered' }).click();
    await shows(page, 'No such attempts in the sample');
    await page.getByRole('button', { name: 'Failed', exact: true }).click();
    await page.getByRole('link', { name: 'bad-1' }).first().waitFor();
    expect(new URL(page.url()).search).toBe('?outcome=failed');
    await page.goto(`${url}/topics/vip.recall`);
    const card = page.locator('section.card', { hasText: 'Failures in a row' });
    await card.getByText(endpoint).waitFor();
    await card.getByText('Failing').waitFor();
    await card.getByRole('link', { name: 'order.close' }).click();
    await page.getByRole('link', { name: 'good' }).first().waitFor();
  });
});

describe('test call', () => {
  it('shows request, reply and verdict, and counts nothing', async () => {
    await addTopic('pay.check', { callbackUrl: `${endpoint}/ok`, retryIf: '{res.code}!=200' });
    const { page } = await openPage(browser, `${url}/topics/pay.check`);
    await page.getByRole('button', { name: 'Test call' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Body').fill('{"order":4711}');
    await dialog.getByRole('button', { name: 'Send test call' }).click();
    await dialog.getByText('Success').waitFor();
    await dialog.getByText('{res.code} = 200').waitFor();
    await dialog.getByText('A job would be delivered.').waitFor();
    await dialog.getByText('Request', { exact: true }).click();
    await dialog.getByText(/dq-test: true/).waitFor();
    expect(tests).toEqual(['/ok']);
    await dialog.getByRole('button', { name: 'Close' }).click();
    await until('the dialog is gone', async () => (await page.getByRole('dialog').count()) === 0);
    const focused = await page.evaluate('document.activeElement.textContent');
    expect(focused).toBe('Test call');
    const { body: stats } = await daemon.api('GET', '/v1/topics/pay.check/stats');
    expect(stats.today).toMatchObject({ delivered: 0, retried: 0, dead: 0 });
    expect((await daemon.api('GET', '/v1/attempts?topic=pay.check')).body.items).toEqual([]);
    await until('the other attempts are counted', async () => {
      const { items } = (await daemon.api('GET', '/v1/endpoints?topic=pay.check')).body;
      expect(items).toMatchObject([{ topics: expect.not.arrayContaining(['pay.check']), attempts: 4 }]);
      return true;
    });
  });

  it('shows a hostile reply as text', async () => {
    await addTopic('hostile', { callbackUrl: `${endpoint}/502` });
    const { page } = await openPage(browser, `${url}/topics/hostile`);
    await page.getByRole('button', { name: 'Test call' }).click();
    await page.getByRole('button', { name: 'Send test call' }).click();
    await shows(page, 'A job would be tried again after 1 min.');
    await page.getByText('Reply headers').click();
    await shows(page, 'x-hostile: <b>');
    expect(await page.locator('dialog pre').first().textContent()).toContain(hostile.slice(0, 40));
    expect(await page.locator('dialog img, dialog script, dialog pre b').count()).toBe(0);
  });
});

describe('layout', () => {
  it.each([
    { width: 1_440, colorScheme: 'light', locale: 'en-GB' },
    { width: 390, colorScheme: 'dark', locale: 'zh-CN' },
  ] as const)('$width $colorScheme $locale: no serious fault, no sideways scroll', async (look) => {
    const { page } = await openPage(browser, `${url}/topics/vip.recall/attempts`, {
      ...{ locale: look.locale, colorScheme: look.colorScheme },
      viewport: { width: look.width, height: 900 },
    });
    await page.getByText('bad-3').filter({ visible: true }).first().waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    expect(await scrollsSideways(page)).toBe(false);
    await page.goto(`${url}/topics/vip.recall`);
    await page.getByText(endpoint).filter({ visible: true }).first().waitFor();
    expect(await scrollsSideways(page)).toBe(false);
    await page.getByRole('button', { name: /Test call|测试调用/ }).click();
    await page.getByRole('button', { name: /Send test call|发送测试调用/ }).click();
    await page.locator('dialog pre').first().waitFor();
    expect(await seriousFaults(page)).toEqual([]);
    expect(await scrollsSideways(page)).toBe(false);
  });
});
