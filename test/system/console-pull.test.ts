// Pull topics in the console: the form hides the fields of a call, and no screen shows a call.
import type { Browser, Page } from 'playwright-core';
import { afterAll, expect, it } from 'vitest';
import { openPage, seriousFaults, startBrowser } from '../support/browser.ts';
import { startDaemon } from '../support/daemon.ts';

const browser: Browser = await startBrowser();
afterAll(() => browser.close());
const daemon = await startDaemon({ console: true, scope: 'file' });
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
