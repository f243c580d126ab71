// Tests alerts of dead jobs from the outbox to a real mail server: windows, outages, rejections. Deaths of
// dq-upkeep are in the simulated worlds (test/sim/mail.ts).
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Config } from '../../src/config/options.ts';
import { noMail } from '../../src/core/alert-receiver.ts';
import type { Incident } from '../../src/core/incident.ts';
import type { AttemptRecord, DeadReason } from '../../src/core/job.ts';
import { limits } from '../../src/core/limits.ts';
import { AlertChannels } from '../../src/mail/alert-channels.ts';
import { HookSender } from '../../src/mail/hook-sender.ts';
import { deadJobsMail } from '../../src/mail/mail-text.ts';
import { type Mail, MailCircuitBreaker, openMailSender } from '../../src/mail/smtp-sender.ts';
import type { AlertEntry, AlertOutbox, Store } from '../../src/ports/job-store.ts';
import type { TopicDraft } from '../../src/ports/registry.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import type { TopicBook } from '../../src/registry/topic-book.ts';
import { Mailer } from '../../src/upkeep/alerts/mailer.ts';
import { upkeepLimits } from '../../src/upkeep/limits.ts';
import { createUpkeep, type UpkeepTimes } from '../../src/upkeep/upkeep.ts';
import { attemptOf, jobOf } from '../conformance/trial.ts';
import { testDirectory } from '../support/directory.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import { type RobotKind, robotKinds, robotSecrets, startRobots } from '../support/robots.ts';
import { ok, type Sink, startSink, status } from '../support/sink.ts';
import { type SmtpSink, startSmtpSink } from '../support/smtp-sink.ts';
import { until } from '../support/until.ts';
import { words } from '../support/words.ts';
import { ids, owner, type Rig, startRig } from './rig.ts';

const url = 'http://127.0.0.1:9/';
const windowMs = 600_000;
const quick: Partial<UpkeepTimes> = { alertPollMs: 20, deathPollMs: 20, mailBackoff: { min: 100, max: 400 } };

const configOf = (smtp: SmtpSink | null, more: Partial<Config> = {}): Partial<Config> => ({
  logDir: testDirectory(),
  dataDir: testDirectory(),
  'smtp.url': smtp?.url ?? '',
  'smtp.from': smtp === null ? '' : 'dq@example.org',
  'alerts.window': windowMs,
  ...more,
});

async function startMailer(
  rig: Rig,
  smtp: SmtpSink | null,
  config: Partial<Config> = {},
  store: Store = rig.store,
  times = quick,
) {
  const upkeep = await rig.run(createUpkeep(rig.context({ store, config: configOf(smtp, config) }), times));
  // Before its directory is removed.
  onTestFinished(() => upkeep.drain(2_000));
  return upkeep;
}

/** The rig's topics with another lookUp. */
const asking = (rig: Rig, lookUp: TopicBook['lookUp']): TopicBook =>
  new Proxy(rig.topics, {
    get(topics, name: keyof TopicBook) {
      const value = name === 'lookUp' ? lookUp : topics[name];
      return typeof value === 'function' ? value.bind(topics) : value;
    },
  });

/** A topic with these recipients, and a mail server. Windows end by the jumps of `time`. */
async function setUp(...alertEmails: string[]) {
  const time = useJumpingTime();
  const rig = await startRig({ clock: time.wall });
  const smtp = await startSmtpSink();
  await rig.topic('t', url, { alertEmails });
  return { time, rig, smtp };
}

interface Bounds {
  readonly window?: number;
  readonly perMail?: number;
  readonly perHour?: number;
  readonly mailAbout?: typeof aboutDead;
}

const aboutDead = (topic: string, entries: readonly AlertEntry[]) =>
  deadJobsMail(topic, entries, { host: 'h', version: 'v', publicUrl: '' }, null);

/** Upkeep's mailer alone, with small bounds. */
async function startMailerAlone(rig: Rig, smtp: SmtpSink | null, bounds: Bounds, more: Partial<Config> = {}) {
  const { window = windowMs, perMail = 1_000, perHour = null, mailAbout = aboutDead } = bounds;
  const { config, log, metrics } = rig.context({
    config: configOf(smtp, { ...more, 'alerts.window': window }),
  });
  const times = { min: 5, max: 10 };
  const mailer = new Mailer({
    name: 'dead jobs',
    outbox: rig.store.alerts,
    addressesOf: async (name) => {
      const topic = await rig.topics.lookUp(name);
      return [...(topic?.alertEmails ?? []), ...(topic?.alertHooks ?? [])];
    },
    mailAbout,
    subjectOf: (topic, entries) => aboutDead(topic, entries).subject,
    channels: new AlertChannels(
      new MailCircuitBreaker(openMailSender(config), log, times),
      new HookSender(config, times),
    ),
    config,
    log,
    metrics,
    pollMs: 20,
    claimMs: 60_000,
    perMail,
    perHour,
  });
  await mailer.start();
  onTestFinished(() => mailer.drain(2_000));
  return mailer;
}

interface Death {
  readonly reason?: DeadReason;
  readonly attempt?: Partial<AttemptRecord>;
}

/** Pushes, reserves and buries the jobs. */
async function die(store: Store, topic: string, names: readonly string[], death: Death = {}) {
  for (let from = 0; from < names.length; from += limits.reserveMax) {
    const some = names.slice(from, from + limits.reserveMax);
    const body = Buffer.from('the secret payload');
    await store.jobs.push(some.map((id) => jobOf(id, { topic, body })));
    const topics = new Map([[topic, { room: limits.reserveMax, leaseMs: 60_000 }]]);
    const { jobs } = await store.jobs.reserve(0, {
      owner: owner(),
      max: limits.reserveMax,
      others: { room: 0, leaseMs: 1 },
      topics,
    });
    const outcomes = await store.jobs.bury(
      jobs.map((job) => ({
        ...job,
        reason: death.reason ?? 'attempts_exhausted',
        attempt: attemptOf(job, { replyExcerpt: '{"code":500}', ...death.attempt }),
      })),
    );
    expect(outcomes.map(({ kind }) => kind)).toEqual(some.map(() => 'buried'));
  }
}

const states = async (store: Store) =>
  (await store.alerts.list(1_000, null)).items.map(({ id, state }) => `${id} ${state}`).sort();
const all = (what: string) => async (store: Store) =>
  (await states(store)).every((state) => state.endsWith(` ${what}`));
const allSent = all('sent');

const idsIn = (text: string | undefined) =>
  [...(text ?? '').matchAll(/^ {2}ids? +(.*?)(?: and \d+ more)?$/gm)].flatMap(([, names]) =>
    (names ?? '').split(', '),
  );
const alertEmails = (...addresses: string[]): Partial<TopicDraft> => ({ alertEmails: addresses });

describe('mailer with hooks', () => {
  const hook = (sink: Sink, name: string) => `${name}=slack+${sink.url}${name}`;
  const texts = (sink: Sink) => sink.arrivals.map(({ body }) => String(JSON.parse(String(body)).text));

  it('a hook gets each alert once, at once and then per window, while the mail server is unavailable', async () => {
    const { time, rig, smtp } = await setUp();
    const sink = await startSink();
    await smtp.close();
    await rig.topic('t', url, { alertEmails: ['a@x.org'], alertHooks: ['chat'] });
    await startMailerAlone(rig, smtp, {}, { 'alerts.hooks': [hook(sink, 'chat')] });
    await die(rig.store, 't', ['j1']);
    await until('the first message', () => sink.arrivals.length === 1);
    await until('its mail has failed', async () => (await states(rig.store)).includes('j1 owed'));
    await die(rig.store, 't', ['j2', 'j3']);
    await time.jump(windowMs);
    await until('the second message', () => sink.arrivals.length === 2);
    expect(texts(sink).map(idsIn)).toEqual([['j1'], ['j2', 'j3']]);
    expect(await states(rig.store)).not.toContain('j1 sent');
  });

  it('a hook that hangs or rejects delays no mail and no other hook; a rejection is final', async () => {
    const rig = await startRig();
    const smtp = await startSmtpSink();
    const [good, bad] = [await startSink(), await startSink(status(404, {}, 'no_service'))];
    await rig.topic('t', url, { alertHooks: ['good', 'bad', 'unknown'] });
    const hooks = [hook(good, 'good'), hook(bad, 'bad')];
    const config = { 'alerts.hooks': hooks, 'alerts.defaultHooks': ['good'], 'alerts.emails': ['a@x.org'] };
    await startMailerAlone(rig, smtp, {}, config);
    await die(rig.store, 't', ['j1']);
    await until('all sent', () => allSent(rig.store));
    expect([good.arrivals.length, bad.arrivals.length, smtp.mails.length]).toEqual([1, 1, 1]);
    bad.answer(() => {});
    await rig.topic('u', url, { alertHooks: ['bad'] });
    await die(rig.store, 'u', ['j2']);
    // The hanging request ends with the test.
    await until('the others have theirs', () => bad.open().length > 0 && good.arrivals.length === 2);
  });

  it('sends to hooks without a mail server; a deferred hook gets the alerts later', async () => {
    const rig = await startRig();
    const sink = await startSink(status(503));
    await rig.topic('t', url, { alertHooks: ['chat'] });
    await startMailer(rig, null, { 'alerts.hooks': [hook(sink, 'chat')] });
    await die(rig.store, 't', ['j1']);
    await until('a second request', () => sink.arrivals.length >= 2);
    expect(await states(rig.store)).toEqual([expect.stringMatching(/^j1 (owed|claimed)$/)]);
    sink.answer(ok);
    await until('all sent', () => allSent(rig.store));
    expect(idsIn(texts(sink).at(-1))).toEqual(['j1']);
  });
});

describe('mailer with mail, a webhook and the robots of four chats', () => {
  const everyone: Partial<TopicDraft> = { alertEmails: ['a@x.org'], alertHooks: [...robotKinds] };
  const counts = (robots: Awaited<ReturnType<typeof startRobots>>, smtp: SmtpSink) => [
    smtp.mails.length,
    ...robotKinds.map((kind) => robots.accepted[kind].length),
  ];

  it('one message for each channel and window; each fits its robot, whatever the text contains', async () => {
    const { time, rig, smtp } = await setUp();
    const robots = await startRobots();
    await rig.topic('t', url, everyone);
    // The receivers take signatures of the last five minutes.
    const window = 240_000;
    await startMailerAlone(rig, smtp, { window }, { 'alerts.hooks': robots.hooks });
    await die(rig.store, 't', ['first']);
    await until('one message each', () => allSent(rig.store));
    expect(counts(robots, smtp)).toEqual([1, 1, 1, 1, 1, 1]);
    const hostile = ['"'.repeat(2_000), '<!channel> & \\'.repeat(100), '失'.repeat(1_000), '\n\u0000'];
    for (const [n, replyExcerpt] of hostile.entries())
      await die(rig.store, 't', [`h${n}`, `失"<${n}`], { attempt: { replyExcerpt } });
    await time.jump(window);
    await until('all sent', () => allSent(rig.store));
    expect(counts(robots, smtp)).toEqual([2, 2, 2, 2, 2, 2]);
    expect(robots.rejected).toEqual([]);
    for (const kind of robotKinds) {
      expect(robots.accepted[kind][0], kind).toContain('  id        first\n');
      expect(robots.accepted[kind][1], kind).toMatch(/ {2}dq dead requeue t --since /);
    }
  });

  it('the cap of an hour holds for each channel over all topics', async () => {
    const rig = await startRig();
    const [smtp, robots] = [await startSmtpSink(), await startRobots()];
    const topics = ids('t', 5);
    for (const topic of topics) await rig.topic(topic, url, everyone);
    await startMailerAlone(rig, smtp, { window: 20, perHour: 4 }, { 'alerts.hooks': robots.hooks });
    for (const topic of topics) await die(rig.store, topic, [topic]);
    await until('the half of the cap', () => counts(robots, smtp).every((count) => count === 2));
    // Rounds without a message: the mailer looks every 20 ms.
    const owed = async () => (await states(rig.store)).filter((state) => !state.endsWith(' sent')).length;
    await until('the others stay owed', async () => (await owed()) === 3);
    for (const topic of topics) await die(rig.store, topic, [`${topic}-later`]);
    await until('these, too', async () => (await owed()) === 8);
    expect(counts(robots, smtp)).toEqual([2, 2, 2, 2, 2, 2]);
    expect(robots.rejected).toEqual([]);
  });

  it('failures with status 200 count: too many is tried again, the rest is final; no reply shows a secret', async () => {
    const rig = await startRig();
    const [smtp, robots] = [await startSmtpSink(), await startRobots()];
    await rig.topic('t', url, everyone);
    const echo = `not found: ${robotSecrets.slack} ${encodeURIComponent(robotSecrets.slack)}`;
    const replies: readonly (readonly [RobotKind, number, string])[] = [
      ['webhook', 410, `${robotSecrets.webhook} is gone`],
      ['slack', 404, echo],
      ['dingtalk', 200, '{"errcode":130101,"errmsg":"send too fast"}'],
      ['wecom', 200, `{"errcode":93000,"errmsg":"invalid key ${robotSecrets.wecom}"}`],
      ['feishu', 200, '{"code":11232,"msg":"frequency limited"}'],
    ];
    for (const [kind, ...reply] of replies) robots.reply(kind, reply);
    await startMailerAlone(rig, smtp, {}, { 'alerts.hooks': robots.hooks });
    await die(rig.store, 't', ['j1']);
    const { requests } = robots;
    await until('two are tried again', () => requests('dingtalk') > 1 && requests('feishu') > 1);
    expect(await states(rig.store)).toEqual([expect.stringMatching(/^j1 (owed|claimed)$/)]);
    robots.reply('dingtalk', null);
    robots.reply('feishu', null);
    await until('all sent', () => allSent(rig.store));
    expect([requests('webhook'), requests('slack'), requests('wecom')]).toEqual([1, 1, 1]);
    const lines = rig.lines.filter(({ message }) => message.startsWith('mailer: a hook '));
    expect(lines.map(({ address }) => address)).toEqual(
      expect.arrayContaining(['webhook', 'slack', 'dingtalk', 'wecom', 'feishu']),
    );
    const text = JSON.stringify([rig.lines, rig.metrics()]);
    expect(text).toContain('invalid key');
    for (const secret of Object.values(robotSecrets))
      for (const part of [secret, encodeURIComponent(secret), ...secret.split('/')])
        expect(text).not.toContain(part);
    expect(text).toMatch(/dq_alert_hooks_total/);
  });
});

describe('mailer of dead jobs', () => {
  it('mails the first dead job of a topic at once, the others at the end of its window', async () => {
    const { time, rig, smtp } = await setUp('shop@x.org');
    await startMailer(rig, smtp, { 'alerts.emails': ['ops@x.org'] });
    await die(rig.store, 't', ['first']);
    const [first] = await until('the first mail', () => (smtp.mails.length > 0 ? smtp.mails : null));
    expect([...(first?.to ?? [])].sort()).toEqual(['ops@x.org', 'shop@x.org']);
    expect(first?.parsed.subject).toBe('dq: 1 job died: t');
    expect(idsIn(first?.parsed.text)).toEqual(['first']);
    const rest = ids('job-', 14);
    await die(rig.store, 't', rest.slice(0, 3));
    await until('the first is marked', async () => (await states(rig.store)).includes('first sent'));
    await die(rig.store, 't', rest.slice(3));
    // Another topic has a window of its own.
    await die(rig.store, 'other', ['x']);
    await until('the mail of the other', () => smtp.mails.length === 2);
    expect(smtp.mails[1]).toMatchObject({ to: ['ops@x.org'], parsed: { subject: 'dq: 1 job died: other' } });
    await time.jump(windowMs);
    await until('all alerts are settled', () => allSent(rig.store));
    expect(smtp.mails[2]?.parsed.subject).toBe('dq: 14 jobs died: t');
    expect(idsIn(smtp.mails[2]?.parsed.text)).toEqual(rest.slice(0, 3));
    expect(smtp.mails[2]?.parsed.text).toContain('and 11 more');
    expect(smtp.mails).toHaveLength(3);
  });

  it('mails when a dead job is counted, long before the next poll', async () => {
    const { rig, smtp } = await setUp('a@x.org');
    let looks = 0;
    const due: AlertOutbox['due'] = (windowMs) => {
      looks += 1;
      return rig.store.alerts.due(windowMs);
    };
    const store = { ...rig.store, alerts: { ...rig.store.alerts, due } };
    await startMailer(rig, smtp, {}, store, { ...quick, deathPollMs: 600_000 });
    await until('the first look', () => looks === 1);
    await die(rig.store, 't', ['1']);
    rig.tell({ kind: 'counters', deltas: [{ topic: 't', day: 20300131, name: 'dead', n: 1 }] });
    await until('the mail', () => smtp.mails.length === 1);
    expect(looks).toBe(2);
  });

  it('shows no body and no callback URL; says what waits, and its command requeues these jobs', async () => {
    const rig = await startRig();
    const smtp = await startSmtpSink();
    await rig.topic('t', 'http://127.0.0.1:9/?token=abc', alertEmails('a@x.org'));
    const attempt = { reason: 'status', status: 502, attempt: 10, detail: '' } as const;
    await die(rig.store, 't', ['4711', '4712'], { attempt });
    await rig.pushAll('t', ['w1', 'w2', 'w3']);
    await startMailer(rig, smtp);
    await until('all alerts are settled', () => allSent(rig.store));
    const text = smtp.mails[0]?.parsed.text ?? '';
    expect(text).toMatch(/^2 jobs died since \S+Z, all: status 502; 3 still waiting\n/);
    expect(text).toContain('\n  ids       4711, 4712\n  attempts  1\n  reply     {"code":500}\n');
    expect(smtp.mails[0]?.raw).not.toMatch(/payload|token=abc|whsec/);
    const [, topic = '', since = '', before = ''] =
      /^ {2}dq dead requeue (\S+) --since (\S+) --until (\S+)$/m.exec(text) ?? [];
    const range = { since: Date.parse(since), until: Date.parse(before) };
    expect(
      (await rig.store.dead.list({ topic, ...range }, 10, null)).items.map(({ id }) => id).sort(),
    ).toEqual(['4711', '4712']);
  });

  it('mails about a job that was removed, the last one of a topic named as a member of each object', async () => {
    const rig = await startRig();
    const smtp = await startSmtpSink();
    await rig.topic('constructor', url, alertEmails('a@x.org'));
    await die(rig.store, 'constructor', ['1']);
    await rig.store.dead.purge({ topic: 'constructor' }, 10);
    await startMailer(rig, smtp);
    await until('the mail', () => smtp.mails.length === 1);
    expect(smtp.mails[0]?.parsed.text).toMatch(/^1 job died at .*; none still waiting\n/);
  });

  it('backs off for all topics while the mail server fails', async () => {
    const { rig, smtp } = await setUp('a@x.org');
    let patience = 3;
    smtp.judgeSender(() => (patience-- > 0 ? 550 : null));
    await rig.topic('u', url, alertEmails('a@x.org'));
    for (const topic of ['t', 'u']) await die(rig.store, topic, [topic]);
    await startMailer(rig, smtp);
    await until('all alerts are settled', () => allSent(rig.store));
    const failed = failures(rig, 'mailer: cannot send mails');
    expect(failed.map(({ retryMs }) => retryMs)).toEqual([100, 200, 400]);
    expect(rig.lines.some(({ message }) => message === 'mailer: mails are sent again')).toBe(true);
    expect(smtp.mails).toHaveLength(2);
  });

  it('serves other topics although the addresses of one cannot be read', async () => {
    const rig = await startRig();
    const smtp = await startSmtpSink();
    await rig.topic('u', url, alertEmails('a@x.org'));
    const topics = asking(rig, (name) =>
      name === 't'
        ? Promise.reject(new StoreError({ kind: 'not_stored', code: 'damaged' }))
        : rig.topics.lookUp(name),
    );
    await die(rig.store, 't', ['1']);
    await die(rig.store, 'u', ['2']);
    const upkeep = await rig.run(createUpkeep(rig.context({ topics, config: configOf(smtp) }), quick));
    onTestFinished(() => upkeep.drain(2_000));
    await until('the other gets its mail', () => smtp.mails.some(({ to }) => to[0] === 'a@x.org'));
    expect(failures(rig, 'mailer: cannot mail dead jobs')).toHaveLength(1);
  });

  it.each([
    ['an address', (smtp: SmtpSink) => smtp.judgeAddress(() => 550)],
    ['the text', (smtp: SmtpSink) => smtp.judgeMail(() => 554)],
  ])('settles and logs alerts when %s is rejected for good', async (_, refuse) => {
    const rig = await startRig();
    const smtp = await startSmtpSink();
    refuse(smtp);
    await rig.topic('t', url, alertEmails('gone@x.org'));
    await startMailer(rig, smtp);
    await die(rig.store, 't', ['1']);
    await until('the alert is settled', () => allSent(rig.store));
    expect(smtp.mails).toEqual([]);
    expect(failures(rig, 'mailer: the mail server rejected a mail')).toMatchObject([
      { address: 'gone@x.org', key: 't' },
    ]);
  });

  it('serves the others beside a mailbox that stays full', async () => {
    const { time, rig, smtp } = await setUp('a@x.org', 'full@x.org');
    smtp.judgeAddress((address) => (address === 'full@x.org' ? 452 : null));
    await startMailerAlone(rig, smtp, { window: 100, perMail: 3 });
    const names = ids('job-', 7);
    for (const id of names) await die(rig.store, 't', [id]);
    await time.passUntil('the youngest is mailed', () =>
      smtp.mails.some(({ parsed }) => parsed.text?.includes('job-6')),
    );
    expect(smtp.mails.flatMap(({ parsed }) => idsIn(parsed.text))).toEqual(names);
    expect(new Set(smtp.mails.map(({ to }) => to.join()))).toEqual(new Set(['a@x.org']));
    const given = rig.lines.find(({ message }) => message.includes('misses alerts'));
    expect(given).toMatchObject({ kind: 'error', key: 't', addresses: ['full@x.org'] });
    // Fewer than one claim are still owed to it.
    await until('the other alerts are settled', async () => (await states(rig.store)).includes('job-5 sent'));
    await until('its claim is released', async () => (await states(rig.store)).includes('job-6 owed'));
  });

  it('reads no facts for a mail that it cannot send', async () => {
    const { rig } = await setUp();
    let asked = 0;
    const mailAbout: typeof aboutDead = (...args) => {
      asked += 1;
      return aboutDead(...args);
    };
    await startMailerAlone(rig, null, { mailAbout }, { 'alerts.emails': ['b@x.org'] });
    await die(rig.store, 't', ['1']);
    await until('the alert is settled', () => all('nobody')(rig.store));
    expect(asked).toBe(0);
  });

  it.each([noMail, 'no address is configured'] as const)(
    'where %s: logs the first dead job at once, later ones once per window',
    async (lacking) => {
      const hasServer = lacking !== noMail;
      const { time, rig, smtp } = await setUp(...(hasServer ? [] : ['a@x.org']));
      const asked = { claims: 0, settles: 0, dues: 0 };
      const { alerts } = rig.store;
      const counting =
        <A extends unknown[], R>(name: keyof typeof asked, call: (...args: A) => R) =>
        (...args: A) => {
          asked[name] += 1;
          return call(...args);
        };
      const counted: AlertOutbox = {
        ...alerts,
        due: counting('dues', alerts.due),
        claim: counting('claims', alerts.claim),
        settle: counting('settles', alerts.settle),
      };
      const count = 2_400;
      await startMailer(rig, hasServer ? smtp : null, {}, { ...rig.store, alerts: counted });
      await die(rig.store, 't', ['first']);
      await until('it is settled', () => asked.settles === 1);
      const looks = asked.dues;
      const names = ids('job', count);
      await die(rig.store, 't', names);
      await until('it looks again and again', () => asked.dues > looks + 20);
      expect(asked).toMatchObject({ claims: 1, settles: 1 });
      await time.jump(windowMs);
      await until('all are settled', () => all('nobody')(rig.store));
      expect(asked.claims).toBeLessThanOrEqual(8);
      expect(asked.settles).toBeLessThanOrEqual(8);
      const lines = failures(rig, 'dq: ');
      expect(lines.length).toBeLessThanOrEqual(3);
      const message = `dq: 1 job died: t; not mailed: ${lacking}`;
      expect(lines[0]).toMatchObject({ message, alerts: 1, ids: ['first'] });
      expect(lines[1]).toMatchObject({ ids: names.slice(0, 10) });
      expect(lines.reduce((sum, line) => sum + Number(line['alerts']), 0)).toBe(count + 1);
      expect(smtp.connections()).toBe(0);
    },
  );

  it('without an address: logs one line for each full claim and one for the rest', async () => {
    const { rig, smtp } = await setUp();
    await die(rig.store, 't', ids('job-', 7));
    await startMailerAlone(rig, smtp, { perMail: 3 });
    await until('all alerts are settled', () => all('nobody')(rig.store));
    expect(failures(rig, 'dq: ').map((line) => line['alerts'])).toEqual([3, 3, 1]);
  });

  it('without a mail server: repeats a failed settle before the window ends', async () => {
    const rig = await startRig();
    let down = true;
    const { alerts } = rig.store;
    const failing: AlertOutbox = {
      ...alerts,
      settle: (...asked) => {
        if (!down) return alerts.settle(...asked);
        down = false;
        return Promise.reject(new StoreError({ kind: 'unknown', code: 'no_answer' }));
      },
    };
    const times = { ...quick, alertClaimMs: 200 };
    await startMailer(rig, null, { 'alerts.window': 60_000 }, { ...rig.store, alerts: failing }, times);
    await die(rig.store, 't', ['first']);
    await until('it is settled', () => all('nobody')(rig.store));
  });

  it('keeps alerts until the registry can be read', async () => {
    const { rig, smtp } = await setUp('a@x.org');
    let away = true;
    const topics = asking(rig, (name) =>
      away ? Promise.reject(new StoreError({ kind: 'unknown', code: 'away' })) : rig.topics.lookUp(name),
    );
    await rig.run(createUpkeep(rig.context({ topics, config: configOf(smtp) }), quick));
    await die(rig.store, 't', ['1']);
    await until('it is reported', () => failures(rig, 'mailer: cannot mail dead jobs').length === 1);
    expect(await states(rig.store)).toEqual(['1 owed']);
    away = false;
    await until('the alert is settled', () => allSent(rig.store));
    expect(smtp.mails).toHaveLength(1);
  });

  it('mails once about more jobs than one claim returns', async () => {
    const { rig, smtp } = await setUp('a@x.org');
    const count = upkeepLimits.alertClaimMax + 300;
    await die(rig.store, 't', ids('job-', count));
    await startMailer(rig, smtp);
    await until('all alerts are settled', async () => {
      const { items } = await rig.store.alerts.list(2_000, null);
      return items.length === count && items.every(({ state }) => state === 'sent');
    });
    expect(smtp.mails.map(({ parsed }) => parsed.subject)).toEqual([`dq: ${count} jobs died: t`]);
  });

  it('sends one mail to its recipients whatever the text from outside contains', async () => {
    const { rig, smtp } = await setUp('a@x.org');
    const evil = 'x\r\n.\r\nRCPT TO:<evil@x.org>\r\nBcc: evil@x.org\u0085\u2028\u001b[2J';
    // Written past the checks of intake and notifier, which reject such text.
    await die(rig.store, 't', [evil], {
      attempt: { replyExcerpt: evil, reason: evil as never, notifier: evil, host: evil },
    });
    await startMailer(rig, smtp);
    await until('the alert is settled', () => allSent(rig.store));
    expect(smtp.mails).toHaveLength(1);
    expect(smtp.asked).toEqual(['a@x.org']);
    const { headers, text } = smtp.mails[0]?.parsed ?? { headers: [], text: '' };
    expect(headers.map(({ key }) => key).sort()).toEqual(words`
      auto-submitted content-transfer-encoding content-type date from message-id mime-version subject to
    `);
    expect(text).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028]/);
    const lines = text?.split('\n') ?? [];
    expect(lines.filter((line) => line.includes('evil'))).toHaveLength(3);
    expect(lines.filter((line) => /^(\.|RCPT|Bcc)/.test(line))).toEqual([]);
  });
});

const failures = (rig: Rig, message: string) =>
  rig.lines.filter((line) => line.kind === 'error' && line.message.startsWith(message));

describe('mailer: drain', () => {
  it('ends in time while the mail server hangs; the alert stays owed', async () => {
    const rig = await startRig();
    const smtp = await startSmtpSink();
    smtp.judgeMail(() => 'hang');
    await rig.topic('t', url, alertEmails('a@x.org'));
    const mailer = await startMailer(rig, smtp);
    await die(rig.store, 't', ['1']);
    await until(
      'it is being mailed',
      async () => (await states(rig.store)).includes('1 claimed') && smtp.asked.length > 0,
    );
    await mailer.drain(1_000);
    expect(await states(rig.store)).toEqual(['1 owed']);
  });
});

it('upkeep: reaches only the files and the mail server that it is given', async () => {
  const rig = await startRig();
  const absent = join(testDirectory(), 'absent');
  const mails: Mail[] = [];
  const trims: string[] = [];
  const incidents = new Map<number, Incident>();
  await rig.topic('t', url, { alertEmails: ['a@x.org'] });
  const upkeep = createUpkeep(rig.context({ config: { dataDir: absent, logDir: absent } }), {
    ...quick,
    mails: {
      async send(mail) {
        mails.push(mail);
        return new Map(mail.to.map((address) => [address, { kind: 'accepted' }]));
      },
    },
    statFiles: {
      write: async () => {},
      take: async () => [],
      isEmpty: async () => true,
      copied: async () => [],
    },
    incidentFiles: {
      list: async () => [...incidents.values()],
      write: async (incident) => void incidents.set(incident.id, incident),
      remove: async (id) => void incidents.delete(id),
    },
    logFiles: { removeOldLogs: async () => [], trimOutput: async (path) => void trims.push(path) },
  });
  await rig.run(upkeep);
  rig.tell({ kind: 'gave_up', reason: 'dq-notifier-0 keeps crashing' });
  await die(rig.store, 't', ['j1']);
  await until('the mail', () => mails.length === 1);
  await until('the incident', () => incidents.size === 1);
  await until('a look at the log files', () => trims.includes(absent));
  await upkeep.drain(2_000);
  expect(idsIn(mails[0]?.text)).toEqual(['j1']);
  expect(existsSync(absent)).toBe(false);
});
