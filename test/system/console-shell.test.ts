// What all screens of the console share: keys, the session, polls, times, the manual.
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { pressG } from '../support/browser.ts';
import { button, drawn, poll, shows, startSite } from '../support/console-site.ts';
import { until } from '../support/until.ts';

const site = await startSite();
const hour = 3_600_000;
const signedIn = (page: Page) => page.getByRole('navigation', { name: 'Main' }).first().waitFor();

describe('keys', () => {
  it('open each screen, walk through rows, read again, and can be switched off', async () => {
    await site.addTopic('rows');
    for (const id of ['a', 'b']) await site.push('rows', id, { delay: '1h' });
    const page = await site.open('/');
    await page.locator('main h1').waitFor();
    const screens = { d: 'dead', p: 'push', s: 'processes', a: 'access', o: '', j: 'jobs', t: 'topics' };
    for (const [letter, path] of Object.entries(screens)) {
      await pressG(page, letter);
      await page.waitForURL(`${site.url}/${path}`);
    }
    await page.getByRole('link', { name: 'rows' }).first().waitFor();
    const again = page.waitForRequest((request) => request.url().includes('/v1/topics'));
    await page.keyboard.press('r');
    await again;
    await pressG(page, 'j');
    await page.getByRole('link', { name: 'b', exact: true }).first().waitFor();
    const first = page.locator('main tbody tr a').first();
    await page.keyboard.press('j');
    expect(await page.evaluate('document.activeElement.textContent')).toBe(await first.textContent());
    await page.keyboard.press('?');
    await page.getByRole('checkbox', { name: 'Use single keys' }).uncheck();
    await button(page, 'Close').click();
    await page.keyboard.press('j');
    await pressG(page, 't');
    expect(new URL(page.url()).pathname).toBe('/jobs');
    // Enter is a key of the browser.
    await first.focus();
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/(jobs|topics)\/rows/);
    await page.reload();
    await signedIn(page);
    await pressG(page, 't');
    expect(new URL(page.url()).pathname).not.toBe('/topics');
  });
});

describe('a sign-in', () => {
  it('that the next process does not know yet is tried once more', async () => {
    const page = await site.openEmpty();
    let calls = 0;
    await page.route('**/v1/me', async (route) => {
      calls += 1;
      const body = JSON.stringify({ status: 401, code: 'unauthorized', detail: 'early' });
      if (calls === 1) await route.fulfill({ status: 401, contentType: 'application/problem+json', body });
      else await route.continue();
    });
    await page.goto(site.url);
    await signedIn(page);
    expect(calls).toBe(2);
  });

  it('is repeated while dq does not answer', async () => {
    const page = await site.openEmpty();
    await page.route('**/v1/session', (route) => route.abort());
    await page.goto(site.url);
    await shows(page, 'dq does not answer');
    await page.unroute('**/v1/session');
    await signedIn(page);
  });

  it('in another tab goes on in this one', async () => {
    const page = await site.open('/topics');
    await signedIn(page);
    const other = await page.context().newPage();
    await other.goto(site.url);
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
  it('keep what is typed in them through a poll', async () => {
    const page = await site.open('/');
    for (const [screen, label, call, name] of [
      ['topics', 'Search name, title or owner', '/v1/topics', 'search'],
      ['topics', 'Owner', '/v1/topics', 'owner'],
      ['jobs', 'ID begins with', '/v1/jobs', 'idPrefix'],
    ] as const) {
      await page.goto(`${site.url}/${screen}`);
      const field = page.locator('main').getByLabel(label, { exact: true });
      await field.pressSequentially('order');
      const calls = [call, '/v1/summary'].map((path) =>
        page.waitForResponse((one) => new URL(one.url()).pathname === path),
      );
      await poll(page);
      for (const reply of await Promise.all(calls)) await reply.finished();
      await drawn(page);
      expect(await field.inputValue()).toBe('order');
      await field.press('Enter');
      await page.waitForURL(`**/${screen}?*${name}=order*`);
    }
  });

  it('by age begin with one time, and one list', async () => {
    const page = await site.openEmpty();
    const asked = new Set<string | null>();
    page.on('request', (request) => {
      const { pathname, searchParams } = new URL(request.url());
      if (pathname === '/v1/dead') asked.add(searchParams.get('since'));
    });
    await page.goto(`${site.url}/dead?age=24h`);
    await shows(page, 'No dead letter matches');
    expect(asked.size).toBe(1);
  });
});

it('an error has no bars beside it, and is in the language of the page', async () => {
  const page = await site.open('/', { locale: 'zh-CN' });
  await shows(page, '概览');
  const json = { code: 'unavailable', detail: 'registry: does not answer; try again' };
  await page.route(/\/v1\/(topics|tokens|sessions|store|jobs|processes)/, (route) =>
    route.fulfill({ status: 503, contentType: 'application/problem+json', json }),
  );
  for (const path of ['topics', 'access', 'store', 'jobs', 'processes']) {
    await page.goto(`${site.url}/${path}`);
    await page.locator('main .strip.warn').getByText('暂时不可用，请稍后再试').first().waitFor();
    // A screen of two lists has two replies.
    await until(`no bars on ${path}`, async () => (await page.locator('main .waiting').count()) === 0);
  }
});

it('the manual opens from the page, finds a section by words, and its links lead on', async () => {
  const page = await site.open('/');
  const path = await page.getByRole('link', { name: 'Manual' }).getAttribute('href');
  await page.goto(site.url + path);
  await page.keyboard.press('/');
  await page.keyboard.type('rotate secret');
  await page.locator('#hits a').first().waitFor();
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/manual\/\S+#\S+/);
  const { hash } = new URL(page.url());
  expect(await page.locator(`[id="${hash.slice(1)}"]`).isVisible()).toBe(true);
  await page.goto(`${site.url}/manual/reference/errors`);
  await page.locator('article').getByRole('link', { name: 'Security' }).first().click();
  await page.getByRole('heading', { name: 'Security', exact: true, level: 1 }).waitFor();
  await page.getByRole('searchbox').fill('nothing-has-this-word');
  await shows(page, 'Nothing found');
  await page.goto(`${site.url}/manual/getting-started`);
  await page.getByRole('link', { name: '中文' }).click();
  await page.waitForURL(/\/manual\/zh\/getting-started$/);
  await page.getByRole('searchbox').fill('死信');
  await page.locator('#hits a').first().waitFor();
});

it('a toast on a phone leaves the navigation free', async () => {
  await site.addTopic('toasted');
  await site.push('toasted', 'now', { delay: '1h' });
  const page = await site.open('/jobs/toasted/now', { viewport: { width: 390, height: 800 } });
  await button(page, 'Run now').click();
  const boxOf = async (what: string) => (await page.locator(what).boundingBox()) ?? { y: 0, height: 0 };
  await page.locator('.toast').waitFor();
  const { y, height } = await boxOf('.toast');
  expect(y + height).toBeLessThanOrEqual((await boxOf('.tabbar')).y);
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

async function openAhead(path: string, timezoneId: string, aheadMs: number): Promise<Page> {
  const page = await site.openEmpty({ timezoneId });
  await page.addInitScript(shifted(aheadMs));
  await page.goto(site.url + path);
  return page;
}

/** "14:37" */
const timeIn = (timeZone: string, at: number): string =>
  new Intl.DateTimeFormat('en-GB', { timeZone, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }).format(
    at,
  );

// Relative times are by the clock of the daemon, whatever the browser's says; absolute ones in the browser's
// zone; the counters of today by the day of the daemon.
describe.each([
  ['Asia/Shanghai', 2 * hour],
  ['America/New_York', -2 * hour],
])('a browser in %s whose clock is %i ms ahead', (zone, aheadMs) => {
  const topic = `clock.${zone.split('/')[1]}`;
  const dueOf = async () => Date.parse((await site.read(`/v1/topics/${topic}/jobs/later`)).dueAt);
  const tooltip = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC$/;

  it('shows, finds and reschedules a job by the clock of the daemon, and names times in its own zone', async () => {
    await site.addTopic(topic);
    for (const id of ['later', 'moved']) await site.push(topic, id, { delay: '3h' });
    await site.push(topic, 'delivered');
    await until('the delivery is counted', async () => {
      const { today } = await site.read(`/v1/topics/${topic}/stats`);
      return today.delivered === 1 && today.pushed === 3;
    });
    const page = await openAhead(`/jobs/${topic}/later`, zone, aheadMs);
    const due = timeIn(zone, await dueOf());
    expect(due).not.toBe(timeIn('UTC', await dueOf()));
    const headline = (text: RegExp) => page.locator('.where strong').filter({ hasText: text });
    await headline(/ in 2 h 5\d min, at /).waitFor();
    expect(await headline(/ in 2 h 5\d min/).textContent()).toContain(due);
    // It follows the clock of the browser when it is set right.
    await page.route('**/v1/summary', (route) => route.abort());
    await page.evaluate('aheadMs = 0');
    await page.keyboard.press('r');
    // Until the next reply the page is wrong by as much.
    await headline(aheadMs > 0 ? / in 4 h 5\d min/ : / in 5\d min/).waitFor();
    await page.unroute('**/v1/summary');
    await page.keyboard.press('r');
    await headline(/ in 2 h 5\d min/).waitFor();

    await page.goto(`${site.url}/jobs?topic=${topic}&due=${encodeURIComponent('+2h..+4h')}`);
    const row = page.locator('main tbody tr').filter({ has: page.getByRole('link', { name: 'later' }) });
    await row.waitFor();
    expect(await row.textContent()).toMatch(/in 2 h 5\d min/);
    expect(await row.textContent()).toContain(due);
    const utc = new Date(await dueOf()).toISOString().replace('T', ' ').replace('Z', ' UTC');
    // How long, and the time.
    await row.getByTitle(utc).nth(1).waitFor();

    await page.goto(`${site.url}/jobs/${topic}/moved`);
    await button(page, 'Reschedule…').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText(/^Due .* \(in (10 min|9 min 5\d s)\)$/).waitFor();
    await button(dialog, 'Reschedule').click();
    // A busy machine answers late: minutes are enough to tell a clock that is 2 h wrong.
    await shows(page, /^Due in (10|9|8) min/);

    await page.goto(`${site.url}/topics`);
    const counters = page.locator('main tbody tr').filter({ has: page.getByRole('link', { name: topic }) });
    await counters.getByText(/^3\D+1\D+0$/).waitFor();
    await shows(page, /Embedded store · UTC/);
  });

  it('shows the changes of the last hour, and the time of a reply that was the last', async () => {
    const page = await openAhead('/audit?range=1h', zone, aheadMs);
    const asked = await page.waitForRequest((request) => request.url().includes('/v1/audit?'));
    const since = Number(new URL(asked.url()).searchParams.get('since'));
    // Less than half of what the clock is wrong.
    expect(Math.abs(Date.now() - hour - since)).toBeLessThan(hour);
    await page.locator('main tbody tr').filter({ hasText: topic }).first().waitFor();
    for (const path of ['', `/jobs/${topic}/later`, `/topics/${topic}?tab=attempts`, '/access']) {
      if (path !== '') await page.goto(site.url + path);
      const time = page.locator('main time').first();
      await time.waitFor();
      expect(await time.getAttribute('title'), path).toMatch(tooltip);
    }
    await page.route('**/v1/summary', (route) => route.abort());
    await page.keyboard.press('r');
    const text = (await page.locator('header.bar .live.off').textContent()) ?? '';
    const [, hours, minutes] = /^Last updated (\d\d):(\d\d):\d\d$/.exec(text) ?? [];
    const [nowHours = 0, nowMinutes = 0] = timeIn(zone, Date.now()).split(':').map(Number);
    const apart = nowHours * 60 + nowMinutes - (Number(hours) * 60 + Number(minutes));
    expect((apart + 1_440) % 1_440, text).toBeLessThan(60);
  });
});

it('the audit log keeps its further pages while time goes on, until a refresh', async () => {
  await site.addTopic('changed');
  for (let n = 0; n < 60; n += 1) await site.change('PATCH', '/v1/topics/changed', { title: `title ${n}` });
  await until('the changes are written', async () => {
    const { items } = await site.read('/v1/audit?limit=200&topic=changed&action=patchTopic');
    return items.length === 60;
  });
  const page = await openAhead('/audit?range=1h&topic=changed', 'UTC', 0);
  const rows = page.locator('main tbody .opener');
  const starts: number[] = [];
  page.on('request', (request) => {
    const since = new URL(request.url()).searchParams.get('since');
    if (since !== null) starts.push(Number(since));
  });
  await button(page, 'Show 50 more').click();
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
