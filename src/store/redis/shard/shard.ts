// One Redis (a server, a Sentinel group or a Cluster) with its buckets: runs scripts on them and judges each
// failure. Owns the connection, the deadlines and the bound on pending calls; ownership.ts proves that the
// server is ours.
// Invariants: every call ends within limits.redisCallMs. No script runs on a server with a foreign marker.

import { limits } from '../../../core/limits.ts';
import { redisAddress } from '../../../core/url/redis-url.ts';
import { StoreError } from '../../../ports/store-error.ts';
import type { ConnectTcp } from '../../../runtime/dial.ts';
import {
  clearImmediate,
  clearTimeout,
  type Immediate,
  setImmediate,
  setTimeout,
  wallNow,
} from '../../../runtime/time.ts';
import { storeLimits } from '../../limits.ts';
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
import { isRightDenied, isScriptError, storeErrorOf, unknownReply } from '../client/failures.ts';
import { rightsOf } from '../client/rights.ts';
import { ClockWarnings, clocksOf, MemoryWatch } from '../client/server-watch.ts';
import { type Bucket, keysOf, prefixOf } from '../scripts/keys.ts';
import { composeScripts, type ScriptName } from '../scripts/scripts.ts';
import { Ownership, type OwnershipOptions } from './ownership.ts';
import type { Arg } from './shards.ts';

export interface ShardOptions extends OwnershipOptions {
  readonly url: string;
  /** process title: the connection's name */
  readonly title: string;
  /** of the shard list in force, written with the marker; 0 when absent */
  readonly listNumber?: () => number;
  /** false: ended jobs leave no entry */
  readonly keepHistory: boolean;
  /** The name under which this process writes the journal, `<instance>.<incarnation>`: replies then name each
   *  change. Absent: they name none. */
  readonly writer?: string | undefined;
  readonly onFatal: (error: Error) => void;
  /** for tests: other text for parts of the scripts */
  readonly scriptParts?: Readonly<Record<string, string>>;
  /** for tests that replace the clock of the scripts: the key that holds its epoch ms */
  readonly clockKey?: string;
  /** limits.redisCallMs, unless a test has another time */
  readonly callMs?: number;
  /** redisLimits.silentMs, unless a test has another time */
  readonly silentMs?: number;
  /** in place of the network of this machine */
  readonly connectTcp?: ConnectTcp | undefined;
}

type Run = (prefix: string, ...args: readonly Arg[]) => Promise<unknown>;

export class Shard {
  readonly #options: ShardOptions;
  readonly #client: Client;
  readonly #memory: MemoryWatch;
  readonly #clockWarnings = new ClockWarnings();
  readonly #ownership: Ownership;
  readonly buckets: readonly Bucket[];
  /** by node: calls past their deadline without an answer; while there are any, the node counts as frozen */
  readonly #overdue = new Map<string, number>();
  #pending = 0;
  /** by bucket: the highest number of a change of this process */
  readonly #received: number[];
  #pendingBytes = 0;
  /** logged already: a loop calls again at once */
  readonly #failingScripts = new Set<ScriptName>();
  /** lost connections, of a Cluster also those of one node, and detected losses of data */
  #losses = 0;

  constructor(options: ShardOptions) {
    this.#options = options;
    this.#received = new Array<number>(options.buckets).fill(0);
    this.#memory = new MemoryWatch(() => infosOf(this.#client, 'memory'));
    this.buckets = Array.from({ length: options.buckets }, (_, bucket) => bucket);
    this.#ownership = new Ownership(options, {
      name: this.name,
      isConnected: () => this.#client.status === 'ready',
      mark: (...what) => this.#mark(...what),
      whatIsDenied: () => this.#whatIsDenied(),
      isReplica: () => this.#isReplica(),
    });
    this.#client = createClient(
      options.url,
      options.title,
      {
        onReady: () => void this.#ownership.prove(),
        onLost: () => {
          this.#ownership.connectionLost();
          this.#losses += 1;
        },
        onError: (error) => this.#ownership.connectionFailed(error),
        onEnd: () => {
          if (!this.#ownership.isClosed) options.onFatal(new Error('redis: the client has ended by itself'));
        },
      },
      {
        scripts: composeScripts(options.scriptParts),
        silentMs: options.silentMs,
        connectTcp: options.connectTcp,
      },
    );
    // Of a Cluster: the other nodes stay connected while a failover of one loses its last changes.
    this.#client.on('-node', () => {
      this.#losses += 1;
    });
  }

  /** Whether it is ours, and why it does not work. */
  get server(): Pick<Ownership, 'shardId' | 'foreign' | 'errorText' | 'denial'> {
    return this.#ownership;
  }

  get name(): string {
    return redisAddress(this.#options.url).shown;
  }

  /** false: any certificate of its servers is accepted */
  get verifiesTls(): boolean {
    return redisAddress(this.#options.url).verifyTls;
  }

  /** Connected, and the marker is ours. Of a Cluster: some nodes may be frozen, but not all. */
  get isReady(): boolean {
    return this.#ownership.marker !== null && this.#overdue.size < mastersOf(this.#client);
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

  /** nearly full: see server-watch.ts */
  get isNearlyFull(): boolean {
    return this.#memory.isNearlyFull;
  }

  /** as lua/shared/frame.lua reads them */
  #switchesFor(bucket: Bucket): string {
    const { keepHistory, writer } = this.#options;
    const history = keepHistory && !this.isNearlyFull ? 'h' : '';
    return writer === undefined ? history : `${history} ${writer} ${this.#received[bucket] ?? 0}`;
  }

  /** The bucket returned this number of a change of this process: one that has a lower one went back. */
  received(bucket: Bucket, number: number): void {
    this.#received[bucket] = Math.max(this.#received[bucket] ?? 0, number);
  }

  /** Changes after each moment in which the server may have lost data: cached content is then invalid. */
  get losses(): number {
    return this.#losses;
  }

  get #listNumber(): number {
    return this.#options.listNumber?.() ?? 0;
  }

  /** Resolves after the first attempt, successful or not. An unavailable server is tried again for ever;
   *  meanwhile every call is rejected. */
  async start(): Promise<void> {
    try {
      await beginToConnect(this.#client);
      await this.#ownership.prove();
    } catch (error) {
      this.#ownership.connectionFailed(error, 'redis: cannot connect');
    }
  }

  async close(deadlineMs: number): Promise<void> {
    this.#ownership.close();
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
        this.#call(script)(prefix, marker, list, this.#switchesFor(bucket), ...args),
        nodeOf(this.#client, prefix),
      );
      this.#ownership.answered();
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

  /** The storage clock, as the scripts read it: epoch ms, with a fraction. */
  async now(): Promise<number> {
    const { clockKey } = this.#options;
    if (clockKey !== undefined) return Number(await this.command('GET', clockKey));
    const [seconds, micros] = (await this.command('TIME')) as [string, string];
    return Number(seconds) * 1_000 + Number(micros) / 1_000;
  }

  /** The replies to INFO of the nodes that answer. Rejects with StoreError. */
  async infos(): Promise<readonly string[]> {
    this.#markerFor('');
    try {
      return await this.#within(infosOf(this.#client, 'default'), '');
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
    const { marker, rejection } = this.#ownership;
    if (marker === null) throw new StoreError({ kind: 'not_stored', code: rejection });
    if (this.#overdue.has(nodeOf(this.#client, key))) {
      rereadSlots(this.#client);
      throw new StoreError({ kind: 'not_stored', code: 'redis_no_answer' });
    }
    return marker;
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
      let turn: Immediate | undefined;
      const end = (): void => {
        isOverdue = true;
        this.#countOverdue(node, 1);
        rereadSlots(this.#client);
        reject(new StoreError({ kind: 'unknown', code: 'redis_no_answer' }));
      };
      // If this process stood still, the answer may be in its socket, which is read before the immediate.
      const timer = setTimeout(() => {
        turn = setImmediate(end);
      }, this.#options.callMs ?? limits.redisCallMs);
      answer.then(resolve, reject).finally(() => {
        clearTimeout(timer);
        clearImmediate(turn);
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
    if ((isScriptError(error) || judged.failure.code === unknownReply) && !this.#failingScripts.has(script)) {
      this.#failingScripts.add(script);
      const message = isScriptError(error)
        ? 'redis: a script failed and may be half applied; run dq fsck'
        : 'redis: unknown error reply; the call may have been applied, and dq connects again';
      this.#options.log.error(message, error, { script });
    }
    if (judged.failure.code === 'no_marker') {
      this.#losses += 1;
      void this.#ownership.prove();
    }
    if (isRightDenied(error)) this.#ownership.rightsLost();
    return judged;
  }

  // ── for the ownership

  async #mark(bucket: Bucket, wanted: string, makes: '0' | '1' | 'emptied'): Promise<string> {
    const prefix = prefixOf(bucket);
    const isNoted = makes === 'emptied' && this.#options.writer !== undefined;
    // Numbers are the clock in µs: this one is above those of other processes too, unless clocks differ much.
    const above = isNoted ? Math.max(wallNow() * 1_000, ...this.#received.map((number) => number + 1)) : '';
    const wants = makes === '0' ? '0' : '1';
    const answer = this.#call('mark')(prefix, wanted, this.#listNumber, wants, above);
    return String(await this.#within(answer, nodeOf(this.#client, prefix)));
  }

  async #isReplica(): Promise<boolean> {
    try {
      const infos = await this.#within(infosOf(this.#client, 'replication'), '');
      return infos.some((info) => /^role:slave\r?$/m.test(info));
    } catch {
      // It answered a moment ago; the next attempt asks again.
      return false;
    }
  }

  async #whatIsDenied(): Promise<string | null> {
    const { user } = redisAddress(this.#options.url);
    const node = nodeOf(this.#client, prefixOf(0));
    const ask = (name: string, ...args: (string | number)[]) =>
      this.#within(this.#client.call(name, ...args), node);
    return (await rightsOf(ask, user)).refusal;
  }
}

/** The highest list number that any of the shards knows; shards that do not answer do not count. */
export async function newestListNumber(shards: readonly Shard[]): Promise<number> {
  const numbers = shards.map(async (shard) => {
    try {
      return Number((await shard.command('HGET', `${prefixOf(0)}:n`, 'list')) ?? 0);
    } catch (error) {
      if (error instanceof StoreError) return 0;
      throw error;
    }
  });
  return Math.max(0, ...(await Promise.all(numbers)));
}
