// Mails what one source of alerts owes. Owns the order of things: claim, send, remember who was told, mark. A death between
// the server's answer and the mark costs a second mail, never the first.
// Invariants: an alert is marked as sent only when every address has accepted it or refused it for good, and as `nobody` only
// when there is nobody to tell; an address or a server that puts a letter off delays no other key.

import type { Config } from '../config/options.ts';
import { limits } from '../core/limits.ts';
import { Loop } from '../core/loop.ts';
import type { Service } from '../core/service.ts';
import type { Log } from '../telemetry/log.ts';
import type { AlertSource, Owed } from './alert-source.ts';
import type { MailGate } from './mail-gate.ts';
import { type Group, Standings } from './standings.ts';

export interface MailerOptions {
  readonly source: AlertSource;
  readonly gate: MailGate;
  readonly config: Pick<Config, 'alerts.emails' | 'alerts.window'>;
  readonly log: Log;
  readonly pollMs: number;
}

export class Mailer implements Service {
  readonly #options: MailerOptions;
  readonly #standings = new Standings();
  readonly #loop: Loop;
  readonly #ending = new AbortController();
  #failing = false;

  constructor(options: MailerOptions) {
    const { source, log } = options;
    this.#options = options;
    this.#loop = new Loop({
      name: `mailer of ${source.name}`,
      step: () => this.#step(),
      onFailure: (error) => {
        if (!this.#failing) log.error(`${source.name} cannot be mailed; it is tried again`, error);
        this.#failing = true;
      },
      failureWaitMs: options.pollMs,
    });
  }

  async start(): Promise<void> {
    await this.#loop.start();
  }

  /** A letter on its way has nearly until the deadline. */
  async drain(deadlineMs: number): Promise<void> {
    const timer = setTimeout(() => this.#ending.abort(), deadlineMs / 2);
    await this.#loop.drain(deadlineMs);
    clearTimeout(timer);
  }

  async #step(): Promise<number> {
    const { source, gate, config, pollMs, log } = this.#options;
    // What concerns nobody waits too: the store is not asked for nothing while no mail can go.
    if (gate.isClosed()) return pollMs;
    for (const key of await source.due(config['alerts.window'])) {
      if (this.#ending.signal.aborted) return pollMs;
      await this.#serve(key);
    }
    if (this.#failing) log.notice(`${source.name} can be mailed again`);
    this.#failing = false;
    return pollMs;
  }

  async #serve(key: string): Promise<void> {
    const { source, gate, config } = this.#options;
    const addresses = distinct([...(await source.addresses(key)), ...config['alerts.emails']]);
    const canSend = gate.canSend && addresses.length > 0;
    // Nothing is claimed for nothing: each claim is written to the disk.
    if (canSend && (gate.isClosed() || this.#standings.nextAt(key, addresses) > performance.now())) return;
    const owed = await source.take(key);
    if (owed.ids.length === 0) return;
    if (canSend) await this.#tell(key, addresses, owed);
    else await this.#tellNobody(key, owed);
  }

  async #tell(key: string, addresses: readonly string[], owed: Owed): Promise<void> {
    const standings = this.#standings;
    standings.prune(key, owed.ids);
    const takenAt = performance.now();
    for (const group of standings.plan(key, addresses, owed.ids, takenAt)) {
      // Another letter could outlast the claim.
      if (performance.now() - takenAt > limits.mailMs || this.#options.gate.isClosed()) break;
      await this.#send(key, group, owed);
    }
    const finished = new Set(standings.finished(key, addresses, owed.ids));
    const rest = owed.ids.filter((id) => !finished.has(id));
    if (finished.size > 0) await owed.settle([...finished], 'sent');
    if (rest.length > 0) await owed.settle(rest, 'owed');
    else standings.forget(key);
  }

  async #send(key: string, group: Group, owed: Owed): Promise<void> {
    const { gate, log, source } = this.#options;
    const { subject, text } = owed.letter(group.ids);
    const sent = await gate.send({ to: group.addresses, subject, text }, this.#ending.signal);
    // The gate has logged it and stays closed for a while.
    if (sent.kind === 'failed') return;
    const now = performance.now();
    const done: string[] = [];
    for (const [address, answer] of sent.answers) {
      if (answer.kind === 'deferred') this.#standings.deferred(key, address, now, (n) => gate.againMs(n));
      else done.push(address);
      if (answer.kind === 'accepted') continue;
      const what = answer.kind === 'refused' ? 'was refused for good' : 'was put off; it is tried again';
      log.error(`a mail ${what} by the mail server`, undefined, { address, key, reason: answer.reason });
    }
    if (done.length === 0) return;
    this.#standings.told(
      key,
      { addresses: done, ids: group.ids },
      now + this.#options.config['alerts.window'],
    );
    log.notice(`${source.name} were mailed`, { key, alerts: group.ids.size, addresses: done.length });
  }

  async #tellNobody(key: string, owed: Owed): Promise<void> {
    const { gate, log, source } = this.#options;
    const why = gate.canSend ? 'no address is given' : 'no smtp.url is given';
    const { subject } = owed.letter(new Set(owed.ids));
    log.error(`${subject}; nobody is mailed, because ${why}`, undefined, {
      source: source.name,
      key,
      alerts: owed.ids.length,
    });
    await owed.settle(owed.ids, 'nobody');
  }
}

/** One spelling of each: a mailbox that is named twice gets one letter. */
function distinct(addresses: readonly string[]): readonly string[] {
  return [...new Map(addresses.map((address) => [address.toLowerCase(), address])).values()];
}
