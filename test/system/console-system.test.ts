// The screens of the console about the daemon itself: configuration, reload, doctor, alerts, incidents, the
// first steps, access; and a daemon with two Redis: store, alerts, job.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Response } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { startRedisServers } from '../../scripts/services/redis.ts';
import { openPage } from '../support/browser.ts';
import { button, confirm, drawn, poll, shows, startSite } from '../support/console-site.ts';
import { startDaemon } from '../support/daemon.ts';
import { endedConsoles, reload, writeConfig } from '../support/reloading.ts';
import { lacks, owned } from '../support/services.ts';
import { until } from '../support/until.ts';

const config = { notifier: { slots: 64 }, alerts: { emails: ['ops@example.org'] } };
const site = await startSite({ config });

it('a changed file is shown, reloaded on the page, and in force; a wrong one changes nothing', async () => {
  const page = await site.open('/configuration');
  await page.getByPlaceholder('Name, value or description').fill('slots');
  await page.getByRole('row', { name: /notifier\.slots.*64.*dq\.yaml:/s }).waitFor();
  writeConfig(site.daemon, { ...config, notifier: { slots: 65 } });
  await page.keyboard.press('Escape');
  await page.keyboard.press('r');
  await shows(page, 'then 65');
  await page.goto(`${site.url}/processes`);
  // A busy machine can take too long for a reload, which is rejected then.
  await until('a reload whose processes are ready in time', async () => {
    await confirm(page, 'Reload');
    const { last } = await until('the reload has ended', async () => {
      const state = await site.read('/v1/reload');
      return state.running === null && state.last !== null && state;
    });
    return last.outcome !== 'rejected';
  });
  await shows(page, /generation 2 · /);
  const { items } = await site.read('/v1/config');
  const inForce = { name: 'notifier.slots', value: '65', next: null };
  expect(items).toContainEqual(expect.objectContaining(inForce));
  writeConfig(site.daemon, { ...config, nonsense: 1 });
  await confirm(page, 'Reload');
  await shows(page, /was rejected\. Nothing has changed/);
  await shows(page, /nonsense/);
  writeConfig(site.daemon, config);
});

it('a reload of dq fails no call of an open page', async () => {
  await site.addTopic('pay.check');
  await site.push('pay.check', 'polled', { delay: '1h' });
  const page = await site.open('/jobs/pay.check/polled');
  const wrong: string[] = [];
  let answered = 0;
  page.on('requestfailed', (request) => wrong.push(`${request.url()}: ${request.failure()?.errorText}`));
  page.on('response', (response) => {
    answered += 1;
    if (response.status() >= 400) wrong.push(`${response.url()}: ${response.status()}`);
  });
  await until('a reload whose console is ready in time', async () => {
    wrong.length = 0;
    const ended = endedConsoles(site.daemon);
    expect((await reload(site.daemon)).code).toBe(0);
    const before = answered;
    await until('the page has polled again', () => answered > before + 1);
    return endedConsoles(site.daemon) === ended;
  });
  expect(wrong).toEqual([]);
});

it('the doctor runs the checks when it is opened, and lists the worst first', async () => {
  const page = await site.open('/doctor');
  await shows(page, /last run .* · /);
  const order = ['Failed', 'Warning', 'Unknown', 'OK'];
  const results = await page.locator('table.findings tbody tr td:first-child').allInnerTexts();
  expect(results.length).toBeGreaterThan(5);
  expect(results).toEqual([...results].sort((a, b) => order.indexOf(a) - order.indexOf(b)));
});

it('in Chinese, findings of the doctor and descriptions of options are Chinese, and can be searched', async () => {
  const page = await site.open('/doctor', { locale: 'zh-CN' });
  const row = (name: RegExp) => page.getByRole('row', { name }).waitFor();
  await row(/磁盘同步.*4 KiB 的 fdatasync：[\d.]+ ms/s);
  await row(/数据目录/);
  await row(/打开文件数.*64 个槽位时/s);
  await page.goto(`${site.url}/configuration`);
  await row(/server\.port.*HTTP API 的端口。0 表示选择空闲端口并输出/s);
  await page.getByRole('textbox', { name: '搜索' }).last().fill('死信保留的时间');
  await row(/dead\.retention/);
  await page.getByText('HTTP API 的端口').waitFor({ state: 'hidden' });
});

it('alerts name the recipients and what is missing for mails; the overview has the ends of incidents', async () => {
  const page = await site.open('/alerts');
  for (const text of ['No mail server. Set smtp.url.', 'ops@example.org', 'No open incidents'])
    await shows(page, text);
  const directory = join(site.daemon.dataDir, 'alerts');
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const write = (minutesAgo: number, state: string): void => {
    const at = Date.now() - minutesAgo * 60_000;
    const name = `${String(at * 1_000).padStart(16, '0')}.json`;
    const rest = { kind: 'redis', about: 'redis-a:6379', detail: 'no answer', alert: 'sent', sentAt: at };
    writeFileSync(join(directory, name), JSON.stringify({ id: at * 1_000, at, state, ...rest }));
  };
  write(50, 'begun');
  write(40, 'over');
  write(30, 'begun');
  await site.change('PUT', '/v1/topics/some', { callbackUrl: 'http://127.0.0.1:9/' });
  // Until the console knows a topic, its overview leads to the first job.
  const topics = `fetch('/v1/summary', { headers: { 'x-dq-key': localStorage.getItem('dq-key') } })
    .then((reply) => reply.json()).then(({ topics }) => topics.active)`;
  await until('the console knows the topic', async () => Number(await page.evaluate(topics)) > 0);
  await page.goto(site.url);
  const card = page.locator('section.card', { has: page.getByRole('heading', { name: 'Recent events' }) });
  // A busy machine has incidents of its own.
  const rows = card.locator('tbody tr').filter({ hasText: 'redis-a:6379' });
  await rows.nth(2).waitFor();
  expect(await rows.locator('.pill').allInnerTexts()).toEqual(['Open', 'Over', 'Began']);
});

it('one button delivers the first job and shows its request; another one removes the trial', async () => {
  const page = await site.open('/first');
  await button(page, 'Deliver a job').click();
  await shows(page, 'Job pushed and stored on disk');
  await shows(page, 'Signature ok');
  expect(await page.locator('.steps').textContent()).toMatch(/dq-topic: trial\.hello/);
  await button(page, 'Java').click();
  await shows(page, 'HttpRequest.newBuilder');
  await button(page, 'Remove the trial').click();
  await button(page, 'Deliver a job').waitFor();
  expect((await site.api('GET', '/v1/topics/trial.hello')).status).toBe(404);
  // It names what stops the trial.
  await site.addTopic('trial.hello');
  await button(page, 'Deliver a job').click();
  await shows(page, 'A topic trial.hello exists that is not of a trial.');
});

describe('access', () => {
  it('the first token is created with its end and shown; the page goes on, also after replies 401 and no answer', async () => {
    const page = await site.open('/access');
    await button(page, 'Create token…').click();
    await page.getByLabel('Name', { exact: true }).fill('ops');
    await page.getByLabel('Valid for').selectOption('7d');
    await shows(page, /This is the first token/);
    const isRejected = (path: string) => (one: Response) => one.url().endsWith(path) && one.status() === 401;
    let sendLate = (): void => {};
    const late = new Promise<void>((resolve) => {
      sendLate = resolve;
    });
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
      await poll(page);
      await (await early).finished();
      await drawn(page);
      await route.fulfill({ response });
    });
    await button(page, 'Create token').click();
    await shows(page, /^dqk_/);
    await page.getByRole('row').filter({ hasText: 'ops' }).first().waitFor();
    const rejected = page.waitForResponse(isRejected('/v1/sessions'));
    sendLate();
    await rejected;
    await page.unroute('**/v1/sessions');
    await page.waitForResponse((one) => one.url().endsWith('/v1/sessions') && one.status() === 200);
    for (const text of ['Copy it now', /in 6 d 23 h/, /ago/]) await shows(page, text);
    const token = (await page.locator('pre', { hasText: /^dqk_/ }).textContent()) ?? '';
    expect((await site.api('GET', '/v1/topics')).status).toBe(401);
    // Calls with the token succeed.
    await site.removeTokens(token);
  });

  it('a token is needed once one exists; the page shows no version before; signing out ends the session', async () => {
    const token = await site.needSignIn('read');
    const page = await site.open('/');
    await page.getByLabel('Access token').fill('dqk_wrong');
    await button(page, 'Sign in').click();
    await page.getByRole('alert').waitFor();
    expect(await page.locator('body').textContent()).not.toMatch(/\d+\.\d+\.\d+/);
    await page.getByLabel('Access token').fill(token);
    await button(page, 'Sign in').click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    expect(await page.getByRole('link', { name: 'Push a job' }).count()).toBe(0);
    await page.getByRole('link', { name: 'Schedules' }).click();
    await shows(page, 'No schedules yet.');
    expect(await page.getByRole('link', { name: 'New schedule' }).count()).toBe(0);
    await button(page, /Sign out/).click();
    await page.getByLabel('Access token').waitFor();
    await page.reload();
    await page.getByLabel('Access token').waitFor();
  });
});

it.skipIf(await lacks('redis'))(
  'two Redis: the shard of a job, chips of the outbox, a card per shard',
  async () => {
    const servers = await startRedisServers(2, { config: ['appendonly yes'] });
    for (const server of servers) await owned('test', Promise.resolve(server));
    const dq = await startDaemon({
      console: true,
      config: {
        redis: servers.map((one) => one.url),
        smtp: { url: 'smtp://127.0.0.1:10', from: 'dq@example.org' },
      },
    });
    const topic = { topic: 'gone', callbackUrl: 'http://127.0.0.1:9/', maxAttempts: 1 };
    expect((await dq.api('POST', '/v1/topics', topic)).status).toBe(201);
    const { body: later } = await dq.push('gone', '{}', { id: 'later', delay: '1h' });
    const { body: job } = await dq.api('GET', `/v1/topics/gone/jobs/${later.id}`);
    expect(job).toMatchObject({
      shard: expect.stringMatching(/^[0-9a-f]{16}$/),
      why: { code: 'waits_until_due' },
    });
    const jobs = Array.from({ length: 101 }, (_, n) => ({
      topic: 'gone',
      id: `g${n}`,
      body: {},
      delay: '0',
    }));
    expect((await dq.api('POST', '/v1/jobs', jobs)).body).toMatchObject({ accepted: 101 });
    await until('all are dead', async () => (await dq.api('GET', '/v1/summary')).body.states.dead === 101);
    const url = await dq.consoleUrl();
    const { page } = await openPage(site.browser, `${url}/alerts`);
    // Those of the first mail window have no recipient already, the others are pending.
    const chips = page.getByRole('button', { name: /^(Pending|Sending|No recipient) \d+/ });
    const sum = async (end: RegExp) => {
      const texts = await chips.allInnerTexts();
      const isThere = texts.every((text) => end.test(text));
      return isThere ? texts.reduce((total, text) => total + Number(/\d+/.exec(text)), 0) : 0;
    };
    await until('100 are counted, and more exist', async () => (await sum(/\d\+$/)) === 100);
    expect(await page.locator('main h2').allInnerTexts()).toEqual(['Open incidents', 'Recipients', 'Outbox']);
    await button(page, 'Show 50 more').click();
    await until('all are counted', async () => (await sum(/\d$/)) === 101);

    await page.goto(`${url}/store`);
    await shows(page, /Jobs are on 2 shards/);
    await page.getByText('A power cut may lose up to 2 s').nth(1).waitFor();
    await servers[1]?.process.freeze();
    try {
      await page.locator('.pill').getByText('Does not answer').waitFor();
      await shows(page, /Values of the last answer/);
      const { body } = await dq.api('GET', '/v1/store');
      expect(body).toMatchObject({ kind: 'redis', ok: true, shards: [{ info: {} }, {}] });
    } finally {
      servers[1]?.process.thaw();
    }
    await button(page, 'Add shard…').click();
    await page.getByLabel('Host').fill('127.0.0.1');
    await page.getByLabel('Port').fill('1');
    await button(page.getByRole('dialog'), 'Add shard').click();
    await shows(page, /Cannot reach 127\.0\.0\.1:1/);
  },
);
