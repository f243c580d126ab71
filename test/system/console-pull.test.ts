// Topics that dq does not call in the console: with the deliveries pull and mq the form hides the fields of a
// call, and no screen shows a call.
import type { Browser, Page } from 'playwright-core';
import { afterAll, expect, it } from 'vitest';
import { openPage, seriousFaults, startBrowser } from '../support/browser.ts';
import { startDaemon } from '../support/daemon.ts';

const browser: Browser = await startBrowser();
afterAll(() => browser.close());
const daemon = await startDaemon({
  ...{ console: true, scope: 'file' },
  config: {
    retry: { unit: '1h' },
    // Nothing listens there.
    brokers: ['main=amqp091+amqp://u:s3cret@127.0.0.1:2', 'old=stomp+stomp://u:s3cret@127.0.0.1:2'],
  },
});
const url = await daemon.consoleUrl();

const field = (page: Page, name: string) => page.locator(`#field-${name}`);

it('a topic becomes a pull topic by the form, and its fields of a call are hidden', async () => {
  await daemon.api('POST', '/v1/topics', {
    topic: 'mixed',
    callbackUrl: 'http://127.0.0.1:9/',
    timeout: '7s',
  });
  const { page } = await openPage(browser, `${url}/topics/mixed/settings`);
  await field(page, 'timeout').fill('8s');
  await field(page, 'delivery').selectOption('pull');
  await field(page, 'lease').fill('5m');
  expect(await field(page, 'callbackUrl').count()).toBe(0);
  expect(await field(page, 'concurrency').count()).toBe(0);
  await page.getByRole('button', { name: 'Save changes' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Save changes' }).click();
  await page.getByText('Saved', { exact: true }).first().waitFor();
  expect((await daemon.api('GET', '/v1/topics/mixed')).body).toMatchObject({
    delivery: 'pull',
    lease: '5m',
    callbackUrl: null,
  });
  expect(await seriousFaults(page)).toEqual([]);
});

it('a new pull topic needs no callback URL', async () => {
  const { page } = await openPage(browser, `${url}/topics/new?create`);
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('made');
  await field(page, 'delivery').selectOption('pull');
  await page.getByRole('button', { name: 'Create topic' }).click();
  await page.getByText('Topic created.').waitFor();
  expect((await daemon.api('GET', '/v1/topics/made')).body.delivery).toBe('pull');
});

it('the list, the topic and its jobs show pulls and leases', async () => {
  await daemon.api('POST', '/v1/topics', { topic: 'report', delivery: 'pull', lease: '1h' });
  for (const id of ['a', 'b']) await daemon.push('report', '{"n":1}', { id });
  const pulled = (await daemon.api('POST', '/v1/topics/report/pull')).body.items[0];
  const { page } = await openPage(browser, `${url}/topics`);
  // The column of the call is not shown in narrow windows.
  await page.setViewportSize({ width: 1_600, height: 900 });
  await page
    .getByRole('row', { name: /report/ })
    .getByText('Pull', { exact: true })
    .waitFor();
  await page.goto(`${url}/topics/report`);
  await page.getByText('Clients pull the jobs, each with a lease of').waitFor();
  await page.getByText('Leases out').first().waitFor();
  await page.goto(`${url}/jobs/report/${pulled.id}`);
  await page.getByText('A client has pulled the job and not answered yet.').first().waitFor();
  await page.goto(`${url}/jobs/report/${pulled.id === 'a' ? 'b' : 'a'}`);
  await page.getByText('The job is due and waits for a client that pulls its topic.').first().waitFor();
  await daemon.api('POST', '/v1/leases/nack', { leases: [pulled.lease], reason: 'locked' });
  await page.goto(`${url}/jobs/report/${pulled.id}`);
  await page.getByText('locked').first().waitFor();
  expect(await page.getByText('null').count()).toBe(0);
});

it('a topic for a broker: the form, the topic, its test message and its jobs', async () => {
  const { page } = await openPage(browser, `${url}/topics/new?create`);
  const seen: string[] = [];
  page.on('response', async (reply) => seen.push(await reply.text().catch(() => '')));
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('published');
  await field(page, 'retryIf').fill('{res.a}==1');
  await field(page, 'delivery').selectOption('mq');
  for (const name of ['callbackUrl', 'method', 'format', 'retryIf', 'okStatus', 'emptyReply', 'lease'])
    expect(await field(page, name).count(), name).toBe(0);
  expect(await field(page, 'broker').locator('option').allTextContents()).toEqual([
    ...['Choose a broker', 'main', 'old'],
  ]);
  await page.getByRole('button', { name: 'Create topic' }).click();
  await page
    .locator('small.wrong', { hasText: 'must be a name of brokers in the configuration of dq: main, old' })
    .waitFor();
  await field(page, 'broker').selectOption('old');
  await page.getByText('Destination, such as /queue/orders').waitFor();
  await field(page, 'broker').selectOption('main');
  await page.getByText('Routing key (optional)').waitFor();
  await field(page, 'to').fill('orders');
  await page.getByRole('button', { name: 'Create topic' }).click();
  await page.getByText('Topic created.').waitFor();
  expect((await daemon.api('GET', '/v1/topics/published')).body).toMatchObject({
    ...{ delivery: 'mq', target: { broker: 'main', to: 'orders', key: null }, retryIf: '' },
  });

  await page.goto(`${url}/topics/published/settings`);
  await field(page, 'key').fill('order.created');
  await page.getByRole('button', { name: 'Save changes' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Save changes' }).click();
  await page.getByText('Saved', { exact: true }).first().waitFor();
  expect((await daemon.api('GET', '/v1/topics/published')).body.target.key).toBe('order.created');
  expect(await seriousFaults(page)).toEqual([]);

  await daemon.push('published', '{"n":1}', { id: 'a' });
  await page.goto(`${url}/topics/published`);
  await page.getByText('main/orders#order.created').first().waitFor();
  await page.getByRole('button', { name: 'Test message' }).click();
  await page.getByRole('button', { name: 'Publish test message' }).click();
  await page.getByRole('dialog').getByText('ECONNREFUSED').waitFor();
  await page.getByRole('button', { name: 'Close' }).click();
  const card = page.locator('.card', { has: page.getByRole('heading', { name: 'Broker' }) });
  await card.getByText('main', { exact: true }).waitFor();
  await page.goto(`${url}/jobs/published/a`);
  await page.getByText('PUBLISH main/orders#order.created').waitFor();
  await page.getByText('No connection to the receiver.').first().waitFor();
  expect(seen.join()).not.toContain('s3cret');
});
