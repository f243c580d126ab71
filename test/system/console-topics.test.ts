// Topics in the console: their settings and changes, their calls and attempts, topics that dq does not call,
// and schedules.
import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { button, confirm, holdAnswers, save, shows, startSite } from '../support/console-site.ts';
import { until } from '../support/until.ts';

const site = await startSite({
  // Nothing listens there.
  config: { brokers: ['main=amqp091+amqp://u:s3cret@127.0.0.1:2', 'old=stomp+stomp://u:s3cret@127.0.0.1:2'] },
});
const { endpoint } = site;

const field = (page: Page, name: string) => page.locator(`#field-${name}`);
/** Opens the groups of fields that are folded. */
async function unfold(page: Page): Promise<void> {
  await field(page, 'alertEmails').waitFor();
  await page.evaluate(`for (const fold of document.querySelectorAll('.fold')) fold.open = true`);
}
const card = (page: Page, title: string) =>
  page.locator('section.card', { has: page.getByRole('heading', { name: title, exact: true }) });
const topicOf = (topic: string) => site.read(`/v1/topics/${topic}`);

describe('settings', () => {
  it('show a mistake at its field and in the rule, and are saved after a question', async () => {
    await site.addTopic('invoice.issue', {}, '/rule');
    const page = await site.open('/topics/invoice.issue/settings');
    const rule = page.getByLabel(/^Retry rule/);
    const wrongOf = (label: string) => page.locator('label', { hasText: label }).locator('.wrong');
    await rule.fill('{res.code}!=');
    await page.locator('pre mark').waitFor();
    await wrongOf('Retry rule').waitFor();
    await unfold(page);
    await page.getByLabel('Default delay').fill('soon');
    await button(page, 'Save changes').click();
    await shows(page, 'Save the changes of invoice.issue?');
    await button(page.getByRole('dialog'), 'Save changes').click();
    // The preview can show the mistake while the dialog still makes the form inert.
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await wrongOf('Default delay').waitFor();
    await rule.fill('{res.code}!=200');
    await page.locator('pre mark').waitFor({ state: 'detached' });
    await shows(page, '{res.code} = 500');
    const tester = card(page, 'Test the retry rule');
    await tester.getByLabel('Status').fill('5 00');
    await tester.getByText('status: must be a whole number').waitFor();
    await tester.getByLabel('Status').fill('500');
    await shows(page, '{res.code} = 500');
    await page.getByLabel('Default delay').fill('10m');
    await field(page, 'callbackUrl').fill(`${endpoint}/rule?moved`);
    await shows(page, 'Resolves to 127.0.0.1 · allowed by the egress policy');
    await field(page, 'headers').fill('x-tenant: shop');
    await save(page, 'asks');
    expect(await topicOf('invoice.issue')).toMatchObject({
      retryIf: '{res.code}!=200',
      delay: '10m',
      headers: { 'x-tenant': 'shop' },
      callbackUrl: `${endpoint}/rule?moved`,
    });
    // The saved rule judges the next reply.
    await site.push('invoice.issue', 'by-rule');
    await site.jobIs('invoice.issue', 'by-rule', 'delayed');
    await page.goto(`${site.url}/jobs/invoice.issue/by-rule`);
    await shows(page, 'The retry rule matched');
  });

  it('stand in folded groups, whose titles say what differs; a rejected one opens its group', async () => {
    const headers = { 'x-key': 'secret-value' };
    await site.addTopic('folded', { timeout: '20s', owner: 'trade', headers });
    const page = await site.open('/topics/folded/settings');
    await field(page, 'retryIf').waitFor();
    const titles = page.locator('.fold > summary');
    expect(await titles.allInnerTexts()).toEqual([
      ...['Call Headers x-key · Timeout 20s', 'Verdict', 'Retries', 'Limits', 'After the end'],
      'Alerts and people Owner trade',
    ]);
    const attempts = field(page, 'maxAttempts');
    const retries = titles.filter({ hasText: 'Retries' });
    await retries.click();
    await attempts.fill('0');
    await page.locator('.fold .wrong').getByText('must be').waitFor();
    await retries.click();
    await attempts.waitFor({ state: 'hidden' });
    await button(page, 'Save changes').click();
    await button(page.getByRole('dialog'), 'Save changes').click();
    await attempts.waitFor();
    await attempts.fill('4');
    await save(page, 'asks');
    expect(await attempts.isVisible()).toBe(true);
    expect(await retries.textContent()).toBe('Retries Maximum attempts 4');
  });

  it('create a topic and show its secret once; a rotated one, too', async () => {
    const page = await site.open('/topics/new?create');
    const create = button(page, 'Create topic');
    await shows(page, 'Still missing: Name, Callback URL');
    await page.getByLabel('Name (required)').fill('cart.remind');
    await shows(page, 'Still missing: Callback URL');
    expect(await create.isDisabled()).toBe(true);
    await page.getByRole('textbox', { name: 'Callback URL (required)' }).fill(`${endpoint}/ok`);
    expect(await field(page, 'timeout').isVisible()).toBe(false);
    await create.click();
    await shows(page, /^whsec_/);
    await button(page, 'cart.remind').click();
    await page.getByRole('heading', { name: 'cart.remind' }).waitFor();
    await page.goto(`${site.url}/topics/cart.remind/secret`);
    expect(await page.getByText('whsec_').count()).toBe(0);
    const answered = page.waitForResponse(/\/cart\.remind\/secret$/);
    await confirm(page, 'Rotate secret');
    await shows(page, (await (await answered).json()).secret);
    await page.reload();
    await button(page, 'Rotate secret…').waitFor();
    expect(await page.getByText('whsec_').count()).toBe(0);
  });

  it('appear in Changes, in the audit log with actor and difference, and in its CSV without formulas', async () => {
    await site.addTopic('audited', { callbackUrl: 'http://127.0.0.1:9/' });
    const page = await site.open('/topics/audited/settings');
    await unfold(page);
    await field(page, 'concurrency').fill('7');
    await save(page, 'asks nothing');
    await page.getByRole('link', { name: 'Changes' }).click();
    await button(page, 'concurrency: 64 → 7').click();
    await page.locator('td dd', { hasText: '64 → 7' }).waitFor();
    // A long URL stands there in whole, old and new.
    const long = `http://127.0.0.1:9/${'long/'.repeat(60)}`;
    for (const end of ['old', 'new'])
      await site.change('PATCH', '/v1/topics/audited', { callbackUrl: long + end });
    const changed = button(page, `callbackUrl: ${long}old → ${long}new`);
    await changed.waitFor();
    const size = await page.evaluate(`(() => {
      const at = [...document.querySelectorAll('.opener')].find((one) => one.checkVisibility());
      return [at.scrollWidth <= at.clientWidth, at.clientHeight > 40];
    })()`);
    expect(size).toEqual([true, true]);
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    // A test call of the saved endpoint.
    await page.getByRole('link', { name: 'Settings' }).click();
    await unfold(page);
    await field(page, 'timeout').fill('20s');
    await button(page, 'Save and test').click();
    await page.locator('.verdict').getByText('connect', { exact: true }).waitFor();
    expect((await topicOf('audited')).timeout).toBe('20s');
    await site.change('PATCH', '/v1/topics/audited', { owner: '=cmd()' });
    await page.goto(`${site.url}/audit?topic=audited&action=createTopic`);
    const created = page.getByRole('button', { name: /callbackUrl: http:.* · \d+ more/ });
    await created.waitFor();
    expect(await created.textContent()).not.toContain('owner');
    await page.goto(`${site.url}/audit?topic=audited&action=patchTopic`);
    await page.getByRole('cell', { name: 'this machine' }).first().waitFor();
    await page.getByRole('button', { name: 'owner: ' }).first().waitFor();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      button(page, 'Download CSV').click(),
    ]);
    const text = readFileSync(await download.path(), 'utf8');
    expect(text).toContain('"patchTopic"');
    expect(text).not.toMatch(/(^|,)"[=+@-]/m);
    await page.goto(`${site.url}/audit?actor=absent`);
    await shows(page, 'No changes in this range');
    // Texts of few screens, which the first of them loads.
    const chinese = await site.open('/audit?topic=audited', { locale: 'zh-CN' });
    await chinese.locator('td', { hasText: '修改主题' }).first().waitFor();
  });

  it('show a change by someone else with both values; the second save succeeds', async () => {
    await site.addTopic('shared');
    const page = await site.open('/topics/shared/settings');
    await unfold(page);
    await field(page, 'title').fill('mine');
    await site.change('PATCH', '/v1/topics/shared', { title: 'theirs', maxAttempts: 4 });
    await button(page, 'Save changes').click();
    await shows(page, 'Someone else changed this topic meanwhile');
    await button(page, 'Take theirs').waitFor();
    expect(await field(page, 'maxAttempts').inputValue()).toBe('4');
    expect(await field(page, 'title').inputValue()).toBe('mine');
    await save(page, 'asks nothing');
    expect(await topicOf('shared')).toMatchObject({ title: 'mine', maxAttempts: 4 });
  });

  it('links and Back ask before unsaved ones are lost', async () => {
    await site.addTopic('unsaved');
    const page = await site.open('/topics/unsaved');
    await page.getByRole('link', { name: 'Settings' }).click();
    await unfold(page);
    // In one step: Back may come before the next frame is drawn.
    await page.evaluate(`{
      const title = document.querySelector('#field-title');
      title.value = 'unsaved';
      title.dispatchEvent(new Event('input', { bubbles: true }));
      history.back();
    }`);
    await button(page, 'Stay').click();
    expect(await field(page, 'title').inputValue()).toBe('unsaved');
    expect(new URL(page.url()).pathname).toBe('/topics/unsaved/settings');
    await page.locator('nav.nav').getByRole('link', { name: 'Jobs' }).click();
    await button(page, 'Leave').click();
    await page.waitForURL(`${site.url}/jobs`);
  });
});

describe('a topic', () => {
  it('keeps its tabs in their place when its data arrives: a press on one of them stays on it', async () => {
    await site.addTopic('still');
    const page = await site.openEmpty();
    const answer = await holdAnswers(page, /\/v1\/topics\/still($|\/)/);
    await page.goto(`${site.url}/topics/still`);
    const tab = page.getByRole('link', { name: 'Settings' });
    const placeOf = async () => (await tab.boundingBox())?.y;
    await tab.waitFor();
    const place = await placeOf();
    answer();
    await button(page, 'Pause…').waitFor();
    expect(await placeOf()).toBe(place);
  });

  it('is paused after a question, resumed from the overview, and deleted with its jobs', async () => {
    await site.addTopic('pay.check');
    const page = await site.open('/topics/pay.check');
    await button(page, 'Pause…').click();
    await shows(page, 'Pause pay.check?');
    await button(page, 'Pause').click();
    await shows(page, 'Paused');
    await site.push('pay.check', 'held');
    await page.goto(site.url);
    await confirm(page, 'Resume');
    await until('it is active', async () => (await topicOf('pay.check')).state === 'active');
    await site.push('pay.check', 'later', { delay: '1h' });
    await page.goto(`${site.url}/topics/pay.check`);
    await confirm(page, 'Delete', (dialog) => dialog.getByRole('textbox').fill('pay.check'));
    await page.waitForURL(`${site.url}/topics`);
    expect((await site.api('GET', '/v1/topics/pay.check')).status).toBe(404);
  });

  it('says why jobs wait in the words of the page, with no command', async () => {
    await site.addTopic('held');
    await site.change('POST', '/v1/topics/held/pause');
    const page = await site.open('/topics/held');
    const why = page.locator('section.card', { hasText: 'Why jobs wait' });
    await why.getByText('Resume the topic').first().waitFor();
    expect(await why.textContent()).not.toMatch(/dq topic/);
  });

  it('on a phone shows the tab that is open, and of a topic in trouble its cause and what each time is', async () => {
    await site.addTopic('failing', { maxAttempts: 1 }, '/502');
    await site.push('failing', 'failed');
    await site.jobIs('failing', 'failed', 'dead');
    const page = await site.open('/topics/failing/changes', { viewport: { width: 390, height: 800 } });
    const tab = await page.locator('.tabs [aria-current]').boundingBox();
    expect((tab?.x ?? 390) + (tab?.width ?? 390)).toBeLessThanOrEqual(390);
    await page.goto(`${site.url}/`);
    const line = page.locator('.cards li', { hasText: 'failing' });
    await line.getByText('status 502').waitFor();
    expect(await line.textContent()).toMatch(/Since: .*Jobs waiting: 0.*Dead letters: 1/);
    await page.goto(`${site.url}/dead?topic=failing`);
    const letter = page.locator('.cards li', { hasText: 'failed' }).last();
    await letter.getByText(/^Dead since: /).waitFor();
  });

  it('with one attempt says so, and that its failed jobs are dead letters', async () => {
    await site.addTopic('only', { maxAttempts: 1, concurrency: 4 }, '/502');
    for (const id of ['a', 'b', 'c']) await site.push('only', id);
    const page = await site.open('/topics/only');
    await shows(page, /Each failed job is a dead letter\./);
    await shows(page, /Makes one attempt\. Then the job becomes a dead letter/);
    await site.change('POST', '/v1/topics/only/pause');
    await page.locator('.sentences small.named').first().waitFor();
    const first = "getComputedStyle(document.querySelector('.sentences small.named'), '::first-letter')";
    expect(await page.evaluate(`${first}.textTransform`)).toBe('none');
  });

  it('without a call says that the samples began with the start of dq', async () => {
    await site.addTopic('quiet', { callbackUrl: 'http://127.0.0.1:9/' });
    const page = await site.open('/topics/quiet/attempts');
    await shows(page, /No attempts yet. The sample begins with the start of dq/);
    await shows(page, /^sample from .* since \d\d:\d\d:\d\d/);
    await page.goto(`${site.url}/topics/quiet`);
    await shows(page, 'No calls since the start of the notifiers');
  });

  it('shows its attempts by outcome, its failing endpoint, its reasons of failure, and is found by its state', async () => {
    await site.addTopic('good', { title: '订单', owner: 'li.wei' });
    await site.addTopic('bad', { maxAttempts: 1 }, '/502');
    await site.push('good', 'good');
    for (const id of ['bad-1', 'bad-2', 'bad-3']) await site.push('bad', id);
    const page = await site.open('/topics/bad/attempts');
    await page.getByRole('link', { name: 'bad-3' }).first().waitFor();
    await shows(page, '502');
    await shows(page, '1/1');
    await button(page, 'Delivered').click();
    await shows(page, 'No such attempts in the sample');
    await button(page, 'Failed').click();
    await page.getByRole('link', { name: 'bad-1' }).first().waitFor();
    expect(new URL(page.url()).search).toBe('?outcome=failed');
    // A reply that is cut off is read where its row opens.
    await button(page, 'busy').first().click();
    await page.locator('td pre', { hasText: /^busy$/ }).waitFor();
    await page.goto(`${site.url}/topics/bad`);
    const calls = page.locator('section.card', { hasText: 'Failures in a row' });
    await calls.getByText(endpoint).waitFor();
    await calls.getByRole('link', { name: 'good' }).click();
    await page.getByRole('link', { name: 'good' }).first().waitFor();

    // A topic is failing by 20 attempts at least.
    for (let n = 4; n <= 20; n += 1) await site.push('bad', `bad-${n}`);
    await site.jobIs('bad', 'bad-20', 'dead');
    // What notifiers observed of these jobs has reached dq-upkeep when the counter of a later job has.
    await site.push('good', 'last');
    const today = async () => (await site.read('/v1/topics/good/stats')).today;
    await until('the last job is counted', async () => (await today()).delivered === 2);
    // Ends dq-upkeep, which writes the open minute.
    const upkeep = site.daemon.pidOf('dq-upkeep');
    process.kill(upkeep, 'SIGTERM');
    await until('the next one works', () =>
      site.daemon.workers().some(({ title, pid }) => title === 'dq-upkeep' && pid !== upkeep),
    );
    await page.goto(`${site.url}/topics/bad`);
    await page.locator('.title .pill', { hasText: 'Failing' }).waitFor();
    await card(page, 'Traffic').locator('svg.chart').waitFor();
    await card(page, 'Failed attempts').getByText('status 502').waitFor();

    await page.goto(`${site.url}/topics?owner=li.wei`);
    const rows = page.locator('main tbody tr');
    await rows.getByRole('link', { name: 'good' }).first().waitFor();
    await until('one topic is left', async () => (await rows.count()) === 1);
    await page.goto(`${site.url}/topics?state=offline`);
    await shows(page, 'No topic matches');
    await button(page, 'Clear filters').first().click();
    const bad = rows.filter({ has: page.getByRole('link', { name: 'bad', exact: true }) });
    await bad.getByText('Failing', { exact: true }).waitFor();
    await bad.locator('td.nowrap', { hasText: /^\d+(\.\d+)? (ms|s)$/ }).waitFor();
  });

  it('the overview draws what happened, and shows it as a table', async () => {
    await site.addTopic('drawn');
    const page = await site.open('/');
    const throughput = card(page, 'Throughput');
    // The chart moves away from the pointer where a card above it is loaded after it.
    await until('the legend has the values under the pointer', async () => {
      await throughput.locator('svg.chart').hover();
      return (await throughput.locator('.legend b', { hasText: /^[\d–]/ }).count()) > 0;
    });
    await button(throughput, 'View as table').click();
    await throughput.getByRole('columnheader', { name: 'Delivered' }).waitFor();
    // It begins a few steps before the first one that is recorded, not an hour before.
    const steps = await throughput.locator('tbody tr').count();
    expect([steps >= 10, steps < 50]).toEqual([true, true]);
    // Earlier minutes are not recorded, which is not 0.
    expect(await throughput.locator('tbody tr').last().textContent()).toContain('–');
    await button(throughput, 'View as chart').click();
    await throughput.locator('svg.chart').waitFor();
    await page.getByRole('link', { name: '7 d' }).click();
    await page.waitForURL(/range=7d/);
    await throughput.getByText('per 2 h').waitFor();
  });

  it('is tried by a test call, which shows request, reply and verdict', async () => {
    await site.addTopic('tried', { retryIf: '{res.code}!=200' });
    const page = await site.open('/topics/tried');
    await button(page, 'Test call').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Body').fill('{"order":4711}');
    await button(dialog, 'Send test call').click();
    for (const text of ['Success', '{res.code} = 200', 'A job would be delivered.'])
      await dialog.getByText(text).waitFor();
    await dialog.getByText('Request', { exact: true }).click();
    await dialog.getByText(/dq-test: true/).waitFor();
    await button(dialog, 'Close').click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Test call');
  });
});

describe('topics that dq does not call', () => {
  it('a topic becomes a pull topic by the form, which hides the fields of a call; a new one needs no URL', async () => {
    await site.addTopic('mixed', { timeout: '7s' });
    const page = await site.open('/topics/mixed/settings');
    await unfold(page);
    await field(page, 'timeout').fill('8s');
    await field(page, 'delivery').selectOption('pull');
    await field(page, 'lease').fill('5m');
    for (const name of ['callbackUrl', 'concurrency']) expect(await field(page, name).count(), name).toBe(0);
    await save(page, 'asks');
    expect(await topicOf('mixed')).toMatchObject({ delivery: 'pull', lease: '5m', callbackUrl: null });
    await page.goto(`${site.url}/topics/new?create`);
    await page.getByLabel('Name (required)').fill('made');
    await unfold(page);
    await field(page, 'delivery').selectOption('pull');
    await button(page, 'Create topic').click();
    await shows(page, 'Topic created.');
    expect((await topicOf('made')).delivery).toBe('pull');
  });

  it('the list, the topic and its jobs show pulls and leases', async () => {
    await site.addTopic('report', { delivery: 'pull', lease: '1h' }, null);
    for (const id of ['a', 'b']) await site.push('report', id);
    const pulled = (await site.change('POST', '/v1/topics/report/pull')).items[0];
    // The column of the call is not shown in narrow windows.
    const page = await site.open('/topics', { viewport: { width: 1_600, height: 900 } });
    await page
      .getByRole('row', { name: /report/ })
      .getByText('Pull', { exact: true })
      .waitFor();
    for (const [path, text] of [
      ['/topics/report', 'Clients pull the jobs, each with a lease of'],
      ['/topics/report', 'Leases out'],
      [`/jobs/report/${pulled.id}`, 'A client has pulled the job and not answered yet.'],
      [
        `/jobs/report/${pulled.id === 'a' ? 'b' : 'a'}`,
        'The job is due and waits for a client that pulls its topic.',
      ],
    ] as const) {
      await page.goto(site.url + path);
      await shows(page, text);
    }
    await site.change('POST', '/v1/leases/nack', { leases: [pulled.lease], reason: 'locked' });
    await page.goto(`${site.url}/jobs/report/${pulled.id}`);
    await shows(page, 'locked');
    expect(await page.getByText('null').count()).toBe(0);
  });

  it('a topic for a broker: the form, the topic, its test message and its jobs', async () => {
    const page = await site.open('/topics/new?create');
    const seen: string[] = [];
    page.on('response', async (reply) => seen.push(await reply.text().catch(() => '')));
    await page.getByLabel('Name (required)').fill('published');
    await field(page, 'retryIf').fill('{res.a}==1');
    await unfold(page);
    await field(page, 'delivery').selectOption('mq');
    for (const name of ['callbackUrl', 'method', 'retryIf', 'okStatus', 'emptyReply', 'lease'])
      expect(await field(page, name).count(), name).toBe(0);
    const brokers = await field(page, 'broker').locator('option').allTextContents();
    expect(brokers).toEqual(['Choose a broker', 'main', 'old']);
    await shows(page, 'Still missing: Broker, Queue, exchange or address');
    expect(await button(page, 'Create topic').isDisabled()).toBe(true);
    await field(page, 'broker').selectOption('old');
    await shows(page, 'Destination, such as /queue/orders');
    await field(page, 'broker').selectOption('main');
    await shows(page, 'Routing key of an exchange (optional)');
    await field(page, 'to').fill('orders');
    // The first message loads the code of the protocol, which takes seconds on a busy machine.
    await field(page, 'timeout').fill('20s');
    await field(page, 'format').selectOption('message');
    await button(page, 'Create topic').click();
    await shows(page, 'Topic created.');
    expect(await topicOf('published')).toMatchObject({
      format: 'message',
      delivery: 'mq',
      target: { broker: 'main', to: 'orders', key: null },
      retryIf: '',
    });
    await page.goto(`${site.url}/topics/published/settings`);
    await field(page, 'key').fill('order.created');
    await save(page, 'asks');
    expect((await topicOf('published')).target.key).toBe('order.created');

    await site.push('published', 'a');
    await page.goto(`${site.url}/topics/published`);
    await shows(page, 'main/orders#order.created');
    await button(page, 'Test message').click();
    await button(page, 'Publish test message').click();
    await page.getByRole('dialog').getByText('ECONNREFUSED').waitFor();
    await button(page, 'Close').click();
    await card(page, 'Broker').getByText('main', { exact: true }).waitFor();
    await page.goto(`${site.url}/jobs/published/a`);
    await shows(page, 'PUBLISH main/orders#order.created');
    await shows(page, 'No connection to the receiver.');
    expect(seen.join()).not.toContain('s3cret');
  });
});

/** A year whose 29 March is among the next ten and has 02:30 in Berlin: clocks go forward on a Sunday. */
function springYear(): number {
  const year = new Date().getUTCFullYear() + 1;
  return new Date(Date.UTC(year, 2, 29)).getUTCDay() === 0 ? year + 1 : year;
}

it('a schedule is added with its next times, run, paused, changed and removed, and recorded', async () => {
  await site.addTopic('timed');
  const page = await site.open('/schedules');
  await page.getByRole('link', { name: 'New schedule' }).click();
  await page.getByLabel('Name', { exact: true }).fill('nightly');
  await page.locator('form select').first().selectOption('timed');
  const cron = page.getByRole('textbox', { name: 'Cron expression' });
  await cron.fill('60 2 * * *');
  await page.locator('.when .wrong').waitFor();
  await cron.fill('30 2 29 3 *');
  await page.getByLabel('Time zone').fill('Europe/Berlin');
  await shows(page, `29 Mar ${springYear()}, 02:30:00`);
  expect(await page.locator('.times li').count()).toBe(10);
  await page.getByLabel(/^Body/).fill('{"all": true}');
  await button(page, 'Create schedule').click();
  await page.getByRole('heading', { name: 'nightly' }).waitFor();
  const read = () => site.read('/v1/schedules/nightly');
  expect(await read()).toMatchObject({
    topic: 'timed',
    cron: '30 2 29 3 *',
    timezone: 'Europe/Berlin',
    body: '{"all":true}',
  });
  await confirm(page, 'Run now');
  await confirm(page, 'Pause');
  await shows(page, 'Paused');
  await button(page, 'Edit').click();
  await page.getByRole('textbox', { name: 'Interval' }).fill('1s');
  await button(page, 'Save changes').click();
  await page.getByRole('heading', { name: 'nightly' }).waitFor();
  await confirm(page, 'Resume');
  await page.getByRole('link', { name: /^schedule:nightly:/ }).waitFor();
  expect(await read()).toMatchObject({ every: '1s', cron: null, body: '{"all":true}' });
  await confirm(page, 'Remove');
  await shows(page, 'No schedules yet.');
  // Rows are written after the reply.
  const items = await until('seven changes are recorded', async () => {
    const { items: rows } = await site.read('/v1/audit?topic=timed');
    return rows.length >= 7 && rows;
  });
  expect(items.map(({ action }: { action: string }) => action).reverse()).toEqual([
    ...['createTopic', 'createSchedule', 'runSchedule', 'pauseSchedule'],
    ...['changeSchedule', 'resumeSchedule', 'removeSchedule'],
  ]);
});
