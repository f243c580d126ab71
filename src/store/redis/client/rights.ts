// Finds the commands that this user may not use, or this server does not have. Calls each one in a form that
// changes nothing: ACL DRYRUN would answer the same, but only for administrators.
// Why: Redis does not roll back a script that meets a denied command (lua/mark.lua tries all of them first).

import { prefixOf } from '../scripts/keys.ts';

type Probe = readonly [command: string, ...args: (string | number)[]];

/** never written */
const key = `${prefixOf(0)}:try`;

/** Required commands. Each write is incomplete, or concerns a missing key. */
const needed: readonly Probe[] = [
  ['EVAL', 'return 1', 1, key],
  ['EVALSHA', '0'.repeat(40), 1, key],
  ['HSET', key, 'field', 'value', 'half a pair'],
  ['ZADD', key, 'XX', 0, 'member'],
  ['HDEL', key, 'field'],
  ['ZREM', key, 'member'],
  ['ZREMRANGEBYRANK', key, 0, 0],
  ['EXISTS', key],
  ['HEXISTS', key, 'field'],
  ['HGET', key, 'field'],
  ['HGETALL', key],
  ['HKEYS', key],
  ['HLEN', key],
  ['HMGET', key, 'field'],
  ['HSCAN', key, 0],
  ['HSTRLEN', key, 'field'],
  ['TIME'],
  ['ZCARD', key],
  ['ZCOUNT', key, 0, 0],
  ['ZRANDMEMBER', key, 1],
  ['ZRANGE', key, 0, 0],
  ['ZRANGEBYSCORE', key, 0, 0],
  ['ZSCAN', key, 0],
  ['ZSCORE', key, 'member'],
  ['INFO', 'server'],
];

/** Optional commands. */
const useful: readonly (Probe & { readonly [1]: string })[] = [
  ['GET', key],
  ['SET', key, '', 'XX'],
  ['PUBLISH', `${prefixOf(0)}:hint`, ''],
];

export const probedCommands: readonly string[] = needed.map(([command]) => command);

interface Rights {
  /** why dq cannot use the server, with the remedy, as the end of a sentence about it; null = it can */
  readonly refusal: string | null;
  /** missing optional commands, as whole sentences */
  readonly warnings: readonly string[];
}

/** `call` rejects with the server's error; errors other than denials are ignored. `user`: null = the default
 *  user */
export async function rightsOf(
  call: (command: string, ...args: (string | number)[]) => Promise<unknown>,
  user: string | null,
): Promise<Rights> {
  const name = user ?? 'default';
  const missing = async (probes: readonly Probe[]) => {
    const found = await Promise.all(
      probes.map(async ([command, ...args]) => {
        try {
          await call(command, ...args);
          return null;
        } catch (error) {
          return denialOf(command, error);
        }
      }),
    );
    return found.filter((one) => one !== null);
  };
  const [refused, lesser] = [await missing(needed), await missing(useful)];
  return {
    refusal: refused.length === 0 ? null : sentenceOf(refused, name),
    warnings:
      lesser.length === 0
        ? []
        : [
            `${sentenceOf(lesser, name)}; without them due jobs wait for the next poll, and dq fsck cannot work`,
          ],
  };
}

interface Missing {
  readonly command: string;
  readonly why: 'denied' | 'key' | 'channel' | 'unknown';
}

function denialOf(command: string, error: unknown): Missing | null {
  const text = error instanceof Error ? error.message : '';
  if (/^ERR unknown command/i.test(text)) return { command, why: 'unknown' };
  if (!text.startsWith('NOPERM')) return null;
  if (/channel/i.test(text)) return { command, why: 'channel' };
  return { command, why: /\bkeys?\b/i.test(text) ? 'key' : 'denied' };
}

function sentenceOf(missing: readonly Missing[], user: string): string {
  const of = (why: Missing['why']) => missing.filter((one) => one.why === why).map(({ command }) => command);
  const [denied, unknown] = [of('denied'), of('unknown')];
  const rules = [
    ...denied.map((command) => `+${command.toLowerCase()}`),
    ...(of('key').length > 0 ? ['~{dq:*'] : []),
    ...(of('channel').length > 0 ? ['&{dq:*'] : []),
  ];
  const what = [
    ...(denied.length > 0 ? [denied.join(', ')] : []),
    ...(of('key').length > 0 ? ['the keys {dq:*'] : []),
    ...(of('channel').length > 0 ? ['the channels {dq:*'] : []),
  ];
  return [
    ...(what.length > 0
      ? [
          `denies its user ${user} ${what.join(' and ')}, which dq needs: ACL SETUSER ${user} ${rules.join(' ')}`,
        ]
      : []),
    ...(unknown.length > 0
      ? [
          `has no command ${unknown.join(', ')}, which dq needs under that name: take its rename-command out of the configuration of Redis`,
        ]
      : []),
  ].join('; ');
}
