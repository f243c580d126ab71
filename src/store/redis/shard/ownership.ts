// Proves that a Redis is ours by its marker (scripts/keys.ts): reads it from each bucket, writes it to an
// empty server, and says why calls are rejected meanwhile.
// Invariants: `marker` is null unless every bucket had our marker when it was last read. An emptied server
// gets its marker again, and the log says so. One line is logged when the server fails, one when it answers
// again.

import { wordsOf } from '../../../core/errors.ts';
import { limits } from '../../../core/limits.ts';
import { setTimeout } from '../../../runtime/time.ts';
import type { Log } from '../../../telemetry/log.ts';
import { failureOf, unknownReply } from '../client/failures.ts';
import { HopError } from '../client/hops.ts';
import { type Bucket, markerText, readMarker, whyForeign } from '../scripts/keys.ts';

export interface OwnershipOptions {
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
}

/** The server, as the marker needs it. */
interface MarkedServer {
  readonly name: string;
  readonly isConnected: () => boolean;
  /** The marker of the bucket after the call; '' = none. Where `makes` is not '0', writes `wanted` to a
   *  bucket without a marker. emptied: the bucket has lost its jobs. */
  readonly mark: (bucket: Bucket, wanted: string, makes: '0' | '1' | 'emptied') => Promise<string>;
  /** It follows another server, so it applies no write. */
  readonly isReplica: () => Promise<boolean>;
  /** which rights its user lacks, as the end of a sentence about the server; null = none */
  readonly whatIsDenied: () => Promise<string | null>;
}

export class Ownership {
  readonly #options: OwnershipOptions;
  readonly #server: MarkedServer;
  /** null: not read yet, or foreign */
  #marker: string | null = null;
  /** the last marker that was ours */
  #knownMarker: string | null = null;
  #rejection = 'redis_away';
  #foreign: string | null = null;
  #errorText: { readonly code: string; readonly text: string } | null = null;
  #denial: string | null = null;
  #proving: Promise<void> | null = null;
  #failing = false;
  #closed = false;

  constructor(options: OwnershipOptions, server: MarkedServer) {
    this.#options = options;
    this.#server = server;
  }

  get marker(): string | null {
    return this.#marker;
  }

  /** why calls are rejected while the marker is null */
  get rejection(): string {
    return this.#rejection;
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

  /** '' until the marker was read */
  get shardId(): string {
    const known = readMarker(this.#knownMarker ?? '');
    return typeof known === 'string' ? '' : known.shardId;
  }

  /** Logs nothing and tries nothing from now on. */
  close(): void {
    this.#closed = true;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  /** The connection was lost: another server may answer next. */
  connectionLost(): void {
    if (this.#marker !== null) this.#rejection = 'redis_away';
    this.#marker = null;
  }

  connectionFailed(error: unknown, message = 'redis: the connection failed'): void {
    this.#noteError(error);
    this.#failed(message, error);
  }

  /** The next script would stop half-way too, so none runs until all commands are allowed again. */
  rightsLost(): void {
    this.#marker = null;
    this.#rejection = 'redis_denied';
    void this.prove();
  }

  /** A call was answered. */
  answered(): void {
    this.#failing = false;
  }

  /** Resolves after one reading, successful or not; a failed one is repeated while the connection stands. */
  prove(): Promise<void> {
    this.#proving ??= this.#proveAll().finally(() => {
      this.#proving = null;
    });
    return this.#proving;
  }

  async #proveAll(): Promise<void> {
    const { buckets, log, shardId, isListed } = this.#options;
    const registryId = await this.#registryId();
    if (registryId === null) return this.#proveLater();
    let wanted = this.#knownMarker ?? markerText({ shardId, registryId, buckets });
    try {
      let emptied = false;
      for (let bucket = 0; bucket < buckets; bucket += 1) {
        const found = await this.#server.mark(bucket, wanted, '0');
        const sameAs = bucket === 0 ? null : wanted;
        const isEmptied = found === '' && (this.#knownMarker !== null || isListed === true);
        emptied ||= isEmptied;
        // The marker of the first bucket decides the shard's id; the first writer wins.
        const makes = isEmptied ? 'emptied' : '1';
        const marker = found === '' ? await this.#server.mark(bucket, wanted, makes) : found;
        const foreign = this.#whyForeign(marker, registryId, sameAs);
        if (foreign !== null) return this.#rejectServer(foreign);
        wanted = marker;
      }
      const redis = this.#server.name;
      if (emptied)
        log.error('redis: jobs are lost; the server was emptied, or restarted without its data', undefined, {
          redis,
        });
      if (this.#failing) log.notice('redis: answers again', { redis });
      this.#failing = false;
      this.#foreign = null;
      this.#denial = null;
      this.#errorText = null;
      this.#knownMarker = wanted;
      this.#marker = wanted;
    } catch (error) {
      this.#noteError(error);
      this.#denial = failureOf(error).code === 'redis_denied' ? await this.#server.whatIsDenied() : null;
      this.#failed(
        this.#denial === null ? 'redis: cannot read the ownership marker' : `Redis ${this.#denial}`,
        error,
      );
      // Proxies describe a replica in words of their own.
      if (failureOf(error).code === unknownReply && (await this.#server.isReplica()))
        this.#rejection = 'redis_read_only';
      this.#proveLater();
    }
  }

  async #registryId(): Promise<string | null> {
    try {
      return await this.#options.registryId();
    } catch (error) {
      this.#rejection = 'registry_away';
      this.logOnce('redis: waits for the registry, whose id it needs', error);
      return null;
    }
  }

  /** The connection stays open, so no event says when to try again. */
  #proveLater(): void {
    setTimeout(() => {
      if (!this.#closed && this.#marker === null && this.#server.isConnected()) void this.prove();
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
    this.logOnce(this.#foreign, undefined);
    // An operator may replace or empty the server without a new connection.
    this.#proveLater();
  }

  /** A rejection code of the server becomes the code of every call until it works again. */
  #failed(message: string, error: unknown): void {
    const { kind, code } = failureOf(error);
    this.#rejection = kind === 'not_stored' || code === unknownReply ? code : 'redis_away';
    this.logOnce(message, error);
  }

  /** Keeps the first text of each failure code and step: one outage must not be reported once per error
   *  text. */
  #noteError(error: unknown): void {
    const code = [failureOf(error).code, error instanceof HopError ? error.step : ''].join();
    if (this.#errorText?.code !== code) this.#errorText = { code, text: wordsOf(error) };
  }

  /** One line until the server works again. */
  logOnce(message: string, error: unknown): void {
    if (!this.#failing && !this.#closed)
      this.#options.log.error(message, error, { redis: this.#server.name });
    this.#failing = true;
  }
}
