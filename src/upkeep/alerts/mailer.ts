// Mails what one source of alerts owes. Owns the order of things: claim, send, remember who was told, mark. A death between
// the server's answer and the mark costs a second mail, never the first.
// Invariants: an alert is marked as sent only when every address has accepted it or refused it for good, and as `nobody` only
// when there is nobody to tell; an address or a server that puts a letter off delays no other key; a key that fails, whatever
// the reason, goes behind all others, because it may be the reason: a letter at which the server hangs up each time.

import type { Config } from '../../config/options.ts';
import { limits } from '../../core/limits.ts';
import type { MailCircuitBreaker } from '../../mail/mail-circuit-breaker.ts';
import { MailRateLimit } from '../../mail/mail-rate-limit.ts';
import { Loop } from '../../runtime/loop.ts';
import type { Service } from '../../runtime/service.ts';
import type { Log } from '../../telemetry/log.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import { upkeepLimits } from '../limits.ts';
import type { AlertSource, Owed } from './alert-source.ts';
import { type Group, RecipientState } from './recipient-state.ts';

export interface MailerOptions {
  readonly source: AlertSource;
  readonly gate: MailCircuitBreaker;
  readonly config: Pick<Config, 'alerts.emails' | 'alerts.window'>;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly pollMs: number;
  /** letters that an address may get in an hour; null = as many as there are windows */
  readonly perHour: number | null;
}

export class Mailer implements Service {
  readonly #options: MailerOptions;
  readonly #standings: RecipientState;
  /** Topics without recipients; bounded by the topics logged in one window. Value: performance.now() of the next line, one
   *  window after the last. */
  readonly #nextLineAt = new Map<string, number>();
  /** Keys whose last round failed, the latest last. */
  readonly #failed = new Set<string>();
  readonly #loop: Loop;
  readonly #ending = new AbortController();
  #failing = false;
  /** performance.now() of the next look that nobody has woken it for */
  #nextAt = 0;
  #lookedAt = Number.NEGATIVE_INFINITY;

  constructor(options: MailerOptions) {
    const { source, log } = options;
    this.#options = options;
    this.#standings = new RecipientState(
      options.perHour === null ? null : new MailRateLimit(options.perHour),
    );
    this.#loop = new Loop({
      name: `mailer of ${source.name}`,
      step: () => this.#inTime(),
      onFailure: (error) => {
        this.#nextAt = 0;
        if (!this.#failing) log.error(`${source.name} cannot be mailed; it is tried again`, error);
        this.#failing = true;
      },
      failureWaitMs: options.pollMs,
    });
  }

  async start(): Promise<void> {
    await this.#loop.start();
  }

  /** Looks at once. */
  wake(): void {
    this.#nextAt = 0;
    this.#loop.wake();
  }

  /** Looks soon: deaths that go on are told of by every process once a second. */
  wakeSoon(): void {
    this.#nextAt = Math.min(this.#nextAt, this.#lookedAt + upkeepLimits.deathPauseMs);
    this.#loop.wake();
  }

  /** A letter on its way has nearly until the deadline. */
  async drain(deadlineMs: number): Promise<void> {
    const timer = setTimeout(() => this.#ending.abort(), deadlineMs / 2);
    await this.#loop.drain(deadlineMs);
    clearTimeout(timer);
  }

  /** The loop turns at least once a second; the store is asked once in pollMs. */
  async #inTime(): Promise<number> {
    const waitMs = this.#nextAt - performance.now();
    if (waitMs > 0) return waitMs;
    // Before the work: whoever wakes it meanwhile means the next look.
    this.#lookedAt = performance.now();
    this.#nextAt = this.#lookedAt + this.#options.pollMs;
    return this.#step();
  }

  async #step(): Promise<number> {
    const { source, gate, config, pollMs, log } = this.#options;
    // What concerns nobody waits too: the store is not asked for nothing while no mail can go.
    if (gate.isClosed()) return pollMs;
    for (const [key, at] of this.#nextLineAt) if (at <= performance.now()) this.#nextLineAt.delete(key);
    for (const key of this.#inTurn(await source.due(config['alerts.window']))) {
      if (this.#ending.signal.aborted) return pollMs;
      await this.#serve(key).catch((error: unknown) => {
        this.#goesLast(key);
        throw error;
      });
    }
    if (this.#failing) log.notice(`${source.name} can be mailed again`);
    this.#failing = false;
    return pollMs;
  }

  #inTurn(due: readonly string[]): readonly string[] {
    const all = new Set(due);
    for (const key of this.#failed) if (!all.delete(key)) this.#failed.delete(key);
    return [...all, ...this.#failed];
  }

  #goesLast(key: string): void {
    this.#failed.delete(key);
    this.#failed.add(key);
  }

  async #serve(key: string): Promise<void> {
    const { source, gate, config } = this.#options;
    const addresses = distinct([...(await source.addresses(key)), ...config['alerts.emails']]);
    const canSend = gate.canSend && addresses.length > 0;
    // Nothing is claimed for nothing: each claim is written to the disk.
    if (canSend && (gate.isClosed() || this.#standings.nextAt(key, addresses) > performance.now())) return;
    if (!canSend && this.#nextLineAt.has(key)) return;
    const owed = await source.take(key);
    if (owed.ids.length === 0) return;
    if (canSend) await this.#tell(key, addresses, owed);
    else await this.#logAll(key, owed);
  }

  async #tell(key: string, addresses: readonly string[], owed: Owed): Promise<void> {
    const standings = this.#standings;
    standings.prune(key, owed.ids);
    const takenAt = performance.now();
    for (const group of this.#letters(key, standings.plan(key, addresses, owed.ids, takenAt))) {
      // Another letter could outlast the claim.
      if (performance.now() - takenAt > limits.mailMs || this.#options.gate.isClosed()) break;
      if (await this.#send(key, group, owed)) continue;
      this.#goesLast(key);
      const [only = ''] = group.addresses;
      if (group.addresses.length === 1 && addresses.length > 1)
        standings.deferred(key, only, performance.now(), (n) => this.#options.gate.againMs(n));
    }
    const finished = new Set(standings.finished(key, this.#awaited(key, addresses, owed), owed.ids));
    const rest = owed.ids.filter((id) => !finished.has(id));
    if (finished.size > 0) await owed.settle([...finished], 'sent');
    if (rest.length > 0) await owed.settle(rest, 'owed');
    else standings.forget(key);
  }

  /** After a failure each address has a letter to itself, the one at which most have failed the last: the server may hang up at
   *  the name of one of them, which must not keep the alert from the others. */
  #letters(key: string, groups: readonly Group[]): readonly Group[] {
    if (!this.#failed.has(key)) return groups;
    const failures = ({ addresses: [only = ''] }: Group) => this.#standings.failures(key, only);
    return groups
      .flatMap(({ addresses, ids }) => addresses.map((address) => ({ addresses: [address], ids })))
      .sort((a, b) => failures(a) - failures(b));
  }

  /** Whose answers the alerts wait for. Behind a mailbox that stays full for days everything piles up, and what is younger than
   *  the most that is taken would be told to nobody: then what the others have been told is marked. */
  #awaited(key: string, addresses: readonly string[], owed: Owed): readonly string[] {
    if (!owed.isCut) return addresses;
    const patient = this.#standings.patient(key, addresses, upkeepLimits.mailTriesMax);
    if (patient.length < addresses.length)
      this.#options.log.error(
        'an address puts mails off again and again; it will not be told of all',
        undefined,
        {
          key,
          addresses: addresses.filter((address) => !patient.includes(address)),
        },
      );
    return patient;
  }

  /** Whether the server has decided. */
  async #send(key: string, group: Group, owed: Owed): Promise<boolean> {
    const { config, gate, log, metrics, source } = this.#options;
    const { subject, text } = owed.letter(group.ids);
    const sent = await gate.send({ to: group.addresses, subject, text }, this.#ending.signal);
    // The gate has logged it and stays closed for a while.
    if (sent.kind === 'failed') {
      metrics.count('dq_mails_total', group.addresses.length, 'failed');
      return false;
    }
    this.#failed.delete(key);
    const now = performance.now();
    const done: string[] = [];
    for (const [address, answer] of sent.answers) {
      metrics.count('dq_mails_total', 1, answer.kind);
      if (answer.kind === 'deferred') this.#standings.deferred(key, address, now, (n) => gate.againMs(n));
      else done.push(address);
      if (answer.kind === 'accepted') continue;
      const what = answer.kind === 'refused' ? 'was refused for good' : 'was put off; it is tried again';
      log.error(`a mail ${what} by the mail server`, undefined, { address, key, reason: answer.reason });
    }
    if (done.length === 0) return true;
    this.#standings.told(key, { addresses: done, ids: group.ids }, now, config['alerts.window']);
    log.notice(`${source.name} were mailed`, { key, alerts: group.ids.size, addresses: done.length });
    return true;
  }

  /** One line for all that the window has collected, as one mail would be. A take has a bound: a line for each. */
  async #logAll(key: string, first: Owed): Promise<void> {
    const { source, config } = this.#options;
    let owed = first;
    await this.#logOnly(key, owed);
    while (owed.isCut && !this.#ending.signal.aborted) {
      owed = await source.take(key);
      if (owed.ids.length > 0) await this.#logOnly(key, owed);
    }
    // Last: after a failed settle the topic is tried again without waiting for a window.
    this.#nextLineAt.set(key, performance.now() + config['alerts.window']);
  }

  /** Logs before it settles: a crash between the two repeats the line. The log keeps a line in memory for up to telemetryLimits.logFlushMs;
   *  a kill -9 within that time loses the line. */
  async #logOnly(key: string, owed: Owed): Promise<void> {
    const { gate, log, source } = this.#options;
    const why = gate.canSend ? 'no address is given' : 'no smtp.url is given';
    const { subject } = owed.letter(new Set(owed.ids));
    log.error(`${subject}; no mail is sent, because ${why}`, undefined, {
      source: source.name,
      key,
      alerts: owed.ids.length,
      ...(owed.names.length > 0 ? { ids: owed.names } : {}),
    });
    await owed.settle(owed.ids, 'nobody');
  }
}

/** One spelling of each: a mailbox that is named twice gets one letter. */
function distinct(addresses: readonly string[]): readonly string[] {
  return [...new Map(addresses.map((address) => [address.toLowerCase(), address])).values()];
}
