// Tests alerts of a real daemon through a real mail server, and the commands in them. The windows of mails:
// role/mailer; crash loops: role/incidents.
import { describe, expect, it } from 'vitest';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { robotKinds, startRobots } from '../support/robots.ts';
import { runDq } from '../support/run-dq.ts';
import { startSink, status } from '../support/sink.ts';
import { startSmtpSink } from '../support/smtp-sink.ts';
import { until } from '../support/until.ts';

/** A window short enough for a test. */
const windowMs = 2_000;
const dq = (daemon: Daemon, ...args: string[]) => runDq([...args, '--data-dir', daemon.dataDir]);
/** Dead jobs that a mail is about. */
const diedIn = (text: string | undefined) =>
  Number(/^(\d+) jobs? died (?:at|since) /m.exec(text ?? '')?.[1] ?? 0);
const sum = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0);

describe('alerts', () => {
  it('dead jobs are mailed and sent to hooks once each; the command of a mail requeues them', async () => {
    const smtp = await startSmtpSink();
    const sink = await startSink(status(500, {}, '{"code":500}'));
    const robots = await startRobots();
    const alerts = { emails: ['ops@example.org'], window: `${windowMs}ms` };
    const daemon = await startDaemon({
      config: {
        smtp: { url: smtp.url, from: 'dq@example.org' },
        alerts: { ...alerts, hooks: robots.hooks, defaultHooks: robotKinds },
      },
    });
    const added = await dq(
      daemon,
      ...[
        'topic',
        'add',
        'order.close',
        '--callback',
        sink.url,
        '--max-attempts',
        '1',
        '--alert',
        'shop@example.org',
      ],
    );
    expect(added.code, added.stderr).toBe(0);
    const ids = Array.from({ length: 10 }, (_, n) => `job-${n}`);
    for (const id of ids) await daemon.push('order.close', '{"secret":"payload"}', { id });
    const mailed = () => sum(smtp.mails.map(({ parsed }) => diedIn(parsed.text)));
    await until('all are mailed', () => mailed() >= 10);
    expect(mailed()).toBe(10);
    for (const { to, raw } of smtp.mails) {
      expect([...to].sort()).toEqual(['ops@example.org', 'shop@example.org']);
      expect(raw).not.toMatch(/payload|whsec_/);
    }

    const before = smtp.mails.length;
    await daemon.push('order.close', '{}', { id: 'late' });
    await until('the last is mailed', () => smtp.mails.length > before);

    const listed = await dq(daemon, 'alerts');
    expect(listed.stdout.split('\n')[0]).toMatch(/^AT +WHAT +TOPIC +ID +ATTEMPTS +MAIL +LAST$/);
    await until('all alerts are settled', async () => {
      const { body } = await daemon.api('GET', '/v1/alerts');
      return body.items.length === 11 && body.items.every((item: { state: string }) => item.state === 'sent');
    });
    expect(robots.rejected).toEqual([]);
    for (const kind of robotKinds)
      await until(`every job is in a message to ${kind}`, () => {
        const died = sum(robots.accepted[kind].map(diedIn));
        expect(died, kind).toBeLessThanOrEqual(11);
        return died === 11;
      });
    const bodies = robots.sink.arrivals.filter(({ path }) => path === '/hook').map(({ body }) => body);
    const named = bodies.flatMap((body) => JSON.parse(String(body)).jobs as { readonly id: string }[]);
    expect(named.map(({ id }) => id).sort()).toEqual([...ids, 'late'].sort());
    const command = /^ {2}dq (dead requeue \S+) /m.exec(smtp.mails.at(-1)?.parsed.text ?? '')?.[1] ?? '';
    const requeued = await dq(daemon, ...command.split(' '));
    expect(requeued.stderr).toContain('11 requeued');

    // dq alert test sends a mail, or prints the answer of the mail server.
    const already = smtp.mails.length;
    expect(await dq(daemon, 'alert', 'test', 'me@example.org')).toMatchObject({
      ...{ code: 0, stderr: 'dq: the mail server accepted a test mail to me@example.org\n' },
    });
    smtp.judgeAddress(() => 550);
    const rejected = await dq(daemon, 'alert', 'test', 'you@example.org');
    expect([rejected.code, rejected.stderr]).toEqual([1, expect.stringContaining('the test set 550')]);
    expect(smtp.mails.slice(already).map(({ to }) => to)).toEqual([['me@example.org']]);
  });
});
