// The mail server of a world, with a mood that faults change, and the rules on alerts: each death is mailed
// to each of its addresses before its alert counts as sent, and one process mails it once.

import type { Dice } from '../../scripts/dice.ts';
import type { Config } from '../../src/config/options.ts';
import type { Answer, Answers, Mail, MailSender } from '../../src/mail/smtp-sender.ts';
import type { Judge } from './judge.ts';
import type { Loop } from './loop.ts';
import type { Process } from './process.ts';
import type { TopicTable } from './topics.ts';

/** `mute`: it takes the mail, and its answer is lost */
export type MailMood = 'up' | 'mixed' | 'down' | 'mute';
const answers: Readonly<Record<Exclude<MailMood, 'down' | 'mute'>, readonly Answer['kind'][]>> = {
  up: ['accepted'],
  mixed: ['accepted', 'accepted', 'accepted', 'refused', 'deferred'],
};
/** ms that a mail server answers within */
const answerMsMax = 400;

interface OpenAlert {
  readonly key: string;
  readonly topic: string;
  /** addresses that took or rejected a mail about it */
  readonly served: Set<string>;
}

export interface MailOptions {
  readonly loop: Loop;
  readonly judge: Judge;
  readonly topics: TopicTable;
  readonly config: Pick<Config, 'alerts.emails'>;
}

export class MailServer {
  readonly #options: MailOptions;
  readonly #dice: Dice;
  /** by version, from the death to the settlement */
  readonly #open = new Map<number, OpenAlert>();
  /** by version: addresses that took or rejected a mail about it; a loss of the store changes nothing here */
  readonly #served = new Map<number, Set<string>>();
  /** by process: pairs of version and address */
  readonly #mailed = new Map<Process, Set<string>>();
  mood: MailMood;
  count = 0;

  constructor(options: MailOptions) {
    this.#options = options;
    this.#dice = options.loop.stream('mail');
    this.mood = this.#dice.pick(['up', 'up', 'mixed', 'mute']);
  }

  /** Alerts that are not settled. */
  get owed(): readonly string[] {
    return [...this.#open.values()].map(({ key }) => key);
  }

  isOwed(version: number): boolean {
    return this.#open.has(version);
  }

  /** The store has lost its last writes: earlier alerts prove nothing. */
  forget(): void {
    this.#open.clear();
    this.#mailed.clear();
  }

  /** The dead letter is put back, and owes its alert: a process may know that it has mailed it. */
  diedAgain(version: number, topic: string, key: string): void {
    this.died(version, topic, key);
    for (const pairs of this.#mailed.values())
      for (const pair of pairs) if (pair.startsWith(`${version} `)) pairs.delete(pair);
  }

  /** Returns what brings this state back: the store has lost what it wrote since. */
  copy(): () => void {
    const copied = [...this.#open].map(
      ([version, its]) => [version, { ...its, served: new Set(its.served) }] as const,
    );
    return () => {
      this.forget();
      for (const [version, alert] of copied)
        this.#open.set(version, { ...alert, served: new Set(alert.served) });
    };
  }

  died(version: number, topic: string, key: string): void {
    // After a loss of the store the same version can die again: its mailer may know that it was mailed.
    this.#open.set(version, { key, topic, served: new Set(this.#served.get(version)) });
  }

  settled(versions: readonly number[], as: 'sent' | 'nobody' | 'owed'): void {
    if (as === 'owed') return;
    for (const version of versions) {
      const alert = this.#open.get(version);
      if (alert === undefined) continue;
      this.#open.delete(version);
      const { key, topic, served } = alert;
      const possible = this.#addressesOf(topic);
      const [missing = []] = possible.map((all) => all.filter((address) => !served.has(address)));
      const isRight = possible.some((all) =>
        as === 'sent' ? all.every((address) => served.has(address)) : all.length === 0,
      );
      this.#options.judge.check(
        isRight,
        'decision 8: an alert that is settled was mailed',
        () => `${key}, version ${version}: ${as}, without a mail to ${missing.join(', ') || 'any address'}`,
      );
      this.#options.loop.tell(`The alert about ${key} is settled as ${as}.`);
    }
  }

  senderOf(process: Process): MailSender {
    return { send: (mail, signal) => this.#send(process, mail, signal) };
  }

  #send(process: Process, mail: Mail, signal: AbortSignal | undefined): Promise<Answers> {
    const { loop } = this.#options;
    const failed = (reason: string): Answers =>
      new Map(mail.to.map((address) => [address, { kind: 'failed', reason }]));
    const arrives = process.sends() && this.mood !== 'down';
    const kinds = this.mood === 'up' || this.mood === 'mixed' ? answers[this.mood] : answers.up;
    const given = new Map(mail.to.map((address) => [address, this.#answerOf(this.#dice.pick(kinds))]));
    const isAnswered = arrives && !(this.mood === 'mute' && this.#dice.chance(0.5));
    if (arrives) this.#receive(process, mail, given, isAnswered);
    const waitMs = this.#dice.next() * answerMsMax;
    return new Promise((resolve) => {
      const giveUp = () => resolve(failed('given up'));
      const answer = () => {
        signal?.removeEventListener('abort', giveUp);
        resolve(isAnswered ? given : failed('the mail server does not answer'));
      };
      loop.after(isAnswered ? waitMs : 10 * waitMs, process, 'mail answer', answer);
      signal?.addEventListener('abort', giveUp, { once: true });
    });
  }

  #answerOf(kind: Answer['kind']): Answer {
    return kind === 'accepted' ? { kind } : { kind, reason: 'the mail server said so' };
  }

  #receive(process: Process, { to, data }: Mail, given: Answers, isAnswered: boolean): void {
    const { loop, judge } = this.#options;
    if (data?.['type'] !== 'dq.dead_jobs') return;
    this.count += 1;
    const jobs = data['jobs'] as readonly { readonly id: string; readonly version: string }[];
    const mailed = this.#mailed.get(process) ?? new Set<string>();
    this.#mailed.set(process, mailed);
    const ids = jobs.map(({ id }) => id).join(', ');
    loop.tell(`${process.title} mails the death of ${ids} of ${data['topic']} to ${to.join(', ')}.`);
    // It names the first ones.
    const isCut = Number(data['count']) > jobs.length;
    for (const address of to) {
      const kind = given.get(address)?.kind;
      loop.trace.text(`${address} ${kind}`);
      if (kind !== 'accepted' && kind !== 'refused') continue;
      if (isCut)
        for (const [version, { topic }] of this.#open)
          if (topic === data['topic']) this.#serve(version, address);
      for (const { id, version } of jobs) {
        this.#serve(Number(version), address);
        if (!isAnswered) continue;
        const pair = `${version} ${address}`;
        judge.check(
          !mailed.has(pair),
          'decision 8: one process mails an alert once',
          () => `${process.title} mails the death of ${id}, version ${version}, to ${address} again`,
        );
        mailed.add(pair);
      }
    }
  }

  #serve(version: number, address: string): void {
    const served = this.#served.get(version) ?? new Set();
    this.#served.set(version, served.add(address));
    this.#open.get(version)?.served.add(address);
  }

  /** Those of a topic, and where it was removed once, those without it. */
  #addressesOf(topic: string): readonly (readonly string[])[] {
    const { config, topics } = this.#options;
    const ofAll = config['alerts.emails'];
    const all = [...new Set([...topics.get(topic).alertEmails, ...ofAll])];
    return topics.wasRemoved(topic) ? [all, ofAll] : [all];
  }
}
