// The overview answers at a glance which topic is in trouble, since when, how many jobs wait, how late they
// are and what to press: without a scroll of a small screen, for any number of topics.
import type { Locator, Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { seriousFaults } from '../support/browser.ts';
import { button, confirm, drawn, startSite } from '../support/console-site.ts';
import { until } from '../support/until.ts';

const site = await startSite();
const screen = { width: 1280, height: 800 };
const rowsOf = (page: Page): Locator =>
  page.locator('section', { hasText: 'Topics that need attention' }).locator('tbody tr');
const row = (page: Page, topic: string): Locator => rowsOf(page).filter({ hasText: topic });

/** Each line is in the first screen. */
async function isInSight(page: Page): Promise<void> {
  await drawn(page);
  for (const one of await rowsOf(page).all()) {
    const box = await one.boundingBox();
    expect((box?.y ?? screen.height) + (box?.height ?? 0)).toBeLessThanOrEqual(screen.height);
  }
  expect(await page.evaluate('scrollY')).toBe(0);
}

async function addQuietTopics(count: number): Promise<void> {
  const names = Array.from({ length: count }, (_, n) => `quiet-${String(n).padStart(4, '0')}`);
  const next = names.values();
  const add = async () => {
    for (const name of next) await site.addTopic(name);
  };
  await Promise.all(Array.from({ length: 8 }, add));
}

it('names the trouble of each topic, since when, what waits, how late, and what to press', async () => {
  await site.addTopic('shop.call', { maxAttempts: 5, backoff: ['1h'] }, '/502');
  const page = await site.open('/', { viewport: screen });
  await page.getByText('No topic needs attention.').waitFor();
  for (const id of ['a', 'b', 'c', 'd']) await site.push('shop.call', id);
  const failing = row(page, 'shop.call');
  await failing.getByText('Failing').waitFor();
  await isInSight(page);
  await failing.getByText('status 502').waitFor();
  await failing.getByText(/ago$/).waitFor();
  // A number, and the parts of its sum.
  expect(await failing.locator('td').nth(3).textContent()).toBe('40 due · 4 delayed');
  // Its jobs wait for their next attempts: the row says when, and since when the first one was due.
  await failing.getByText(/^next in/).waitFor();
  await failing.getByRole('link', { name: 'Attempts' }).waitFor();

  await site.addTopic('shop.held');
  await site.change('POST', '/v1/topics/shop.held/pause');
  await site.push('shop.held', 'first');
  await site.addTopic('shop.dead', { maxAttempts: 1 }, '/410');
  for (const id of ['x', 'y']) await site.push('shop.dead', id);
  const dead = row(page, 'shop.dead');
  await dead.getByText('status 410').waitFor();
  await row(page, 'shop.held').getByText('Paused').waitFor();
  await isInSight(page);
  expect(await seriousFaults(page)).toEqual([]);
  // A failing topic is first, and one that is held on purpose is last.
  expect(await rowsOf(page).first().textContent()).toContain('shop.call');
  expect(await rowsOf(page).last().textContent()).toContain('shop.held');

  await row(page, 'shop.held').getByRole('link', { name: /s$/ }).last().click();
  await page.getByText('Its topic is paused, so dq holds it.').waitFor();
  expect(new URL(page.url()).pathname).toBe('/jobs/shop.held/first');
  await page.goBack();
  await confirm(page, 'Resume');
  await until('the job is delivered', () => site.callsOf('first').length === 1);
  await row(page, 'shop.held').waitFor({ state: 'detached' });
  await button(failing, 'Pause…').click();
  await button(page.getByRole('dialog'), 'Pause').click();
  await failing.getByText(/Paused|Failing/).waitFor();
  await until(
    'the calls are stopped',
    async () => (await site.read('/v1/topics/shop.call')).state === 'paused',
  );
  // The action of the row follows the topic, whose last attempts still failed.
  await button(failing, 'Resume…').waitFor();
  expect(await button(failing, 'Pause…').count()).toBe(0);
});

it('says the same of a topic, and of its jobs, on every page', async () => {
  await site.addTopic('same.fails', { maxAttempts: 5, backoff: ['1h'] }, '/503');
  for (const id of ['a', 'b', 'c', 'd']) await site.push('same.fails', id);
  await site.addTopic('same.held');
  await site.change('POST', '/v1/topics/same.held/pause');
  await site.push('same.held', 'now');
  await site.push('same.held', 'later', { delay: '1h' });
  const page = await site.open('/', { viewport: screen });
  await row(page, 'same.fails').getByText('Failing').waitFor();
  await row(page, 'same.fails').getByText('0 due · 4 delayed').waitFor();
  await row(page, 'same.held').getByText('1 due · 1 delayed').waitFor();
  await page.goto(`${site.url}/topics/same.fails`);
  const state = page.locator('.title .pill');
  await state.getByText('Failing', { exact: true }).waitFor();
  await page.getByText('The last 4 attempts failed (status 503). dq retries these jobs.').waitFor();
  const tile = page.locator('.tiles > *', { hasText: 'Jobs waiting' });
  expect(await tile.textContent()).toContain('40 due · 4 delayed');

  await page.goto(`${site.url}/jobs?topic=same.held`);
  const job = (id: string) =>
    page.locator('main tbody tr').filter({ has: page.getByRole('link', { name: id, exact: true }) });
  await job('now').getByText('Held: paused').waitFor();
  await job('later').getByText('Delayed').waitFor();
  await page.getByRole('columnheader', { name: 'Due (earliest first)' }).waitFor();
  await page.goto(`${site.url}/jobs/same.held/now`);
  await state.getByText('Held: paused').waitFor();
  await page.goto(`${site.url}/jobs/same.held/later`);
  await page.getByText(/^The job is due in 1 h|^The job is due in 59 min/).waitFor();
  await page.getByText('The topic is paused, so dq will hold the job.').waitFor();
  expect(await page.getByText(/ starts in/).count()).toBe(0);
});

it('holds with 25 topics in trouble, and with 2,000 topics', async () => {
  const troubled = Array.from({ length: 25 }, (_, n) => `held-${String(n).padStart(2, '0')}`);
  for (const topic of troubled) {
    await site.addTopic(topic, { title: `Close the unpaid orders of shop ${topic}` });
    await site.change('POST', `/v1/topics/${topic}/pause`);
    await site.push(topic, 'waits');
  }
  const page = await site.open('/', { viewport: screen });
  await rowsOf(page).nth(4).waitFor();
  await isInSight(page);
  await button(page, /^Show/).first().click();
  await rowsOf(page).nth(19).waitFor();
  await addQuietTopics(2_000);
  const { attention, attentionCount, topics } = await site.read('/v1/summary');
  expect(topics.active + topics.paused).toBeGreaterThan(2_000);
  expect([attention.length, attentionCount]).toEqual([20, expect.toSatisfy((n: number) => n >= 25)]);
  // What a page reads each 5 s.
  expect(JSON.stringify(attention).length).toBeLessThan(20 * 1_024);
  await page.reload();
  await page.getByRole('link', { name: /^All 2,0\d\d topics/ }).waitFor();
  await rowsOf(page).nth(4).waitFor();
  await isInSight(page);
});
