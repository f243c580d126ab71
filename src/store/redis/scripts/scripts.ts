// Composes the scripts: the shebang of a file of lua/, the numbers and names that both sides share, the
// shared parts that its `@include` names, in that order, and the file itself. Every script except mark begins
// with frame, and reads the storage clock only through clock.

import { tickIdPrefix } from '../../../core/job-id.ts';
import { limits } from '../../../core/limits.ts';
import { deadReasonCodes } from '../../../core/stored-codes.ts';
import { redisLimits } from '../limits.ts';
import * as files from './files.ts';
import * as parts from './parts.ts';

export type ScriptName = keyof typeof files;
export const scriptNames = Object.keys(files) as readonly ScriptName[];

const constants =
  () => `local limits = { attemptsKept = ${limits.attemptsKept}, strikesPoison = ${limits.strikesPoison},
  poison = ${deadReasonCodes.indexOf('poison')}, idBytesMax = ${limits.idBytesMax}, alertWindowMs = ${limits.alertWindowMsMax},
  pullLeasesMax = ${limits.pullLeasesMax}, pullLeaseMsMin = ${limits.pullLeaseMsMin},
  pullLeaseMsMax = ${limits.pullLeaseMsMax}, noteHoldMs = ${redisLimits.noteHoldMs} }
local function is_tick(tid) return tid:sub(1, ${1 + tickIdPrefix.length}) == '\\0${tickIdPrefix}' end\n`;

type Scripts = Readonly<Record<ScriptName, string>>;
let composed: Scripts | null = null;

/** `replaced`: other text for parts, for tests. Without it each call returns the same texts. Throws for an
 *  unknown part in an @include. */
export function composeScripts(replaced?: Readonly<Record<string, string>>): Scripts {
  if (replaced !== undefined) return composeWith(replaced);
  composed ??= composeWith({});
  return composed;
}

function composeWith(replaced: Readonly<Record<string, string>>): Scripts {
  const partOf = (name: string) => {
    const text = replaced[name] ?? (parts as Readonly<Record<string, string>>)[name];
    if (text === undefined) throw new Error(`unknown part of a script: ${name}`);
    return text;
  };
  const compose = (name: string, text: string) => {
    const [shebang = '', ...rest] = text.split('\n');
    const named = /^-- @include (.*)$/m.exec(text)?.[1]?.split(/,\s*/) ?? [];
    const included = name === 'mark' ? [] : ['frame', ...named].map(partOf);
    return [shebang, constants(), ...included, ...rest].join('\n');
  };
  return Object.fromEntries(
    Object.entries(files).map(([name, text]) => [name, compose(name, text)]),
  ) as unknown as Scripts;
}
