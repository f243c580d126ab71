// The screens of the console in a real browser, on a real daemon.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page, Response } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { whyNotInstalled } from '../../scripts/services/binaries.ts';
import { openPage, pressG, startBrowser } from '../support/browser.ts';
import { startDaemon } from '../support/daemon.ts';
import { until } from '../support/until.ts';

/** Texts that must appear as text wherever they come from. */
const hostile = `<img src=x onerror=alert(1)><script>alert(2)</script>"'javascript:alert(3)\u202e`;

const why = await whyNotInstalled('browser');
if (why !== null) throw new Error(why);
const server = createServer((request, reply) => {
  request.resume();
  if (request.url === '/ok') reply.end('{"code":200}');
  else reply.writeHead(502, { 'content-type': 'text/html' }).end(hostile);
});
await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
afterAll(() => void server.close());
/** base of an endpoint: /ok delivers, everything else fails with a hostile reply */
const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const browser = await startBrowser();
afterAll(() => browser.close());
const daemon = await startDaemon({ console: true, scope: 'file' });
const url = await daemon.consoleUrl();

beforeAll(async () => {
  await addTopic('order.close', { callbackUrl: `${endpoint}/ok`, title: 'Close unpaid orders' });
  await addTopic('vip.recall', {
    callbackUrl: `${endpoint}/502`,
    title: hostile.replace('\u202e', ''),
    owner: '<b>owner</b>',
    maxAttempts: 1,
  });
});

async function addTopic(topic: string, settings: object): Promise<void> {
  const { status } = await daemon.api('POST', '/v1/topics', { topic, ...settings });
  expect(status).toBe(201);
}

const shows = (page: Page, text: string | RegExp) => page.getByText(text).first().waitFor();

describe('a job', () => {
  it('is pushed on the page, delivered, and its page says so', async () => {
    const { page } = await openPage(browser, `${url}/push?topic=order.close`);
    await page.getByRole('textbox', { name: 'in', exact: true }).fill('0');
    await page.getByLabel(/^Body/).fill('{"order": 9007199254740993}');
    await shows(page, 'valid JSON');
    await page.getByRole('button', { name: 'Push', exact: true }).click();
    await page.getByRole('link', { name: /View job/ }).click();
    await shows(page, /Delivered with attempt 1/);
    expect(new URL(page.url()).pathname).toMatch(/^\/jobs\/order\.close\//);
  });

  it('shows hostile texts of the body, the reply and the topic as text', async () => {
    await daemon.push('vip.recall', JSON.stringify({ note: hostile }), { id: hostile.slice(0, 40) });
    const { page } = await openPage(browser, `${url}/dead`);
    await page.getByRole('link', { name: hostile.slice(0, 40) }).click();
    await shows(page, /All 1 attempts failed/);
    // The reply and the body.
    const shown = page.locator('pre', { hasText: '<img src=x onerror=alert(1)><script>alert(2)</script>' });
    expect(await shown.count()).toBe(2);
    await page.goto(`${url}/topics/vip.recall`);
    await shows(page, /<b>owner<\/b>/);
    expect(await page.locator('main img, main script, main b b').count()).toBe(0);
  });

  it('that is dead is requeued from the list', async () => {
    await daemon.push('vip.recall', '{}', { id: 'again' });
    const { page } = await openPage(browser, `${url}/dead?topic=vip.recall`);
    const row = page.getByRole('row').filter({ hasText: 'again' });
    await row.getByRole('checkbox').check();
    await page.getByRole('button', { name: 'Requeue', exact: true }).click();
    await shows(page, '1 requeued');
    await until('it has died once more', async () => {
      const { body } = await daemon.api('GET', '/v1/topics/vip.recall/jobs/again');
      return body.state === 'dead' && body.attempts.length >= 1;
    });
  });
});

describe('a topic', () => {
  it('is paused after a question, and the overview offers to resume it', async () => {
    await addTopic('pay.check', { callbackUrl: `${endpoint}/ok` });
    const { page } = await openPage(browser, `${url}/topics/pay.check`);
    await page.getByRole('button', { name: 'Pause…' }).click();
    await shows(page, 'Pause pay.check?');
    await page.getByRole('button', { name: 'Pause', exact: true }).click();
    await shows(page, 'Paused');
    await daemon.push('pay.check', '{}');
    await page.goto(url);
    await page.getByRole('button', { name: 'Resume…' }).click();
    await page.getByRole('button', { name: 'Resume', exact: true }).click();
    await until('it is active', async () => {
      const { body } = await daemon.api('GET', '/v1/topics/pay.check');
      return body.state === 'active';
    });
  });
});

describe('settings', () => {
  it('show a mistake at its field and in the rule, ask for grave changes, and are saved', async () => {
    await addTopic('invoice.issue', { callbackUrl: `${endpoint}/ok` });
    const { page } = await openPage(browser, `${url}/topics/invoice.issue/settings`);
    const rule = page.getByLabel(/^Retry rule/);
    await rule.fill('{res.code}!=');
    await page.locator('pre mark').waitFor();
    await page.getByLabel('Default delay').fill('soon');
    await page.getByRole('button', { name: 'Save changes' }).click();
    await shows(page, 'Save the changes of invoice.issue?');
    await page.getByRole('dialog').getByRole('button', { name: 'Save changes' }).click();
    // The preview can show the mistake while the dialog still makes the form inert.
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.locator('label', { hasText: 'Default delay' }).locator('.wrong').waitFor();
    await rule.fill('{res.code}!=200');
    await shows(page, '{res.code} = 500');
    await page.getByLabel('Default delay').fill('10m');
    await page.getByRole('button', { name: 'Save changes' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Save changes' }).click();
    // Not "unsaved changes"
    await page.getByText('Saved', { exact: true }).waitFor();
    const { body } = await daemon.api('GET', '/v1/topics/invoice.issue');
    expect(body).toMatchObject({ retryIf: '{res.code}!=200', delay: '10m' });
  });

  it('create a topic and show its secret once', async () => {
    const { page } = await openPage(browser, `${url}/topics/new?create`);
    await page.getByLabel('Name', { exact: true }).fill('cart.remind');
    await page.getByRole('textbox', { name: 'Callback URL' }).fill(`${endpoint}/ok`);
    await page.getByRole('button', { name: 'Create topic' }).click();
    await shows(page, /^whsec_/);
    await page.getByRole('button', { name: 'cart.remind' }).click();
    await page.getByRole('heading', { name: 'cart.remind' }).waitFor();
    expect((await daemon.api('GET', '/v1/topics/cart.remind')).status).toBe(200);
  });
});

/** A year whose 29 March is among the next ten and has 02:30 in Berlin: clocks go forward on a Sunday. */
function springYear(): number {
  const year = new Date().getUTCFullYear() + 1;
  return new Date(Date.UTC(year, 2, 29)).getUTCDay() === 0 ? year + 1 : year;
}

describe('a schedule', () => {
  it('is added with its next times, run, paused, changed and removed, and the audit log says so', async () => {
    await addTopic('report', { callbackUrl: `${endpoint}/ok` });
    const { page } = await openPage(browser, `${url}/schedules`);
    await page.getByRole('link', { name: 'New schedule' }).click();
    await page.getByLabel('Name', { exact: true }).fill('nightly');
    await page.locator('form select').first().selectOption('report');
    const cron = page.getByRole('textbox', { name: 'Cron expression' });
    await cron.fill('60 2 * * *');
    await page.locator('.when .wrong').waitFor();
    await cron.fill('30 2 29 3 *');
    await page.getByLabel('Time zone').fill('Europe/Berlin');
    await shows(page, `29 Mar ${springYear()}, 02:30:00`);
    expect(await page.locator('.times li').count()).toBe(10);
    await page.getByLabel(/^Body/).fill('{"all": true}');
    await page.getByRole('button', { name: 'Create schedule' }).click();
    await page.getByRole('heading', { name: 'nightly' }).waitFor();
    const read = async () => (await daemon.api('GET', '/v1/schedules/nightly')).body;
    expect(await read()).toMatchObject({
      ...{ topic: 'report', cron: '30 2 29 3 *', timezone: 'Europe/Berlin', body: '{"all":true}' },
    });
    const act = async (verb: string) => {
      await page.getByRole('button', { name: `${verb}…` }).click();
      await page.getByRole('dialog').getByRole('button', { name: verb, exact: true }).click();
      await page.getByRole('dialog').waitFor({ state: 'detached' });
    };
    await act('Run now');
    await until('the job is delivered', async () => {
      const { body } = await daemon.api('GET', '/v1/topics/report/stats');
      return body.today.delivered === 1;
    });
    await act('Pause');
    await shows(page, 'Paused');
    await page.getByRole('button', { name: 'Edit' }).click();
    await page.getByRole('textbox', { name: 'Interval' }).fill('1s');
    await page.getByRole('button', { name: 'Save changes' }).click();
    await page.getByRole('heading', { name: 'nightly' }).waitFor();
    await act('Resume');
    await page.getByRole('link', { name: /^schedule:nightly:/ }).waitFor();
    expect(await read()).toMatchObject({ every: '1s', cron: null, body: '{"all":true}' });
    await act('Remove');
    await shows(page, 'No schedules yet.');
    // Rows are written after the reply.
    const items = await until('seven changes are recorded', async () => {
      const { body } = await daemon.api('GET', '/v1/audit?topic=report');
      return body.items.length >= 7 && body.items;
    });
    expect(items.map(({ action }: { action: string }) => action).reverse()).toEqual([
      ...['createTopic', 'createSchedule', 'runSchedule', 'pauseSchedule'],
      ...['changeSchedule', 'resumeSchedule', 'removeSchedule'],
    ]);
  });
});

describe('every screen', () => {
  it('is reached by keys', async () => {
    const { page } = await openPage(browser, url);
    await page.locator('main h1').waitFor();
    await pressG(page, 'd');
    await page.getByRole('heading', { name: 'Dead letters' }).waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('again');
    await page.keyboard.press('Enter');
    // The id itself leads to its job; before the answer, the beginning of ids to the list.
    await until('the job is in the address', () => /\/jobs.*again/.test(page.url()));
    await shows(page, 'vip.recall');
  });
});

describe('sign-in', () => {
  it('goes on with the first token that the page creates, and shows it', async () => {
    const own = await startDaemon({ console: true });
    const { page } = await openPage(browser, `${await own.consoleUrl()}/access`);
    await page.getByRole('button', { name: 'Create token…' }).click();
    await page.getByLabel('Name', { exact: true }).fill('ops');
    await shows(page, /This is the first token/);
    await page.getByRole('button', { name: 'Create token', exact: true }).click();
    await shows(page, /^dqk_/);
    await page.getByRole('row').filter({ hasText: 'ops' }).first().waitFor();
    const token = await page.locator('pre', { hasText: /^dqk_/ }).textContent();
    expect((await fetch(`${own.url}/v1/topics`)).status).toBe(401);
    const headers = { authorization: `Bearer ${token}` };
    expect((await fetch(`${own.url}/v1/topics`, { headers })).status).toBe(200);
  });

  it('keeps the first token on the page through replies 401 of polls and a sign-in without an answer', async () => {
    const own = await startDaemon({ console: true });
    const { page } = await openPage(browser, `${await own.consoleUrl()}/access`);
    await page.getByRole('button', { name: 'Create token…' }).click();
    await page.getByLabel('Name', { exact: true }).fill('ops');
    await shows(page, /This is the first token/);
    const isRejected = (path: string) => (one: Response) => one.url().endsWith(path) && one.status() === 401;
    let sendLate = (): void => {};
    const late = new Promise<void>((resolve) => (sendLate = resolve));
    let isAway = true;
    await page.route('**/v1/session', async (route) => {
      if (!isAway) return await route.continue();
      isAway = false;
      await route.abort();
    });
    // The token exists, and the page does not know it yet.
    await page.route('**/v1/tokens', async (route) => {
      if (route.request().method() !== 'POST') return await route.continue();
      const response = await route.fetch();
      await page.route('**/v1/sessions', async (poll) => {
        const answer = await poll.fetch();
        await late;
        await poll.fulfill({ response: answer });
      });
      const early = page.waitForResponse(isRejected('/v1/summary'));
      // Each poll of the page calls.
      await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`);
      await (await early).finished();
      await page.evaluate(
        'new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))',
      );
      await route.fulfill({ response });
    });
    await page.getByRole('button', { name: 'Create token', exact: true }).click();
    await shows(page, /^dqk_/);
    await page.getByRole('row').filter({ hasText: 'ops' }).first().waitFor();
    const rejected = page.waitForResponse(isRejected('/v1/sessions'));
    sendLate();
    await rejected;
    await page.unroute('**/v1/sessions');
    await page.waitForResponse((one) => one.url().endsWith('/v1/sessions') && one.status() === 200);
    expect(await page.locator('pre', { hasText: /^dqk_/ }).count()).toBe(1);
  });

  it('needs a token once one exists; the page shows no version before; signing out ends the session', async () => {
    const own = await startDaemon({ console: true });
    const at = await own.consoleUrl();
    const { body } = await own.api('POST', '/v1/tokens', { name: 'li.wei', scopes: ['read'] });
    const { page } = await openPage(browser, at);
    await page.getByLabel('Access token').fill('dqk_wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').waitFor();
    expect(await page.locator('body').textContent()).not.toMatch(/\d+\.\d+\.\d+/);
    await page.getByLabel('Access token').fill(body.token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    expect(await page.getByRole('link', { name: 'Push a job' }).count()).toBe(0);
    await page.getByRole('link', { name: 'Schedules' }).click();
    await shows(page, 'No schedules yet.');
    expect(await page.getByRole('link', { name: 'New schedule' }).count()).toBe(0);
    await page.getByRole('button', { name: /Sign out/ }).click();
    await page.getByLabel('Access token').waitFor();
    await page.reload();
    await page.getByLabel('Access token').waitFor();
  });
});
