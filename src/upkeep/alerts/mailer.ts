// Mails the alerts of one outbox: claims them, sends the mails that are due, settles them. A recipient is a
// mail address, or the name of a hook, which gets the same text by HTTP.
// Invariants: an alert is settled as `sent` only when every address has accepted or rejected it for good, and
// as `nobody` only if dq can reach no recipient; a deferred address or a failing key delays no other key.
// A crash between the server's answer and the settle costs a second mail, never the first: the claim expires.

import type { Config } from '../../config/options.ts';
import { isMailAddress, noMail } from '../../core/alert-receiver.ts';
import type { SettledAlert } from '../../core/job.ts';
import { limits } from '../../core/limits.ts';
import { inBatches } from '../../core/lists.ts';
import type { AlertChannels } from '../../mail/alert-channels.ts';
import { mailLimits } from '../../mail/limits.ts';
import type { MailText } from '../../mail/mail-text.ts';
import type { Answers } from '../../mail/smtp-sender.ts';
import type { AlertOutbox } from '../../ports/job-store.ts';
import { Agent, isDue, turnAfter } from '../../runtime/loop.ts';
import { clearTimeout, monotonicNow, setTimeout } from '../../runtime/time.ts';
import type { Log } from '../../telemetry/log.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { upkeepLimits } from '../limits.ts';
import { RecipientState } from './recipient-state.ts';

/** Alerts under keys: dead jobs under their topic, incidents under their failure state. */
export type Outbox<A extends Alert> = Pick<AlertOutbox, 'due' | 'settle'> & {
  claim(key: string, claimMs: number, max: number): Promise<readonly A[]>;
};

export interface Alert {
  /** names it in settle */
  readonly version: number;
  /** names it in the log */
  readonly id: string | number;
}

interface MailerOptions<A extends Alert> {
  /** of the alerts, in log lines */
  readonly name: string;
  readonly outbox: Outbox<A>;
  /** Recipients of the key, beside those of all. Rejects while they cannot be read. */
  readonly addressesOf: (key: string) => Promise<readonly string[]>;
  /** `alerts`: 1 or more of the key, oldest first */
  readonly mailAbout: (key: string, alerts: readonly A[]) => MailText | Promise<MailText>;
  /** its subject, for the log: reads nothing */
  readonly subjectOf: (key: string, alerts: readonly A[]) => string;
  readonly channels: AlertChannels;
  readonly config: Pick<Config, 'alerts.emails' | 'alerts.defaultHooks' | 'alerts.window'>;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly pollMs: number;
  readonly claimMs: number;
  /** alerts of one mail */
  readonly perMail: number;
  /** mails that an address may get in an hour; null = no cap */
  readonly perHour: number | null;
}

export class Mailer<A extends Alert> extends Agent {
  readonly #options: MailerOptions<A>;
  readonly #recipients: RecipientState;
  /** Keys without recipients → monotonicNow() of their next log line; bounded by the keys of one
   *  window. */
  readonly #nextLineAt = new Map<string, number>();
  readonly #ending = new AbortController();
  /** monotonicNow() */
  #lastRoundAt = Number.NEGATIVE_INFINITY;
  #nextRoundAt = 0;

  constructor(options: MailerOptions<A>) {
    const { name, log, channels, config, perHour, perMail, pollMs } = options;
    super({
      log,
      failure: `mailer: cannot mail ${name}`,
      end: `mailer: ${name} are mailed again`,
      turn: () => this.#turn(),
      onFailure: () => {
        this.#nextRoundAt = 0;
      },
      failureWaitMs: pollMs,
    });
    this.#options = options;
    this.#recipients = new RecipientState({
      perHour,
      windowMs: config['alerts.window'],
      backoffMs: (failures) => channels.backoffMs(failures),
      doneMax: 2 * perMail,
    });
  }

  /** Begins a round soon: while jobs die, each process reports it once a second. */
  override wake(): void {
    this.#nextRoundAt = Math.min(this.#nextRoundAt, this.#lastRoundAt + upkeepLimits.deathPauseMs);
    super.wake();
  }

  /** A mail that is being sent has half of the deadline. */
  override async drain(deadlineMs: number): Promise<void> {
    const timer = setTimeout(() => this.#ending.abort(), deadlineMs / 2);
    await super.drain(deadlineMs);
    clearTimeout(timer);
  }

  /** The loop turns at least once a second; a round begins every pollMs. */
  async #turn(): Promise<number> {
    const { channels, pollMs } = this.#options;
    if (!isDue(this.#nextRoundAt, pollMs)) return this.#nextRoundAt - monotonicNow();
    // Before the round: a wake-up during it asks for the next one.
    this.#lastRoundAt = monotonicNow();
    this.#nextRoundAt = turnAfter(pollMs);
    // While no mail can be sent the store is not asked.
    if (channels.areOpen) await this.#round();
    return pollMs;
  }

  async #round(): Promise<void> {
    const { channels, config, outbox } = this.#options;
    for (const [key, at] of this.#nextLineAt) if (at <= monotonicNow()) this.#nextLineAt.delete(key);
    for (const key of this.#recipients.inOrder(await outbox.due(config['alerts.window']))) {
      if (this.#ending.signal.aborted || !channels.areOpen) break;
      try {
        await this.#serve(key);
      } catch (error) {
        this.#recipients.failed(key);
        throw error;
      }
    }
    this.succeeded();
  }

  /** Claims only what can be mailed or logged now: each claim is a write to the disk. */
  async #serve(key: string): Promise<void> {
    const { addressesOf, channels, config, log } = this.#options;
    const forAll = [...config['alerts.emails'], ...config['alerts.defaultHooks']];
    const wanted = distinct([...(await addressesOf(key)), ...forAll]);
    const addresses = wanted.filter((recipient) => channels.canReach(recipient));
    const open = addresses.filter((recipient) => !channels.isPaused(recipient));
    const canMail = addresses.length > 0;
    if (canMail && (open.length === 0 || this.#recipients.nextAt(key, open) > monotonicNow())) return;
    if (!canMail && this.#nextLineAt.has(key)) return;
    const alerts = await this.#claim(key);
    // Another process was faster.
    if (alerts.length === 0) return;
    const hooks = wanted.filter((recipient) => !isMailAddress(recipient) && !channels.canReach(recipient));
    if (hooks.length > 0)
      log.error('mailer: alerts.hooks lacks a hook of a topic', undefined, { key, hooks });
    if (canMail) await this.#mail(key, addresses, alerts);
    else await this.#logOnly(key, alerts);
  }

  async #mail(key: string, addresses: readonly string[], alerts: readonly A[]): Promise<void> {
    const { channels, log, mailAbout, perMail } = this.#options;
    const recipients = this.#recipients;
    const versions = alerts.map(({ version }) => version);
    const claimedAt = monotonicNow();
    const open = addresses.filter((recipient) => !channels.isPaused(recipient));
    for (const batch of recipients.plan(key, open, versions, claimedAt)) {
      // A further mail could outlast the claim.
      if (monotonicNow() - claimedAt > limits.mailMs) break;
      const to = batch.addresses.filter((recipient) => !channels.isPaused(recipient));
      if (to.length === 0) continue;
      const about = alerts.filter(({ version }) => batch.ids.has(version));
      const mail = { to, ...(await mailAbout(key, about)) };
      const answers = await channels.send(mail, this.#ending.signal);
      this.#report(key, about.length, answers);
      recipients.answered(key, batch.ids, answers, addresses, monotonicNow());
    }
    // Behind a mailbox that stays full, alerts younger than a full claim would never be mailed.
    const awaited = alerts.length < perMail ? addresses : recipients.patient(key, addresses);
    const skipped = addresses.filter((address) => !awaited.includes(address));
    if (skipped.length > 0) {
      const fields = { key, addresses: skipped };
      log.error('mailer: an address was deferred too often and misses alerts', undefined, fields);
    }
    const finished = new Set(recipients.finished(key, awaited, versions));
    const done = alerts.filter(({ version }) => finished.has(version));
    const rest = alerts.filter(({ version }) => !finished.has(version));
    await this.#settle(done, 'sent');
    recipients.settled(key, [...finished]);
    await this.#settle(rest, 'owed');
    if (rest.length === 0) recipients.forget(key);
  }

  #report(key: string, alerts: number, answers: Answers): void {
    const { log, metrics, name } = this.#options;
    let served = 0;
    for (const [address, answer] of answers) {
      if (isMailAddress(address)) metrics.count('dq_mails_total', 1, answer.kind);
      else if (answer.kind !== 'failed') metrics.count('dq_alert_hooks_total', 1, answer.kind);
      if (answer.kind === 'accepted' || answer.kind === 'refused') served += 1;
      // The breaker has logged a failure.
      if (answer.kind === 'accepted' || answer.kind === 'failed') continue;
      const verb = answer.kind === 'refused' ? 'rejected' : 'deferred';
      const who = isMailAddress(address) ? 'the mail server' : 'a hook';
      log.error(`mailer: ${who} ${verb} a mail`, undefined, { address, key, reason: answer.reason });
    }
    if (served > 0) log.notice(`mailer: sent a mail about ${name}`, { key, alerts, addresses: served });
  }

  /** Logs before it settles: a crash between the two repeats the line. A kill -9 within
   *  telemetryLimits.logFlushMs loses it. */
  async #logOnly(key: string, alerts: readonly A[]): Promise<void> {
    const { channels, config, log, name, perMail, subjectOf } = this.#options;
    const why = channels.canMail ? 'no address is configured' : noMail;
    const ids = alerts.slice(0, mailLimits.alertsShown).map(({ id }) => id);
    const fields = { source: name, key, alerts: alerts.length, ids };
    log.error(`${subjectOf(key, alerts)}; not mailed: ${why}`, undefined, fields);
    await this.#settle(alerts, 'nobody');
    // One line per window, as with mails. After a full claim or a failed settle the rest does not wait.
    if (alerts.length < perMail) this.#nextLineAt.set(key, monotonicNow() + config['alerts.window']);
  }

  async #claim(key: string): Promise<readonly A[]> {
    const { claimMs, outbox, perMail } = this.#options;
    const alerts: A[] = [];
    for (let isAll = false; !isAll && alerts.length < perMail; ) {
      const max = Math.min(perMail - alerts.length, upkeepLimits.alertClaimMax);
      const claimed = await outbox.claim(key, claimMs, max);
      alerts.push(...claimed);
      isAll = claimed.length < max;
    }
    return alerts;
  }

  async #settle(alerts: readonly A[], as: SettledAlert): Promise<void> {
    const versions = alerts.map(({ version }) => version);
    for (const batch of inBatches(versions, upkeepLimits.alertClaimMax))
      await this.#options.outbox.settle(batch, as);
  }
}

/** A mailbox that is named in two spellings of the case gets one mail. */
function distinct(addresses: readonly string[]): readonly string[] {
  return [...new Map(addresses.map((address) => [address.toLowerCase(), address])).values()];
}
