// The audit log and the settings of a topic in the console: a change appears with its difference, a change by
// someone else meanwhile is shown field by field, and unsaved input is not lost.

import { readFileSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import { afterAll, expect, it } from 'vitest';
import { openPage, scrollsSideways, seriousFaults, startBrowser } from '../support/browser.ts';
import { startDaemon } from '../support/daemon.ts';

const browser: Browser = await startBrowser();
afterAll(() => browser.close());
const daemon = await startDaemon({ console: true, scope: 'file' });
const url = await daemon.consoleUrl();
const callbackUrl = 'http://127.0.0.1:9/hooks';
const topic = 'vip.recall';
await daemon.api('POST', '/v1/topics', { topic, callbackUrl, title: 'Recall' });

const field = (page: Page, name: string) => page.locator(`#field-${name}`);

it('a saved setting appears in Changes and in the audit log, with actor and difference', async () => {
  const { page } = await openPage(browser, `${url}/topics/${topic}/settings`);
  await field(page, 'concurrency').fill('7');
  await page.getByRole('button', { name: 'Save changes' }).click();
  await page.getByText('Saved', { exact: true }).first().waitFor();
  await page.getByRole('link', { name: 'Changes' }).click();
  await page.getByRole('button', { name: 'concurrency: 64 → 7' }).click();
  await page.locator('td dd', { hasText: '64 → 7' }).waitFor();
  await page.goto(`${url}/audit?topic=${topic}&action=patchTopic`);
  await page.getByRole('cell', { name: 'this machine' }).first().waitFor();
  expect(await seriousFaults(page)).toEqual([]);
  await page.goto(`${url}/audit?actor=absent`);
  await page.getByText('No changes in this range').waitFor();
});

it('saving with a test call saves first, and shows the reply of the saved endpoint', async () => {
  const { page } = await openPage(browser, `${url}/topics/${topic}/settings`);
  await field(page, 'timeout').fill('2s');
  await page.getByRole('button', { name: 'Save and test' }).click();
  await page.locator('.verdict').getByText('connect', { exact: true }).waitFor();
  expect((await daemon.api('GET', `/v1/topics/${topic}`)).body.timeout).toBe('2s');
});

it('the CSV quotes cells that a spreadsheet would run', async () => {
  await daemon.api('PATCH', `/v1/topics/${topic}`, { owner: '=cmd()' });
  const { page } = await openPage(browser, `${url}/audit`);
  await page.getByRole('button', { name: 'owner: ' }).first().waitFor();
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download CSV' }).click(),
  ]);
  const text = readFileSync(await download.path(), 'utf8');
  expect(text).toContain('"patchTopic"');
  expect(text).not.toMatch(/(^|,)"[=+@-]/m);
});

it('a change by someone else is shown with both values; the second save succeeds', async () => {
  const { page } = await openPage(browser, `${url}/topics/${topic}/settings`);
  await field(page, 'title').fill('mine');
  await daemon.api('PATCH', `/v1/topics/${topic}`, { title: 'theirs', maxAttempts: 4 });
  const save = page.getByRole('button', { name: 'Save changes' });
  await save.click();
  await page.getByText('Someone else changed this topic meanwhile').waitFor();
  await page.getByRole('button', { name: 'Take theirs' }).waitFor();
  expect(await field(page, 'maxAttempts').inputValue()).toBe('4');
  expect(await field(page, 'title').inputValue()).toBe('mine');
  await save.click();
  await page.getByText('Saved', { exact: true }).first().waitFor();
  const { body } = await daemon.api('GET', `/v1/topics/${topic}`);
  expect(body).toMatchObject({ title: 'mine', maxAttempts: 4 });
});

it('links and Back ask before unsaved settings are lost', async () => {
  const { page } = await openPage(browser, `${url}/topics/${topic}`);
  await page.getByRole('link', { name: 'Settings' }).click();
  await field(page, 'title').waitFor();
  // In one step: Back may come before the next frame is drawn.
  await page.evaluate(`{
    const title = document.querySelector('#field-title');
    title.value = 'unsaved';
    title.dispatchEvent(new Event('input', { bubbles: true }));
    history.back();
  }`);
  await page.getByRole('button', { name: 'Stay' }).click();
  expect(await field(page, 'title').inputValue()).toBe('unsaved');
  expect(new URL(page.url()).pathname).toBe(`/topics/${topic}/settings`);
  await page.locator('nav.nav').getByRole('link', { name: 'Jobs' }).click();
  await page.getByRole('button', { name: 'Leave' }).click();
  await page.waitForURL(`${url}/jobs`);
});

it('the form names a mistake while it is typed, and the address of the callback', async () => {
  const { page } = await openPage(browser, `${url}/topics/${topic}/settings`);
  await field(page, 'retryIf').fill('{res.code}!=');
  await page
    .locator('label', { has: field(page, 'retryIf') })
    .locator('.wrong')
    .waitFor();
  await field(page, 'retryIf').fill('');
  await field(page, 'callbackUrl').fill('http://127.0.0.1:9/other');
  await page.getByText('Resolves to 127.0.0.1 · allowed by the egress policy').waitFor();
  await field(page, 'headers').fill('x-tenant: shop');
  await page.getByRole('button', { name: 'Save changes' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Save changes' }).click();
  await page.getByText('Saved', { exact: true }).first().waitFor();
  expect((await daemon.api('GET', `/v1/topics/${topic}`)).body.headers).toEqual({ 'x-tenant': 'shop' });
});

it('deleting a topic with jobs from the page removes both', async () => {
  const topic = 'to.delete';
  await daemon.api('POST', '/v1/topics', { topic, callbackUrl });
  await daemon.api('POST', `/v1/topics/${topic}/jobs?delay=1h`, { n: 1 });
  const { page } = await openPage(browser, `${url}/topics/${topic}`);
  await page.getByRole('button', { name: 'Delete…' }).click();
  await page.getByRole('dialog').getByRole('textbox').fill(topic);
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.waitForURL(`${url}/topics`);
  expect((await daemon.api('GET', `/v1/topics/${topic}`)).status).toBe(404);
});

it('on a phone and in Chinese: cards, and no sideways scroll', async () => {
  const options = { viewport: { width: 390, height: 844 }, colorScheme: 'dark', locale: 'zh-CN' } as const;
  const { page } = await openPage(browser, `${url}/audit`, options);
  await page.locator('ul.cards li').first().waitFor();
  expect(await scrollsSideways(page)).toBe(false);
  expect(await seriousFaults(page)).toEqual([]);
  await page.goto(`${url}/topics/${topic}/settings`);
  await field(page, 'headers').waitFor();
  expect(await scrollsSideways(page)).toBe(false);
});
