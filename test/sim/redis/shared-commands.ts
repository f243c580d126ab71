// The client library makes a class and a digest of each script for each client. A world has some thirty
// clients with fifty scripts each: all of them share those of the first.
// Invariant: what the library knows of a script and a connection is kept by connection.

import { Redis } from 'ioredis';

type Members = Record<string, unknown> & { readonly scriptsSet: Record<string, unknown> };

export function shareCommands(): void {
  const { prototype } = Redis;
  const define = prototype.defineCommand;
  /** by text */
  const known = new Map<string, Members>();
  prototype.defineCommand = function (this: Redis, name, definition) {
    const own = this as unknown as Members;
    const first = known.get(definition.lua);
    if (first === undefined) {
      define.call(this, name, definition);
      known.set(definition.lua, own);
      return;
    }
    own.scriptsSet[name] = first.scriptsSet[name];
    for (const method of [name, `${name}Buffer`]) own[method] = first[method];
  };
}
