// Mails the alerts of one source: claims them, sends the mails that are due, settles them.
// Invariants: an alert is settled as `sent` only when every address has accepted or
// rejected it for good, and as `nobody` only if there is no address or no mail server; a
// deferred address or a failing key delays no other key.
// A crash between the server's answer and the settle costs a second mail, never the first: the claim expires.

import type { Config } from '../../config/options.ts';
import { limits } from '../../core/limits.ts';
import type { MailCircuitBreaker } from '../../mail/mail-circuit-breaker.ts';
import type { MailText } from '../../mail/mail-text.ts';
import { FailureLog } from '../../runtime/failure-log.ts';
import { Loop } from '../../runtime/loop.ts';
import type { Service } from '../../runtime/service.ts';
import type { Log } from '../../telemetry/log.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { upkeepLimits } from '../limits.ts';
import { type Batch, RecipientState } from './recipient-state.ts';

/** Alerts under keys: topics, or the incidents of this instance. Each key has its own window. */
export interface AlertSource {
  /** in log lines */
  readonly name: string;
  /** Keys with owed alerts and no mail within windowMs, the longest waiting first. */
  due(windowMs: number): Promise<readonly string[]>;
  /** Recipients of this key, beside alerts.emails. Rejects while they cannot be read. */
  addresses(key: string): Promise<readonly string[]>;
  /** Claims the owed alerts of the key until they are settled, or until upkeepLimits.alertClaimMs are
   *  over. */
  claim(key: string): Promise<Claim>;
}

export interface Claim {
  /** oldest first; empty if another process was faster */
  readonly ids: readonly number[];
  /** The claim is full: younger alerts may be owed, too. */
  readonly isFull: boolean;
  /** names of the oldest mailLimits.alertsShown, for the log */
  readonly names: readonly string[];
  /** A mail about these of the alerts. */
  mail(ids: ReadonlySet<number>): MailText;
  /** `sent` begins the window of the key; `owed` releases the claim. */
  settle(ids: readonly number[], as: 'sent' | 'nobody' | 'owed'): Promise<void>;
}

export interface MailerOptions {
  readonly source: AlertSource;
  readonly breaker: MailCircuitBreaker;
  readonly config: Pick<Config, 'alerts.emails' | 'alerts.window'>;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly pollMs: number;
  /** mails that an address may get in an hour; null = no cap */
  readonly perHour: number | null;
}

export class Mailer implements Service {
  readonly #options: MailerOptions;
  readonly #recipients: RecipientState;
  /** Keys without recipients → performance.now() of their next log line; bounded by the keys of one
   *  window. */
  readonly #nextLineAt = new Map<string, number>();
  readonly #loop: Loop;
  readonly #ending = new AbortController();
  readonly #failures: FailureLog;
  /** performance.now() */
  #lastRoundAt = Number.NEGATIVE_INFINITY;
  #nextRoundAt = 0;

  constructor(options: MailerOptions) {
    const { source, log, breaker, config, perHour, pollMs } = options;
    this.#options = options;
    this.#recipients = new RecipientState({
      perHour,
      windowMs: config['alerts.window'],
      backoffMs: (failures) => breaker.backoffMs(failures),
    });
    this.#failures = new FailureLog(log, {
      failure: `mailer: cannot mail ${source.name}`,
      end: `mailer: ${source.name} are mailed again`,
    });
    this.#loop = new Loop({
      step: () => this.#step(),
      onFailure: (error) => {
        this.#nextRoundAt = 0;
        this.#failures.failed(error);
      },
      failureWaitMs: pollMs,
    });
  }

  async start(): Promise<void> {
    await this.#loop.start();
  }

  /** Begins a round at once. */
  wake(): void {
    this.#nextRoundAt = 0;
    this.#loop.wake();
  }

  /** Begins a round soon: while jobs die, each process reports it once a second. */
  wakeSoon(): void {
    this.#nextRoundAt = Math.min(this.#nextRoundAt, this.#lastRoundAt + upkeepLimits.deathPauseMs);
    this.#loop.wake();
  }

  /** A mail that is being sent has half of the deadline. */
  async drain(deadlineMs: number): Promise<void> {
    const timer = setTimeout(() => this.#ending.abort(), deadlineMs / 2);
    await this.#loop.drain(deadlineMs);
    clearTimeout(timer);
  }

  /** The loop turns at least once a second; a round begins every pollMs. */
  async #step(): Promise<number> {
    const waitMs = this.#nextRoundAt - performance.now();
    if (waitMs > 0) return waitMs;
    // Before the round: a wake-up during it asks for the next one.
    this.#lastRoundAt = performance.now();
    this.#nextRoundAt = this.#lastRoundAt + this.#options.pollMs;
    // While no mail can be sent the store is not asked.
    if (!this.#options.breaker.isOpen()) await this.#round();
    return this.#options.pollMs;
  }

  async #round(): Promise<void> {
    const { source, config } = this.#options;
    for (const [key, at] of this.#nextLineAt) if (at <= performance.now()) this.#nextLineAt.delete(key);
    for (const key of this.#recipients.inOrder(await source.due(config['alerts.window']))) {
      if (this.#ending.signal.aborted) return;
      try {
        await this.#serve(key);
      } catch (error) {
        this.#recipients.failed(key);
        throw error;
      }
    }
    this.#failures.succeeded();
  }

  /** Claims only what can be mailed or logged now: each claim is a write to the disk. */
  async #serve(key: string): Promise<void> {
    const { source, breaker, config } = this.#options;
    const addresses = distinct([...(await source.addresses(key)), ...config['alerts.emails']]);
    const canMail = breaker.canSend && addresses.length > 0;
    if (canMail && (breaker.isOpen() || this.#recipients.nextAt(key, addresses) > performance.now())) return;
    if (!canMail && this.#nextLineAt.has(key)) return;
    const claim = await source.claim(key);
    if (claim.ids.length === 0) return;
    if (canMail) await this.#mail(key, addresses, claim);
    else await this.#logAll(key, claim);
  }

  async #mail(key: string, addresses: readonly string[], claim: Claim): Promise<void> {
    const recipients = this.#recipients;
    const claimedAt = performance.now();
    for (const batch of recipients.plan(key, addresses, claim.ids, claimedAt)) {
      // A further mail could outlast the claim.
      if (performance.now() - claimedAt > limits.mailMs || this.#options.breaker.isOpen()) break;
      await this.#send(key, batch, addresses, claim);
    }
    const finished = new Set(recipients.finished(key, this.#awaited(key, addresses, claim), claim.ids));
    const rest = claim.ids.filter((id) => !finished.has(id));
    if (finished.size > 0) await claim.settle([...finished], 'sent');
    if (rest.length > 0) await claim.settle(rest, 'owed');
    else recipients.forget(key);
  }

  async #send(key: string, batch: Batch, addresses: readonly string[], claim: Claim): Promise<void> {
    const { breaker, log, metrics, source } = this.#options;
    const mail = { to: batch.addresses, ...claim.mail(batch.ids) };
    const answers = await breaker.send(mail, this.#ending.signal);
    let served = 0;
    for (const [address, answer] of answers) {
      metrics.count('dq_mails_total', 1, answer.kind);
      if (answer.kind === 'accepted' || answer.kind === 'refused') served += 1;
      // The breaker has logged a failure.
      if (answer.kind === 'accepted' || answer.kind === 'failed') continue;
      const verb = answer.kind === 'refused' ? 'rejected' : 'deferred';
      log.error(`mailer: the mail server ${verb} a mail`, undefined, { address, key, reason: answer.reason });
    }
    this.#recipients.answered(key, batch.ids, answers, addresses, performance.now());
    const fields = { key, alerts: batch.ids.size, addresses: served };
    if (served > 0) log.notice(`mailer: sent a mail about ${source.name}`, fields);
  }

  /** The addresses that must be served before an alert is settled. A full claim skips
   *  those that were deferred too often: behind a mailbox that stays full, alerts
   *  younger than the claim would never be mailed. */
  #awaited(key: string, addresses: readonly string[], claim: Claim): readonly string[] {
    if (!claim.isFull) return addresses;
    const patient = this.#recipients.patient(key, addresses);
    const skipped = addresses.filter((address) => !patient.includes(address));
    if (skipped.length > 0)
      this.#options.log.error('mailer: an address was deferred too often and misses alerts', undefined, {
        key,
        addresses: skipped,
      });
    return patient;
  }

  /** One line for each full claim, and one for the rest: in total one for a window, as with mails. */
  async #logAll(key: string, first: Claim): Promise<void> {
    const { source, config } = this.#options;
    let claim = first;
    await this.#logAndSettle(key, claim);
    while (claim.isFull && !this.#ending.signal.aborted) {
      claim = await source.claim(key);
      if (claim.ids.length > 0) await this.#logAndSettle(key, claim);
    }
    // Last: after a failed settle the key is tried again without a wait for the window.
    this.#nextLineAt.set(key, performance.now() + config['alerts.window']);
  }

  /** Logs before it settles: a crash between the two repeats the line. A kill -9 within
   *  telemetryLimits.logFlushMs loses it. */
  async #logAndSettle(key: string, claim: Claim): Promise<void> {
    const { breaker, log, source } = this.#options;
    const why = breaker.canSend ? 'no address is configured' : 'no smtp.url is configured';
    log.error(`${claim.mail(new Set(claim.ids)).subject}; not mailed: ${why}`, undefined, {
      source: source.name,
      key,
      alerts: claim.ids.length,
      ...(claim.names.length > 0 ? { ids: claim.names } : {}),
    });
    await claim.settle(claim.ids, 'nobody');
  }
}

/** A mailbox that is named in two spellings of the case gets one mail. */
function distinct(addresses: readonly string[]): readonly string[] {
  return [...new Map(addresses.map((address) => [address.toLowerCase(), address])).values()];
}
