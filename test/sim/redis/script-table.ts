// The scripts of dq on the real server of a world. They read the world's clock: it comes as their last
// argument, in place of TIME.

import { createHash } from 'node:crypto';
import clock from '../../../src/store/redis/scripts/lua/shared/clock.lua';
import { composeScripts, type ScriptName } from '../../../src/store/redis/scripts/scripts.ts';
import type { RealRedis } from './real-redis.ts';

const worldClock = `
local us = tonumber(table.remove(ARGV))
local now = math.floor(us / 1000)
`;

export interface KnownScript {
  readonly name: ScriptName;
  /** under which the real server has it */
  readonly loaded: string;
  readonly readsClock: boolean;
  /** as the server reads the first line of a script */
  readonly flags: { readonly writes: boolean; readonly runsWhenFull: boolean };
}

export class ScriptTable {
  readonly #byText = new Map<string, KnownScript>();
  readonly #bySha = new Map<string, KnownScript>();

  constructor(real: RealRedis) {
    for (const [name, text] of Object.entries(composeScripts())) {
      const readsClock = text.includes(clock);
      const loaded = real.load(text.replace(clock, () => worldClock));
      const [first = ''] = text.split('\n');
      const flags = { writes: !first.includes('no-writes'), runsWhenFull: first.includes('allow-oom') };
      const script = { name: name as ScriptName, loaded, readsClock, flags };
      this.#byText.set(text, script);
      this.#bySha.set(createHash('sha1').update(text).digest('hex'), script);
    }
  }

  ofText(text: string): KnownScript | undefined {
    return this.#byText.get(text);
  }

  ofSha(sha: string): KnownScript | undefined {
    return this.#bySha.get(sha);
  }
}
