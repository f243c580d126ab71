// One daemon with its console, one browser and one receiver of callbacks for all tests of a file: their start
// costs more than most tests. Each test has topics and a page of its own. Ends with the file.
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { Browser, BrowserContextOptions, Locator, Page } from 'playwright-core';
import { afterAll, expect, onTestFinished } from 'vitest';
import { openPage, startBrowser } from './browser.ts';
import { type ApiReply, type Daemon, startDaemon } from './daemon.ts';
import type { DaemonOptions } from './daemon-process.ts';
import { until } from './until.ts';

/** A callback that the receiver got. */
export interface Call {
  readonly path: string;
  readonly id: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** What the receiver replies beside its status: texts from outside. */
export interface ReplyTexts {
  /** a member of the JSON reply of /rule, the whole reply of a status */
  readonly reply: string;
  readonly header: string;
}

export interface Site {
  readonly browser: Browser;
  readonly daemon: Daemon;
  /** of the console */
  readonly url: string;
  /** /ok delivers, /rule replies `{"code":500}`, /later asks for an hour, /hang never replies, /502 replies
   *  this status, /410-once replies it to the first call of each job and then delivers */
  readonly endpoint: string;
  callsOf(id: string): readonly Call[];
  /** Opens a path of the console in a profile of its own. */
  open(path: string, options?: BrowserContextOptions): Promise<Page>;
  /** Opens a document without a script, for a page whose calls a test changes first. */
  openEmpty(options?: BrowserContextOptions): Promise<Page>;
  /** With the token of `needSignIn` while there is one. */
  api(method: string, path: string, body?: unknown): Promise<ApiReply>;
  /** GET that succeeds */
  // biome-ignore lint/suspicious/noExplicitAny: what a reply holds is what the test asserts
  read(path: string): Promise<any>;
  /** A call that changes something, and succeeds. */
  // biome-ignore lint/suspicious/noExplicitAny: what a reply holds is what the test asserts
  change(method: string, path: string, body?: unknown): Promise<any>;
  /** `path`: of the receiver; null: no callback URL. Default: /ok */
  addTopic(topic: string, settings?: object, path?: string | null): Promise<void>;
  /** At once without a delay. */
  push(topic: string, id: string, more?: Pushed): Promise<void>;
  /** Waits until the job is in this state, and returns it. */
  // biome-ignore lint/suspicious/noExplicitAny: what a reply holds is what the test asserts
  jobIs(topic: string, id: string, state: string): Promise<any>;
  /** From here to the end of the test each call needs a token. Returns one of these scopes. */
  needSignIn(...scopes: readonly string[]): Promise<string>;
  /** Ends all tokens, the given one of scope admin last, and waits until no call needs one. */
  removeTokens(admin: string): Promise<void>;
}

export interface Pushed {
  readonly body?: string;
  readonly delay?: string;
  readonly contentType?: string;
}

export async function startSite(options: DaemonOptions = {}, texts: Partial<ReplyTexts> = {}): Promise<Site> {
  const [browser, receiver, daemon] = await Promise.all([
    startBrowser(),
    startReceiver({ reply: 'busy', header: 'a17', ...texts }),
    startDaemon({
      console: true,
      scope: 'file',
      env: { TZ: 'UTC' },
      ...options,
      config: { server: { workers: 1 }, timezone: 'UTC', retry: { unit: '1h' }, ...options.config },
    }),
  ]);
  afterAll(() => browser.close());
  const url = await daemon.consoleUrl();
  let bearer: string | null = null;
  const api = async (method: string, path: string, body?: unknown): Promise<ApiReply> => {
    if (bearer === null) return await daemon.api(method, path, body);
    const headers = { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' };
    const sent = body === undefined ? null : JSON.stringify(body);
    const reply = await fetch(daemon.url + path, { method, headers, body: sent });
    const answer = await reply.text();
    return { status: reply.status, body: answer === '' ? null : JSON.parse(answer) };
  };
  const change = async (method: string, path: string, body?: unknown) => {
    const reply = await api(method, path, body);
    expect([path, reply]).toEqual([path, expect.objectContaining({ status: expect.toSatisfy(isSuccess) })]);
    return reply.body;
  };
  const read = (path: string) => change('GET', path);
  const open = async (path: string, how: BrowserContextOptions = {}) =>
    (await openPage(browser, url + path, how)).page;
  const removeTokens = async (admin: string) => {
    bearer = admin;
    const { items } = await read('/v1/tokens');
    const names: string[] = items.map(({ name }: { name: string }) => name);
    const { name: own } = await read('/v1/me');
    for (const name of [...names.filter((one) => one !== own), own])
      await change('DELETE', `/v1/tokens/${encodeURIComponent(name)}`);
    bearer = null;
    await until('no token exists any more', async () => {
      const session = await fetch(`${url}/v1/session`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{}',
      });
      return session.ok && (await daemon.api('GET', '/v1/topics')).status === 200;
    });
  };
  return {
    browser,
    daemon,
    url,
    endpoint: receiver.url,
    open,
    api,
    read,
    change,
    removeTokens,
    callsOf: (id) => receiver.calls.filter((call) => call.id === id),
    openEmpty: (how) => open('/assets/none', how),
    async addTopic(topic, settings = {}, path = '/ok') {
      const callback = path === null ? {} : { callbackUrl: receiver.url + path };
      await change('POST', '/v1/topics', { topic, ...callback, ...settings });
    },
    async push(topic, id, { body = '{}', delay = '0s', contentType = 'application/json' } = {}) {
      const reply = await daemon.push(topic, body, { id, delay }, contentType);
      expect([topic, id, reply.status, reply.body]).toEqual([topic, id, 201, expect.anything()]);
    },
    jobIs: (topic, id, state) =>
      until(`${topic}/${id} is ${state}`, async () => {
        const { body: job } = await api('GET', `/v1/topics/${topic}/jobs/${encodeURIComponent(id)}`);
        return job.state === state && job;
      }),
    async needSignIn(...scopes) {
      const { token } = await change('POST', '/v1/tokens', { name: 'of-the-test', scopes: ['admin'] });
      bearer = token;
      onTestFinished(() => removeTokens(token));
      return (await change('POST', '/v1/tokens', { name: 'li.wei', scopes })).token;
    },
  };
}

const isSuccess = (status: number): boolean => status >= 200 && status < 300;

async function startReceiver({ reply: sent, header }: ReplyTexts) {
  const calls: Call[] = [];
  const answers: Readonly<Record<string, (reply: ServerResponse) => void>> = {
    ok: (reply) => reply.end('{"code":200}'),
    rule: (reply) =>
      reply
        .setHeader('server', 'nginx')
        .setHeader('x-note', header)
        .end(JSON.stringify({ code: 500, msg: sent })),
    later: (reply) => reply.writeHead(503, { 'retry-after': '3600' }).end(sent),
    hang: () => {},
  };
  const server = createServer(async (request, reply) => {
    const path = request.url ?? '';
    const id = decodeURIComponent(String(request.headers['dq-job-id']));
    const [, name = '', once] = /^\/(\w+)(-once)?/.exec(path) ?? [];
    const isFirst = !calls.some((call) => call.id === id);
    calls.push({ path, id, headers: request.headers, body: await text(request) });
    const answer = once !== undefined && !isFirst ? answers['ok'] : answers[name];
    if (answer === undefined) reply.writeHead(Number(name), { 'x-note': header }).end(sent);
    else answer(reply);
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, calls };
}

export const shows = (page: Page, what: string | RegExp): Promise<void> =>
  page.getByText(what).first().waitFor();

export const button = (page: Page | Locator, name: string | RegExp): Locator =>
  page.getByRole('button', { name, exact: true });

/** Presses "<name>…" on the page and the button of that name in the dialog, and waits until the dialog is
 *  gone. */
export async function confirm(
  page: Page,
  name: string,
  fill?: (dialog: Locator) => Promise<unknown>,
): Promise<void> {
  await button(page, `${name}…`).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.waitFor();
  await fill?.(dialog);
  await button(dialog, name).click();
  await dialog.waitFor({ state: 'detached' });
}

/** Saves the settings of a topic. `asks`: after a question about grave changes. */
export async function save(page: Page, asks: 'asks' | 'asks nothing'): Promise<void> {
  const saves = button(page, 'Save changes');
  if (asks === 'asks') await saves.click();
  // The page shows it for a short time only, and not "unsaved changes".
  const saved = page.getByText('Saved', { exact: true }).first().waitFor();
  await Promise.all([
    saved,
    (asks === 'asks' ? button(page.getByRole('dialog'), 'Save changes') : saves).click(),
  ]);
}

/** Waits until the page has drawn what it knows. */
export async function drawn(page: Page): Promise<void> {
  await page.evaluate('new Promise((end) => requestAnimationFrame(() => requestAnimationFrame(end)))');
}

/** Makes the page read everything again, as it does when its tab is shown. */
export async function poll(page: Page): Promise<void> {
  await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`);
}

/** Holds the answers to these calls until the returned function is called. */
export async function holdAnswers(page: Page, calls: string | RegExp): Promise<() => void> {
  let answer = (): void => {};
  const held = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await page.route(calls, async (route) => {
    await held;
    await route.continue();
  });
  return () => answer();
}
