// Incidents of receivers that fail and of topics that are paused for long: what begins and ends them, and
// their mails.
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { EndpointCalls } from '../../src/notifier/endpoint-calls.ts';
import { IncidentFiles } from '../../src/process/incident-files.ts';
import type { ToMaster } from '../../src/process/messages.ts';
import type { Questions } from '../../src/process/questions.ts';
import { TopicBook } from '../../src/registry/topic-book.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { upkeepLimits } from '../../src/upkeep/limits.ts';
import { createUpkeep } from '../../src/upkeep/upkeep.ts';
import { jobOf } from '../conformance/trial.ts';
import { testDirectory } from '../support/directory.ts';
import { useJumpingTime } from '../support/jumping-time.ts';
import { startSmtpSink } from '../support/smtp-sink.ts';
import { until } from '../support/until.ts';
import { damage, startRig } from './rig.ts';

const minute = 60_000;
const quietMs = minute;
const { failingMs, pausedMs, repliesInRow } = upkeepLimits;
const [a, b] = ['http://127.0.0.1:17901', 'http://127.0.0.1:17902'];
const refused = ['connect', null, 'connect ECONNREFUSED 127.0.0.1:17901'] as const;
const error = ['status', 500, ''] as const;

type End = readonly ['connect' | 'status' | null, number | null, string];
const success: End = [null, 200, ''];

/** dq-upkeep with 64 notifiers, whose calls the test judges. */
async function setUp(topics: Readonly<Record<string, string>>) {
  const time = useJumpingTime();
  const rig = await startRig({ clock: time.wall });
  const smtp = await startSmtpSink();
  const dataDir = testDirectory();
  const notifiers = Array.from({ length: 64 }, () => new EndpointCalls());
  for (const [topic, origin] of Object.entries(topics)) {
    await rig.topic(topic, `${origin}/close`);
    if (topic !== 'later') await rig.push(topic, 'j1');
  }
  const { link, clock } = rig.context();
  let silent = -1;
  let checks = 0;
  const answerOf = (calls: EndpointCalls, name: string, params: unknown) =>
    name === 'failures'
      ? calls.failures(params as Questions['failures']['params'], clock.now())
      : calls.parts(
          (params as Questions['endpoints']['params']).origins,
          () => true,
          () => false,
          clock.now(),
        );
  const send = (message: ToMaster) => {
    if (message.kind !== 'ask') return;
    const { call, question } = message;
    if (question.name === 'failures') checks += 1;
    const answers = notifiers.map((calls, n) => ({
      process: `dq-notifier-${n}`,
      answer: n === silent ? null : answerOf(calls, question.name, question.params),
    }));
    rig.tell({ kind: 'answers', call, answers });
  };
  const config = {
    ...{ dataDir, logDir: dataDir, 'smtp.url': smtp.url, 'smtp.from': 'dq@x.org' },
    ...{ 'alerts.emails': ['ops@x.org'], 'alerts.window': minute, 'console.publicUrl': 'https://dq.x.org' },
  };
  const watch = { everyMs: 20, failingMs, quietMs, pausedMs, pausedEveryMs: 20 };
  // No notifier calls the jobs: they would be late, too.
  const health = { everyMs: 1_000, afterMs: minute, lateMs: Number.POSITIVE_INFINITY, crashWindowMs: minute };
  const start = async (more: Parameters<typeof rig.context>[0] = {}) => {
    const upkeep = createUpkeep(rig.context({ ...more, config, link: { ...link, send } }), {
      ...{ alertPollMs: 20, watch, health },
    });
    await rig.run(upkeep);
    onTestFinished(() => upkeep.drain(2_000));
    return upkeep;
  };
  const kept = async () =>
    (await new IncidentFiles(dataDir).list()).map(({ kind, about, state }) => `${kind} ${about} ${state}`);
  /** Whole checks from now on. */
  const checked = async () => {
    const before = checks;
    await until('two checks', () => checks >= before + 4);
  };
  return {
    ...{ time, rig, smtp, kept, notifiers, start, checked },
    upkeep: await start(),
    /** Calls succeed, or none fails, for long enough. */
    async quiet() {
      await checked();
      await time.jump(quietMs);
    },
    judge(notifier: number, topic: string, [reason, status, detail]: End, times = 1) {
      const calls = notifiers[notifier]?.of(topic, topics[topic] ?? '', clock.now());
      for (let n = 0; n < times; n += 1) calls?.judged(reason, status, 5, clock.now(), detail);
    },
    silence: (notifier: number) => {
      silent = notifier;
    },
    details: async () => (await new IncidentFiles(dataDir).list()).map(({ detail }) => detail),
  };
}

/** Topic `t` at receiver `a` has an incident. */
async function setUpFailing() {
  const all = await setUp({ t: a });
  all.judge(0, 't', refused, 3);
  await all.time.jump(failingMs);
  await until('it begins', async () => (await all.kept()).length === 1);
  const ended = () => until('it ends', async () => (await all.kept()).includes(`failing ${a} over`));
  return { ...all, ended };
}

describe('incidents: failing receivers', () => {
  it('a receiver without a success for minutes is mailed with what to run; a success ends it', async () => {
    const { time, smtp, judge, kept, checked, quiet, details } = await setUp({
      'order.close': a,
      'order.open': a,
    });
    judge(0, 'order.close', refused, 2);
    judge(63, 'order.close', refused, 2);
    judge(5, 'order.open', refused, 3);
    await checked();
    expect(await kept()).toEqual([]);
    await time.jump(failingMs);
    await until('the mail', () => smtp.mails.length === 1);
    expect(await kept()).toEqual([`failing ${a} begun`]);
    expect((await details())[0]).toMatch(
      /^calls to http:\/\/127\.0\.0\.1:17901 fail: connection refused \(connect ECONNREFUSED 127\.0\.0\.1:17901\); 7 in a row since \S+Z, of order\.close and 1 more; 2 jobs wait; order\.close is late by 3m\w*$/,
    );
    const text = smtp.mails[0]?.parsed.text ?? '';
    expect(smtp.mails[0]?.parsed.subject).toMatch(
      /^dq: calls to http:\/\/127\.0\.0\.1:17901 fail: connection refused /,
    );
    for (const command of ['dq explain', 'dq topic test', 'dq topic pause'])
      expect(text).toContain(`\n  ${command} order.close `);
    expect(text).toContain('In the console: https://dq.x.org/topics/order.close\n');
    judge(63, 'order.close', success);
    // Its other topic is not called again yet, and gets no incident.
    await quiet();
    await until('its end', async () => (await kept()).includes(`failing ${a} over`));
    await time.jump(minute);
    await until('the second mail', () => smtp.mails.length === 2);
    expect(smtp.mails[1]?.parsed.subject).toBe(`dq: calls to ${a} succeed again`);
    expect(await kept()).toHaveLength(2);
  });

  it('a success at one of 64 notifiers, or a topic of the same receiver that succeeds, is not a failing receiver', async () => {
    const { time, judge, kept, checked } = await setUp({ flapping: a, broken: b, fine: b });
    for (let passed = 0; passed < failingMs; passed += minute) {
      for (let n = 0; n < 63; n += 1) judge(n, 'flapping', error, 20);
      if (passed === minute) judge(63, 'flapping', success);
      judge(2, 'broken', error, repliesInRow);
      judge(63, 'fine', success);
      await checked();
      expect(await kept()).toEqual([]);
      await time.jump(minute);
    }
    judge(2, 'broken', error);
    judge(63, 'fine', success);
    await until('it begins', async () => (await kept()).length > 0);
    await checked();
    expect(await kept()).toEqual(['failing broken begun']);
  });

  it('few failed replies are about their jobs', async () => {
    const { time, judge, kept, checked } = await setUp({ t: a });
    judge(0, 't', error, repliesInRow - 2);
    judge(0, 't', refused);
    await time.jump(failingMs);
    await checked();
    expect(await kept()).toEqual([]);
    judge(1, 't', error);
    await until('it begins', async () => (await kept()).length === 1);
  });

  it('200 topics of a receiver are one incident, also where another one of its topics succeeds', async () => {
    const names = Array.from({ length: 200 }, (_, n) => `t${n}`);
    const topics = Object.fromEntries([...names, 'fine'].map((name) => [name, a]));
    const { time, judge, kept, checked } = await setUp(topics);
    for (let passed = 0; passed <= failingMs; passed += minute) {
      for (const name of names) judge(3, name, error, repliesInRow);
      judge(3, 'fine', success);
      await checked();
      await time.jump(minute);
    }
    for (const name of names) judge(3, name, error);
    judge(3, 'fine', success);
    await until('it begins', async () => (await kept()).length > 0);
    await checked();
    expect(await kept()).toEqual([`failing ${a} begun`]);
  });

  it('several receivers share mails', async () => {
    const { time, smtp, judge, kept } = await setUp({ one: a, two: b });
    judge(0, 'one', refused, 3);
    judge(0, 'two', refused, 3);
    await time.jump(failingMs);
    await until('both', async () => (await kept()).length === 2);
    await time.passUntil('both are mailed', () =>
      [a, b].every((origin) => smtp.mails.some(({ parsed }) => parsed.text?.includes(`calls to ${origin} `))),
    );
    expect(smtp.mails.length).toBeLessThanOrEqual(2);
  });

  it('a restart, or a notifier that does not answer, ends nothing; a pause says what waits', async () => {
    const { rig, judge, kept, checked, quiet, silence, notifiers, start, upkeep, details, ended } =
      await setUpFailing();
    silence(7);
    judge(1, 't', success);
    await quiet();
    await checked();
    expect(await kept()).toHaveLength(1);
    // The notifiers that start again know nothing.
    silence(-1);
    notifiers.fill(new EndpointCalls());
    await upkeep.drain(2_000);
    await start();
    await checked();
    expect(await kept()).toHaveLength(1);
    await rig.topic('t', `${a}/close`, { state: 'paused' });
    await ended();
    expect((await details())[1]).toBe('t was paused: 1 job waits, none is called; dq topic resume t');
  });
});

describe('incidents: the end of a failing receiver', () => {
  it('a success among failures ends nothing', async () => {
    const { judge, kept, quiet, checked, ended } = await setUpFailing();
    for (let n = 0; n < 4; n += 1) {
      judge(1, 't', success);
      await checked();
      judge(0, 't', refused, 3);
      await quiet();
    }
    expect(await kept()).toEqual([`failing ${a} begun`]);
    judge(1, 't', success);
    await quiet();
    await ended();
  });

  it('a success that was counted before a reload is the end', async () => {
    const { rig, quiet, notifiers, ended } = await setUpFailing();
    notifiers.fill(new EndpointCalls());
    rig.tell({ kind: 'counters', deltas: [{ topic: 't', name: 'delivered', day: 20_260_131, n: 1 }] });
    await quiet();
    await ended();
  });

  it('a success while a notifier did not answer is the end', async () => {
    const { time, judge, quiet, silence, ended } = await setUpFailing();
    silence(7);
    judge(1, 't', success);
    await time.jump(2 * failingMs);
    silence(-1);
    await quiet();
    await ended();
  });

  it('a topic that waits for its next attempt fails all the same', async () => {
    const failing = ['t0', 't1', 't2', 't3'];
    const { time, judge, kept, checked } = await setUp(
      Object.fromEntries([...failing, 'fine'].map((name) => [name, a])),
    );
    const pass = async (names: readonly string[]) => {
      for (const name of names) judge(3, name, error, repliesInRow);
      judge(3, 'fine', success);
      await checked();
      await time.jump(minute);
    };
    for (let passed = 0; passed <= failingMs; passed += minute) await pass(failing);
    await until('it begins', async () => (await kept()).length > 0);
    for (let n = 0; n < 8; n += 1) await pass(failing.slice(1));
    expect(await kept()).toEqual([`failing ${a} begun`]);
  });

  it('topics that are unknown or unreadable end nothing', async () => {
    const { time, rig, kept, checked, start, upkeep } = await setUpFailing();
    await upkeep.drain(2_000);
    const topics = new TopicBook(rig.registry, silentLog);
    const known = vi.spyOn(topics, 'isKnown', 'get');
    await start({ topics });
    await time.passUntil('two checks', () => known.mock.calls.length > 1);
    await topics.refresh();
    await checked();
    expect(await kept()).toHaveLength(1);
    damage(rig, 'settings', '{');
    await topics.refresh();
    expect(topics.isUnreadable('t')).toBe(true);
    await checked();
    expect(await kept()).toHaveLength(1);
  });

  it('a topic whose jobs clients pull now ends it with that', async () => {
    const { rig, details, ended } = await setUpFailing();
    await rig.topic('t', `${a}/close`, { delivery: 'pull' });
    await ended();
    expect((await details())[1]).toBe(
      't is pulled by clients now: 1 job waits, none is called; dq explain t',
    );
  });

  it('an instance that does not lead has no incidents', async () => {
    const { start, upkeep, details, ended } = await setUpFailing();
    await upkeep.drain(2_000);
    const other = async () => ({ instance: 9, leftMs: minute });
    await start({ leader: { leader: other, lead: other, giveUp: async () => {} } });
    await ended();
    expect((await details())[1]).toBe(`instance 9 leads and reports ${a} now`);
  });
});

describe('incidents: many receivers', () => {
  it('some have their own incidents, and one is about all others', async () => {
    const { failingIncidentsMax } = upkeepLimits;
    const origins = Array.from(
      { length: failingIncidentsMax + 10 },
      (_, n) => `http://127.0.0.1:${18_000 + n}`,
    );
    const { time, judge, kept, checked, quiet, details } = await setUp(
      Object.fromEntries(origins.map((origin, n) => [`t${n}`, origin])),
    );
    for (const n of origins.keys()) judge(n, `t${n}`, refused, 3);
    await time.jump(failingMs);
    await until('all begin', async () => (await kept()).length > failingIncidentsMax);
    await checked();
    expect(await kept()).toHaveLength(failingIncidentsMax + 1);
    expect(await kept()).toContain('failing  begun');
    expect((await details()).at(-1)).toMatch(
      /^calls to 10 more receivers fail, the first to http:\/\/127\.0\.0\.1:\d+: connection refused \(connect ECONNREFUSED /,
    );
    for (const n of origins.keys()) judge(n, `t${n}`, success);
    await quiet();
    await until('all end', async () => (await kept()).filter((one) => one.endsWith('over')).length > 20);
    expect(await kept()).toContain('failing  over');
  });
});

describe('incidents: paused topics', () => {
  it('a job that was late before the pause does not begin one', async () => {
    const { time, rig, kept, checked } = await setUp({ t: a });
    await time.jump(2 * pausedMs);
    await rig.topic('t', `${a}/close`, { state: 'paused' });
    await checked();
    await time.jump(pausedMs - minute);
    await checked();
    expect(await kept()).toEqual([]);
    await time.jump(minute);
    await until('it begins', async () => (await kept()).includes('paused t begun'));
  });

  it('a job that is due for an hour in a paused topic is mailed, and the end of the pause', async () => {
    const { time, rig, smtp, kept, checked, details } = await setUp({ t: a, later: a });
    await rig.topic('t', `${a}/close`, { state: 'paused' });
    await rig.topic('later', `${a}/close`, { state: 'offline' });
    await rig.store.jobs.push([jobOf('j2', { topic: 'later', when: { delayMs: 2 * pausedMs } })]);
    await checked();
    await time.jump(pausedMs - minute);
    // Due for a minute only, beside one that has waited for an hour and is not due.
    await rig.push('later', 'j3');
    await checked();
    expect((await kept()).filter((one) => one.startsWith('paused'))).toEqual([]);
    await time.jump(minute);
    await until('the mail', () =>
      smtp.mails.some(({ parsed }) => parsed.text?.includes('dq topic resume t')),
    );
    expect(await details()).toContainEqual(
      expect.stringMatching(/^t is paused: 1 job waits, the oldest was due 1h\S* ago$/),
    );
    await rig.topic('t', `${a}/close`, { state: 'active' });
    await until('its end', async () => (await kept()).includes('paused t over'));
    expect((await kept()).filter((one) => one.startsWith('paused'))).toEqual([
      'paused t begun',
      'paused t over',
    ]);
  });
});
