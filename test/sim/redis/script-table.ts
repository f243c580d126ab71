// The scripts of dq on the real server of a world. They read the world's clock: it comes as their last
// argument, in place of TIME.

import { createHash } from 'node:crypto';
import clock from '../../../src/store/redis/scripts/lua/shared/clock.lua';
import { composeScripts, type ScriptName } from '../../../src/store/redis/scripts/scripts.ts';
import { lineMark, returningLines } from './line-notes.ts';
import type { Asked, RealRedis } from './real-redis.ts';
import type { Reply } from './resp.ts';

const worldClock = `
local us = tonumber(table.remove(ARGV))
local now = math.floor(us / 1000)
`;

export interface KnownScript {
  readonly name: ScriptName;
  /** under which the real server has it */
  readonly loaded: string;
  /** its reply is a list of two: lines that ran, and the reply */
  readonly isCounted: boolean;
  readonly readsClock: boolean;
  /** as the server reads the first line of a script */
  readonly flags: { readonly writes: boolean; readonly runsWhenFull: boolean };
}

export class ScriptTable {
  /** `file:line` of each line that ran and has a note */
  readonly lines = new Set<string>();
  readonly #byText = new Map<string, KnownScript>();
  readonly #bySha = new Map<string, KnownScript>();

  constructor(real: RealRedis) {
    for (const [name, text] of Object.entries(composeScripts())) {
      const readsClock = text.includes(clock);
      const isCounted = text.includes(lineMark);
      const ofWorld = text.replace(clock, () => worldClock);
      const loaded = real.load(isCounted ? returningLines(ofWorld) : ofWorld);
      const [first = ''] = text.split('\n');
      const flags = { writes: !first.includes('no-writes'), runsWhenFull: first.includes('allow-oom') };
      const script = { name: name as ScriptName, loaded, isCounted, readsClock, flags };
      this.#byText.set(text, script);
      this.#bySha.set(createHash('sha1').update(text).digest('hex'), script);
    }
  }

  /** The reply of dq's script. Keeps the lines. */
  replyOf({ isCounted }: KnownScript, asked: Asked): Asked {
    if (!isCounted || !Array.isArray(asked.reply)) return asked;
    const [lines, reply = null] = asked.reply as unknown as readonly [readonly Reply[], Reply?];
    for (const line of lines) this.lines.add(String(line));
    return { ...asked, reply };
  }

  ofText(text: string): KnownScript | undefined {
    return this.#byText.get(text);
  }

  ofSha(sha: string): KnownScript | undefined {
    return this.#bySha.get(sha);
  }
}
