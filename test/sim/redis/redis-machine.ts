// One Redis server of a world: connections, scripts and subscriptions as clients see them, over one database
// of the real server, which runs each command within the event in which it arrives. Faults stop the machine,
// change what it accepts, or what it remembers.
// Invariant: commands run in the order of their arrival. Nothing that was published or answered before is
// repeated.

import type { ScriptName } from '../../../src/store/redis/scripts/scripts.ts';
import type { Channel } from '../../../src/store/sqlite/wire/protocol.ts';
import type { Port } from '../channel.ts';
import type { Judge } from '../judge.ts';
import type { Loop } from '../loop.ts';
import type { Process } from '../process.ts';
import type { Asked, RealRedis } from './real-redis.ts';
import { type Arg, type Reply, ReplyError, readCommands, replyBytes } from './resp.ts';
import type { KnownScript, ScriptTable } from './script-table.ts';

/** What the server rejects. `readOnly`: it is a replica. `full`: over its maxmemory. `unsaved`: it cannot
 *  write its files. `loading`: it reads them. */
export type Mood = 'works' | 'readOnly' | 'full' | 'unsaved' | 'loading';

/** A script that the server ran. */
export interface Ran {
  readonly name: ScriptName;
  /** without the clock */
  readonly args: readonly Buffer[];
  readonly reply: Reply;
}

export interface MachineOptions {
  readonly loop: Loop;
  readonly judge: Judge;
  readonly port: Port;
  readonly real: RealRedis;
  readonly scripts: ScriptTable;
  /** of its processes */
  readonly name: string;
  /** of the real server */
  readonly database: number;
  readonly onRan: (ran: Ran) => void;
  /** whether the next hint to one client is lost */
  readonly losesHint: () => boolean;
}

/** Simulated processes of dq have smaller ones. */
const firstIncarnation = 1_000_000;
const usedBytes = 1_000_000;
const runner = 'local r = redis.pcall(unpack(ARGV)) return r';
const dumper = `local out = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  out[#out + 1] = key
  out[#out + 1] = redis.call('DUMP', key)
end
return out`;
const filler = `redis.call('FLUSHDB')
for i = 1, #ARGV, 2 do redis.call('RESTORE', ARGV[i], 0, ARGV[i + 1]) end`;

/** Everything that the server holds at one moment. */
export type Snapshot = readonly Buffer[];

const nameOf = (verb: string, args: readonly Buffer[]): string =>
  [verb, ...args.map((arg) => `${arg.length}:${arg.toString('latin1')}`)].join(' ');

const plainReads = new Set(['zrange', 'exists', 'get', 'hget', 'hlen', 'zcard', 'dbsize']);
const settings: Readonly<Record<string, string>> = {
  appendonly: 'yes',
  appendfsync: 'always',
  save: '',
  maxmemory: '0',
  'maxmemory-policy': 'noeviction',
};

export class RedisMachine {
  readonly #options: MachineOptions;
  readonly #subscribers = new Map<string, Set<Channel>>();
  /** scripts that clients have sent since its start */
  readonly #loaded = new Set<KnownScript>();
  #starts = 0;
  #process: Process | null = null;
  mood: Mood = 'works';
  /** by command: replies to reads, which stay true until something is written. No key expires. */
  readonly #known = new Map<string, Asked>();
  /** how often each script ran */
  readonly counts: Record<string, number> = {};

  constructor(options: MachineOptions) {
    this.#options = options;
    this.#onReal(['FLUSHDB']);
  }

  /** null: it does not run */
  get process(): Process | null {
    return this.#process?.isAlive === true ? this.#process : null;
  }

  start(): Process {
    const { loop, port, name, database } = this.#options;
    this.#starts += 1;
    const process = loop.birth(name, (database + 1) * firstIncarnation + this.#starts);
    this.#process = process;
    this.#loaded.clear();
    this.#subscribers.clear();
    port.listen(process, (channel) => this.#accept(channel));
    loop.tell(`${process.title} works.`);
    return process;
  }

  snapshot(): Snapshot {
    return this.read(dumper) as Snapshot;
  }

  /** From now on it holds this, and nothing else. */
  fill(snapshot: Snapshot): void {
    this.#onReal(['EVAL', filler, 0, ...snapshot]);
  }

  /** As the first process of dq that uses it. */
  mark(marker: string): void {
    this.#onReal(['HSET', '{dq:0}:n', 'marker', marker, 'list', 1]);
  }

  empty(): void {
    this.#onReal(['FLUSHDB']);
  }

  /** The reply to a script of the world, which changes nothing. */
  read(script: string): Reply {
    const { reply } = this.#readReal(script, ['EVAL', script, 0]);
    if (reply instanceof ReplyError) throw new Error(`redis: ${reply.text}`);
    return reply;
  }

  /** The server forgets the scripts that clients have sent. */
  forgetScripts(): void {
    this.#loaded.clear();
  }

  #onReal(command: readonly Arg[]): Reply {
    const { reply } = this.#writeReal(command);
    if (reply instanceof ReplyError) throw new Error(`redis: ${reply.text}`);
    return reply;
  }

  #writeReal(command: readonly Arg[]): Asked {
    const { real, database } = this.#options;
    this.#known.clear();
    real.use(database);
    return real.ask(command);
  }

  /** `name`: no other command has it */
  #readReal(name: string, command: readonly Arg[]): Asked {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const { real, database } = this.#options;
    real.use(database);
    const asked = real.ask(command);
    this.#known.set(name, asked);
    return asked;
  }

  #accept(channel: Channel): void {
    let rest: Buffer = Buffer.alloc(0);
    channel.on('data', (bytes) => {
      const all = rest.length === 0 ? bytes : Buffer.concat([rest, bytes]);
      const { pieces, length } = readCommands(all);
      rest = all.subarray(length);
      for (const command of pieces) this.#serve(channel, command);
    });
    const leave = () => {
      for (const set of this.#subscribers.values()) set.delete(channel);
    };
    channel.on('end', () => {
      leave();
      channel.end();
    });
    channel.on('close', leave);
  }

  #serve(channel: Channel, [name = Buffer.alloc(0), ...args]: readonly Buffer[]): void {
    const verb = name.toString('latin1').toLowerCase();
    if (verb === 'subscribe') {
      this.#subscribe(channel, args.map(String));
      return;
    }
    const { reply, published } = this.#answer(verb, args);
    channel.write(replyBytes(reply));
    if (verb === 'quit') channel.end();
    for (const text of published) this.#publish(text);
  }

  #subscribe(channel: Channel, names: readonly string[]): void {
    for (const [i, name] of names.entries()) {
      const others = this.#subscribers.get(name) ?? new Set();
      this.#subscribers.set(name, others.add(channel));
      channel.write(replyBytes([Buffer.from('subscribe'), Buffer.from(name), i + 1]));
    }
  }

  #publish(text: string): void {
    for (const [name, channels] of this.#subscribers)
      for (const channel of channels)
        if (!this.#options.losesHint())
          channel.write(replyBytes([Buffer.from('message'), Buffer.from(name), Buffer.from(text)]));
  }

  #answer(
    verb: string,
    args: readonly Buffer[],
  ): { readonly reply: Reply; readonly published: readonly string[] } {
    const only = (reply: Reply) => ({ reply, published: [] });
    switch (verb) {
      case 'auth':
      case 'client':
      case 'select':
      case 'quit':
        return only('OK');
      case 'ping':
        return only('PONG');
      case 'info':
        return only(Buffer.from(this.#info));
      case 'time':
        return only(this.#time);
      case 'config':
        return only(args.slice(1).flatMap((key) => [key, Buffer.from(settings[String(key)] ?? '')]));
      default:
    }
    if (this.mood === 'loading')
      return only(new ReplyError('LOADING Redis is loading the dataset in memory'));
    if (verb === 'eval' || verb === 'evalsha') return this.#eval(verb, args);
    if (!plainReads.has(verb)) throw new Error(`the Redis of a world knows no ${verb}`);
    return this.#readReal(nameOf(verb, args), ['EVAL', runner, 0, verb, ...args]);
  }

  #eval(
    verb: string,
    [text = Buffer.alloc(0), , ...rest]: readonly Buffer[],
  ): { readonly reply: Reply; readonly published: readonly string[] } {
    const { scripts, loop, judge, onRan } = this.#options;
    const isWhole = verb === 'eval';
    const script = isWhole ? scripts.ofText(String(text)) : scripts.ofSha(String(text));
    if (script === undefined) throw new Error('the Redis of a world knows the scripts of dq alone');
    if (isWhole) this.#loaded.add(script);
    else if (!this.#loaded.has(script))
      return { reply: new ReplyError('NOSCRIPT No matching script. Please use EVAL.'), published: [] };
    const rejection = this.#rejectionOf(script);
    if (rejection !== null) return { reply: new ReplyError(rejection), published: [] };
    const [prefix = Buffer.alloc(0), numbers = Buffer.alloc(0), ...args] = rest;
    const clock = script.readsClock ? [String(Math.floor((loop.wallOffset + loop.at) * 1_000))] : [];
    const command = ['EVALSHA', script.loaded, 2, prefix, numbers, ...args, ...clock];
    const isRead = !script.flags.writes && !script.readsClock;
    const name = nameOf(script.name, rest);
    const asked = scripts.replyOf(script, isRead ? this.#readReal(name, command) : this.#writeReal(command));
    const { reply } = asked;
    if (reply instanceof ReplyError)
      judge.check(
        /^(DQ[A-Z]+|NOPERM) /.test(reply.text),
        '1 no script fails',
        () => `${script.name}: ${reply.text}`,
      );
    else {
      const title = `script ${script.name}`;
      this.counts[title] = (this.counts[title] ?? 0) + 1;
      onRan({ name: script.name, args, reply });
    }
    return asked;
  }

  #rejectionOf({ flags: { writes, runsWhenFull } }: KnownScript): string | null {
    if (this.mood === 'readOnly' && writes)
      return 'READONLY Can not run script with write flag on readonly replica.';
    if (this.mood === 'full' && !runsWhenFull)
      return "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'";
    if (this.mood === 'unsaved' && writes)
      return 'MISCONF Redis is configured to save RDB snapshots, but it is currently unable to persist on disk.';
    return null;
  }

  get #time(): Reply {
    const us = Math.floor((this.#options.loop.wallOffset + this.#options.loop.at) * 1_000);
    return [Buffer.from(String(Math.floor(us / 1_000_000))), Buffer.from(String(us % 1_000_000))];
  }

  get #info(): string {
    const lines = [
      'redis_version:7.0.15',
      'redis_mode:standalone',
      `loading:${this.mood === 'loading' ? 1 : 0}`,
      'loading_eta_seconds:1',
      `role:${this.mood === 'readOnly' ? 'slave' : 'master'}`,
      `maxmemory:${this.mood === 'full' ? usedBytes : 0}`,
      `used_memory:${usedBytes}`,
    ];
    return `${lines.join('\r\n')}\r\n`;
  }
}
