// Jobs in the console: pushing, finding and moving one, why it waits, dead letters, and operations on all
// that match.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Page } from 'playwright-core';
import { describe, expect, it } from 'vitest';
import { button, confirm, drawn, holdAnswers, poll, shows, startSite } from '../support/console-site.ts';
import { runDq } from '../support/run-dq.ts';
import { until } from '../support/until.ts';

const site = await startSite();
const jobOf = (topic: string, id: string) => site.read(`/v1/topics/${topic}/jobs/${encodeURIComponent(id)}`);
const at = (topic: string, id: string) => `/jobs/${topic}/${encodeURIComponent(id)}`;
const rows = (page: Page) => page.locator('main tbody tr');
const becomeRows = (page: Page, count: number) =>
  until(`${count} are listed`, async () => (await rows(page).count()) === count);
const lastOperation = async () => (await site.read('/v1/operations')).items[0];

describe('push', () => {
  it('shows each mistake at its field, then the result; the job is delivered', async () => {
    await site.addTopic('pushed');
    await site.addTopic('closed');
    await site.change('POST', '/v1/topics/closed/offline');
    await site.push('pushed', 'taken', { delay: '1h' });
    const page = await site.open('/push?topic=pushed');
    const body = page.getByLabel(/^Body/);
    const id = page.getByLabel(/^Job ID/);
    const due = page.getByRole('textbox', { name: 'in', exact: true });
    await body.fill('{"a": "ü", b}');
    await shows(page, 'Invalid JSON at character 12');
    await body.fill('{"a": "ü"}');
    await shows(page, 'valid JSON');
    await id.fill('taken');
    await page.getByLabel(/^Mode/).selectOption('reject');
    await due.fill('90m');
    await shows(page, /Due .*\(in 1 h (29|30) min\)/);
    await button(page, 'Push').click();
    await shows(page, 'A live job already has this ID.');
    await id.fill('free');
    await page.getByLabel('Content type').fill('');
    await button(page, 'Push').click();
    await shows(page, /Created\. Due/);
    expect((await jobOf('pushed', 'free')).contentType).toBeNull();
    await button(page, 'Push another').click();
    expect(await id.inputValue()).toBe('');
    await id.fill('now');
    await body.fill('{"order": 9007199254740993}');
    await due.fill('0');
    await button(page, 'Push').click();
    await page.getByRole('link', { name: /View job/ }).click();
    await shows(page, /Delivered with attempt 1/);
    expect(new URL(page.url()).pathname).toBe('/jobs/pushed/now');
    expect(site.callsOf('now').map((call) => call.body)).toEqual(['{"order": 9007199254740993}']);
    await page.goto(`${site.url}/push`);
    await page.getByRole('combobox', { name: /^Topic/ }).selectOption('closed');
    await button(page, 'Push').click();
    await shows(page, 'closed is offline. Resume it first.');
  });

  it('of an earlier job shows the form with the job, not before it', async () => {
    await site.addTopic('again');
    await site.push('again', 'earlier', { body: '{"n": 7}', delay: '1h' });
    const page = await site.openEmpty();
    const answer = await holdAnswers(page, '**/v1/topics/again/jobs/earlier');
    const asked = page.waitForRequest('**/v1/topics/again/jobs/earlier');
    await page.goto(`${site.url}/push?topic=again&from=earlier`);
    await asked;
    await page.getByRole('heading', { name: 'Push a job' }).waitFor();
    expect(await page.getByLabel(/^Body/).count()).toBe(0);
    answer();
    await page.getByLabel(/^Body/).waitFor();
    expect(await page.getByLabel(/^Body/).inputValue()).toContain('7');
    expect(await page.getByLabel(/^Job ID/).inputValue()).toBe('earlier');
  });
});

describe('the page of a job', () => {
  it('says where it is, why an attempt failed, and what follows', async () => {
    await site.addTopic('judged', { retryIf: '{res.code}!=200', delay: '1s' }, '/rule');
    await site.push('judged', 'page/1', { body: '{"n":9007199254740993}', delay: '1s' });
    const page = await site.open(at('judged', 'page/1'));
    for (const text of [
      /The first attempt starts in|Attempt 2 of 10 starts in/,
      /Attempt 2 of 10 starts in/,
      'The retry rule matched',
      '{res.code} = 500',
      /Next wait: 1 h/,
      '9007199254740993',
    ])
      await shows(page, text);
    await button(page, 'Raw').click();
    await button(page, 'Hex').click();
    await shows(page, '7b 22 6e 22 3a 39 30 30');
    expect(await page.getByRole('img', { name: /^Attempt 2 of 10/ }).textContent()).toMatch(/Dead letter/);
    const [attempt] = (await jobOf('judged', 'page/1')).attempts;
    expect(attempt).toMatchObject({ ruleValues: { '{res.code}': '500' }, nextBy: 'backoff' });
    expect(attempt.replyHeaders).toContain('server: nginx');
  });

  it('tells its story: accepted, due, attempts also from before a requeue, and what comes next', async () => {
    const rule = { retryIf: '{res.code}!=200', maxAttempts: 3, backoff: ['1s'] };
    await site.addTopic('told', rule, '/rule');
    await site.push('told', 'twice', { delay: '1s' });
    await site.jobIs('told', 'twice', 'dead');
    const page = await site.open('/jobs/told/twice');
    const story = page.locator('section', { has: page.getByRole('heading', { name: 'Story' }) });
    const lines = async () =>
      await story.locator('li > :is(div, details) > summary, li.mark').allTextContents();
    await story.getByText('Dead letter', { exact: true }).waitFor();
    const first = await lines();
    expect(first.map((line) => /^[A-Z][a-z]+( letter| \d)?/.exec(line)?.[0])).toEqual([
      ...['Accepted', 'Due', 'Attempt 1', 'Attempt 2', 'Attempt 3', 'Dead letter'],
    ]);
    expect(first[1]).toContain('waited 1 s');
    // The newest attempt is open: what its rule compared, and the request beside the reply.
    expect(await story.locator('details[open]').count()).toBe(1);
    await story.locator('details[open]').getByText('{res.code} = 500').waitFor();
    const boxes = await Promise.all(
      ['Request', 'Reply'].map((name) => story.getByRole('heading', { name, exact: false }).boundingBox()),
    );
    expect(boxes[0]?.y).toBe(boxes[1]?.y);
    await site.change('PATCH', '/v1/topics/told', { backoff: ['1h'] });
    await button(page, 'Requeue').click();
    await site.jobIs('told', 'twice', 'delayed');
    await story.getByText(/Next wait: 1 h/).waitFor();
    await story.getByText('Dead letter if all attempts fail').waitFor();
    const later = (await lines()).map((line) => /^(Requeue|[A-Z][a-z]+( \d)?)/.exec(line)?.[0]);
    expect(later).toEqual([
      ...['Accepted', 'Due', 'Attempt 1', 'Attempt 2', 'Attempt 3', 'Requeue', 'Attempt 1'],
      ...['Attempt 2', 'Dead'],
    ]);
  });

  it('edits a dead letter and requeues it: shows the difference, and a job that changes meanwhile', async () => {
    await site.addTopic('mended', { retryIf: '{res.code}!=200', maxAttempts: 1 }, '/rule');
    const body = '{"order":9007199254740993,"total":1}';
    await site.push('mended', 'wrong', { body });
    await site.jobIs('mended', 'wrong', 'dead');
    const { webhookId } = await jobOf('mended', 'wrong');
    const page = await site.open('/jobs/mended/wrong');
    await button(page, 'Edit and requeue…').click();
    const editor = page.locator('section', { has: page.getByRole('heading', { name: 'Edit and requeue' }) });
    const field = editor.getByLabel(/^Body/);
    const send = button(editor, 'Edit and requeue');
    // One member a line; it is sent as compact as it was.
    const lines = '{\n  "order": 9007199254740993,\n  "total": 1\n}';
    expect(await field.inputValue()).toBe(lines);
    await editor.getByText('No difference').waitFor();
    await field.fill('{"order":9007199254740993,"total":');
    await editor.getByText(/Invalid JSON at character/).waitFor();
    expect(await send.isDisabled()).toBe(true);
    await field.fill(lines.replace('1\n', '2\n'));
    await editor.getByText('-   "total": 1').waitFor();
    await editor.getByText('+   "total": 2').waitFor();
    // Someone else requeues it, and it dies again.
    await site.change('POST', '/v1/topics/mended/jobs/wrong/requeue');
    await site.jobIs('mended', 'wrong', 'dead');
    await editor.getByText(/The job has changed since you began/).waitFor();
    expect(await send.isDisabled()).toBe(true);
    const begin = button(editor, 'Begin again with the job as it is now');
    await begin.click();
    await button(page.getByRole('dialog'), 'Stay').click();
    expect(await field.inputValue()).toContain('"total": 2');
    await begin.click();
    await button(page.getByRole('dialog'), 'Discard').click();
    await begin.waitFor({ state: 'detached' });
    expect(await field.inputValue()).toBe(lines);
    await field.fill(lines.replace('1\n', '3\n'));
    await editor.getByText(/New webhook-id/).click();
    await send.click();
    await shows(page, 'Edited and requeued');
    await until('the new body is called', () => site.callsOf('wrong').length === 3);
    expect(site.callsOf('wrong').map((call) => call.body)).toEqual([
      ...[body, body, '{"order":9007199254740993,"total":3}'],
    ]);
    expect((await jobOf('mended', 'wrong')).webhookId).not.toBe(webhookId);
    // It dies again: only a job that is not dead is pushed again.
    await button(page, 'Edit and requeue…').waitFor();
    expect(await button(page, 'Push again').count()).toBe(0);
  });

  it('edits a body of CR LF without another line end, warns of mixed ones, and looks at it once', async () => {
    await site.addTopic('lines', { maxAttempts: 1 }, '/410-once');
    const edits = [
      ['crlf', 'one\r\ntwo', 'one\ntwo', 'one\r\ntwo\r\n3'],
      ['mixed', 'one\r\ntwo\n', 'one\ntwo\n', 'one\ntwo\n\n3'],
    ] as const;
    for (const [id, body, shown, sent] of edits) {
      await site.push('lines', id, { body, contentType: 'text/plain' });
      await site.jobIs('lines', id, 'dead');
      const page = await site.open(`/jobs/lines/${id}`);
      await button(page, 'Edit and requeue…').click();
      const field = page.getByLabel(/^Body/);
      await page.getByText('No difference').waitFor();
      expect(await field.inputValue()).toBe(shown);
      const warning = page.getByText(/^The lines end with CR LF/);
      expect(await warning.count()).toBe(id === 'mixed' ? 1 : 0);
      await field.press('Control+End');
      await field.pressSequentially('\n3');
      await page.getByText('+ 3').waitFor();
      await button(page, 'Edit and requeue').click();
      await until('the new body is called', () => site.callsOf(id).length === 2);
      expect(site.callsOf(id)[1]?.body).toBe(sent);
    }
    // A large one is read as JSON when it is typed, not each time the page draws itself.
    const body = JSON.stringify('x'.repeat(100_000));
    await site.push('lines', 'large', { body });
    await site.jobIs('lines', 'large', 'dead');
    const page = await site.open('/jobs/lines/large');
    await button(page, 'Edit and requeue…').click();
    await page.getByText('No difference').waitFor();
    await page.evaluate(`{
      window.reads = 0;
      const { encode } = TextEncoder.prototype;
      TextEncoder.prototype.encode = function (text) {
        if (text.length > 99_999) window.reads += 1;
        return encode.call(this, text);
      };
    }`);
    for (let polls = 0; polls < 3; polls += 1) {
      await Promise.all([page.waitForResponse(/jobs\/large$/), poll(page)]);
      await drawn(page);
    }
    expect(await page.evaluate('window.reads')).toBe(0);
    await page.getByLabel(/^Body/).press('Control+End');
    await page.getByLabel(/^Body/).press('Space');
    await until('it is read again', async () => (await page.evaluate('window.reads')) !== 0);
  });

  it('says who runs it, what it waits for, how long it is kept, and what to do without it', async () => {
    await site.addTopic('one', { timeout: '60s', concurrency: 1 }, '/hang');
    await site.push('one', 'runs');
    const { why } = await until('the notifier is named', async () => {
      const job = await jobOf('one', 'runs');
      return job.why.notifier?.startsWith('dq-notifier-') && job;
    });
    expect(why.code).toBe('running');
    await site.push('one', 'next');
    const full = await until('it waits', async () => {
      const job = await jobOf('one', 'next');
      return job.why.code === 'at_concurrency' && job;
    });
    const codes = full.why.reasons.map(({ code }: { code: string }) => code);
    expect(codes).toContain('concurrency_reached');

    await site.addTopic('snoozed', { againIf: '{res.code}==500', againAfter: '1h' }, '/rule');
    await site.push('snoozed', 'once');
    await until('it is snoozed', async () => (await jobOf('snoozed', 'once')).again === 1);
    const page = await site.open('/jobs/snoozed/once');
    await shows(page, /^Snoozed once/);
    expect(await page.locator('dt', { hasText: 'Snoozes' }).locator('+ dd').textContent()).toBe('1');

    await site.addTopic('held');
    await site.push('held', 'waits', { delay: '1h' });
    await page.goto(`${site.url}/jobs/held/waits`);
    const main = page.locator('main');
    await main.getByText('Attempt 1').first().waitFor({ state: 'attached' });
    await site.change('POST', '/v1/topics/held/pause');
    await site.push('held', 'h');
    await site.change('POST', '/v1/topics/held/offline');
    await page.goto(`${site.url}/jobs/held/h`);
    await shows(page, 'Its topic is offline, so dq holds it.');
    await main.getByText('Timeline', { exact: true }).waitFor();
    expect(await main.getByText('Attempt 1').count()).toBe(0);

    await site.addTopic('gone', {}, '/410');
    await site.push('gone', 'dies');
    const dead = await site.jobIs('gone', 'dies', 'dead');
    const day = 86_400_000;
    expect(Date.parse(dead.keptUntil) - Date.parse(dead.deadAt)).toBe(30 * day);
    expect((await jobOf('held', 'waits')).keptUntil).toBeUndefined();
    await page.goto(`${site.url}/jobs/gone/dies`);
    await page.locator('dt', { hasText: 'Kept for' }).waitFor();
    await page.getByRole('cell', { name: 'Dead letter: 410' }).waitFor();
    await page.goto(`${site.url}/jobs/gone/never`);
    await shows(page, /never accepted\. Search the request-\* logs/);
    await page.goto(`${site.url}/jobs/nowhere/never`);
    await shows(page, /Search the request-\* logs/);

    // The command line says the same.
    const dq = (...args: string[]) => runDq(['explain', ...args, '--data-dir', site.daemon.dataDir]);
    const { stdout } = await dq('gone', 'dies');
    expect(stdout).toMatch(/^why +dead letter since \S+Z: gone$/m);
    expect(stdout).toMatch(/^last attempt +1: failed status 410, at /m);
    const json = JSON.parse((await dq('held', 'waits', '--json')).stdout);
    expect(json).toMatchObject({ why: { code: 'waits_until_due' }, nextAttempts: { length: 10 } });
  });

  it('reschedules with both times shown, runs now, and cancels after a question', async () => {
    await site.addTopic('moved');
    await site.push('moved', 'moves', { delay: '1h' });
    const page = await site.open('/jobs/moved/moves');
    await button(page, 'Reschedule…').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox').fill('soon');
    await shows(page, /10m, 2h30m, or/);
    await dialog.getByRole('textbox').fill('2h');
    await shows(page, /Due .*\(in 1 h 59 min\)|Due .*\(in 2 h\)/);
    await button(dialog, 'Reschedule').click();
    await shows(page, /starts in 1 h 59 min/);
    await until('the move is recorded', async () => {
      const { items } = await site.read('/v1/audit?topic=moved&id=moves');
      return items.length > 0;
    });
    await page.reload();
    for (const text of ['Reschedule', 'this machine'])
      await page.locator('svg.chart text', { hasText: text }).waitFor();
    await button(page, 'Cancel job…').click();
    await shows(page, 'Cancel this job?');
    await button(page, 'Keep job').click();
    await button(page, 'Run now').click();
    await shows(page, /Delivered with attempt 1/);
    expect(await button(page, 'Cancel job…').count()).toBe(0);
  });

  it('copies the signed callback as curl, which sends it from a shell', async () => {
    await site.addTopic('as.curl');
    const body = `{"it's":"@file"}`;
    await site.push('as.curl', 'curl', { body, delay: '1h' });
    const page = await site.open('/jobs/as.curl/curl', {
      permissions: ['clipboard-read', 'clipboard-write'],
    });
    await button(page, 'Copy as curl').click();
    await shows(page, 'Copied');
    const curl = (await page.evaluate('navigator.clipboard.readText()')) as string;
    const { stdout } = await promisify(execFile)('sh', ['-c', curl]);
    expect(stdout).toContain('{"code":200}');
    const [sent] = site.callsOf('curl');
    expect(sent?.body).toBe(body);
    expect(sent?.headers['webhook-id']).toBe((await jobOf('as.curl', 'curl')).webhookId);
    expect(sent?.headers['webhook-signature']).toMatch(/^v1,/);
  });
});

describe('find', async () => {
  const box = (page: Page) => page.getByRole('combobox', { name: /Search job ID/ });
  const options = (page: Page) => page.getByRole('option');
  const topicOption = (page: Page) => options(page).filter({ hasText: /^vip\.recall$/ });
  const find = async (page: Page, query: string) => {
    await box(page).fill(query);
    await box(page).press('Enter');
  };

  it('the box lists exact ids, ids that begin so, topics and the search of bodies, by keys alone', async () => {
    for (const topic of ['vip.recall', 'vip.close']) await site.addTopic(topic);
    for (const [topic, id, body, delay] of [
      ['vip.recall', 'vip-1', '{"order":88120}', '4m'],
      ['vip.recall', 'vip-2', '{"order":7}', '2h'],
      ['vip.close', 'vip-1', '{"order":7}', '2d'],
      ['vip.close', 'other', '{"note":"later 88120"}', '40d'],
    ] as const)
      await site.push(topic, id, { body, delay });
    const page = await site.open('/');
    await shows(page, 'Upcoming jobs by due time');
    await page.keyboard.press('/');
    await page.keyboard.type('vip');
    await options(page).filter({ hasText: 'vip-2' }).waitFor();
    await topicOption(page).waitFor();
    const texts = await options(page).allInnerTexts();
    expect(texts.slice(-2)).toEqual(['Search IDs that begin with “vip”', 'Search bodies for “vip”']);
    expect(texts).toHaveLength(7);
    for (const text of await page.locator('#find-list .one-line').all())
      expect((await text.boundingBox())?.width).toBeGreaterThan(10);
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/jobs/*/vip-*');
    await page.keyboard.press('/');
    await page.keyboard.type('xyz');
    await page.keyboard.press('Escape');
    expect(await options(page).count()).toBe(0);
  });

  it('Enter opens the job of this id; an option stays chosen when other answers arrive', async () => {
    const page = await site.open('/');
    // The answer about beginnings is the first.
    const exact = await holdAnswers(page, /\/v1\/jobs\?id=/);
    await box(page).fill('other');
    await options(page).filter({ hasText: 'vip.close' }).waitFor();
    const answered = page.waitForResponse(/\/v1\/jobs\?id=/);
    exact();
    await (await answered).finished();
    await drawn(page);
    await box(page).press('Enter');
    await page.waitForURL('**/jobs/vip.close/other');

    const all = await holdAnswers(page, /\/v1\/jobs\?/);
    await box(page).fill('vip');
    await topicOption(page).waitFor();
    await box(page).press('ArrowDown');
    const chosen = page.locator('[role=option][aria-selected=true]');
    const before = await chosen.allInnerTexts();
    all();
    await options(page).filter({ hasText: 'vip-2' }).waitFor();
    expect(before).toHaveLength(1);
    expect(await chosen.allInnerTexts()).toEqual(before);
    await box(page).press('Enter');
    await page.waitForURL(`**/topics/${before[0]}`);
  });

  it('a query of keys opens the jobs with its filters, and the box and the chips show it', async () => {
    const page = await site.open('/');
    await find(page, 'topic:vip.recall id:vip-* due:..3h');
    await page.waitForURL('**/jobs?**');
    await becomeRows(page, 2);
    expect(new URL(page.url()).search).toBe('?topic=vip.recall&idPrefix=vip-&due=..3h');
    expect(await box(page).inputValue()).toBe('topic:vip.recall due:..3h id:vip-*');
    expect(await page.getByLabel('ID begins with').inputValue()).toBe('vip-');
    const due = page.getByLabel('Due', { exact: true });
    await due.fill('..5m');
    await page.keyboard.press('Tab');
    await becomeRows(page, 1);
    await due.fill('soon');
    await page.keyboard.press('Tab');
    await shows(page, 'Write a time such as');
    await find(page, 'status:5xx topic:vip.recall');
    await page.waitForURL('**/dead?**');
  });

  it('the search of bodies finds the jobs of all topics', async () => {
    const page = await site.open('/');
    await box(page).fill('88120');
    await options(page).filter({ hasText: 'Search bodies for' }).click();
    await page.waitForURL('**/jobs?body=88120');
    await shows(page, '2 found');
    await becomeRows(page, 2);
    // A number that no id begins with leads on to the bodies.
    await find(page, '8812');
    await page.waitForURL('**/jobs?idPrefix=8812');
    await button(page.locator('main'), 'Search bodies for “8812”').click();
    await shows(page, '2 found');
    await page.waitForURL('**/jobs?body=8812');
    await page.goto(`${site.url}/jobs?body=nothing`);
    await shows(page, 'No job matches');
    await shows(page, 'dq keeps ended jobs without their bodies');
  });

  it('the horizon of a topic shows bars, and the same numbers as a table', async () => {
    await site.addTopic('coming');
    for (const [n, delay] of ['4m', '2h', '2h', '2d', '40d'].entries())
      await site.push('coming', `${n}`, { delay });
    const page = await site.open('/topics/coming');
    const card = page.locator('section.card', { hasText: 'Upcoming jobs by due time' });
    await card.getByText('5 jobs').waitFor();
    expect(await card.getByRole('img').first().getAttribute('aria-label')).toBe(
      'Upcoming jobs by due time: 5 min 1, 3 h 2, 3 d 1, > 30 d 1',
    );
    await button(card, 'View as table').click();
    await card.getByRole('row', { name: '3 h 2 40 %' }).waitFor();
  });
});

describe('all that match', () => {
  const count = 30;

  async function bury(topic: string, settings: object, path: string): Promise<void> {
    await site.addTopic(topic, settings, path);
    const jobs = Array.from({ length: count }, (_, n) => ({
      topic,
      id: `${topic}-${n}`,
      body: {},
      delay: 0,
    }));
    expect(await site.change('POST', '/v1/jobs', jobs)).toMatchObject({ accepted: count });
    await deadAre(topic, count);
  }
  const deadIn = async (topic: string) => (await site.read(`/v1/topics/${topic}/stats`)).states.dead;
  const deadAre = (topic: string, number: number) =>
    until(`${topic} has ${number} dead letters`, async () => (await deadIn(topic)) === number);
  const ended = (kind: string) =>
    until(`the ${kind} has ended`, async () => {
      const operation = await lastOperation();
      return operation?.kind === kind && operation.endedAt !== null && operation;
    });
  const requeueAll = async (
    page: Page,
    choose: (dialog: ReturnType<Page['getByRole']>) => Promise<unknown>,
  ) => {
    await button(page, 'Requeue all that match…').click();
    await choose(page.getByRole('dialog'));
    await button(page.getByRole('dialog'), 'Requeue').click();
  };

  it('an empty page of dead letters leads to the further ones that match', async () => {
    await bury('sparse', { maxAttempts: 1 }, '/502');
    const page = await site.open('/');
    // As dq answers where the newest rows that it examined do not match.
    await page.route(/\/v1\/dead\?/, async (route) => {
      const isFirst = !new URL(route.request().url()).searchParams.has('cursor');
      if (isFirst) await route.fulfill({ json: { items: [], nextCursor: 'further' } });
      else await route.fulfill({ json: { ...(await site.read('/v1/dead?topic=sparse')), nextCursor: null } });
    });
    await page.goto(`${site.url}/dead?topic=sparse&status=502`);
    await button(page, 'Show 50 more').click();
    await rows(page).filter({ hasText: 'sparse-0' }).waitFor();
  });

  it('lists say what they are without', async () => {
    const page = await site.open('/');
    const missing = ['9fe8baa59ddcbdf3', 'jobs.db'];
    await page.route(/\/v1\/(jobs|dead)\?/, (route) =>
      route.fulfill({ json: { items: [], nextCursor: null, missing } }),
    );
    for (const path of ['/jobs', '/dead']) {
      await page.goto(site.url + path);
      await shows(page, 'Shards that do not answer: 9fe8baa59ddcbdf3. Their jobs are not listed.');
      await shows(page, 'Jobs that are still in jobs.db are not listed. dq move brings them to Redis.');
    }
  });

  it('dead letters are requeued at once or spread over a time; a stop keeps the rest', async () => {
    await bury('coupon', { maxAttempts: 1 }, '/502');
    const page = await site.open('/dead?topic=coupon');
    // The questions name the number and the filter.
    await page.goto(`${site.url}/dead?topic=coupon&lastReason=status&age=today`);
    await rows(page)
      .nth(count - 1)
      .waitFor();
    // The other topics' dead letters are neither counted nor grouped.
    await shows(page, `${count} matches`);
    await shows(page, 'from the dead letters that match');
    await button(page, 'Requeue by time…').click();
    const byTime = page.getByRole('dialog');
    await byTime.getByText('status', { exact: true }).waitFor();
    expect(await byTime.getByLabel('Dead since').inputValue()).toMatch(/T00:00/);
    await byTime.getByText(`${count} dead letters match now.`).waitFor();
    await byTime.getByLabel('Dead before').fill('2001-01-01T00:00:00');
    await byTime.getByText('0 dead letters match now.').waitFor();
    await page.keyboard.press('Escape');
    await requeueAll(page, async (dialog) => {
      await dialog.getByText(`Requeue ${count} dead letters of coupon?`).waitFor();
      await dialog.getByText(/^status · dead since .*00:00:00/).waitFor();
      expect(await dialog.getByLabel('Immediately').isChecked()).toBe(true);
    });
    expect(await ended('requeue')).toMatchObject({
      state: 'finished',
      matched: count,
      done: count,
      failed: 0,
    });
    await until('each is called twice', () =>
      Array.from({ length: count }, (_, n) => site.callsOf(`coupon-${n}`).length).every(
        (calls) => calls === 2,
      ),
    );
    await deadAre('coupon', count);
    await page.reload();
    await requeueAll(page, (dialog) => dialog.getByLabel('Spread over').first().check());
    // The navigation leads to it, with its progress and the way to stop it.
    await page.getByRole('link', { name: 'Operations' }).click();
    const running = page.locator('tbody tr', { has: button(page, 'Stop…') });
    await running.getByText(/ of 30/).waitFor();
    await running.getByRole('link').first().click();
    await shows(page, /spread over 10 min/);
    await confirm(page, 'Stop');
    await page.locator('.title .pill', { hasText: 'Stopped' }).waitFor();
    const stopped = await lastOperation();
    expect(stopped).toMatchObject({ state: 'stopped', spread: 600_000 });
    expect(stopped.done).toBeLessThan(count);
  });

  it('a purge takes a typed word or number, and only what the address names and was dead when it was asked', async () => {
    await bury('purged', { maxAttempts: 1 }, '/410');
    await bury('tired', { maxAttempts: 1 }, '/502');
    const page = await site.open('/dead?topic=purged&deadReason=gone');
    await shows(page, `${count} matches`);
    await button(page, 'Purge…').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('textbox').waitFor();
    expect(await button(dialog, 'Purge').isDisabled()).toBe(true);
    // It died after the question was asked.
    await site.push('purged', 'late');
    await deadAre('purged', count + 1);
    await dialog.getByRole('textbox').fill(`${count}`);
    await button(dialog, 'Purge').click();
    expect(await ended('purge')).toMatchObject({
      done: count,
      filter: { topic: 'purged', deadReason: 'gone' },
    });
    expect([await deadIn('purged'), await deadIn('tired')]).toEqual([1, count]);

    await page.goto(`${site.url}/dead?lastReason=status&idPrefix=tired`);
    await shows(page, 'Dead letters cannot be filtered by id:tired*');
    expect(await button(page, 'Purge…').count()).toBe(0);
    await page.goto(`${site.url}/jobs?state=dead&due=..1h&topic=tired`);
    await page.getByLabel('Select tired-1', { exact: true }).first().check();
    await shows(page, '1 selected');
    expect(await button(page, 'Select all that match').count()).toBe(0);
    // A known number is what is typed.
    await page.goto(`${site.url}/dead?topic=tired`);
    await shows(page, `${count} matches`);
    await confirm(page, 'Purge', (box) => box.getByRole('textbox').fill(`${count}`));
    await deadAre('tired', 0);
    await shows(page, 'No dead letter matches');
    // A cause leads to its dead letters, also without an attempt: the reply is written by hand.
    const at = new Date().toISOString();
    const group = {
      topic: 'tired',
      deadReason: 'poison',
      lastReason: null,
      status: null,
      count: 2,
      firstAt: at,
      lastAt: at,
      hours: Array(24).fill(0),
    };
    await page.route('**/v1/dead/groups', (route) =>
      route.fulfill({ json: { groups: [group], examined: 2, complete: true } }),
    );
    await page.goto(`${site.url}/dead`);
    await page.getByRole('link', { name: 'View', exact: true }).click();
    await page.waitForURL('**/dead?topic=tired&deadReason=poison&lastReason=none&status=none');
    await shows(page, 'No dead letter matches');
  });

  it('jobs are rescheduled and cancelled; an unknown operation is said to be unknown', async () => {
    await site.addTopic('many');
    for (let n = 0; n < 60; n += 1) await site.push('many', `many-${n}`, { delay: '1h' });
    const page = await site.openEmpty();
    const select = (id: string) => page.getByLabel(`Select ${id}`, { exact: true }).first();
    // A session that may operate, but not push, cannot cancel.
    await page.route('**/v1/me', async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), scopes: ['read', 'operate'] } });
    });
    const list = `${site.url}/jobs?topic=many&state=delayed`;
    await page.goto(list);
    await select('many-0').check();
    await button(page, 'Reschedule…').waitFor();
    expect(await button(page, 'Cancel…').count()).toBe(0);
    await page.unroute('**/v1/me');
    await page.goto(list);
    await select('many-0').check();
    await select('many-1').check();
    await confirm(page, 'Reschedule', (dialog) => dialog.getByRole('textbox').fill('3h'));
    expect(await ended('reschedule')).toMatchObject({ state: 'finished', done: 2 });
    // New versions, due after those that the page shows: with the next poll both leave it and the selection.
    await select('many-0').waitFor({ state: 'detached' });
    await select('many-2').check();
    await button(page, 'Select all that match').click();
    await button(page, 'Cancel…').click();
    await page.getByRole('dialog').getByText('60 jobs match now.').waitFor();
    await page.getByRole('dialog').getByRole('textbox').fill('Cancel');
    await button(page.getByRole('dialog'), 'Cancel jobs').click();
    expect(await ended('cancel')).toMatchObject({ state: 'finished', done: 60 });
    await page.goto(`${site.url}/operations/0123456789ab`);
    await shows(page, 'Operation not found');
  });

  it('a selection of all that match ends when the list is empty: later jobs are not selected', async () => {
    await site.addTopic('emptied');
    for (const id of ['old-1', 'old-2']) await site.push('emptied', id, { delay: '1h' });
    const page = await site.openEmpty();
    await page.goto(`${site.url}/jobs?topic=emptied&state=delayed`);
    const select = (id: string) => page.getByLabel(`Select ${id}`, { exact: true }).first();
    await select('old-1').check();
    await button(page, 'Select all that match').click();
    for (const id of ['old-1', 'old-2'])
      expect((await site.api('DELETE', `/v1/topics/emptied/jobs/${id}`)).status).toBe(200);
    await select('old-2').waitFor({ state: 'detached' });
    await site.push('emptied', 'new-1', { delay: '1h' });
    await select('new-1').waitFor();
    expect(await select('new-1').isChecked()).toBe(false);
    expect(await page.locator('.pickbar').count()).toBe(0);
  });
});

// No test here moves a pointer or calls an element.
describe('the keyboard alone', () => {
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
      const now = await focused(page);
      if (name.test(now)) return;
      seen.push(now.slice(0, 40));
    }
    throw new Error(`${key} does not reach ${name}, but ${JSON.stringify(seen)}`);
  }
  const calledTwice = (id: string) => until(`${id} is called again`, () => site.callsOf(id).length === 2);

  it('signs in, finds a job, runs it, and copies the id of a row', async () => {
    await site.addTopic('keys.run');
    for (const id of ['run-7', 'run-8']) await site.push('keys.run', id, { delay: '1h' });
    const token = await site.needSignIn('read', 'push', 'operate');
    const page = await site.open('/');
    await page.getByLabel('Access token').waitFor();
    await pressTo(page, 'Tab', /^Access token/);
    await page.keyboard.type(token);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await page.keyboard.press('/');
    // The answer about beginnings may be the first.
    const answered = page.waitForResponse(/\/v1\/jobs\?id=run-7/);
    await page.keyboard.type('run-7');
    await (await answered).finished();
    await drawn(page);
    await page.keyboard.press('Enter');
    await page.waitForURL('**/jobs/keys.run/run-7');
    await button(page, 'Run now').waitFor();
    await pressTo(page, 'Tab', /^Run now$/);
    await page.keyboard.press('Enter');
    await shows(page, /Delivered with attempt 1/);
    expect(site.callsOf('run-7')).toHaveLength(1);
    await page.goto(`${site.url}/jobs?topic=keys.run`);
    await page.getByRole('link', { name: 'run-8' }).first().waitFor();
    await pressTo(page, 'j', /^run-8$/);
    await page.keyboard.press('c');
    await page.context().grantPermissions(['clipboard-read']);
    await until(
      'the id is copied',
      async () => (await page.evaluate('navigator.clipboard.readText()')) === 'run-8',
    );
  });

  it('leaves a dialog by Escape, and the focus is where it was', async () => {
    await site.addTopic('keys.focus');
    await site.push('keys.focus', 'stays', { delay: '1h' });
    const page = await site.open('/jobs/keys.focus/stays');
    const leave = async () => {
      await page.getByRole('dialog').waitFor();
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'hidden' });
    };
    await button(page, 'Cancel job…').waitFor();
    await pressTo(page, 'Tab', /^Cancel job…$/);
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    await pressTo(page, 'Tab', /^Keep job$/);
    await leave();
    expect(await focused(page)).toBe('Cancel job…');
    // The dialog of a menu returns the focus to the button of the menu, which is still on the page.
    await page.goto(`${site.url}/topics?search=keys.focus`);
    await page.getByRole('link', { name: 'keys.focus' }).first().waitFor();
    await pressTo(page, 'Tab', /^Actions for keys\.focus$/);
    await page.keyboard.press('Enter');
    await pressTo(page, 'Tab', /^Pause…$/);
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: 'Pause keys.focus?' }).waitFor();
    await leave();
    expect(await focused(page)).toBe('Actions for keys.focus');
  });

  it('selects a dead letter by single keys or without them, and requeues it, and only it', async () => {
    await site.addTopic('keys.dead', {}, '/410-once');
    for (const id of ['dead-1', 'dead-2', 'dead-3']) {
      await site.push('keys.dead', id);
      await site.jobIs('keys.dead', id, 'dead');
    }
    const page = await site.open('/dead?topic=keys.dead');
    const link = (id: string) => page.getByRole('link', { name: id }).first();
    await link('dead-2').waitFor();
    await pressTo(page, 'j', /^dead-2$/);
    await page.keyboard.press('x');
    await shows(page, '1 selected');
    await page.keyboard.press('Shift+R');
    await shows(page, '1 requeued');
    await calledTwice('dead-2');
    expect(site.callsOf('dead-1')).toHaveLength(1);
    expect(site.callsOf('dead-3')).toHaveLength(1);
    // A key acts on the selection that is shown, also before the next frame.
    await link('dead-2').waitFor({ state: 'detached' });
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
    await calledTwice('dead-1');
    // People can switch single keys off.
    await page.evaluate(`localStorage.setItem('dq-keys', 'off')`);
    await page.reload();
    await link('dead-3').waitFor();
    await pressTo(page, 'Tab', /^Select dead-3$/);
    // One of the two does nothing: both would select the row and clear it again.
    await page.keyboard.press('x');
    await page.keyboard.press('Space');
    await shows(page, '1 selected');
    await pressTo(page, 'Shift+Tab', /^Requeue$/);
    await page.keyboard.press('Enter');
    await calledTwice('dead-3');
  });
});

describe('views of a list', () => {
  it('names the jobs of today, keeps filters under a name in this browser, and forgets them', async () => {
    await site.addTopic('viewed', { maxAttempts: 1 }, '/410');
    await site.push('viewed', 'now');
    await site.push('viewed', 'in-two-days', { delay: '48h' });
    await site.jobIs('viewed', 'now', 'dead');
    const page = await site.open('/jobs?topic=viewed');
    await becomeRows(page, 2);
    await page.getByLabel('Save this view as…').fill('Mine');
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: 'Mine', exact: true }).waitFor();
    await page.getByRole('link', { name: 'Today', exact: true }).click();
    await page.waitForURL((url) => url.search === '?due=today');
    // The address is the view: it opens elsewhere, and a reload keeps the names.
    await page.goto(`${site.url}/jobs?topic=viewed&due=today`);
    await becomeRows(page, 1);
    await page.getByRole('link', { name: 'now', exact: true }).waitFor();
    await page.getByRole('link', { name: 'Mine', exact: true }).click();
    await becomeRows(page, 2);
    expect(new URL(page.url()).search).toBe('?topic=viewed');
    await button(page, 'Forget').click();
    await page.getByRole('link', { name: 'Mine', exact: true }).waitFor({ state: 'detached' });

    await page.goto(`${site.url}/dead`);
    await page.getByRole('link', { name: 'Today', exact: true }).click();
    await page.waitForURL((url) => url.search === '?age=today');
    await page.goto(`${site.url}/dead?topic=viewed&age=today`);
    await page.getByRole('link', { name: 'now', exact: true }).waitFor();
  });
});
