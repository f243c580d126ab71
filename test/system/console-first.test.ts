import { afterAll, describe, expect, it } from 'vitest';
import { whyNotInstalled } from '../../scripts/services/binaries.ts';
import { openPage, scrollsSideways, seriousFaults, startBrowser } from '../support/browser.ts';
import { type Halves, halvesIn, sendTo } from '../support/console.ts';
import { startDaemon } from '../support/daemon.ts';
import { until } from '../support/until.ts';

const why = await whyNotInstalled('browser');
if (why !== null) throw new Error(why);
const browser = await startBrowser();
afterAll(() => browser.close());
const startedAt = performance.now();
// The policy forbids the loopback address in two ways: only the trial may use it.
const daemon = await startDaemon({
  console: true,
  scope: 'file',
  config: { egress: { policy: 'public', deny: ['127.0.0.0/8'] } },
});

const url = await daemon.consoleUrl();
const port = Number(new URL(url).port);

async function signIn(): Promise<Halves> {
  const { json, headers } = await sendTo(
    port,
    'POST',
    '/v1/session',
    { 'content-type': 'application/json' },
    '{}',
  );
  return { cookie: String(headers['set-cookie']).split(';')[0] as string, key: json.key };
}

const halves = await signIn();
const call = (method: string, path = '/v1/trial') => sendTo(port, method, path, halvesIn(halves));
const topic = () => daemon.api('GET', '/v1/topics/trial.hello');

describe('the first job', () => {
  it('is delivered by one button of the printed address, within 60 s of the start', async () => {
    const printed = await until(
      'the address is printed',
      () => /^console (http:\S+)\n/m.exec(daemon.output())?.[1],
    );
    const { page } = await openPage(browser, printed);
    await page.getByRole('button', { name: 'Deliver a job' }).click();
    await page.getByText('Job pushed and stored on disk').waitFor();
    await page.getByText('Signature ok').waitFor();
    expect(performance.now() - startedAt).toBeLessThan(60_000);
    expect(new URL(page.url()).pathname).toBe('/first');
    expect(await page.locator('.steps').textContent()).toMatch(/dq-topic: trial\.hello/);
    expect(await seriousFaults(page)).toEqual([]);
    await page.setViewportSize({ width: 390, height: 844 });
    expect(await scrollsSideways(page)).toBe(false);
    await page.getByRole('button', { name: 'Java' }).click();
    await page.getByText('HttpRequest.newBuilder').waitFor();
    expect(await scrollsSideways(page)).toBe(false);
    await page.getByRole('button', { name: 'Remove the trial' }).click();
    await page.getByRole('button', { name: 'Deliver a job' }).waitFor();
    expect((await topic()).status).toBe(404);
  });

  it('names what stops the trial', async () => {
    const callbackUrl = 'https://example.org/hello';
    await daemon.api('POST', '/v1/topics', { topic: 'trial.hello', callbackUrl });
    const { page } = await openPage(browser, `${url}/first`);
    await page.getByRole('button', { name: 'Deliver a job' }).click();
    await page.getByText('A topic trial.hello exists that is not of a trial.').waitFor();
    await daemon.api('DELETE', '/v1/topics/trial.hello');
  });
});

describe('the trial', () => {
  it('is delivered under a policy that forbids the loopback address, and only its own receiver is', async () => {
    const begun = await call('POST');
    expect(begun.json).toMatchObject({ trial: { topic: 'trial.hello', delay: '3s', request: null } });
    const received = await until(
      'the request',
      async () => (await call('GET')).json.trial.request ?? undefined,
    );
    expect(received).toMatchObject({ method: 'POST', path: '/hello', body: '{"hello":"dq"}', attempt: 1 });
    expect(received.signature).toBe('ok');
    expect(received.latenessMs).toBeGreaterThanOrEqual(0);
    expect(received.headers).toContainEqual({ name: 'dq-topic', value: 'trial.hello' });
    // The same receiver for another topic, and another port for the topic of the trial.
    const { callbackUrl } = begun.json.trial;
    const other = await daemon.api('POST', '/v1/topics', { topic: 'other', callbackUrl });
    expect(other).toMatchObject({ status: 400, body: { code: 'invalid' } });
    const moved = await daemon.api('PATCH', '/v1/topics/trial.hello', { callbackUrl: 'http://127.0.0.1:1/' });
    expect(moved.status).toBe(400);
  });

  it('runs again in the same topic, and its end leaves nothing', async () => {
    const first = (await call('POST')).json.trial;
    const second = (await call('POST')).json.trial;
    expect(second.callbackUrl).toBe(first.callbackUrl);
    expect(second.id).not.toBe(first.id);
    const removal = call('DELETE');
    await until('the console shows no trial', async () => (await call('GET')).json.trial === null);
    expect((await topic()).status).toBe(404);
    expect((await removal).json).toEqual({ deleted: true });
    expect((await daemon.api('GET', '/v1/jobs')).body.items).toEqual([]);
    expect((await call('GET')).json).toEqual({ trial: null });
    await expect(fetch(first.callbackUrl)).rejects.toThrow();
  });

  it('of a console that is killed is removed by the next one', async () => {
    expect((await call('POST')).status).toBe(201);
    process.kill(daemon.pidOf('dq-console'), 'SIGKILL');
    await until('the topic is removed', async () => (await topic()).status === 404);
    expect((await daemon.api('GET', '/v1/jobs')).body.items).toEqual([]);
  });

  it('does not touch a topic of the same name', async () => {
    const callbackUrl = 'https://example.org/hello';
    await daemon.api('POST', '/v1/topics', { topic: 'trial.hello', callbackUrl });
    await until('the console answers', async () => (await call('GET').catch(() => null))?.status === 200);
    expect((await call('POST')).json).toMatchObject({ status: 409, code: 'topic_exists' });
    expect((await call('DELETE')).json).toMatchObject({ status: 409, code: 'topic_exists' });
    expect((await topic()).body.callbackUrl).toBe(callbackUrl);
    await daemon.api('DELETE', '/v1/topics/trial.hello');
  });
});
