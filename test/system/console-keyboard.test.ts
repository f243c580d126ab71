// The console by the keyboard alone: no test here moves a pointer or calls an element.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openPage, pressG, startBrowser } from '../support/browser.ts';
import { startDaemon } from '../support/daemon.ts';
import { until } from '../support/until.ts';

/** id → calls */
const calls = new Map<string, number>();
let status = 410;
const server = createServer((request, reply) => {
  request.resume();
  const id = String(request.headers['dq-job-id']);
  calls.set(id, (calls.get(id) ?? 0) + 1);
  reply.writeHead(status).end('{"code":200}');
});
await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
afterAll(() => void server.close());
const browser = await startBrowser();
afterAll(() => browser.close());
const daemon = await startDaemon({ console: true, scope: 'file' });
const url = await daemon.consoleUrl();
let token = '';

beforeAll(async () => {
  const callbackUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  for (const topic of ['vip.recall', 'coupon.expire'])
    expect((await daemon.api('POST', '/v1/topics', { topic, callbackUrl })).status).toBe(201);
  for (const id of ['dead-1', 'dead-2', 'dead-3']) await daemon.push('coupon.expire', '{}', { id, delay: 0 });
  await until(
    'all are dead',
    async () => (await daemon.api('GET', '/v1/topics/coupon.expire/stats')).body.states.dead === 3,
  );
  status = 200;
  for (const id of ['vip-7', 'vip-8'])
    expect((await daemon.push('vip.recall', '{}', { id, delay: '1h' })).status).toBe(201);
  const made = await daemon.api('POST', '/v1/tokens', {
    name: 'li.wei',
    scopes: ['read', 'push', 'operate'],
  });
  token = made.body.token;
});

/** Name of the element that has the focus, as far as a test needs it. */
const focused = (page: Page): Promise<string> =>
  page.evaluate(`(() => {
    const { activeElement: at } = document;
    return (at.ariaLabel ?? at.labels?.[0]?.textContent ?? at.textContent).trim();
  })()`);

/** Presses a key until an element of this name has the focus. */
async function pressTo(page: Page, key: string, name: RegExp): Promise<void> {
  const seen: string[] = [];
  for (let n = 0; n < 80; n += 1) {
    await page.keyboard.press(key);
    const at = await focused(page);
    if (name.test(at)) return;
    seen.push(at.slice(0, 40));
  }
  throw new Error(`${key} does not reach ${name}, but ${JSON.stringify(seen)}`);
}

async function signIn(): Promise<Page> {
  const { page } = await openPage(browser, url);
  await page.getByLabel('Access token').waitFor();
  await pressTo(page, 'Tab', /^Access token/);
  await page.keyboard.type(token);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  return page;
}

describe('the keyboard alone', () => {
  it('signs in, finds a job and runs it', async () => {
    const page = await signIn();
    await page.keyboard.press('/');
    await page.keyboard.type('vip-7');
    await page.getByRole('option').filter({ hasText: 'vip.recall' }).first().waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL('**/jobs/vip.recall/vip-7');
    await page.getByRole('button', { name: 'Run now' }).waitFor();
    await pressTo(page, 'Tab', /^Run now$/);
    await page.keyboard.press('Enter');
    await page
      .getByText(/Delivered with attempt 1/)
      .first()
      .waitFor();
    expect(calls.get('vip-7')).toBe(1);
  });

  it('leaves a dialog by Escape, and the focus is where it was', async () => {
    const page = await signIn();
    await page.goto(`${url}/jobs/vip.recall/vip-8`);
    await page.getByRole('button', { name: 'Cancel job…' }).waitFor();
    await pressTo(page, 'Tab', /^Cancel job…$/);
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    await pressTo(page, 'Tab', /^Keep job$/);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    expect(await focused(page)).toBe('Cancel job…');
    // Single keys work again after it.
    await pressG(page, 't');
    await page.waitForURL('**/topics');
    // The dialog of a menu returns the focus to the button of the menu, which is still on the page.
    await page.getByRole('link', { name: 'vip.recall' }).first().waitFor();
    await pressTo(page, 'Tab', /^Actions for vip\.recall$/);
    await page.keyboard.press('Enter');
    await pressTo(page, 'Tab', /^Pause…$/);
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: 'Pause vip.recall?' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    expect(await focused(page)).toBe('Actions for vip.recall');
  });

  it('g and a letter opens each screen; c copies the id of the row', async () => {
    const page = await signIn();
    const screens = {
      t: '/topics',
      d: '/dead',
      p: '/push',
      s: '/processes',
      a: '/access',
      o: '/',
      j: '/jobs',
    };
    for (const [letter, path] of Object.entries(screens)) {
      await pressG(page, letter);
      await page.waitForURL(url + path);
    }
    await page.getByRole('link', { name: 'vip-8' }).first().waitFor();
    await pressTo(page, 'j', /^vip-8$/);
    await page.keyboard.press('c');
    await page.context().grantPermissions(['clipboard-read']);
    await until(
      'the id is copied',
      async () => (await page.evaluate('navigator.clipboard.readText()')) === 'vip-8',
    );
  });

  it('selects a dead letter by single keys and requeues it, and only it', async () => {
    const page = await signIn();
    await pressG(page, 'd');
    await page.getByRole('link', { name: 'dead-2' }).first().waitFor();
    await pressTo(page, 'j', /^dead-2$/);
    await page.keyboard.press('x');
    await page.getByText('1 selected').waitFor();
    await page.keyboard.press('Shift+R');
    await page.getByText('1 requeued').first().waitFor();
    await until('it is called again', () => calls.get('dead-2') === 2);
    expect([calls.get('dead-1'), calls.get('dead-3')]).toEqual([1, 1]);
  });

  it('does the same without single keys, which people can switch off', async () => {
    const page = await signIn();
    await page.evaluate(`localStorage.setItem('dq-keys', 'off')`);
    await page.goto(`${url}/dead`);
    await page.getByRole('link', { name: 'dead-3' }).first().waitFor();
    await pressTo(page, 'Tab', /^Select dead-3$/);
    // One of the two does nothing: both would select the row and clear it again.
    await page.keyboard.press('x');
    await page.keyboard.press('Space');
    await page.getByText('1 selected').waitFor();
    await pressTo(page, 'Shift+Tab', /^Requeue$/);
    await page.keyboard.press('Enter');
    await until('it is called again', () => calls.get('dead-3') === 2);
    expect(calls.get('dead-1')).toBe(1);
  });

  it('a key acts on the selection that is shown, also before the next frame', async () => {
    const page = await signIn();
    await page.goto(`${url}/dead`);
    await page.getByRole('link', { name: 'dead-1' }).first().waitFor();
    await pressTo(page, 'j', /^dead-1$/);
    const isShown = await page.evaluate(`(async () => {
      const press = (key) =>
        document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
      const isShown = () => document.querySelector('.pickbar') !== null;
      press('x');
      // No frame is drawn between microtasks.
      for (let n = 0; n < 1_000 && !isShown(); n += 1) await null;
      press('R');
      return isShown();
    })()`);
    expect(isShown).toBe(true);
    await until('it is called again', () => calls.get('dead-1') === 2);
  });
});
