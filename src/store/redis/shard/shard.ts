// One Redis (a server, a Sentinel group or a Cluster) with its buckets: runs scripts on them and judges what becomes of each call.
// Owns the connection, the deadlines, the bound on what is under way, and the marker that says whose server this is.
// Invariants: every call ends within limits.redisCallMs; nothing is run on a server whose marker is not ours; an emptied
// server is marked again, and said to be.

import { wordsOf } from '../../../core/errors.ts';
import type { JobKey } from '../../../core/job.ts';
import { limits } from '../../../core/limits.ts';
import { redisAddress } from '../../../core/url/redis-url.ts';
import { type Partition, StoreError } from '../../../ports/job-store.ts';
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
  lookAgain,
  mastersOf,
  nodeOf,
} from '../client/connection.ts';
import { failureOf, isRightDenied, isScriptError, storeErrorOf } from '../client/failures.ts';
import { MemoryWatch } from '../client/memory-watch.ts';
import { rightsOf } from '../client/rights.ts';
import { bucketOf, keysOf, prefixOf } from '../scripts/keys.ts';
import { markerText, readMarker, whyForeign } from '../scripts/marker.ts';
import { composeScripts, type ScriptName } from '../scripts/scripts.ts';
import type { Arg, Route, Shards } from './shards.ts';

export interface ShardOptions {
  readonly url: string;
  /** process title: the connection's name */
  readonly title: string;
  readonly log: Log;
  /** What this Redis is called when it is first used: every process on it must say the same, or the first after a loss of the data
   *  would lock the others out. null: the only one of its registry, and called after it. */
  readonly shardId: string | null;
  /** Whose topics the jobs belong to. Asked whenever the mark is to be compared; rejects while nobody can know. */
  readonly registryId: () => Promise<string>;
  /** fixed when the server is first used */
  readonly buckets: number;
  /** Whatever it was called before is right, for somebody who wants to know; else another name is another server. */
  readonly takesName?: boolean;
  /** The list of shards names it, so it was marked before: without a mark it has lost its data, whoever asks first. */
  readonly isListed?: boolean;
  /** of the list of shards that is known now, for a server that has none yet; 0 when absent */
  readonly listNumber?: () => number;
  /** false: what ends leaves nothing */
  readonly keepHistory: boolean;
  /** storeLimits.recoverHoldMs, unless a test has less time */
  readonly recoverHoldMs?: number;
  readonly onFatal: (error: Error) => void;
  /** for tests: other text for parts of the scripts, less time */
  readonly scriptParts?: Readonly<Record<string, string>>;
  readonly callMs?: number;
}

type Run = (prefix: string, ...args: readonly Arg[]) => Promise<unknown>;

export class Shard implements Shards {
  readonly #options: ShardOptions;
  readonly #client: Client;
  readonly #memory: MemoryWatch;
  readonly #clockWarnings = new ClockWarnings();
  readonly recoverHoldMs: number;
  readonly partitions: readonly Partition[];
  /** null: nobody has looked yet, or it is not ours */
  #marker: string | null = null;
  /** the last one that was ours */
  #knownMarker: string | null = null;
  #refusal = 'redis_away';
  #foreign: string | null = null;
  #words: { readonly code: string; readonly text: string } | null = null;
  #denial: string | null = null;
  /** calls that were given up and are not answered still, by node: while there are any, it stands still */
  readonly #overdue = new Map<string, number>();
  #marking: Promise<void> | null = null;
  #underWay = 0;
  #underWayBytes = 0;
  #failing = false;
  /** said so already: a loop asks again at once */
  readonly #failingScripts = new Set<ScriptName>();
  #closing = false;
  /** connections that were lost, and losses of the data that were found */
  #losses = 0;

  constructor(options: ShardOptions) {
    this.#options = options;
    this.recoverHoldMs = options.recoverHoldMs ?? storeLimits.recoverHoldMs;
    this.#memory = new MemoryWatch(() => infosOf(this.#client, 'memory'));
    this.partitions = Array.from({ length: options.buckets }, (_, bucket) => bucket);
    this.#client = createClient(
      options.url,
      options.title,
      {
        onReady: () => void this.#mark(),
        onLost: () => {
          if (this.#marker !== null) this.#refusal = 'redis_away';
          this.#marker = null;
          this.#losses += 1;
        },
        onError: (error) => {
          this.#heard(error);
          this.#failed('the connection to Redis failed', error);
        },
        onEnd: () => {
          if (!this.#closing) options.onFatal(new Error('the Redis client has ended by itself'));
        },
      },
      composeScripts(options.scriptParts),
    );
  }

  /** '' until it is known */
  get id(): string {
    const known = readMarker(this.#knownMarker ?? '');
    return typeof known === 'string' ? '' : known.shardId;
  }

  get name(): string {
    return redisAddress(this.#options.url).shown;
  }

  /** Commands can be sent, and the server is ours. Of a Cluster: some of its nodes may stand still. */
  get isReady(): boolean {
    return this.#marker !== null && this.#overdue.size < mastersOf(this.#client);
  }

  /** Its servers have a clock each, and a command without a key goes to any of them. */
  get isCluster(): boolean {
    return isCluster(this.#client);
  }

  /** A bucket of each server of a Cluster: what is wrong with one of its buckets is so with all. */
  onePerNode(): readonly Partition[] {
    const buckets = new Map(
      [...this.partitions].reverse().map((bucket) => [nodeOf(this.#client, prefixOf(bucket)), bucket]),
    );
    return [...buckets.values()];
  }

  /** Nearly full: see memory-watch.ts. */
  isTight(): boolean {
    return this.#memory.isTight;
  }

  /** h: what ends is kept in the history */
  #switches(): string {
    return this.#options.keepHistory && !this.isTight() ? 'h' : '';
  }

  lossesOf(): number {
    return this.#losses;
  }

  nameOf(): string {
    return this.name;
  }

  routeOf(key: JobKey): Route {
    return { list: this.#listNumber, earlier: [], home: bucketOf(key, this.partitions.length) };
  }

  everywhere(key: JobKey): readonly Partition[] {
    return [bucketOf(key, this.partitions.length)];
  }

  routeOfLease(key: JobKey): Route {
    return this.routeOf(key);
  }

  ended(): void {}

  elsewhere(): null {
    return null;
  }

  async refresh(): Promise<void> {}

  get #listNumber(): number {
    return this.#options.listNumber?.() ?? 0;
  }

  /** The server was reached and is not ours: why not, and what to do about it. */
  get foreign(): string | null {
    return this.#foreign;
  }

  /** Why it does not work, as the server or the system says it; null = it works, or has said nothing. */
  get words(): string | null {
    return this.#words?.text ?? null;
  }

  /** What its user lacks, and the remedy: the end of a sentence about the server; null = nothing is known to be denied. */
  get denial(): string | null {
    return this.#denial;
  }

  /** Resolves after the first attempt, whatever came of it: a server that is away is tried again for ever, and meanwhile every
   *  call is refused. */
  async start(): Promise<void> {
    try {
      await beginToConnect(this.#client);
      await this.#mark();
    } catch (error) {
      this.#complain('Redis cannot be reached', error);
    }
  }

  async close(deadlineMs: number): Promise<void> {
    this.#closing = true;
    await closeClient(this.#client, deadlineMs);
  }

  /** The raw reply: binary strings as buffers. Rejects with StoreError. */
  async run(script: ScriptName, bucket: Partition, args: readonly Arg[], list = 0): Promise<unknown> {
    const prefix = prefixOf(bucket);
    const marker = this.#markerFor(prefix);
    const bytes = args.reduce<number>((sum, arg) => sum + (Buffer.isBuffer(arg) ? arg.length : 8), 0);
    if (
      this.#underWay >= storeLimits.pendingCallsMax ||
      this.#underWayBytes + bytes > storeLimits.pendingCallBytesMax
    )
      throw new StoreError({ kind: 'not_stored', code: 'redis_behind' });
    this.#underWay += 1;
    this.#underWayBytes += bytes;
    try {
      const reply = await this.#within(
        this.#call(script)(prefix, marker, list, this.#switches(), ...args),
        nodeOf(this.#client, prefix),
      );
      this.#failing = false;
      this.#failingScripts.delete(script);
      return reply;
    } catch (error) {
      throw this.#judged(script, error);
    } finally {
      this.#underWay -= 1;
      this.#underWayBytes -= bytes;
    }
  }

  /** A plain command beside the scripts (health, long work). Rejects with StoreError. */
  async command(name: string, ...args: readonly Arg[]): Promise<unknown> {
    const [key = ''] = args;
    this.#markerFor(String(key));
    try {
      return await this.#within(this.#client.call(name, ...args), nodeOf(this.#client, String(key)));
    } catch (error) {
      throw storeErrorOf(error);
    }
  }

  /** Of its servers whose clock is far from the clock of this machine, a sentence each. */
  async clockWarnings(): Promise<readonly string[]> {
    return this.#clockWarnings.of(this.name, await clocksOf(this.#client));
  }

  async has(bucket: Partition, ...keys: readonly string[]): Promise<boolean> {
    const prefix = prefixOf(bucket);
    return ((await this.command('EXISTS', ...keys.map((key) => `${prefix}:${key}`))) as number) > 0;
  }

  /** Throws where nothing can be asked, also where the server stands still: whoever asked would wait for nothing, and what was sent
   *  might run long after. */
  #markerFor(key: string): string {
    if (this.#marker === null) throw new StoreError({ kind: 'not_stored', code: this.#refusal });
    if (this.#overdue.has(nodeOf(this.#client, key))) {
      lookAgain(this.#client);
      throw new StoreError({ kind: 'not_stored', code: 'redis_no_answer' });
    }
    return this.#marker;
  }

  #call(script: ScriptName): Run {
    const methods = this.#client as unknown as Readonly<Record<string, Run>>;
    const run = methods[`${script}Buffer`];
    if (run === undefined) throw new Error(`no script is called ${script}`);
    return (prefix, ...args) => run.call(this.#client, ...keysOf(prefix), ...args);
  }

  #within<T>(answer: Promise<T>, node: string): Promise<T> {
    return new Promise((resolve, reject) => {
      let isOverdue = false;
      const timer = setTimeout(() => {
        isOverdue = true;
        this.#count(node, 1);
        lookAgain(this.#client);
        reject(new StoreError({ kind: 'unknown', code: 'redis_no_answer' }));
      }, this.#options.callMs ?? limits.redisCallMs);
      answer.then(resolve, reject).finally(() => {
        clearTimeout(timer);
        // Answered late, or lost with its connection.
        if (isOverdue) this.#count(node, -1);
      });
    });
  }

  #count(node: string, more: 1 | -1): void {
    const overdue = (this.#overdue.get(node) ?? 0) + more;
    if (overdue === 0) this.#overdue.delete(node);
    else this.#overdue.set(node, overdue);
  }

  #judged(script: ScriptName, error: unknown): StoreError {
    const judged = storeErrorOf(error);
    if (isScriptError(error) && !this.#failingScripts.has(script)) {
      this.#failingScripts.add(script);
      this.#options.log.error('a script failed; what it did may be incomplete: run dq fsck', error, {
        script,
      });
    }
    if (judged.failure.code === 'no_marker') {
      this.#losses += 1;
      void this.#mark();
    }
    // Whatever ran next would stop half-way too: none does before all commands are allowed again.
    if (isRightDenied(error)) {
      this.#marker = null;
      this.#refusal = 'redis_denied';
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
    const { buckets, log } = this.#options;
    const registryId = await this.#registryId();
    if (registryId === null) return this.#markLater();
    const shardId = this.#idIn(registryId);
    let wanted = this.#knownMarker ?? markerText({ shardId, registryId, buckets });
    try {
      let emptied = false;
      for (const bucket of this.partitions) {
        const found = await this.#markOne(bucket, wanted, '0');
        // The first bucket says what the shard is called; whoever came first decides.
        const made = found === '' ? await this.#markOne(bucket, wanted, '1') : found;
        emptied ||= found === '' && (this.#knownMarker !== null || this.#options.isListed === true);
        const foreign = this.#whyForeign(made, registryId, bucket === 0 ? null : wanted);
        if (foreign !== null) return this.#refuse(foreign);
        wanted = made;
      }
      if (emptied)
        log.error('Redis has lost its jobs: it was emptied, or came back without its data', undefined, {
          redis: this.name,
        });
      if (this.#failing) log.notice('Redis answers again', { redis: this.name });
      this.#failing = false;
      this.#foreign = null;
      this.#denial = null;
      this.#words = null;
      this.#knownMarker = wanted;
      this.#marker = wanted;
    } catch (error) {
      this.#heard(error);
      this.#denial = failureOf(error).code === 'redis_denied' ? await this.#whatIsDenied() : null;
      this.#failed(
        this.#denial === null ? 'Redis cannot be asked whose it is' : `Redis ${this.#denial}`,
        error,
      );
      this.#markLater();
    }
  }

  async #markOne(bucket: Partition, wanted: string, makes: '0' | '1'): Promise<string> {
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

  #idIn(registryId: string): string {
    return this.#options.shardId ?? `${registryId.slice(0, 12)}0001`;
  }

  async #registryId(): Promise<string | null> {
    try {
      return await this.#options.registryId();
    } catch (error) {
      this.#refusal = 'registry_away';
      this.#complain('Redis is not used before the registry has said which one it is', error);
      return null;
    }
  }

  /** The connection is there, and stays: nothing but time says when to ask again. */
  #markLater(): void {
    setTimeout(() => {
      if (!this.#closing && this.#marker === null && this.#client.status === 'ready') void this.#mark();
    }, limits.loopSleepMsMax).unref();
  }

  #whyForeign(marker: string, registryId: string, sameAs: string | null): string | null {
    const { buckets, takesName } = this.#options;
    const shardId = takesName === true ? null : this.#idIn(registryId);
    const foreign = whyForeign(marker, { registryId, buckets, shardId });
    if (foreign !== null) return foreign;
    const known = sameAs ?? this.#knownMarker;
    return known !== null && known !== marker ? 'it is another server than before' : null;
  }

  #refuse(why: string): void {
    this.#marker = null;
    this.#refusal = 'foreign_marker';
    this.#foreign = `this Redis is not ours: ${why}`;
    this.#complain(this.#foreign, undefined);
    // Somebody may put the right one in its place, or empty it, on the same connection.
    this.#markLater();
  }

  /** A server that was reached says itself why it does not serve us. */
  #failed(message: string, error: unknown): void {
    const { kind, code } = failureOf(error);
    this.#refusal = kind === 'not_stored' ? code : 'redis_away';
    this.#complain(message, error);
  }

  /** The first words of a kind of failure stay: one outage must not be reported again with each of its words. */
  #heard(error: unknown): void {
    const { code } = failureOf(error);
    if (this.#words === null || this.#words.code !== code) this.#words = { code, text: wordsOf(error) };
  }

  /** Once until it works again. */
  #complain(message: string, error: unknown): void {
    if (!this.#failing && !this.#closing) this.#options.log.error(message, error, { redis: this.name });
    this.#failing = true;
  }
}
