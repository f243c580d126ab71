// The receivers of callbacks: one for each topic, with a mood that faults change. They take the place of
// connections: a notifier's request arrives here without HTTP.

import type { Dice } from '../../scripts/dice.ts';
import type { Caller } from '../../src/notifier/connector.ts';
import { DialError } from '../../src/notifier/connector.ts';
import { type CallRecord, retryAfterMs, tagOf } from './ledger.ts';
import type { Process } from './process.ts';
import type { Scene } from './scene.ts';
import type { Asked } from './verdicts.ts';

export type Mood = 'up' | 'mixed' | 'slow' | 'down' | 'hung';
const usualMoods: readonly Mood[] = ['up', 'mixed', 'mixed', 'slow'];

/** What a receiver does with one request. `hang`: it never replies. */
type Reaction = 'refuse' | 'reset' | 'hang' | number;
const reactions: Readonly<Record<Mood, readonly Reaction[]>> = {
  up: [200],
  mixed: [200, 200, 200, 200, 204, 500, 410, 429, 'reset', 'refuse', 'hang'],
  slow: [200],
  down: ['refuse', 500, 503, 'hang', 'reset'],
  hung: ['hang'],
};

/** The part of undici's request that a notifier fills. */
export interface SentRequest {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

export class Receivers {
  readonly #scene: Scene;
  readonly #dice: Dice;
  readonly #moods = new Map<string, Mood>();
  readonly #changed = new Set<string>();
  /** the receivers take everything */
  isCalm = false;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#dice = scene.loop.stream('receivers');
    for (const topic of scene.topics.names) this.#moods.set(topic, this.#dice.pick(usualMoods));
  }

  /** Its receiver took every call at once, from the start. */
  isAlwaysUp(topic: string): boolean {
    return this.#moods.get(topic) === 'up' && !this.#changed.has(topic);
  }

  /** Returns the earlier mood. */
  setMood(topic: string, mood: Mood): Mood {
    const before = this.#moods.get(topic) ?? 'up';
    this.#moods.set(topic, mood);
    this.#changed.add(topic);
    return before;
  }

  receive(process: Process, { headers, body }: SentRequest, caller: Caller): void {
    const { calls, topics, loop, verdicts } = this.#scene;
    if (!process.sends()) return;
    const topic = headers['dq-topic'] ?? '';
    const id = decodeURIComponent(headers['dq-job-id'] ?? '');
    const attempt = Number(headers['dq-attempt']);
    const call = calls.begin({ process, topic, id, body: Buffer.from(body), attempt });
    if (call === null) return;
    const mood = this.isCalm ? 'up' : (this.#moods.get(topic) ?? 'up');
    const reaction = this.#dice.pick(reactions[mood]);
    const isSlow = mood === 'slow' || (mood === 'mixed' && this.#dice.chance(0.1));
    const waitMs = 0.5 + this.#dice.next() * (isSlow ? topics.get(topic).timeoutMs * 1.2 : 40);
    const exchange = new Exchange(this.#scene, call, caller);
    if (reaction === 'refuse') exchange.refuse();
    else if (reaction === 'reset') exchange.reset(waitMs);
    else if (reaction === 'hang') exchange.begin();
    else
      exchange.reply(reaction, waitMs, this.#dice.next() * 2, this.isCalm ? null : verdicts.ask(tagOf(body)));
    loop.trace.text(String(reaction));
  }
}

/** One request, from its receiver's side. */
class Exchange {
  readonly #scene: Scene;
  readonly #call: CallRecord;
  readonly #caller: Caller;
  readonly #controller;
  #isOver = false;

  constructor(scene: Scene, call: CallRecord, caller: Caller) {
    this.#scene = scene;
    this.#call = call;
    this.#caller = caller;
    this.#controller = {
      aborted: false,
      paused: false,
      reason: null,
      abort: () => void this.#end('The notifier gives up the call'),
      pause() {},
      resume() {},
    };
  }

  begin(): void {
    this.#caller.onRequestStart(this.#controller, null);
  }

  refuse(): void {
    this.#later(0.5, () => this.#fail('refuses the call', new DialError('connect', 'ECONNREFUSED')));
  }

  reset(waitMs: number): void {
    this.begin();
    const error = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
    this.#later(waitMs, () => this.#fail('resets the call', error));
  }

  reply(status: number, waitMs: number, bodyMs: number, given: Asked | null): void {
    this.begin();
    // A 204 has no body for deadIf.
    const asked = given?.verdict === 'dead' && status === 204 ? null : given;
    const headers = {
      ...(status === 429 ? { 'retry-after': String(retryAfterMs / 1_000) } : {}),
      ...(asked?.verdict === 'again' ? { 'dq-again': `${asked.waitMs}ms` } : {}),
    };
    const body = Buffer.from(asked?.verdict === 'dead' ? '{"code":"E_ARG"}' : 'ok');
    this.#later(waitMs, () => {
      this.#caller.onResponseStart(this.#controller, status, headers, '');
      this.#later(bodyMs, () => {
        if (status !== 204) this.#caller.onResponseData(this.#controller, body);
        if (!this.#end(`The receiver replies ${status} to the call`)) return;
        // Only a whole reply counts: a notifier that gives up before the end has seen a timeout.
        this.#call.status = status;
        // A reply that forbids a repeat goes before a snooze.
        this.#call.asked = asked?.verdict === 'again' && status === 410 ? null : asked;
        this.#caller.onResponseEnd(this.#controller, {});
      });
    });
  }

  #fail(how: string, error: Error): void {
    if (this.#end(`The receiver ${how}`)) this.#caller.onResponseError(this.#controller, error);
  }

  #later(ms: number, act: () => void): void {
    const { loop } = this.#scene;
    loop.after(ms, this.#call.process, 'reply', () => {
      if (!this.#isOver) act();
    });
  }

  #end(sentence: string): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#scene.calls.end(this.#call);
    this.#scene.loop.tell(`${sentence} of ${this.#call.lease.key}.`);
    return true;
  }
}
