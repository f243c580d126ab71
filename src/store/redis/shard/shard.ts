// One Redis (a server, a Sentinel group or a Cluster) with its buckets: runs scripts on them and judges each
// failure. Owns the connection, the deadlines, the bound on pending calls, and the marker that names the
// server's owner.
// Invariants: every call ends within limits.redisCallMs. No script runs on a server with a foreign marker. An
// emptied server gets its marker again, and the log says so.

import { wordsOf } from '../../../core/errors.ts';
import { limits } from '../../../core/limits.ts';
import { redisAddress } from '../../../core/url/redis-url.ts';
import { StoreError } from '../../../ports/store-error.ts';
import type { Log } from '../../../telemetry/log.ts';
import { storeLimits } from '../../limits.ts';
import { ClockWarnings, clocksOf } from '../client/clocks.ts';
import {
  beginToConnect,
  type Client,
  closeClient,
  createClient,
  infosOf,
  isCluster,
  mastersOf,
  nodeOf,
  rereadSlots,
} from '../client/connection.ts';
import { failureOf, isRightDenied, isScriptError, storeErrorOf } from '../client/failures.ts';
import { MemoryWatch } from '../client/memory-watch.ts';
import { rightsOf } from '../client/rights.ts';
import { type Bucket, keysOf, prefixOf } from '../scripts/keys.ts';
import { markerText, readMarker, whyForeign } from '../scripts/marker.ts';
import { composeScripts, type ScriptName } from '../scripts/scripts.ts';
import type { Arg } from './shards.ts';

export interface ShardOptions {
  readonly url: string;
  /** process title: the connection's name */
  readonly title: string;
  readonly log: Log;
  /** The shard's id. A server without a marker gets it. */
  readonly shardId: string;
  /** The registry of its topics. Read at each comparison with the marker; rejects while it is unknown. */
  readonly registryId: () => Promise<string>;
  /** fixed when the server is first used */
  readonly buckets: number;
  /** true: accepts whatever shard id the marker names; else another id is another server */
  readonly takesName?: boolean;
  /** The shard list names it, so it had a marker: without one it has lost its data. */
  readonly isListed?: boolean;
  /** of the shard list in force, written with the marker; 0 when absent */
  readonly listNumber?: () => number;
  /** false: ended jobs leave no entry */
  readonly keepHistory: boolean;
  readonly onFatal: (error: Error) => void;
  /** for tests: other text for parts of the scripts */
  readonly scriptParts?: Readonly<Record<string, string>>;
  /** limits.redisCallMs, unless a test has less time */
  readonly callMs?: number;
}

type Run = (prefix: string, ...args: readonly Arg[]) => Promise<unknown>;

export class Shard {
  readonly #options: ShardOptions;
  readonly #client: Client;
  readonly #memory: MemoryWatch;
  readonly #clockWarnings = new ClockWarnings();
  readonly buckets: readonly Bucket[];
  /** null: not read yet, or foreign */
  #marker: string | null = null;
  /** the last marker that was ours */
  #knownMarker: string | null = null;
  #rejection = 'redis_away';
  #foreign: string | null = null;
  #errorText: { readonly code: string; readonly text: string } | null = null;
  #denial: string | null = null;
  /** by node: calls past their deadline without an answer; while there are any, the node counts as frozen */
  readonly #overdue = new Map<string, number>();
  #marking: Promise<void> | null = null;
  #pending = 0;
  #pendingBytes = 0;
  #failing = false;
  /** logged already: a loop calls again at once */
  readonly #failingScripts = new Set<ScriptName>();
  #closing = false;
  /** lost connections, and detected losses of data */
  #losses = 0;

  constructor(options: ShardOptions) {
    this.#options = options;
    this.#memory = new MemoryWatch(() => infosOf(this.#client, 'memory'));
    this.buckets = Array.from({ length: options.buckets }, (_, bucket) => bucket);
    this.#client = createClient(
      options.url,
      options.title,
      {
        onReady: () => void this.#mark(),
        onLost: () => {
          if (this.#marker !== null) this.#rejection = 'redis_away';
          this.#marker = null;
          this.#losses += 1;
        },
        onError: (error) => {
          this.#noteError(error);
          this.#failed('redis: the connection failed', error);
        },
        onEnd: () => {
          if (!this.#closing) options.onFatal(new Error('redis: the client has ended by itself'));
        },
      },
      composeScripts(options.scriptParts),
    );
  }

  /** '' until the marker was read */
  get id(): string {
    const known = readMarker(this.#knownMarker ?? '');
    return typeof known === 'string' ? '' : known.shardId;
  }

  get name(): string {
    return redisAddress(this.#options.url).shown;
  }

  /** Connected, and the marker is ours. Of a Cluster: some nodes may be frozen, but not all. */
  get isReady(): boolean {
    return this.#marker !== null && this.#overdue.size < mastersOf(this.#client);
  }

  /** Each of its nodes has its own clock, and a command without a key goes to any of them. */
  get isCluster(): boolean {
    return isCluster(this.#client);
  }

  /** One bucket of each node of a Cluster: a failure of a node concerns all its buckets. */
  onePerNode(): readonly Bucket[] {
    const buckets = new Map(
      [...this.buckets].reverse().map((bucket) => [nodeOf(this.#client, prefixOf(bucket)), bucket]),
    );
    return [...buckets.values()];
  }

  /** nearly full: see memory-watch.ts */
  get isNearlyFull(): boolean {
    return this.#memory.isNearlyFull;
  }

  /** h: ended jobs are kept in the history */
  get #switches(): string {
    return this.#options.keepHistory && !this.isNearlyFull ? 'h' : '';
  }

  /** Changes after each moment in which the server may have lost data: cached content is then invalid. */
  get losses(): number {
    return this.#losses;
  }

  get #listNumber(): number {
    return this.#options.listNumber?.() ?? 0;
  }

  /** Why the server is not ours, with the remedy; null = it is ours, or was not reached. */
  get foreign(): string | null {
    return this.#foreign;
  }

  /** The error text of the server or the system; null = it works, or gave no error. */
  get errorText(): string | null {
    return this.#errorText?.text ?? null;
  }

  /** Which rights its user lacks, with the remedy, as the end of a sentence about the server; null = none is
   *  known. */
  get denial(): string | null {
    return this.#denial;
  }

  /** Resolves after the first attempt, successful or not. An unavailable server is tried again for ever;
   *  meanwhile every call is rejected. */
  async start(): Promise<void> {
    try {
      await beginToConnect(this.#client);
      await this.#mark();
    } catch (error) {
      this.#logOnce('redis: cannot connect', error);
    }
  }

  async close(deadlineMs: number): Promise<void> {
    this.#closing = true;
    await closeClient(this.#client, deadlineMs);
  }

  /** The raw reply: binary strings as buffers. Rejects with StoreError. */
  async run(script: ScriptName, bucket: Bucket, args: readonly Arg[], list = 0): Promise<unknown> {
    const prefix = prefixOf(bucket);
    const marker = this.#markerFor(prefix);
    const bytes = args.reduce<number>((sum, arg) => sum + (Buffer.isBuffer(arg) ? arg.length : 8), 0);
    if (
      this.#pending >= storeLimits.pendingCallsMax ||
      this.#pendingBytes + bytes > storeLimits.pendingCallBytesMax
    )
      throw new StoreError({ kind: 'not_stored', code: 'redis_behind' });
    this.#pending += 1;
    this.#pendingBytes += bytes;
    try {
      const reply = await this.#within(
        this.#call(script)(prefix, marker, list, this.#switches, ...args),
        nodeOf(this.#client, prefix),
      );
      this.#failing = false;
      this.#failingScripts.delete(script);
      return reply;
    } catch (error) {
      throw this.#judged(script, error);
    } finally {
      this.#pending -= 1;
      this.#pendingBytes -= bytes;
    }
  }

  /** A plain command (polls, health, long work). Rejects with StoreError. */
  async command(name: string, ...args: readonly Arg[]): Promise<unknown> {
    const [key = ''] = args;
    this.#markerFor(String(key));
    try {
      return await this.#within(this.#client.call(name, ...args), nodeOf(this.#client, String(key)));
    } catch (error) {
      throw storeErrorOf(error);
    }
  }

  /** One sentence for each node whose clock differs much from this machine's. */
  async clockWarnings(): Promise<readonly string[]> {
    return this.#clockWarnings.of(this.name, await clocksOf(this.#client));
  }

  /** Whether the bucket has any of these keys, by one plain command. Rejects with StoreError. */
  async has(bucket: Bucket, ...keys: readonly string[]): Promise<boolean> {
    const prefix = prefixOf(bucket);
    return ((await this.command('EXISTS', ...keys.map((key) => `${prefix}:${key}`))) as number) > 0;
  }

  /** Throws while no call can be sent, also to a frozen server: the caller would wait in vain, and the call
   *  might run much later. */
  #markerFor(key: string): string {
    if (this.#marker === null) throw new StoreError({ kind: 'not_stored', code: this.#rejection });
    if (this.#overdue.has(nodeOf(this.#client, key))) {
      rereadSlots(this.#client);
      throw new StoreError({ kind: 'not_stored', code: 'redis_no_answer' });
    }
    return this.#marker;
  }

  #call(script: ScriptName): Run {
    const methods = this.#client as unknown as Readonly<Record<string, Run>>;
    const run = methods[`${script}Buffer`];
    if (run === undefined) throw new Error(`unknown script ${script}`);
    return (prefix, ...args) => run.call(this.#client, ...keysOf(prefix), ...args);
  }

  #within<T>(answer: Promise<T>, node: string): Promise<T> {
    return new Promise((resolve, reject) => {
      let isOverdue = false;
      const timer = setTimeout(() => {
        isOverdue = true;
        this.#countOverdue(node, 1);
        rereadSlots(this.#client);
        reject(new StoreError({ kind: 'unknown', code: 'redis_no_answer' }));
      }, this.#options.callMs ?? limits.redisCallMs);
      answer.then(resolve, reject).finally(() => {
        clearTimeout(timer);
        // Answered late, or lost with its connection.
        if (isOverdue) this.#countOverdue(node, -1);
      });
    });
  }

  #countOverdue(node: string, more: 1 | -1): void {
    const overdue = (this.#overdue.get(node) ?? 0) + more;
    if (overdue === 0) this.#overdue.delete(node);
    else this.#overdue.set(node, overdue);
  }

  #judged(script: ScriptName, error: unknown): StoreError {
    const judged = storeErrorOf(error);
    if (isScriptError(error) && !this.#failingScripts.has(script)) {
      this.#failingScripts.add(script);
      this.#options.log.error('redis: a script failed and may be half applied; run dq fsck', error, {
        script,
      });
    }
    if (judged.failure.code === 'no_marker') {
      this.#losses += 1;
      void this.#mark();
    }
    // The next script would stop half-way too, so none runs until all commands are allowed again.
    if (isRightDenied(error)) {
      this.#marker = null;
      this.#rejection = 'redis_denied';
      void this.#mark();
    }
    return judged;
  }

  // ── the marker

  #mark(): Promise<void> {
    this.#marking ??= this.#markAll().finally(() => {
      this.#marking = null;
    });
    return this.#marking;
  }

  async #markAll(): Promise<void> {
    const { buckets, log, shardId } = this.#options;
    const registryId = await this.#registryId();
    if (registryId === null) return this.#markLater();
    let wanted = this.#knownMarker ?? markerText({ shardId, registryId, buckets });
    try {
      let emptied = false;
      for (const bucket of this.buckets) {
        const found = await this.#markOne(bucket, wanted, '0');
        // The marker of the first bucket decides the shard's id; the first writer wins.
        const made = found === '' ? await this.#markOne(bucket, wanted, '1') : found;
        emptied ||= found === '' && (this.#knownMarker !== null || this.#options.isListed === true);
        const foreign = this.#whyForeign(made, registryId, bucket === 0 ? null : wanted);
        if (foreign !== null) return this.#rejectServer(foreign);
        wanted = made;
      }
      if (emptied)
        log.error('redis: jobs are lost; the server was emptied, or restarted without its data', undefined, {
          redis: this.name,
        });
      if (this.#failing) log.notice('redis: answers again', { redis: this.name });
      this.#failing = false;
      this.#foreign = null;
      this.#denial = null;
      this.#errorText = null;
      this.#knownMarker = wanted;
      this.#marker = wanted;
    } catch (error) {
      this.#noteError(error);
      this.#denial = failureOf(error).code === 'redis_denied' ? await this.#whatIsDenied() : null;
      this.#failed(
        this.#denial === null ? 'redis: cannot read the ownership marker' : `Redis ${this.#denial}`,
        error,
      );
      this.#markLater();
    }
  }

  async #markOne(bucket: Bucket, wanted: string, makes: '0' | '1'): Promise<string> {
    const prefix = prefixOf(bucket);
    const answer = this.#call('mark')(prefix, wanted, this.#listNumber, makes);
    return String(await this.#within(answer, nodeOf(this.#client, prefix)));
  }

  async #whatIsDenied(): Promise<string | null> {
    const { user } = redisAddress(this.#options.url);
    const node = nodeOf(this.#client, prefixOf(0));
    const ask = (name: string, ...args: (string | number)[]) =>
      this.#within(this.#client.call(name, ...args), node);
    return (await rightsOf(ask, user)).refusal;
  }

  async #registryId(): Promise<string | null> {
    try {
      return await this.#options.registryId();
    } catch (error) {
      this.#rejection = 'registry_away';
      this.#logOnce('redis: waits for the registry, whose id it needs', error);
      return null;
    }
  }

  /** The connection stays open, so no event says when to try again. */
  #markLater(): void {
    setTimeout(() => {
      if (!this.#closing && this.#marker === null && this.#client.status === 'ready') void this.#mark();
    }, limits.loopSleepMsMax).unref();
  }

  #whyForeign(marker: string, registryId: string, sameAs: string | null): string | null {
    const { buckets, takesName } = this.#options;
    const shardId = takesName === true ? null : this.#options.shardId;
    const foreign = whyForeign(marker, { registryId, buckets, shardId });
    if (foreign !== null) return foreign;
    const known = sameAs ?? this.#knownMarker;
    return known !== null && known !== marker ? 'another server answers at this address than before' : null;
  }

  #rejectServer(why: string): void {
    this.#marker = null;
    this.#rejection = 'foreign_marker';
    this.#foreign = `this Redis is not ours: ${why}`;
    this.#logOnce(this.#foreign, undefined);
    // An operator may replace or empty the server without a new connection.
    this.#markLater();
  }

  /** A rejection code of the server becomes the code of every call until it works again. */
  #failed(message: string, error: unknown): void {
    const { kind, code } = failureOf(error);
    this.#rejection = kind === 'not_stored' ? code : 'redis_away';
    this.#logOnce(message, error);
  }

  /** Keeps the first text of each failure code: one outage must not be reported once per error text. */
  #noteError(error: unknown): void {
    const { code } = failureOf(error);
    if (this.#errorText?.code !== code) this.#errorText = { code, text: wordsOf(error) };
  }

  /** One line until the server works again. */
  #logOnce(message: string, error: unknown): void {
    if (!this.#failing && !this.#closing) this.#options.log.error(message, error, { redis: this.name });
    this.#failing = true;
  }
}
