// The find box, the search of bodies and the horizon in a real browser, on a real daemon.

import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openPage, scrollsSideways, seriousFaults, startBrowser } from '../support/browser.ts';
import { startDaemon } from '../support/daemon.ts';
import { until } from '../support/until.ts';

const browser = await startBrowser();
afterAll(() => browser.close());
const daemon = await startDaemon({ console: true, scope: 'file' });
const url = await daemon.consoleUrl();
const hostile = '<img src=x onerror=alert(1)>';

const jobs = [
  ['vip.recall', 'vip-1', '{"order":88120}', '4m'],
  ['vip.recall', 'vip-2', '{"order":7}', '2h'],
  ['order.close', 'vip-1', '{"order":7}', '2d'],
  ['order.close', 'other', '{"note":"later 88120"}', '40d'],
  ['order.close', hostile, '{"order":9}', '2h'],
] as const;

beforeAll(async () => {
  for (const topic of ['order.close', 'vip.recall'])
    await daemon.api('POST', '/v1/topics', { topic, callbackUrl: 'http://127.0.0.1:9/' });
  for (const [topic, id, body, delay] of jobs) await daemon.push(topic, body, { id, delay });
});

const box = (page: Page) => page.getByRole('combobox', { name: /Search job ID/ });
const options = (page: Page) => page.getByRole('option');
const path = (page: Page) => decodeURIComponent(page.url().slice(url.length));
const rows = (page: Page) => page.locator('main tbody tr');

it('the find box lists exact ids, ids that begin so, topics and the search of bodies, by keys alone', async () => {
  const { page } = await openPage(browser, url);
  await page.getByText('Upcoming jobs by due time').waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('vip');
  await options(page).filter({ hasText: 'vip-2' }).waitFor();
  await options(page)
    .filter({ hasText: /^vip\.recall$/ })
    .waitFor();
  const texts = await options(page).allInnerTexts();
  expect(texts.at(-2)).toBe('Search IDs that begin with “vip”');
  expect(texts.at(-1)).toBe('Search bodies for “vip”');
  expect(texts).toHaveLength(6);
  for (const text of await page.locator('#find-list .one-line').all())
    expect((await text.boundingBox())?.width).toBeGreaterThan(10);
  expect(texts.at(-3)).toBe('vip.recall');
  expect(await seriousFaults(page)).toEqual([]);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/jobs/*/vip-*');
  await page.keyboard.press('/');
  await page.keyboard.press('Control+A');
  await page.keyboard.type('other');
  await options(page).filter({ hasText: 'order.close' }).waitFor();
  await page.keyboard.press('Enter');
  await page.waitForURL('**/jobs/order.close/other');
  await page.keyboard.press('/');
  await page.keyboard.type('xyz');
  await page.keyboard.press('Escape');
  expect(await options(page).count()).toBe(0);
});

it('Enter opens the job of this id, also when the answer about beginnings is the first', async () => {
  const { page } = await openPage(browser, url);
  const answer = await holdAnswers(page, /\/v1\/jobs\?id=/);
  await box(page).fill('other');
  await options(page).filter({ hasText: 'order.close' }).waitFor();
  const exact = page.waitForResponse(/\/v1\/jobs\?id=/);
  answer();
  await (await exact).finished();
  await page.evaluate('new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))');
  await box(page).press('Enter');
  await page.waitForURL('**/jobs/order.close/other');
});

it('a chosen option stays chosen when other answers arrive', async () => {
  const { page } = await openPage(browser, url);
  const answer = await holdAnswers(page, /\/v1\/jobs\?/);
  await box(page).fill('vip');
  await options(page)
    .filter({ hasText: /^vip\.recall$/ })
    .waitFor();
  await box(page).press('ArrowDown');
  answer();
  await options(page).filter({ hasText: 'vip-2' }).waitFor();
  expect(await page.locator('[role=option][aria-selected=true]').allInnerTexts()).toEqual(['vip.recall']);
  await box(page).press('Enter');
  await page.waitForURL('**/topics/vip.recall');
});

/** Holds the answers to these calls until the returned function is called. */
async function holdAnswers(page: Page, calls: RegExp): Promise<() => void> {
  let answer = (): void => {};
  const held = new Promise<void>((resolve) => (answer = resolve));
  await page.route(calls, async (route) => {
    await held;
    await route.continue();
  });
  return () => answer();
}

it('an id from outside appears as text in the list', async () => {
  const { page } = await openPage(browser, url);
  await box(page).fill(hostile.slice(0, 8));
  await options(page).filter({ hasText: hostile }).first().waitFor();
  expect(await page.locator('#find-list img').count()).toBe(0);
});

it('a query of keys opens the jobs with its filters, and the box and the chips show it', async () => {
  const { page } = await openPage(browser, url);
  await box(page).fill('topic:vip.recall id:vip-* due:..3h');
  await box(page).press('Enter');
  await page.waitForURL('**/jobs?**');
  await until('both are listed', async () => (await rows(page).count()) === 2);
  expect(path(page)).toBe('/jobs?topic=vip.recall&idPrefix=vip-&due=..3h');
  expect(await box(page).inputValue()).toBe('topic:vip.recall due:..3h id:vip-*');
  expect(await page.getByLabel('ID begins with').inputValue()).toBe('vip-');
  await page.getByLabel('Due', { exact: true }).fill('..5m');
  await page.keyboard.press('Tab');
  await until('one is listed', async () => (await rows(page).count()) === 1);
  await page.getByLabel('Due', { exact: true }).fill('soon');
  await page.keyboard.press('Tab');
  await page.getByText('Write a time such as').waitFor();
  await box(page).fill('status:5xx topic:vip.recall');
  await box(page).press('Enter');
  await page.waitForURL('**/dead?**');
});

it('the search of bodies finds the jobs of all topics', async () => {
  const { page } = await openPage(browser, url);
  await box(page).fill('88120');
  await options(page).filter({ hasText: 'Search bodies for' }).click();
  await page.waitForURL('**/jobs?body=88120');
  await page.getByText('2 found').waitFor();
  expect(await rows(page).count()).toBe(2);
  expect(await seriousFaults(page)).toEqual([]);
  // A number that no id begins with leads on to the bodies.
  await box(page).fill('8812');
  await box(page).press('Enter');
  await page.waitForURL('**/jobs?idPrefix=8812');
  await page.locator('main').getByRole('button', { name: 'Search bodies for “8812”' }).click();
  await page.getByText('2 found').waitFor();
  expect(path(page)).toBe('/jobs?body=8812');
  await page.goto(`${url}/jobs?body=nothing`);
  await page.getByText('No job matches').first().waitFor();
  await page.getByText('dq keeps ended jobs without their bodies').waitFor();
});

it('the horizon shows bars, and the same numbers as a table; a topic has its own', async () => {
  const { page } = await openPage(browser, url);
  const card = page.locator('section.card', { hasText: 'Upcoming jobs by due time' });
  await card.getByText('5 jobs').waitFor();
  const chart = card.getByRole('img').first();
  expect(await chart.getAttribute('aria-label')).toBe(
    'Upcoming jobs by due time: 5 min 1, 3 h 2, 3 d 1, > 30 d 1',
  );
  await card.getByRole('button', { name: 'View as table' }).click();
  await card.getByRole('row', { name: '3 h 2 40 %' }).waitFor();
  await page.goto(`${url}/topics/vip.recall`);
  await card.getByText('2 jobs').waitFor();
});

it('a phone shows the found jobs and the horizon without sideways scroll', async () => {
  const phone = { viewport: { width: 390, height: 844 }, locale: 'zh-CN' };
  const { page } = await openPage(browser, `${url}/`, phone);
  await page.getByText('任务到期时间分布').waitFor();
  expect(await scrollsSideways(page)).toBe(false);
  await page.locator('#find').focus();
  await page.keyboard.type('vip');
  await options(page).filter({ hasText: 'vip-2' }).waitFor();
  expect(await scrollsSideways(page)).toBe(false);
  await page.goto(`${url}/jobs?idPrefix=vip`);
  await until('three are listed', async () => (await page.locator('main ul.cards li').count()) === 3);
  expect(await scrollsSideways(page)).toBe(false);
  expect(await seriousFaults(page)).toEqual([]);
});
