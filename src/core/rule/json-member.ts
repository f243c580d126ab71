// Looking into a parsed reply: own members only, never the prototype (JSON.parse makes an own `__proto__`).

/** What PHP calls an array: a JSON list or object. */
export type Container = readonly unknown[] | Readonly<Record<string, unknown>>;

export function isContainer(value: unknown): value is Container {
  return typeof value === 'object' && value !== null;
}

const canonicalIndex = /^(?:0|[1-9]\d*)$/;

/** undefined where there is none: JSON has no undefined of its own. A list has its indexes only, not `length`. */
export function memberOf(value: unknown, key: string): unknown {
  if (!isContainer(value)) return undefined;
  if (Array.isArray(value)) return canonicalIndex.test(key) ? value[Number(key)] : undefined;
  return Object.hasOwn(value, key) ? (value as Readonly<Record<string, unknown>>)[key] : undefined;
}
