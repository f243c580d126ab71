import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { whyNotInstalled } from '../../scripts/services/binaries.ts';
import { openPage, pressG, scrollsSideways, seriousFaults, startBrowser } from '../support/browser.ts';
import { startDaemon } from '../support/daemon.ts';

const why = await whyNotInstalled('browser');
if (why !== null) throw new Error(why);
const browser = await startBrowser();
afterAll(() => browser.close());
const daemon = await startDaemon({ console: true, scope: 'file' });
const url = await daemon.consoleUrl();

/** a document of this origin without a script */
const empty = `${url}/assets/none`;

beforeAll(async () => {
  await daemon.api('POST', '/v1/topics', { topic: 'order.close', callbackUrl: 'http://127.0.0.1:1/' });
  for (const id of ['a', 'b']) await daemon.push('order.close', '{}', { id, delay: '1h' });
});

const signedIn = (page: Page) => page.getByRole('navigation', { name: 'Main' }).first().waitFor();
const focused = (page: Page) => page.evaluate('document.activeElement.textContent');

describe('keys', () => {
  it('walk through the rows, open one, and can be switched off', async () => {
    const { page } = await openPage(browser, `${url}/jobs`);
    await page.getByRole('link', { name: 'b', exact: true }).first().waitFor();
    const first = page.locator('main tbody tr a').first();
    await page.keyboard.press('j');
    expect(await focused(page)).toBe(await first.textContent());
    await page.keyboard.press('?');
    await page.getByRole('checkbox', { name: 'Use single keys' }).uncheck();
    await page.getByRole('button', { name: 'Close' }).click();
    await page.keyboard.press('j');
    await pressG(page, 't');
    expect(new URL(page.url()).pathname).toBe('/jobs');
    // Enter is a key of the browser.
    await first.focus();
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/(jobs|topics)\/order\.close/);
    await page.reload();
    await signedIn(page);
    await pressG(page, 't');
    expect(new URL(page.url()).pathname).not.toBe('/topics');
  });

  it('r reads again', async () => {
    const { page } = await openPage(browser, `${url}/topics`);
    await page.getByRole('link', { name: 'order.close' }).first().waitFor();
    const again = page.waitForRequest((request) => request.url().includes('/v1/topics'));
    await page.keyboard.press('r');
    await again;
  });
});

describe('a sign-in', () => {
  it('that the next process does not know yet is tried once more', async () => {
    const { page } = await openPage(browser, empty);
    let calls = 0;
    await page.route('**/v1/me', async (route) => {
      calls += 1;
      const body = JSON.stringify({ status: 401, code: 'unauthorized', detail: 'early' });
      if (calls === 1) await route.fulfill({ status: 401, contentType: 'application/problem+json', body });
      else await route.continue();
    });
    await page.goto(url);
    await signedIn(page);
    expect(calls).toBe(2);
  });

  it('is repeated while dq does not answer', async () => {
    const { page } = await openPage(browser, empty);
    await page.route('**/v1/session', (route) => route.abort());
    await page.goto(url);
    await page.getByText('dq does not answer').waitFor();
    await page.unroute('**/v1/session');
    await signedIn(page);
  });

  it('in another tab goes on in this one', async () => {
    const { page } = await openPage(browser, `${url}/topics`);
    await signedIn(page);
    const other = await page.context().newPage();
    await other.goto(url);
    await signedIn(other);
    const told = page.evaluate(`new Promise((resolve) => addEventListener('storage', resolve, { once: true }))
      .then(() => true)`);
    // As the form of the sign-in does: it ends the session that both tabs had.
    const status = await other.evaluate(`fetch('/v1/session', { method: 'POST', body: '{}',
      headers: { 'content-type': 'application/json', 'x-dq-key': localStorage.getItem('dq-key') } })
      .then(async (reply) => { localStorage.setItem('dq-key', (await reply.json()).key); return reply.status; })`);
    expect([status, await told]).toEqual([200, true]);
    const reply = page.waitForResponse((one) => one.url().includes('/v1/topics'));
    await page.keyboard.press('r');
    // 304: the list has not changed.
    expect([200, 304]).toContain((await reply).status());
  });
});

describe('filters', () => {
  it.each([
    ['topics', 'Search name, title or owner', '/v1/topics', 'search'],
    ['topics', 'Owner', '/v1/topics', 'owner'],
    ['jobs', 'ID begins with', '/v1/jobs', 'idPrefix'],
  ])('of %s keep what is typed in "%s" through a poll', async (screen, label, call, name) => {
    const { page } = await openPage(browser, `${url}/${screen}`);
    const field = page.locator('main').getByLabel(label, { exact: true });
    await field.pressSequentially('order');
    const calls = [call, '/v1/summary'].map((path) =>
      page.waitForResponse((one) => new URL(one.url()).pathname === path),
    );
    // Each poll of the page calls.
    await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`);
    for (const reply of await Promise.all(calls)) await reply.finished();
    await page.evaluate('new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))');
    expect(await field.inputValue()).toBe('order');
    await field.press('Enter');
    await page.waitForURL(`**/${screen}?*${name}=order*`);
  });

  it('by age begin with one time, and one list', async () => {
    const { page } = await openPage(browser, empty);
    const asked = new Set<string | null>();
    page.on('request', (request) => {
      const { pathname, searchParams } = new URL(request.url());
      if (pathname === '/v1/dead') asked.add(searchParams.get('since'));
    });
    await page.goto(`${url}/dead?age=24h`);
    await page.getByText('No dead letter matches').first().waitFor();
    expect(asked.size).toBe(1);
  });
});

describe('a push', () => {
  it('of an earlier job shows the form with the job, not before it', async () => {
    await daemon.push('order.close', '{"n": 7}', { id: 'earlier', delay: '1h' });
    const { page } = await openPage(browser, empty);
    let answer = (): void => {};
    const held = new Promise<void>((resolve) => (answer = resolve));
    const asked = new Promise<void>((resolve) => {
      void page.route('**/v1/topics/order.close/jobs/earlier', async (route) => {
        resolve();
        await held;
        await route.continue();
      });
    });
    await page.goto(`${url}/push?topic=order.close&from=earlier`);
    await asked;
    await page.getByRole('heading', { name: 'Push a job' }).waitFor();
    expect(await page.getByLabel(/^Body/).count()).toBe(0);
    answer();
    await page.getByLabel(/^Body/).waitFor();
    expect(await page.getByLabel(/^Body/).inputValue()).toContain('7');
    expect(await page.getByLabel(/^Job ID/).inputValue()).toBe('earlier');
  });

  it('without a content type sends none', async () => {
    const { page } = await openPage(browser, `${url}/push?topic=order.close`);
    await page.getByLabel(/^Job ID/).fill('bare');
    await page.getByLabel('Content type').fill('');
    await page.getByLabel(/^Body/).fill('{}');
    await page.getByRole('button', { name: 'Push', exact: true }).click();
    await page.getByRole('link', { name: /View job/ }).waitFor();
    expect((await daemon.api('GET', '/v1/topics/order.close/jobs/bare')).body.contentType).toBeNull();
  });
});

describe('the manual', () => {
  it('opens from the page, finds a section by words, and its links lead on', async () => {
    const { page } = await openPage(browser, url);
    const path = await page.getByRole('link', { name: 'Manual' }).getAttribute('href');
    await page.goto(url + path);
    await page.keyboard.press('/');
    await page.keyboard.type('rotate secret');
    await page.locator('#hits a').first().waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/manual\/\S+#\S+/);
    const { hash } = new URL(page.url());
    expect(await page.locator(`[id="${hash.slice(1)}"]`).isVisible()).toBe(true);
    await page.goto(`${url}/manual/reference/errors`);
    await page.locator('article').getByRole('link', { name: 'Security' }).first().click();
    await page.getByRole('heading', { name: 'Security', exact: true, level: 1 }).waitFor();
    await page.getByRole('searchbox').fill('nothing-has-this-word');
    await page.getByText('Nothing found').waitFor();
    await page.goto(`${url}/manual/getting-started`);
    await page.getByRole('link', { name: '中文' }).click();
    await page.waitForURL(/\/manual\/zh\/getting-started$/);
    await page.getByRole('searchbox').fill('死信');
    await page.locator('#hits a').first().waitFor();
  });

  it.each([
    ['light', {}],
    ['dark', { colorScheme: 'dark' }],
    ['on a phone', { viewport: { width: 390, height: 844 } }],
  ] as const)('has no serious fault for assistive technology: %s', async (_name, options) => {
    const { page } = await openPage(browser, `${url}/manual`, options);
    for (const name of ['', '/reference/configuration', '/console', '/zh']) {
      await page.goto(`${url}/manual${name}`);
      expect([name, await seriousFaults(page), await scrollsSideways(page)]).toEqual([name, [], false]);
    }
  });
});
