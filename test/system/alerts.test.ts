// Tests alerts of a real daemon through a real mail server, and the commands in them.
import { describe, expect, it } from 'vitest';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { robotKinds, startRobots } from '../support/robots.ts';
import { runDq } from '../support/run-dq.ts';
import { startSink, status } from '../support/sink.ts';
import { type SmtpSink, startSmtpSink } from '../support/smtp-sink.ts';
import { until } from '../support/until.ts';

/** A window short enough for a test. */
const windowMs = 4_000;
const start = (smtp: SmtpSink, more: Record<string, unknown> = {}) =>
  startDaemon({
    config: {
      smtp: { url: smtp.url, from: 'dq@example.org' },
      alerts: { emails: ['ops@example.org'], window: `${windowMs}ms` },
      ...more,
    },
  });
const dq = (daemon: Daemon, ...args: string[]) => runDq([...args, '--data-dir', daemon.dataDir]);
const idsIn = (text: string | undefined) =>
  [...(text ?? '').matchAll(/^ {2}id +(.*)$/gm)].map(([, id]) => id);

describe('alerts', () => {
  it('ten dead jobs: one mail at once, one at the end of the window; its command requeues them', async () => {
    const smtp = await startSmtpSink();
    const sink = await startSink(status(500, {}, '{"code":500}'));
    const robots = await startRobots();
    const alerts = { emails: ['ops@example.org'], window: `${windowMs}ms` };
    const daemon = await start(smtp, {
      alerts: { ...alerts, hooks: robots.hooks, defaultHooks: robotKinds },
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
    await until('all are mailed', () => smtp.mails.flatMap(({ parsed }) => idsIn(parsed.text)).length >= 10);
    // One at once, and one at the end of each window during which jobs died.
    const times = smtp.mails.map(({ arrivedAt }) => arrivedAt);
    expect(times.slice(1).filter((at, n) => at - (times[n] ?? 0) < windowMs - 1_000)).toEqual([]);
    expect(smtp.mails.flatMap(({ parsed }) => idsIn(parsed.text)).sort()).toEqual(ids);
    for (const { to, raw } of smtp.mails) {
      expect([...to].sort()).toEqual(['ops@example.org', 'shop@example.org']);
      expect(raw).not.toMatch(/payload|whsec_/);
    }

    // A job that dies while the window is open is mailed at its end.
    const before = smtp.mails.length;
    await daemon.push('order.close', '{}', { id: 'late' });
    const last = smtp.mails.at(-1)?.arrivedAt ?? 0;
    await until('the last is mailed', () => smtp.mails.length > before);
    expect((smtp.mails.at(-1)?.arrivedAt ?? 0) - last).toBeGreaterThanOrEqual(windowMs - 1_000);

    const listed = await dq(daemon, 'alerts');
    expect(listed.stdout.split('\n')[0]).toMatch(/^AT +WHAT +TOPIC +ID +ATTEMPTS +MAIL +LAST$/);
    await until('all alerts are settled', async () => {
      const { body } = await daemon.api('GET', '/v1/alerts');
      return body.items.length === 11 && body.items.every((item: { state: string }) => item.state === 'sent');
    });
    expect(robots.rejected).toEqual([]);
    for (const kind of robotKinds)
      await until(`every job is in a message to ${kind}`, () =>
        [...ids, 'late'].every((id) => robots.accepted[kind].some((text) => text.includes(id))),
      );
    const command = /^ {2}dq (dead requeue .*)$/m.exec(smtp.mails.at(-1)?.parsed.text ?? '')?.[1] ?? '';
    const requeued = await dq(daemon, ...command.split(' '));
    expect(requeued.stderr).toContain('1 requeued');
  });

  it('a crash loop beside a living worker is mailed, listed and named by /readyz', async () => {
    const smtp = await startSmtpSink();
    const daemon = await start(smtp, { notifier: { workers: 6, slots: 8 } });
    const killed = new Set<number>();
    await until(
      'ten of them were killed',
      () => {
        // The first notifier lives, so the daemon continues. A killed process may still be listed for a
        // moment.
        const victim = daemon
          .workers()
          .find(({ title, pid }) => /^dq-notifier-[1-5]$/.test(title) && !killed.has(pid));
        if (victim === undefined || killed.size === 10) return killed.size === 10;
        process.kill(victim.pid, 'SIGKILL');
        killed.add(victim.pid);
        return false;
      },
      40_000,
      100,
    );
    const [mail] = await until('the mail', () => (smtp.mails.length > 0 ? smtp.mails : null), 40_000);
    expect(mail?.to).toEqual(['ops@example.org']);
    expect(mail?.parsed.subject).toMatch(/^dq: dq-notifier died 10 times within 60 s/);
    const listed = await dq(daemon, 'alerts');
    expect(listed.stdout).toMatch(/crash_loop begun .*notifier/);
    const { body } = await daemon.api('GET', '/readyz');
    expect(body).toMatchObject({ ready: true, warnings: ['dq-notifier crashes repeatedly'] });
  });

  it('dq alert test sends a mail, or prints the answer of the mail server', async () => {
    const smtp = await startSmtpSink();
    const daemon = await start(smtp);
    expect(await dq(daemon, 'alert', 'test', 'me@example.org')).toMatchObject({
      code: 0,
      stderr: 'dq: the mail server accepted a test mail to me@example.org\n',
    });
    smtp.judgeAddress(() => 550);
    const rejected = await dq(daemon, 'alert', 'test', 'you@example.org');
    expect([rejected.code, rejected.stderr]).toEqual([1, expect.stringContaining('the test set 550')]);
    expect(smtp.mails.map(({ to }) => to)).toEqual([['me@example.org']]);
  });
});
