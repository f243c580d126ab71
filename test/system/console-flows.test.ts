// Whole tasks on the pages of the console, on a real daemon: a wrong rule is corrected and used, a rotated
// secret signs the next callback, and a reload shows no error on an open page.

import { createHmac } from 'node:crypto';
import { afterAll, expect, it } from 'vitest';
import { openPage, startBrowser } from '../support/browser.ts';
import { startDaemon } from '../support/daemon.ts';
import { reload } from '../support/reloading.ts';
import { startSink, status } from '../support/sink.ts';
import { until } from '../support/until.ts';

const browser = await startBrowser();
afterAll(() => browser.close());
const daemon = await startDaemon({ console: true, scope: 'file' });
const url = await daemon.consoleUrl();

async function addTopic(topic: string, settings: object): Promise<void> {
  expect((await daemon.api('POST', '/v1/topics', { topic, ...settings })).status).toBe(201);
}

it('a wrong rule is shown with its position, corrected, saved, and judges the next reply', async () => {
  const sink = await startSink(status(200, { 'content-type': 'application/json' }, '{"code":500}'));
  await addTopic('order.close', { callbackUrl: sink.url, backoff: ['1s'] });
  const { page } = await openPage(browser, `${url}/topics/order.close/settings`);
  const rule = page.getByLabel(/^Retry rule/);
  await rule.fill('{res.code} != ');
  await page.locator('pre mark').waitFor();
  await rule.fill('{res.code} != 200');
  await page.locator('pre mark').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Save changes' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Save changes' }).click();
  await page.getByText('Saved', { exact: true }).first().waitFor();
  await daemon.push('order.close', '{}', { id: 'by-rule' });
  await until('the rule asks for a second attempt', () => sink.arrivals.length >= 2);
  sink.answer(status(200, { 'content-type': 'application/json' }, '{"code":200}'));
  await page.goto(`${url}/jobs/order.close/by-rule`);
  await page
    .getByText(/^Delivered with attempt/)
    .first()
    .waitFor();
});

it('a rotated secret is shown once, and signs the next callback beside the old one', async () => {
  const sink = await startSink();
  await addTopic('bill.send', { callbackUrl: sink.url });
  const { page } = await openPage(browser, `${url}/topics/bill.send/secret`);
  await page.getByRole('button', { name: 'Rotate secret…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Rotate secret' }).click();
  const secret = await page.locator('pre', { hasText: 'whsec_' }).textContent();
  await daemon.push('bill.send', '{"n":1}');
  await until('the callback arrives', () => sink.arrivals.length === 1);
  const [call] = sink.arrivals;
  if (call === undefined) throw new Error('no callback');
  const signed = `${call.webhookId}.${call.headers['webhook-timestamp']}.${call.body.toString()}`;
  const key = Buffer.from(String(secret).slice('whsec_'.length), 'base64');
  const signatures = String(call.headers['webhook-signature']).split(' ');
  expect(signatures).toHaveLength(2);
  expect(signatures).toContain(`v1,${createHmac('sha256', key).update(signed).digest('base64')}`);
  await page.reload();
  await page.getByRole('button', { name: 'Rotate secret…' }).waitFor();
  expect(await page.getByText('whsec_').count()).toBe(0);
});

it('a reload of dq fails no call of an open page', async () => {
  await addTopic('pay.check', { callbackUrl: 'http://127.0.0.1:9/' });
  await daemon.api('POST', '/v1/topics/pay.check/jobs?delay=25s&id=polled', { n: 1 });
  const { page } = await openPage(browser, `${url}/jobs/pay.check/polled`);
  const wrong: string[] = [];
  let answered = 0;
  page.on('requestfailed', (request) => wrong.push(`${request.url()}: ${request.failure()?.errorText}`));
  page.on('response', (response) => {
    answered += 1;
    if (response.status() >= 400) wrong.push(`${response.url()}: ${response.status()}`);
  });
  for (let times = 0; times < 2; times += 1) {
    expect((await reload(daemon)).code).toBe(0);
    const before = answered;
    await until('the page has polled again', () => answered > before + 1);
  }
  expect(wrong).toEqual([]);
});
