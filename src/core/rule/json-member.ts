// Reads members of a parsed reply: own members only, never the prototype (JSON.parse makes an own
// `__proto__`).

/** An array in PHP: a JSON list or object. */
export type Container = readonly unknown[] | Readonly<Record<string, unknown>>;

export function isContainer(value: unknown): value is Container {
  return typeof value === 'object' && value !== null;
}

const canonicalIndex = /^(?:0|[1-9]\d*)$/;

/** undefined when absent: JSON itself has no undefined. A list has its indexes only, not `length`. */
export function memberOf(value: unknown, key: string): unknown {
  if (!isContainer(value)) return undefined;
  if (Array.isArray(value)) return canonicalIndex.test(key) ? value[Number(key)] : undefined;
  return Object.hasOwn(value, key) ? (value as Readonly<Record<string, unknown>>)[key] : undefined;
}
